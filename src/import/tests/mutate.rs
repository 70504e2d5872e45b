//! Mutated programs, text and bytecode: an error or another program, never a panic. What is accepted is verified, printed
//! and read back. `ZMLC_MUTATIONS` sets how many of each program (default 20).

mod common;

use zmlc_import::{Diagnostics, Source, difference, print, read, verify};

/// A small generator: the sequence is the same on every machine.
struct Random(u64);
impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

fn mutate(r: &mut Random, bytes: &mut Vec<u8>, text: bool) {
    const WORDS: &[&str] = &[
        "tensor<",
        ">",
        "x?x",
        "dense<",
        "\"0x",
        "[",
        "]",
        "{",
        "}",
        "(",
        ")",
        "%0",
        "#loc",
        "-1",
        "999999999999",
        "i1",
        "complex<f32>",
        "loc(",
        "!quant.uniform<i8:f32, 0.1:3>",
        "stablehlo.",
        "->",
        ":",
        ",",
        "0",
        "array<i64: 0>",
        "-9223372036854775808",
        "f8E4M3FN",
        "tuple<",
        "^bb0",
        "dims = [9]",
        "0x7",
        "\\",
    ];
    for _ in 0..1 + r.below(4) {
        if bytes.is_empty() {
            return;
        }
        let at = r.below(bytes.len());
        match r.below(7) {
            0 => bytes[at] ^= 1 << r.below(8),
            1 => bytes[at] = r.next() as u8,
            2 => {
                bytes.truncate(at);
            }
            3 => {
                let n = r.below(30).min(bytes.len() - at);
                bytes.drain(at..at + n);
            }
            4 => {
                let n = r.below(60).min(bytes.len() - at);
                let piece = bytes[at..at + n].to_vec();
                let to = r.below(bytes.len());
                bytes.splice(to..to, piece);
            }
            5 if text => {
                let w = WORDS[r.below(WORDS.len())].bytes();
                bytes.splice(at..at, w);
            }
            5 => bytes[at] = [0, 1, 0x80, 0xff, 0x7f, 3, 5][r.below(7)],
            _ => {
                // A digit for another.
                if let Some(d) = bytes[at..].iter().position(u8::is_ascii_digit) {
                    bytes[at + d] = b'0' + r.below(10) as u8;
                }
            }
        }
    }
}

fn survive(bytes: &[u8]) {
    let source = Source::new("mutated", bytes);
    let Ok(p) = read(&source) else { return };
    let found = Diagnostics::from(verify(&p)).locate(&source);
    let _ = found.to_string();
    let text = print(&p);
    let again = match read(Source::new("printed", text)) {
        Ok(p) => p,
        Err(e) if !found.has_errors() => panic!("{e}"),
        Err(_) => return,
    };
    // A program that breaks constraints may have no text of its own.
    if !found.has_errors() {
        assert_eq!(difference(&p, &again), None);
    }
}

#[test]
fn nothing_panics() {
    let Some(corpus) = common::corpus() else { return };
    let rounds: usize = std::env::var("ZMLC_MUTATIONS").ok().and_then(|v| v.parse().ok()).unwrap_or(20);
    let mut r = Random(0x9E37_79B9_7F4A_7C15);
    for dir in common::cases(&corpus) {
        for (file, text) in [("program.mlir", true), ("program.mlirbc", false), ("program_loc.mlir", true)] {
            let Ok(whole) = std::fs::read(dir.join(file)) else { continue };
            if whole.len() > 12_000 {
                continue;
            }
            for i in 0..rounds {
                let mut bytes = whole.clone();
                mutate(&mut r, &mut bytes, text);
                if std::panic::catch_unwind(|| survive(&bytes)).is_err() {
                    let path = std::env::temp_dir().join(format!("zmlc-mutated-{i}"));
                    std::fs::write(&path, &bytes).expect("writable");
                    panic!("{} mutation {i}: see {}", dir.join(file).display(), path.display());
                }
            }
        }
    }
}
