//! Several threads over a list: cases are independent of each other.

use anyhow::Result;
use std::sync::Mutex;

/// `f` of every item, on `jobs` threads; results in the order of the items. The first error ends it.
pub fn each<T: Send, U: Send>(items: Vec<T>, jobs: usize, f: impl Fn(T) -> Result<U> + Sync) -> Result<Vec<U>> {
    let next = Mutex::new(items.into_iter().enumerate());
    let done = Mutex::new(Vec::new());
    let work = || -> Result<()> {
        loop {
            let Some((i, item)) = next.lock().expect("no panic while held").next() else { return Ok(()) };
            match f(item) {
                Ok(x) => done.lock().expect("no panic while held").push((i, x)),
                Err(e) => {
                    next.lock().expect("no panic while held").by_ref().for_each(drop);
                    return Err(e);
                }
            }
        }
    };
    std::thread::scope(|s| {
        let threads: Vec<_> = (0..jobs).map(|_| s.spawn(work)).collect();
        threads.into_iter().try_for_each(|t| t.join().expect("a case's failure is an error, not a panic"))
    })?;
    let mut done = done.into_inner().expect("all threads have ended");
    done.sort_by_key(|d| d.0);
    Ok(done.into_iter().map(|d| d.1).collect())
}
