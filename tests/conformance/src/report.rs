//! What became of each case: as JSON, and as a table for people.

use serde::{Deserialize, Serialize};
use std::fmt::Write;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Passed,
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

#[derive(Clone, Debug, Serialize)]
pub struct Case {
    pub name: String,
    pub status: Status,
    pub detail: String,
    pub seconds: f64,
}

/// Cases sorted by name.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub cases: Vec<Case>,
}

impl Report {
    pub fn count(&self, status: Status) -> usize {
        self.cases.iter().filter(|c| c.status == status).count()
    }

    /// One line a case and one with the counts.
    pub fn table(&self) -> String {
        let width = self.cases.iter().map(|c| c.name.len()).max().unwrap_or(0);
        let mut text = String::new();
        for c in &self.cases {
            let line = format!("{:8} {:width$} {:7.2} s  {}", c.status.name(), c.name, c.seconds, c.detail);
            let _ = writeln!(text, "{}", line.trim_end());
        }
        let counts: Vec<_> = Status::ALL.iter().map(|s| format!("{} {}", self.count(*s), s.name())).collect();
        let _ = writeln!(text, "{}", counts.join(", "));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_and_json() {
        let case =
            |name: &str, status, detail: &str| Case { name: name.into(), status, detail: detail.into(), seconds: 1.5 };
        let report = Report {
            cases: vec![
                case("mnist", Status::Passed, ""),
                case("x", Status::Refused, "build: exit code 1: error[E0801]: no"),
            ],
        };
        insta::assert_snapshot!(report.table(), @r"
        passed   mnist    1.50 s
        refused  x        1.50 s  build: exit code 1: error[E0801]: no
        1 passed, 0 failed, 1 refused, 0 skipped
        ");
        assert_eq!(
            serde_json::to_string(&report.cases[0]).unwrap(),
            r#"{"name":"mnist","status":"passed","detail":"","seconds":1.5}"#,
        );
    }
}
