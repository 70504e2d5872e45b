//! How long reading and verifying takes: `speed FILE...` for programs, `speed` alone for a text with a 32 MiB hex constant
//! and for programs of 1,000, 10,000 and 100,000 ops. The best of five, with processor time and the process's peak memory.

use std::{fmt::Write as _, fs, time::Instant};
use zmlc_import::{Source, read, verify};

fn main() {
    let files: Vec<String> = std::env::args().skip(1).collect();
    for f in &files {
        measure(f, fs::read(f).expect("a readable file"));
    }
    if files.is_empty() {
        // The largest file first: memory is the peak of the process so far.
        measure("32 MiB of hex", constant(32 << 20));
        for n in [1_000, 10_000, 100_000] {
            measure(&format!("{n} ops"), chain(n).into_bytes());
        }
    }
}

fn measure(name: &str, bytes: Vec<u8>) {
    let source = Source::new(name, bytes);
    let (mut wall, mut cpu) = (f64::MAX, f64::MAX);
    for _ in 0..5 {
        let (at, used) = (Instant::now(), processor_time());
        let p = read(&source).unwrap_or_else(|e| panic!("{e}"));
        assert!(verify(&p).is_empty(), "{name} is not valid");
        wall = wall.min(at.elapsed().as_secs_f64());
        cpu = cpu.min(processor_time() - used);
    }
    println!(
        "{name}: {:.1} MiB, {:.1} ms, processor {:.1} ms, peak memory of the process {:.0} MiB",
        source.bytes.len() as f64 / f64::from(1 << 20),
        wall * 1e3,
        cpu * 1e3,
        peak()
    );
}

/// A chain of additions.
fn chain(n: usize) -> String {
    let mut s = String::from(
        "func.func @main(%x: tensor<16x32xf32>) -> tensor<16x32xf32> {\n  %0 = stablehlo.add %x, %x : tensor<16x32xf32>\n",
    );
    for i in 1..n {
        let _ = writeln!(s, "  %{i} = stablehlo.add %{}, %x : tensor<16x32xf32>", i - 1);
    }
    let _ = writeln!(s, "  return %{} : tensor<16x32xf32>\n}}", n - 1);
    s
}

fn constant(n: usize) -> Vec<u8> {
    let mut s = Vec::with_capacity(2 * n + 200);
    s.extend_from_slice(b"func.func @main() -> tensor<");
    s.extend_from_slice(format!("{}xf32> {{\n  %0 = stablehlo.constant dense<\"0x", n / 4).as_bytes());
    s.extend((0..2 * n as u32).map(|i| b"0123456789ABCDEF"[(i.wrapping_mul(2_654_435_761) >> 28) as usize]));
    s.extend_from_slice(format!("\"> : tensor<{0}xf32>\n  return %0 : tensor<{0}xf32>\n}}\n", n / 4).as_bytes());
    s
}

/// Seconds of this process on the processors, in user and system mode: counted in nanoseconds since it is one thread.
fn processor_time() -> f64 {
    let text = fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|n| n.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1e9
}

/// In MiB.
fn peak() -> f64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|l| l.starts_with("VmHWM:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|n| n.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1024.0
}
