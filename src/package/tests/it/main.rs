//! Packages as others see them: files on disk, containers, registries.

mod common;
mod hostile;
mod packages;
mod registries;
mod vendor;
