//! Writing the tables of a portable artifact: strings, attributes and types, each once, in the encodings of the builtin and
//! the VHLO dialect.

use super::lower;
use crate::{
    float,
    tree::{Attr, Attrs, DType, Literal, TensorType, Type},
};
use std::collections::HashMap;

pub(super) fn varint(out: &mut Vec<u8>, v: u64) {
    if v >> 7 == 0 {
        out.push((v << 1 | 1) as u8);
        return;
    }
    // The number of bytes behind the first is the number of zero bits below its lowest one.
    let bits = 64 - v.leading_zeros();
    let more = (bits - 1) / 7;
    if more >= 8 {
        out.push(0);
        out.extend_from_slice(&v.to_le_bytes());
        return;
    }
    let word = (v << 1 | 1) << more;
    out.extend_from_slice(&word.to_le_bytes()[..more as usize + 1]);
}
pub(super) fn signed(out: &mut Vec<u8>, v: i64) {
    varint(out, ((v << 1) ^ (v >> 63)) as u64);
}
pub(super) fn flagged(out: &mut Vec<u8>, v: u64, flag: bool) {
    varint(out, v << 1 | u64::from(flag));
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Dialect {
    Builtin,
    Vhlo,
}

/// Entries by their bytes.
#[derive(Default)]
struct Table {
    entries: Vec<(Dialect, bool, Vec<u8>)>,
    index: HashMap<(Dialect, bool, Vec<u8>), u64>,
}
impl Table {
    fn intern(&mut self, dialect: Dialect, custom: bool, bytes: Vec<u8>) -> u64 {
        let key = (dialect, custom, bytes);
        if let Some(i) = self.index.get(&key) {
            return *i;
        }
        let i = self.entries.len() as u64;
        self.entries.push(key.clone());
        self.index.insert(key, i);
        i
    }
}

/// Something that has no form in VHLO.
pub(super) struct NoForm(pub String);
pub(super) type R<T> = Result<T, NoForm>;

pub(super) struct Encoder {
    version: (u32, u32),
    strings: Vec<Vec<u8>>,
    string_index: HashMap<Vec<u8>, u64>,
    attrs: Table,
    types: Table,
}

impl Encoder {
    pub fn new(version: (u32, u32)) -> Self {
        Encoder {
            version,
            strings: vec![],
            string_index: HashMap::new(),
            attrs: Table::default(),
            types: Table::default(),
        }
    }
    /// Layouts: their elements are of type `index`.
    pub fn layouts(&mut self, list: &[Attr]) -> R<u64> {
        let element = self.ty(&Type::Other("index".into()))?;
        let mut b = vec![];
        varint(&mut b, 1);
        varint(&mut b, list.len() as u64);
        for a in list {
            let Attr::Dense(l) = a else { return Err(NoForm("a layout that is no tensor".into())) };
            let mut t = vec![];
            varint(&mut t, 20);
            varint(&mut t, 1);
            signed(&mut t, l.elements() as i64);
            varint(&mut t, element);
            let t = self.types.intern(Dialect::Vhlo, true, t);
            let mut e = vec![];
            varint(&mut e, 15);
            varint(&mut e, t);
            varint(&mut e, l.data.len() as u64);
            e.extend_from_slice(&l.data);
            let e = self.attrs.intern(Dialect::Vhlo, true, e);
            varint(&mut b, e);
        }
        Ok(self.attrs.intern(Dialect::Vhlo, true, b))
    }
    pub fn string(&mut self, s: &str) -> u64 {
        if let Some(i) = self.string_index.get(s.as_bytes()) {
            return *i;
        }
        self.strings.push(s.as_bytes().to_vec());
        let i = self.strings.len() as u64 - 1;
        self.string_index.insert(s.as_bytes().to_vec(), i);
        i
    }

    pub fn strings_section(&self) -> Vec<u8> {
        let mut out = vec![];
        varint(&mut out, self.strings.len() as u64);
        for s in self.strings.iter().rev() {
            varint(&mut out, s.len() as u64 + 1);
        }
        for s in &self.strings {
            out.extend_from_slice(s);
            out.push(0);
        }
        out
    }

    /// Contents and offsets. `dialects` are the dialects' numbers.
    pub fn table_sections(&self, dialects: impl Fn(Dialect) -> u64) -> (Vec<u8>, Vec<u8>) {
        let (mut data, mut offsets) = (vec![], vec![]);
        varint(&mut offsets, self.attrs.entries.len() as u64);
        varint(&mut offsets, self.types.entries.len() as u64);
        for table in [&self.attrs, &self.types] {
            for run in table.entries.chunk_by(|a, b| a.0 == b.0) {
                varint(&mut offsets, dialects(run[0].0));
                varint(&mut offsets, run.len() as u64);
                for (_, custom, bytes) in run {
                    flagged(&mut offsets, bytes.len() as u64, *custom);
                    data.extend_from_slice(bytes);
                }
            }
        }
        (data, offsets)
    }

    pub fn unknown_loc(&mut self) -> u64 {
        let mut b = vec![];
        varint(&mut b, 15);
        self.attrs.intern(Dialect::Builtin, true, b)
    }
    pub fn name_loc(&mut self, name: &str) -> u64 {
        let child = self.unknown_loc();
        let name = self.builtin_string(name);
        let mut b = vec![];
        varint(&mut b, 14);
        varint(&mut b, name);
        varint(&mut b, child);
        self.attrs.intern(Dialect::Builtin, true, b)
    }
    pub fn builtin_string(&mut self, s: &str) -> u64 {
        let i = self.string(s);
        let mut b = vec![];
        varint(&mut b, 2);
        varint(&mut b, i);
        self.attrs.intern(Dialect::Builtin, true, b)
    }
    /// An op's attributes outside of its properties.
    pub fn op_dict(&mut self, d: &Attrs) -> R<u64> {
        let list = d.iter().map(|(n, a)| Ok((n.as_str(), self.attr(a)?))).collect::<R<_>>()?;
        Ok(self.dict(list))
    }
    /// A module's attributes: the module is no op of VHLO, and its attributes stay builtin ones.
    pub fn builtin_dict(&mut self, d: &Attrs) -> u64 {
        let list = d.iter().map(|(n, a)| (n.as_str(), self.builtin_attr(a))).collect();
        self.dict(list)
    }
    fn dict(&mut self, mut list: Vec<(&str, u64)>) -> u64 {
        list.sort_unstable();
        let mut b = vec![];
        varint(&mut b, 1);
        varint(&mut b, list.len() as u64);
        for (n, a) in list {
            let n = self.builtin_string(n);
            varint(&mut b, n);
            varint(&mut b, a);
        }
        self.attrs.intern(Dialect::Builtin, true, b)
    }

    fn builtin_attr(&mut self, a: &Attr) -> u64 {
        let mut b = vec![];
        match a {
            Attr::Unit => varint(&mut b, 7),
            Attr::Str(s) => return self.builtin_string(s),
            Attr::Dict(d) => return self.builtin_dict(d),
            Attr::Array(list) => {
                varint(&mut b, 0);
                varint(&mut b, list.len() as u64);
                for x in list {
                    let i = self.builtin_attr(x);
                    varint(&mut b, i);
                }
            }
            Attr::Bool(v) => {
                let t = self.builtin_scalar("i1");
                varint(&mut b, 8);
                varint(&mut b, t);
                b.push(u8::from(*v));
            }
            Attr::Int(v, ty) if ty == "index" || ty.parse::<DType>().is_ok() => {
                let bits = ty.parse::<DType>().map_or(64, DType::bits);
                let t = self.builtin_scalar(ty);
                varint(&mut b, 8);
                varint(&mut b, t);
                known_width(&mut b, bits, low_bits(*v, bits));
            }
            // All others in the syntax of text, which every reader of bytecode takes.
            _ => {
                b.extend_from_slice(crate::print::attr(a).as_bytes());
                b.push(0);
                return self.attrs.intern(Dialect::Builtin, false, b);
            }
        }
        self.attrs.intern(Dialect::Builtin, true, b)
    }
    /// `index` or an integer type.
    fn builtin_scalar(&mut self, name: &str) -> u64 {
        let mut b = vec![];
        match name.trim_start_matches("ui").trim_start_matches('i').parse::<u64>() {
            Ok(bits) => {
                varint(&mut b, 0);
                varint(&mut b, bits << 2 | if name.starts_with('u') { 2 } else { 0 });
            }
            Err(_) => varint(&mut b, 1),
        }
        self.types.intern(Dialect::Builtin, true, b)
    }

    /// An attribute of the program.
    pub fn attr(&mut self, a: &Attr) -> R<u64> {
        let mut b = vec![];
        match a {
            Attr::Unit => {
                varint(&mut b, 7);
                return Ok(self.attrs.intern(Dialect::Builtin, true, b));
            }
            Attr::Raw(text) => {
                b.extend_from_slice(text.as_bytes());
                b.push(0);
                return Ok(self.attrs.intern(Dialect::Builtin, false, b));
            }
            Attr::Array(list) => {
                varint(&mut b, 1);
                varint(&mut b, list.len() as u64);
                for x in list {
                    let i = self.attr(x)?;
                    varint(&mut b, i);
                }
            }
            Attr::Bool(v) => {
                varint(&mut b, 2);
                varint(&mut b, u64::from(*v));
            }
            Attr::Enum(_, kind, word) => {
                let (code, number) =
                    lower::enumerator(kind, word).ok_or_else(|| NoForm(format!("#stablehlo<{kind} {word}>")))?;
                varint(&mut b, code);
                varint(&mut b, number);
            }
            Attr::Dict(d) => {
                varint(&mut b, 6);
                varint(&mut b, d.len() as u64);
                for (n, x) in d {
                    let n = self.attr(&Attr::Str(n.clone()))?;
                    let x = self.attr(x)?;
                    varint(&mut b, n);
                    varint(&mut b, x);
                }
            }
            Attr::Float(v, ty) => {
                let d: DType = ty.parse().map_err(|_| NoForm(format!("a float of type {ty}")))?;
                let t = self.ty(&Type::Other(ty.clone()))?;
                varint(&mut b, 8);
                varint(&mut b, t);
                known_width(&mut b, d.bits(), float::encode(d, *v));
            }
            Attr::Int(v, ty) => {
                let d: DType = if ty == "index" {
                    DType::I64
                } else {
                    ty.parse().map_err(|_| NoForm(format!("an integer of type {ty}")))?
                };
                let t = self.ty(&Type::Other(ty.clone()))?;
                varint(&mut b, 9);
                varint(&mut b, t);
                known_width(&mut b, d.bits(), low_bits(*v, d.bits()));
            }
            Attr::Str(s) | Attr::Symbol(s) => {
                let i = self.string(s);
                varint(&mut b, 14);
                varint(&mut b, i);
            }
            Attr::Dense(l) => {
                let t = self.tensor(&TensorType { quant: None, ..l.ty.clone() })?;
                varint(&mut b, 15);
                varint(&mut b, t);
                let data = packed(l);
                varint(&mut b, data.len() as u64);
                b.extend_from_slice(&data);
            }
            Attr::Ints(d, v) => {
                let mut data = vec![];
                v.iter().for_each(|x| crate::literal::put_int(*d, i128::from(*x), &mut data));
                return self.attr(&Attr::Dense(Literal::new(TensorType::new(*d, &[v.len() as u64]), data)));
            }
            Attr::Type(t) => {
                let t = self.ty(t)?;
                varint(&mut b, 17);
                varint(&mut b, t);
            }
            Attr::Struct(_, name, fields) => self.structure(&mut b, name, fields)?,
        }
        Ok(self.attrs.intern(Dialect::Vhlo, true, b))
    }

    fn structure(&mut self, b: &mut Vec<u8>, name: &str, fields: &Attrs) -> R<()> {
        let get = |n: &str| fields.iter().find(|(k, _)| k == n).map(|(_, a)| a);
        let ints = |n: &str| get(n).and_then(crate::build::ints_of).unwrap_or_default();
        let list = |b: &mut Vec<u8>, v: Vec<i64>| {
            varint(b, v.len() as u64);
            v.into_iter().for_each(|x| signed(b, x));
        };
        let number = |n: &str| match get(n) {
            Some(Attr::Int(v, _)) => *v as i64,
            _ => 0,
        };
        let real = |n: &str| match get(n) {
            Some(Attr::Float(v, _)) => *v,
            _ => 0.0,
        };
        match name {
            "output_operand_alias" => {
                varint(b, 10);
                list(b, ints("output_tuple_indices"));
                signed(b, number("operand_index"));
                list(b, ints("operand_tuple_indices"));
            }
            "result_accuracy" => {
                let default = Attr::Enum("stablehlo".into(), "result_accuracy_mode".into(), "DEFAULT".into());
                let mode = self.attr(get("mode").unwrap_or(&default))?;
                varint(b, 20);
                known_width(b, 64, real("atol").to_bits());
                known_width(b, 64, real("rtol").to_bits());
                signed(b, number("ulps"));
                varint(b, mode);
            }
            "axis_ref" => {
                let n = self.attr(get("name").unwrap_or(&Attr::Unit))?;
                varint(b, 22);
                varint(b, n);
                varint(b, 0);
            }
            "replica_group_mesh_axes" => {
                let mesh = self.attr(get("mesh").unwrap_or(&Attr::Unit))?;
                let axes = self.attr(get("axes").unwrap_or(&Attr::Unit))?;
                varint(b, 23);
                varint(b, mesh);
                varint(b, axes);
            }
            "mesh_axis" => {
                let n = self.attr(get("name").unwrap_or(&Attr::Unit))?;
                varint(b, 24);
                varint(b, n);
                signed(b, number("size"));
            }
            _ => return Err(NoForm(format!("#stablehlo.{name}"))),
        }
        Ok(())
    }

    fn tensor(&mut self, t: &TensorType) -> R<u64> {
        let element = match &t.quant {
            None => self.ty(&Type::Other(t.dtype.name().into()))?,
            Some(q) => {
                let storage = self.ty(&Type::Other(t.dtype.name().into()))?;
                let expressed = self.ty(&Type::Other(q.expressed.name().into()))?;
                let (low, high) = q.range.unwrap_or_else(|| crate::text::full_range(t.dtype));
                let mut b = vec![];
                varint(&mut b, if q.axis.is_some() { 30 } else { 24 });
                varint(&mut b, u64::from(t.dtype.is_signed_int()));
                varint(&mut b, storage);
                varint(&mut b, expressed);
                match q.axis {
                    None => {
                        known_width(&mut b, 64, q.scales[0]);
                        signed(&mut b, q.zero_points[0]);
                        signed(&mut b, low);
                        signed(&mut b, high);
                    }
                    Some(axis) => {
                        varint(&mut b, u64::from(axis));
                        signed(&mut b, low);
                        signed(&mut b, high);
                        varint(&mut b, q.scales.len() as u64);
                        q.scales.iter().for_each(|s| known_width(&mut b, 64, *s));
                        varint(&mut b, q.zero_points.len() as u64);
                        q.zero_points.iter().for_each(|z| signed(&mut b, *z));
                    }
                }
                self.types.intern(Dialect::Vhlo, true, b)
            }
        };
        let sizes = |b: &mut Vec<u8>, dims: &[Option<u64>]| {
            varint(b, dims.len() as u64);
            dims.iter().for_each(|d| signed(b, d.map_or(i64::MIN, |d| d as i64)));
        };
        let mut b = vec![];
        if t.bounds.is_empty() {
            varint(&mut b, 20);
        } else {
            let mut e = vec![];
            varint(&mut e, 18);
            sizes(&mut e, &t.bounds);
            let e = self.attrs.intern(Dialect::Vhlo, true, e);
            varint(&mut b, 21);
            varint(&mut b, e);
        }
        sizes(&mut b, &t.dims);
        varint(&mut b, element);
        Ok(self.types.intern(Dialect::Vhlo, true, b))
    }

    pub fn ty(&mut self, t: &Type) -> R<u64> {
        let mut b = vec![];
        let types = |e: &mut Self, b: &mut Vec<u8>, list: &[Type]| -> R<()> {
            varint(b, list.len() as u64);
            for t in list {
                let i = e.ty(t)?;
                varint(b, i);
            }
            Ok(())
        };
        match t {
            Type::Tensor(t) => return self.tensor(t),
            Type::Token => varint(&mut b, 22),
            Type::Tuple(parts) => {
                varint(&mut b, 23);
                types(self, &mut b, parts)?;
            }
            Type::Function(inputs, results) => {
                varint(&mut b, 8);
                types(self, &mut b, inputs)?;
                types(self, &mut b, results)?;
            }
            Type::Other(s) => {
                if let Some(part) = s.strip_prefix("complex<").and_then(|s| s.strip_suffix('>')) {
                    let part = self.ty(&Type::Other(part.into()))?;
                    varint(&mut b, 1);
                    varint(&mut b, part);
                } else {
                    let code = lower::type_code(s).filter(|_| lower::type_since(s) <= self.version);
                    varint(&mut b, code.ok_or_else(|| NoForm(format!("the type {s}")))?);
                }
            }
        }
        Ok(self.types.intern(Dialect::Vhlo, true, b))
    }
}

fn low_bits(v: i128, bits: u32) -> u64 {
    (v as u64) & (u64::MAX >> (64 - bits.min(64)))
}

/// Bits of known width: a byte up to 8, a signed integer above.
fn known_width(b: &mut Vec<u8>, bits: u32, v: u64) {
    if bits <= 8 { b.push(v as u8) } else { signed(b, v as i64) }
}

/// A constant's bytes: predicates packed eight to a byte, a splat of them as 0x00 or 0xff.
fn packed(l: &Literal) -> Vec<u8> {
    if l.ty.dtype != DType::I1 {
        return l.data.to_vec();
    }
    if l.splat && l.elements() > 1 {
        return vec![if l.data[0] != 0 { 0xff } else { 0 }];
    }
    l.data.chunks(8).map(|c| c.iter().rev().fold(0, |x, b| x << 1 | b)).collect()
}

#[cfg(test)]
mod tests {
    use super::{super::bytes::Bytes, *};

    /// StableHLO's own reader turns no attribute of a module back.
    #[test]
    fn attributes_of_a_module_are_builtin_ones() {
        let mut e = Encoder::new((1, 10));
        let list = [
            Attr::Int(2, "i32".into()),
            Attr::Int(1, "index".into()),
            Attr::Bool(false),
            Attr::Float(0.5, "f32".into()),
            Attr::Array(vec![Attr::Str("x".into()), Attr::Unit]),
            Attr::Dict(vec![("b".into(), Attr::Symbol("f".into()))]),
            Attr::Ints(DType::I64, vec![1, 2]),
            Attr::Type(Type::Tensor(TensorType::new(DType::F32, &[4]))),
        ];
        e.builtin_dict(&vec![("a".into(), Attr::Array(list.into()))]);
        assert!(e.attrs.entries.len() > 8 && !e.types.entries.is_empty());
        assert!(e.attrs.entries.iter().chain(&e.types.entries).all(|(d, _, _)| *d == Dialect::Builtin));
    }

    #[test]
    fn integers_are_read_back() {
        for v in [0, 1, 127, 128, 16383, 16384, u64::from(u32::MAX), 1 << 48, (1 << 56) - 1, 1 << 56, u64::MAX] {
            let mut b = vec![];
            varint(&mut b, v);
            assert_eq!(Bytes::new(&b, 0).varint().ok(), Some(v), "{v}");
            let mut b = vec![];
            signed(&mut b, v as i64);
            assert_eq!(Bytes::new(&b, 0).signed().ok(), Some(v as i64), "{v}");
        }
    }
}
