//! Attributes, numbers and constants as MLIR prints them, so that its own reader takes them back.

use super::types::{write_tensor, write_type};
use crate::{
    float,
    literal::get_int,
    tree::{Attr, Attrs, DType, Literal},
};
use std::fmt::Write as _;

/// Constants of more elements are printed in hexadecimal, as MLIR does.
const MOST_LISTED: usize = 100;

pub(crate) fn attr(a: &Attr) -> String {
    let mut s = String::new();
    write_attr(&mut s, a);
    s
}

fn separated<T>(out: &mut String, list: impl IntoIterator<Item = T>, mut f: impl FnMut(&mut String, T)) {
    for (i, x) in list.into_iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        f(out, x);
    }
}

pub(crate) fn write_attr(out: &mut String, a: &Attr) {
    match a {
        Attr::Unit => out.push_str("unit"),
        Attr::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Attr::Int(v, ty) => {
            let _ = write!(out, "{v} : {ty}");
        }
        Attr::Float(v, ty) => {
            write_float(out, ty.parse().unwrap_or(DType::F64), *v);
            let _ = write!(out, " : {ty}");
        }
        Attr::Str(s) => write_string(out, s),
        Attr::Array(list) => {
            out.push('[');
            separated(out, list, write_attr);
            out.push(']');
        }
        Attr::Dict(d) => write_dict(out, d),
        Attr::Symbol(s) => write_symbol(out, s),
        Attr::Type(t) => write_type(out, t),
        Attr::Dense(l) => write_dense(out, l),
        Attr::Ints(d, v) => {
            let _ = write!(out, "array<{d}");
            for (i, x) in v.iter().enumerate() {
                out.push_str(if i == 0 { ": " } else { ", " });
                if *d == DType::I1 {
                    out.push_str(if *x != 0 { "true" } else { "false" });
                } else {
                    let _ = write!(out, "{x}");
                }
            }
            out.push('>');
        }
        // A mode inside of a structure is printed in its long form.
        Attr::Enum(dialect, kind, word) if kind == "result_accuracy_mode" => {
            let _ = write!(out, "#{dialect}.{kind}<{word}>");
        }
        Attr::Enum(dialect, kind, word) => {
            let _ = write!(out, "#{dialect}<{kind} {word}>");
        }
        Attr::Struct(dialect, name, fields) => {
            let _ = write!(out, "#{dialect}.{name}<");
            if name == "conv" {
                write_conv(out, fields);
            } else {
                separated(out, fields, |out, (n, a)| {
                    let _ = write!(out, "{n} = ");
                    write_field(out, a);
                });
            }
            out.push('>');
        }
        Attr::Raw(s) => out.push_str(s),
    }
}

/// A field of a structure: integers without their type.
fn write_field(out: &mut String, a: &Attr) {
    match a {
        Attr::Int(v, _) => {
            let _ = write!(out, "{v}");
        }
        Attr::Float(v, ty) => write_float(out, ty.parse().unwrap_or(DType::F64), *v),
        Attr::Array(list) => {
            out.push('[');
            separated(out, list, write_field);
            out.push(']');
        }
        _ => write_attr(out, a),
    }
}

pub(crate) fn write_dict(out: &mut String, d: &Attrs) {
    out.push('{');
    separated(out, d, |out, (n, a)| {
        write_name(out, n);
        match a {
            Attr::Unit => {}
            Attr::Array(list) if is_layouts(n) => {
                // Layouts are tensors of `index`, which the tree has as 64-bit integers.
                out.push_str(" = [");
                separated(out, list, |out, x| out.push_str(&attr(x).replace("xi64>", "xindex>")));
                out.push(']');
            }
            _ => {
                out.push_str(" = ");
                write_attr(out, a);
            }
        }
    });
    out.push('}');
}

/// Attributes of custom calls whose elements are layouts.
pub(crate) fn is_layouts(name: &str) -> bool {
    matches!(name, "operand_layouts" | "result_layouts" | "result_tilings")
}

fn is_bare(s: &str) -> bool {
    let mut b = s.bytes();
    b.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && b.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$' | b'.'))
}
fn write_name(out: &mut String, s: &str) {
    if is_bare(s) { out.push_str(s) } else { write_string(out, s) }
}
pub(crate) fn write_symbol(out: &mut String, s: &str) {
    for (i, part) in s.split("::@").enumerate() {
        out.push_str(if i == 0 { "@" } else { "::@" });
        write_name(out, part);
    }
}

pub(crate) fn write_string(out: &mut String, s: &str) {
    out.push('"');
    for b in s.bytes() {
        match b {
            b'"' => out.push_str("\\22"),
            b'\\' => out.push_str("\\\\"),
            b' '..=b'~' => out.push(b as char),
            _ => {
                let _ = write!(out, "\\{b:02X}");
            }
        }
    }
    out.push('"');
}

/// Six digits if they say the value exactly, else the fewest that do, else its bits.
pub(crate) fn write_float(out: &mut String, d: DType, v: f64) {
    let bits = float::encode(d, v);
    let exact = |s: &str| s.parse::<f64>().is_ok_and(|x| float::encode(d, x) == bits);
    if v.is_finite() {
        let pretty = |digits: String| {
            let (m, e) = digits.split_once('e').expect("scientific form");
            let m = if m.contains('.') { m.to_string() } else { format!("{m}.0") };
            let e: i32 = e.parse().expect("an exponent");
            format!("{m}e{}{:02}", if e < 0 { '-' } else { '+' }, e.abs())
        };
        let six = pretty(format!("{v:.6e}"));
        let text = if exact(&six) { six } else { pretty(format!("{v:e}")) };
        if exact(&text) {
            out.push_str(&text);
            return;
        }
    }
    let _ = write!(out, "0x{bits:0width$X}", width = d.bytes() * 2);
}

fn write_element(out: &mut String, d: DType, b: &[u8]) {
    if d.is_complex() {
        let n = d.real().bytes();
        out.push('(');
        write_element(out, d.real(), &b[..n]);
        out.push(',');
        write_element(out, d.real(), &b[n..]);
        out.push(')');
    } else if d.is_float() {
        let bits = b.iter().rev().fold(0u64, |x, b| x << 8 | u64::from(*b));
        let v = float::decode(d, bits);
        // NaNs have payloads, which digits would lose.
        if v.is_finite() {
            write_float(out, d, v);
        } else {
            let _ = write!(out, "0x{bits:0width$X}", width = d.bytes() * 2);
        }
    } else if d == DType::I1 {
        out.push_str(if b[0] != 0 { "true" } else { "false" });
    } else {
        let _ = write!(out, "{}", get_int(d, b));
    }
}

fn write_list(out: &mut String, shape: &[u64], next: &mut usize, l: &Literal) {
    let Some((n, rest)) = shape.split_first() else {
        write_element(out, l.ty.dtype, l.element(*next));
        *next += 1;
        return;
    };
    out.push('[');
    separated(out, 0..*n, |out, _| write_list(out, rest, next, l));
    out.push(']');
}

/// `dense<...> : type`; of a quantized constant, in its storage type.
pub(crate) fn write_dense(out: &mut String, l: &Literal) {
    out.push_str("dense<");
    let n = l.elements();
    if n == 0 {
    } else if l.splat {
        write_element(out, l.ty.dtype, l.element(0));
    } else if n > MOST_LISTED && l.ty.dtype != DType::I1 {
        // Predicates are always listed: readers differ on whether eight of them share a byte.
        out.push_str("\"0x");
        let data = &l.data;
        out.reserve(data.len() * 2);
        const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
        for b in data.iter() {
            out.push(DIGITS[usize::from(b >> 4)] as char);
            out.push(DIGITS[usize::from(b & 15)] as char);
        }
        out.push('"');
    } else {
        write_list(out, &l.ty.shape().expect("literals are static"), &mut 0, l);
    }
    out.push_str("> : ");
    write_tensor(out, &crate::tree::TensorType { quant: None, ..l.ty.clone() });
}

/// `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]` from the fields.
pub(crate) fn write_conv(out: &mut String, fields: &Attrs) {
    let sides = [
        ("input", [("b", "batch"), ("f", "feature")], ""),
        ("kernel", [("i", "input_feature"), ("o", "output_feature")], "x"),
        ("output", [("b", "batch"), ("f", "feature")], "->"),
    ];
    let get = |name: String| fields.iter().find(|(n, _)| *n == name).map(|(_, a)| a);
    for (side, named, before) in sides {
        let spatial = get(format!("{side}_spatial_dimensions")).and_then(crate::build::ints_of).unwrap_or_default();
        let mut places: Vec<(i64, String)> = spatial.iter().enumerate().map(|(i, p)| (*p, i.to_string())).collect();
        for (letter, name) in named {
            if let Some(Attr::Int(p, _)) = get(format!("{side}_{name}_dimension")) {
                places.push((*p as i64, letter.to_string()));
            }
        }
        places.sort();
        out.push_str(before);
        out.push('[');
        separated(out, places, |out, (_, s)| out.push_str(&s));
        out.push(']');
    }
}
