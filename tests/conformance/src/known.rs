//! Cases that are known to fail, each with its reason: what CI tolerates, and no more.

use crate::report::{Report, Status};
use anyhow::{Context, Result};
use std::{collections::BTreeMap, fs, path::Path};

/// Lines `NAME: why`; empty lines and those that start with `#` are remarks.
pub fn read(path: &Path) -> Result<BTreeMap<String, String>> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let lines = text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty() && !l.starts_with('#'));
    lines
        .map(|(i, l)| {
            let (name, why) =
                l.split_once(": ").with_context(|| format!("{}:{}: not `NAME: why`", path.display(), i + 1))?;
            Ok((name.trim().to_string(), why.trim().to_string()))
        })
        .collect()
}

/// Whether the run is good: nothing failed but what is known to, and all of that did.
pub fn judge(report: &Report, known: &BTreeMap<String, String>) -> bool {
    let mut good = true;
    for case in &report.cases {
        match (case.status, known.get(&case.name)) {
            (Status::Failed, Some(why)) => println!("known    {}: {why}", case.name),
            (Status::Failed, None) => good = false,
            (Status::Passed, Some(_)) => {
                println!("{} passes: take it out of the list of known failures", case.name);
                good = false;
            }
            _ => {}
        }
    }
    good
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Case;

    fn report(cases: &[(&str, Status)]) -> Report {
        let case = |(name, status): &(&str, Status)| Case { name: (*name).into(), status: *status, ..Case::default() };
        Report::new(cases.iter().map(case).collect())
    }

    #[test]
    fn only_the_known_may_fail_and_they_must() {
        let known = BTreeMap::from([("a".to_string(), "why".to_string())]);
        assert!(judge(&report(&[("a", Status::Failed), ("b", Status::Passed)]), &known));
        assert!(!judge(&report(&[("a", Status::Failed), ("b", Status::Failed)]), &known));
        assert!(!judge(&report(&[("a", Status::Passed)]), &known));
        assert!(judge(&report(&[("a", Status::Skipped), ("b", Status::Refused)]), &known));
    }
}
