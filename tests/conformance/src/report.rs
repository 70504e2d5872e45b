//! What became of each case: as JSON, and as tables for people.

use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Passed,
    #[default]
    Failed,
    /// The compiler says by name that it does not do this.
    Refused,
    /// Something that the case needs is not here.
    Skipped,
}
impl Status {
    const ALL: [Status; 4] = [Status::Passed, Status::Failed, Status::Refused, Status::Skipped];
    fn name(self) -> &'static str {
        match self {
            Status::Passed => "passed",
            Status::Failed => "failed",
            Status::Refused => "refused",
            Status::Skipped => "skipped",
        }
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Case {
    pub name: String,
    pub status: Status,
    pub detail: String,
    /// The op that the case is a test of, and its element type; nothing for whole programs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub op: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub dtype: String,
    /// For everything.
    pub seconds: f64,
    /// Of that, for the build.
    pub build_seconds: f64,
}

/// Cases of one op and element type, by status.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub op: String,
    pub dtype: String,
    pub passed: usize,
    pub failed: usize,
    pub refused: usize,
    pub skipped: usize,
}

/// Cases sorted by name.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub counts: BTreeMap<&'static str, usize>,
    pub ops: Vec<Row>,
    pub cases: Vec<Case>,
}

/// Slowest builds that are listed.
const SLOWEST: usize = 5;

impl Report {
    pub fn new(mut cases: Vec<Case>) -> Self {
        cases.sort_by(|a, b| a.name.cmp(&b.name));
        let count = |cases: &[Case], s: Status| cases.iter().filter(|c| c.status == s).count();
        let keys: BTreeSet<(&str, &str)> =
            cases.iter().filter(|c| !c.op.is_empty()).map(|c| (c.op.as_str(), c.dtype.as_str())).collect();
        let row = |(op, dtype): (&str, &str)| {
            let of: Vec<Case> = cases.iter().filter(|c| c.op == op && c.dtype == dtype).cloned().collect();
            let [passed, failed, refused, skipped] = Status::ALL.map(|s| count(&of, s));
            Row { op: op.into(), dtype: dtype.into(), passed, failed, refused, skipped }
        };
        let ops = keys.into_iter().map(row).collect();
        let counts = Status::ALL.map(|s| (s.name(), count(&cases, s))).into();
        Report { counts, ops, cases }
    }

    /// Tests of single ops: a table by op and element type, and a line for each case that did not pass. Otherwise a line
    /// for each case. Then why cases were refused, the slowest builds, and the counts.
    pub fn table(&self) -> String {
        let mut text = String::new();
        let shown: Vec<&Case> =
            self.cases.iter().filter(|c| c.op.is_empty() || !matches!(c.status, Status::Passed)).collect();
        let width = shown.iter().map(|c| c.name.len()).max().unwrap_or(0);
        for c in shown {
            let line = format!("{:8} {:width$} {:7.2} s  {}", c.status.name(), c.name, c.seconds, c.detail);
            let _ = writeln!(text, "{}", line.trim_end());
        }
        if !self.ops.is_empty() {
            let _ = writeln!(text, "\n{:<28} {:<12} passed failed refused skipped", "op", "type");
            for r in &self.ops {
                let line = [r.passed, r.failed, r.refused, r.skipped]
                    .map(|n| if n == 0 { String::new() } else { n.to_string() });
                let line =
                    format!("{:<28} {:<12} {:>6} {:>6} {:>7} {:>7}", r.op, r.dtype, line[0], line[1], line[2], line[3]);
                let _ = writeln!(text, "{}", line.trim_end());
            }
            self.reasons(&mut text);
            self.slowest(&mut text);
        }
        let counts: Vec<_> = Status::ALL.iter().map(|s| format!("{} {}", self.counts[s.name()], s.name())).collect();
        let _ = writeln!(text, "{}", counts.join(", "));
        text
    }
    fn reasons(&self, text: &mut String) {
        for status in [Status::Refused, Status::Skipped] {
            let mut why: BTreeMap<&str, usize> = BTreeMap::new();
            for c in self.cases.iter().filter(|c| c.status == status) {
                *why.entry(&c.detail).or_default() += 1;
            }
            let mut why: Vec<_> = why.into_iter().collect();
            why.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
            if !why.is_empty() {
                let _ = writeln!(text, "\n{}", status.name());
            }
            for (reason, n) in why {
                let _ = writeln!(text, "{n:>6}  {reason}");
            }
        }
    }
    fn slowest(&self, text: &mut String) {
        let mut by_time: Vec<&Case> = self.cases.iter().filter(|c| c.build_seconds > 0.0).collect();
        by_time.sort_by(|a, b| b.build_seconds.total_cmp(&a.build_seconds));
        if by_time.is_empty() {
            return;
        }
        let total: f64 = by_time.iter().map(|c| c.build_seconds).sum();
        let _ = writeln!(text, "\nbuilt {} in {total:.1} s one after the other; the slowest", by_time.len());
        for c in by_time.iter().take(SLOWEST) {
            let _ = writeln!(text, "{:7.2} s  {}", c.build_seconds, c.name);
        }
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(name: &str, op: &str, status: Status, detail: &str) -> Case {
        let dtype = if op.is_empty() { "" } else { "f32" };
        Case {
            name: name.into(),
            status,
            detail: detail.into(),
            op: op.into(),
            dtype: dtype.into(),
            seconds: 1.5,
            build_seconds: 0.5,
        }
    }

    #[test]
    fn whole_programs() {
        let refused = case("x", "", Status::Refused, "build: exit code 1: error[E0801]: no");
        let report = Report::new(vec![refused, case("mnist", "", Status::Passed, "")]);
        insta::assert_snapshot!(report.table(), @r"
        passed   mnist    1.50 s
        refused  x        1.50 s  build: exit code 1: error[E0801]: no
        1 passed, 0 failed, 1 refused, 0 skipped
        ");
        assert_eq!(
            serde_json::to_string(&report.cases[0]).unwrap(),
            r#"{"name":"mnist","status":"passed","detail":"","seconds":1.5,"build_seconds":0.5}"#,
        );
    }

    #[test]
    fn by_op_and_type() {
        let report = Report::new(vec![
            case("add_a", "add", Status::Passed, ""),
            case("add_b", "add", Status::Failed, "1 of 2 differ"),
            case("sort_a", "sort", Status::Refused, "no sort"),
        ]);
        insta::assert_snapshot!(report.table(), @r"
        failed   add_b     1.50 s  1 of 2 differ
        refused  sort_a    1.50 s  no sort

        op                           type         passed failed refused skipped
        add                          f32               1      1
        sort                         f32                              1

        refused
             1  no sort

        built 3 in 1.5 s one after the other; the slowest
           0.50 s  add_a
           0.50 s  add_b
           0.50 s  sort_a

        1 passed, 1 failed, 1 refused, 0 skipped
        ");
    }
}
