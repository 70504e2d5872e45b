//! Packages as others see them: files on disk, containers, registries.

mod common;
mod packages;
mod registries;
