//! The runtime from outside: through its library and as a program. One test program, so that it links once.

mod cli;
mod common;
mod fakes;
mod files;
mod kernels;
mod programs;
mod ptx;
