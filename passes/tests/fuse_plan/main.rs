//! Tests of fuse and plan: over fixtures of their own and over programs of the corpus.

mod common;
mod fuse;
mod models;
mod plan;
