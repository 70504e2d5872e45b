//! What the start of a model spends its time on, part by part.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Its begin is when the first work of a session goes to the device.
pub(crate) const FIRST_CALL: &str = "first call";

/// A part of a start. Parts may lie within others and beside each other.
#[derive(Clone, Debug)]
pub struct Span {
    pub what: &'static str,
    pub begin: Instant,
    pub took: Duration,
}

/// Those of one owner, in the order in which they ended.
#[derive(Default)]
pub(crate) struct Spans(Mutex<Vec<Span>>);

impl Spans {
    pub fn time<T>(&self, what: &'static str, work: impl FnOnce() -> T) -> T {
        let begin = Instant::now();
        let done = work();
        let span = Span { what, begin, took: begin.elapsed() };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(span);
        done
    }
    pub fn all(&self) -> Vec<Span> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
