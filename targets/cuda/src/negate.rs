//! Negation and magnitude in registers of twice the width, where ptxas does not cut the result back. It keeps numbers of
//! 16 bits in registers of 32 and folds `neg.s16` and `abs.s16` into the comparison that reads them, and `abs.s32` into a
//! conversion: of -32768 comes 32768, of -2^31 comes 2^31 (seen on an H200, driver 580).

/// A PTX module without these three instructions.
pub fn in_double_width(ptx: &str) -> String {
    let mut out = String::with_capacity(ptx.len());
    for line in ptx.split_inclusive('\n') {
        match folded(line) {
            Some((op, bits, to, from)) => {
                let wide = 2 * bits;
                out.push_str(&format!(
                    "\t{{ .reg .b{wide} %wide; cvt.s{wide}.s{bits} %wide, {from}; {op}.s{wide} %wide, %wide; \
                     cvt.u{bits}.u{wide} {to}, %wide; }}\n"
                ));
            }
            None => out.push_str(line),
        }
    }
    out
}

/// The op, its width, the register written and the one read.
fn folded(line: &str) -> Option<(&str, u32, &str, &str)> {
    let (op, registers) = line.trim_end().strip_suffix(';')?.trim_start().split_once([' ', '\t'])?;
    let (op, bits) = match op {
        "neg.s16" => ("neg", 16),
        "abs.s16" => ("abs", 16),
        "abs.s32" => ("abs", 32),
        _ => return None,
    };
    let (to, from) = registers.split_once(',')?;
    Some((op, bits, to.trim(), from.trim()))
}
