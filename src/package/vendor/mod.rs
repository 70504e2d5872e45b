//! Vendor libraries of a package: where they come from, pinned by digest; what of them a package needs; and the copies
//! of them that go in, with their own search path and cut to the GPUs that the package is for.
//!
//! `source` names them, `fetch` gets them, `lock` pins them, `unpack` takes libraries and licences out of them without
//! trusting a name or a size, `closure` chooses, `known` is the data that no ELF says, `prepare` makes what is shipped.

mod cache;
mod closure;
mod deb;
mod fetch;
mod folder;
mod known;
mod licence;
mod lock;
mod prepare;
mod runpath;
mod source;
mod unpack;
mod wheel;

pub use cache::Cache;
pub use closure::{Closure, Missing, Root, closure};
pub use fetch::{locate, resolve};
pub use licence::Licence;
pub use lock::{Lock, Locked};
pub use prepare::{Changes, Cut, Selection, Vendored, VendoredFile, prepare};
pub use source::Source;
pub use unpack::{Library, Unpacked, unpack};
