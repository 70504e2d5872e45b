//! A file that grows by a line for each case that has ended, so that an interrupted run continues where it stopped.

use crate::report::Case;
use anyhow::{Context, Result, ensure};
use std::{
    fs::{File, OpenOptions},
    io::{BufRead, BufReader, Write},
    path::Path,
    sync::Mutex,
};

pub struct Log(Mutex<File>);

impl Log {
    /// Opens or begins the log of a run; `run` says what is run, so that a log of something else is refused. With the cases
    /// that have ended.
    pub fn open(path: &Path, run: &str) -> Result<(Log, Vec<Case>)> {
        let failed = || format!("cannot write {}", path.display());
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path).with_context(failed)?;
        let mut lines = BufReader::new(&file).lines();
        let mut ended = vec![];
        match lines.next().transpose()? {
            None => {
                drop(lines);
                writeln!(file, "{run}").with_context(failed)?;
            }
            Some(first) => {
                ensure!(
                    first == run,
                    "{} is of another run ({first}): name another file, or remove it",
                    path.display()
                );
                for line in lines {
                    // The last line of a run that was killed may be a part of one.
                    if let Ok(case) = serde_json::from_str(&line?) {
                        ended.push(case);
                    }
                }
                drop(OpenOptions::new().append(true).open(path).and_then(|mut f| f.write_all(b"\n")));
            }
        }
        Ok((Log(Mutex::new(file)), ended))
    }
    pub fn add(&self, case: &Case) -> Result<()> {
        let line = serde_json::to_string(case)? + "\n";
        self.0.lock().expect("no panic while held").write_all(line.as_bytes()).context("cannot write the log")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Status;

    #[test]
    fn a_run_continues_after_half_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let case = Case { name: "a".into(), status: Status::Passed, ..Case::default() };
        let (log, ended) = Log::open(&path, "run 1").unwrap();
        assert!(ended.is_empty());
        log.add(&case).unwrap();
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"name\":\"b\",\"sta").unwrap();
        let (log, ended) = Log::open(&path, "run 1").unwrap();
        assert_eq!(ended.len(), 1);
        log.add(&Case { name: "b".into(), ..case }).unwrap();
        let (_, ended) = Log::open(&path, "run 1").unwrap();
        assert_eq!(ended.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert!(Log::open(&path, "run 2").is_err());
    }
}
