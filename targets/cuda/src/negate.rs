//! Negation and magnitude of 16 bits in 32. ptxas keeps numbers of 16 bits in registers of 32 and folds `neg.s16` and
//! `abs.s16` into what reads them without cutting the result back: of -32768 it makes 32768, which is then greater than
//! anything it is compared with.

/// A PTX module without `neg.s16` and `abs.s16`.
pub fn in_32_bits(ptx: &str) -> String {
    let mut out = String::with_capacity(ptx.len());
    for line in ptx.split_inclusive('\n') {
        match parts(line) {
            Some((op, to, from)) => out.push_str(&format!(
                "\t{{ .reg .b32 %wide; cvt.s32.s16 %wide, {from}; {op}.s32 %wide, %wide; cvt.u16.u32 {to}, %wide; }}\n"
            )),
            None => out.push_str(line),
        }
    }
    out
}

/// The op without its type, the register written and the one read.
fn parts(line: &str) -> Option<(&str, &str, &str)> {
    let (op, registers) = line.trim_end().strip_suffix(';')?.trim_start().split_once(".s16")?;
    let (to, from) = registers.split_once(',')?;
    matches!(op, "neg" | "abs").then(|| (op, to.trim(), from.trim()))
}
