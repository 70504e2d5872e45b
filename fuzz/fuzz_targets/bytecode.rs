//! Any bytes behind the magic number of MLIR bytecode: an error or a program that is verified and written back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zmlc_import::{Source, difference, read, verify, write_artifact};

fuzz_target!(|bytes: &[u8]| {
    let file = [b"ML\xefR", bytes].concat();
    let Ok(p) = read(Source::new("fuzz", file)) else { return };
    if verify(&p).is_empty()
        && let Ok(artifact) = write_artifact(&p, (1, 20))
    {
        let again = read(Source::new("written", artifact)).expect("what is written is read");
        assert_eq!(difference(&p, &again), None);
    }
});
