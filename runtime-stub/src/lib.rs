//! Runs .zml artifacts.
