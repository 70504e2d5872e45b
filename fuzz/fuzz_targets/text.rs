//! Any bytes as StableHLO text: an error or a program that is verified, printed and read back to the same tree.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zmlc_import::{Source, difference, print, read, verify};

fuzz_target!(|bytes: &[u8]| {
    let Ok(p) = read(Source::new("fuzz", bytes)) else { return };
    if verify(&p).is_empty() {
        let again = read(Source::new("printed", print(&p))).expect("what is printed is read");
        assert_eq!(difference(&p, &again), None);
    }
});
