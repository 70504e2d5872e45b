//! The emitters: kernels as text, kernels by their numbers in a simulator, whole programs against the interpreter.

mod attention;
mod convolution;
mod decode;
mod faults;
mod kernels;
mod loops;
mod matmul;
mod mma;
mod parts;
mod programs;
mod reduce;
mod scan;
mod simulate;
