//! Finding the kernel, element and source op at which an artifact first goes wrong.
//!
//! Three things that share no code beyond reading the program give each value: the interpreter (StableHLO), the evaluator
//! of level 1 (what the passes made of it), and the device (what emitters, targets and drivers made of that).
//! 1. The program is compiled again as far as `fuse`; its host program has to be the artifact's.
//! 2. The evaluator runs the fused entry. At each dispatch the device runs the artifact's kernel alone on the evaluator's
//!    inputs: the first that gives other results is the wrong kernel.
//! 3. The evaluator's results are held against the interpreter's: if they differ, a pass before emit is wrong, and the
//!    program is evaluated after each of them, with every value a result, to find the op.
//! 4. If all agree, the whole artifact runs: only its host program or the driver can still be wrong.

mod blame;
mod compare;
mod dump;
mod fused;
mod probe;
mod recipe;
mod sources;

pub use blame::{blame, matches};
pub use compare::{Difference, Tolerance, difference};
pub use dump::Dump;
pub use fused::Fused;
pub use probe::Probe;
pub use recipe::Recipe;
pub use sources::{Source, Sources};
