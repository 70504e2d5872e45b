//! How far a run is, on standard error: a line that is written over on a terminal, one line every twentieth otherwise.

use std::{
    io::{IsTerminal, Write},
    sync::Mutex,
};

pub struct Progress {
    what: &'static str,
    total: usize,
    done: Mutex<usize>,
}
impl Progress {
    pub fn new(what: &'static str, total: usize) -> Self {
        Progress { what, total, done: Mutex::new(0) }
    }
    /// One more is done, and what there is to say of it.
    pub fn step(&self, said: &str) {
        let mut done = self.done.lock().expect("no panic while held");
        *done += 1;
        let mut err = std::io::stderr().lock();
        if err.is_terminal() {
            let end = if *done == self.total { "\r\x1b[K" } else { "" };
            let _ = write!(err, "\r\x1b[K{} {done}/{} {said}{end}", self.what, self.total);
        } else if self.total >= 100 && (*done * 20 / self.total) > ((*done - 1) * 20 / self.total) {
            let _ = writeln!(err, "{} {done}/{}", self.what, self.total);
        }
    }
}
