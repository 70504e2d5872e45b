//! Numbered things that come and go: how a driver names its allocations and kernel sets to the rest of the runtime.

use std::sync::{Arc, Mutex, MutexGuard};

pub(crate) struct Slab<T>(Mutex<Vec<Option<Arc<T>>>>);

impl<T> Slab<T> {
    pub fn new() -> Self {
        Slab(Mutex::new(vec![]))
    }
    fn lock(&self) -> MutexGuard<'_, Vec<Option<Arc<T>>>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
    pub fn put(&self, x: T) -> usize {
        let mut all = self.lock();
        let free = all.iter().position(Option::is_none).unwrap_or(all.len());
        if free == all.len() {
            all.push(None);
        }
        all[free] = Some(Arc::new(x));
        free
    }
    /// None if it was taken: whoever asks then has kept a number for too long.
    pub fn get(&self, i: usize) -> Option<Arc<T>> {
        self.lock().get(i)?.clone()
    }
    pub fn take(&self, i: usize) -> Option<Arc<T>> {
        self.lock().get_mut(i)?.take()
    }
    /// What is left, when the owner goes.
    pub fn drain(&self) -> Vec<Arc<T>> {
        self.lock().drain(..).flatten().collect()
    }
}
