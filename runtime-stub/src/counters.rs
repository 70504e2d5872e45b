//! Counts of what a session made its device do. They do not depend on the machine, so tests state them exactly.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Totals since the session began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Times that work was handed to the device: queue submits (Vulkan), graph launches (CUDA, HIP).
    pub submits: u64,
    pub dispatches: u64,
    /// Barriers of the program. What orders uploads, segments and downloads is not counted.
    pub barriers: u64,
    /// Copies and fills of the program, and of states that no kernel updates in place.
    pub copies: u64,
    /// Predicates and indices that the host read to decide how a call goes on.
    pub read_backs: u64,
    /// Device and pinned memory.
    pub allocations: u64,
}

macro_rules! tally {
    ($($field:ident)*) => {
        /// [`Counters`] while they count.
        #[derive(Debug, Default)]
        pub(crate) struct Tally { $(pub $field: AtomicU64),* }
        impl Tally {
            /// Adds every field of `n`.
            pub fn add(&self, n: Counters) {
                $(self.$field.fetch_add(n.$field, Relaxed);)*
            }
            pub fn now(&self) -> Counters {
                Counters { $($field: self.$field.load(Relaxed)),* }
            }
        }
    };
}
tally!(submits dispatches barriers copies read_backs allocations);
