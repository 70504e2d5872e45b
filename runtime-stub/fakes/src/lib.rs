//! A libcuda, a libamdhip64, a libcublasLt and a libhipblaslt in one library, for machines without a GPU: memory is real, copies and fills happen,
//! kernels do not run. Every call is written to a log with its arguments, so that tests can read order, bytes and
//! lifetimes; misuse (a freed address, a copy past its end, no current device) is logged with `!!` and fails.
//!
//! | variable | meaning |
//! |---|---|
//! | `ZML_FAKE_LOG` | file that the log is appended to |
//! | `ZML_FAKE_FAIL` | `NAME#N=CODE`: the Nth call of NAME fails with CODE |
//! | `ZML_FAKE_BUSY` | times that a stream says it is not done yet when it is asked, 0 |
//! | `ZML_FAKE_DEVICES` | number of devices, 1 |
//! | `ZML_FAKE_VERSION` | of the driver, 12080 or 60200000 |
//! | `ZML_FAKE_CAPABILITY` | compute capability, `9.0` |
//! | `ZML_FAKE_CHIP` | AMD chip, `gfx942:sramecc+:xnack-` |
//!
//! A module is text with `.entry NAME(PARAMETERS)`, each parameter `.param .u64` or `.param .u32`: PTX is. Names in the
//! log: `d` device memory, `h` pinned memory, `s` streams, `e` events, `m` modules, `g` graphs, `x` executable graphs,
//! `l` compilations.

#![allow(clippy::missing_safety_doc, reason = "every function is the C function of its name")]

/// A function under the names that CUDA and HIP give it.
macro_rules! both {
    ($($cuda:ident $hip:ident($($a:ident: $t:ty),*) |$name:ident| $body:expr;)*) => {$(
        both! { @one $cuda($($a: $t),*) $name $body }
        both! { @one $hip($($a: $t),*) $name $body }
    )*};
    (@one $function:ident($($a:ident: $t:ty),*) $name:ident $body:expr) => {
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, unused_unsafe)]
        pub unsafe extern "C" fn $function($($a: $t),*) -> Code {
            let $name = stringify!($function);
            // Safety: the caller keeps to the C function's contract.
            unsafe { $body }
        }
    };
}

mod blas;
mod cuda;
mod exports;
mod hip;
mod shared;
mod world;
