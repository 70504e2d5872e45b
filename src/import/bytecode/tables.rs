//! The attribute and type tables of a bytecode file, decoded on demand: the encodings of the builtin and the VHLO dialect.

use super::{
    bytes::{Bytes, R, damaged},
    vhlo,
};
use crate::{
    diag::Diagnostic,
    float,
    literal::from_storage,
    tree::{Attr, Attrs, DType, Literal, Loc, Quant, Span, TensorType, Type},
};
use std::{cell::RefCell, sync::Arc};

/// Attributes inside of attributes.
const DEEPEST: u32 = 400;

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Dialect {
    Builtin,
    Vhlo,
    /// Shardings, which are hints.
    Sdy,
    Other,
}

/// An undecoded entry of a table.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub dialect: Dialect,
    pub at: usize,
    pub len: usize,
    /// Encoded by its dialect, not as text.
    pub custom: bool,
}

/// A type, or an element type that only stands inside of one.
#[derive(Clone)]
pub(super) enum Ty {
    Type(Type),
    Quant(DType, Arc<Quant>),
}

/// An attribute, or a location.
#[derive(Clone)]
pub(super) enum Value {
    Attr(Attr),
    Loc(Loc),
    Bounds(Vec<Option<u64>>),
    /// `(pre-size)size`, part of an axis reference.
    SubAxis(i64, i64),
}

#[derive(Clone)]
enum Slot<T> {
    New,
    Open,
    Done(T),
}

pub(super) struct Tables<'a> {
    pub data: Bytes<'a>,
    pub strings: Vec<&'a [u8]>,
    pub attrs: Vec<Entry>,
    pub types: Vec<Entry>,
    attr_slots: RefCell<Vec<Slot<Value>>>,
    type_slots: RefCell<Vec<Slot<Ty>>>,
    depth: RefCell<u32>,
}

impl<'a> Tables<'a> {
    pub fn new(data: Bytes<'a>, strings: Vec<&'a [u8]>, attrs: Vec<Entry>, types: Vec<Entry>) -> Self {
        Tables {
            attr_slots: RefCell::new(vec![Slot::New; attrs.len()]),
            type_slots: RefCell::new(vec![Slot::New; types.len()]),
            depth: RefCell::new(0),
            data,
            strings,
            attrs,
            types,
        }
    }
    pub fn string(&self, b: &mut Bytes) -> R<String> {
        let i = b.varint()?;
        match self.strings.get(i as usize) {
            Some(s) => Ok(String::from_utf8(s.to_vec()).unwrap_or_else(|_| s.iter().map(|b| char::from(*b)).collect())),
            None => b.damaged(format!("string {i} of {}", self.strings.len())),
        }
    }
    pub fn attr(&self, b: &mut Bytes) -> R<Attr> {
        let i = b.varint()?;
        self.attr_at(i, b)
    }
    pub fn attr_at(&self, i: u64, b: &Bytes) -> R<Attr> {
        match self.value(i, b)? {
            Value::Attr(a) => Ok(a),
            Value::Loc(_) => Ok(Attr::Raw("loc(unknown)".into())),
            Value::Bounds(_) => b.damaged("bounds where an attribute was expected"),
            Value::SubAxis(..) => b.damaged("a sub-axis outside of an axis reference"),
        }
    }
    pub fn loc(&self, b: &mut Bytes) -> R<Loc> {
        let i = b.varint()?;
        match self.value(i, b)? {
            Value::Loc(l) => Ok(l),
            _ => b.damaged("an attribute where a location was expected"),
        }
    }
    pub fn ty(&self, b: &mut Bytes) -> R<Type> {
        let i = b.varint()?;
        self.ty_at(i, b)
    }
    pub fn ty_at(&self, i: u64, b: &Bytes) -> R<Type> {
        match self.any_ty(i, b)? {
            Ty::Type(t) => Ok(t),
            Ty::Quant(..) => b.damaged("a quantized element type stands alone"),
        }
    }
    fn tys(&self, b: &mut Bytes) -> R<Vec<Type>> {
        let n = b.count()?;
        (0..n).map(|_| self.ty(b)).collect()
    }

    fn deeper<T>(&self, at: usize, f: impl FnOnce() -> R<T>) -> R<T> {
        if *self.depth.borrow() >= DEEPEST {
            return Err(damaged(at, "attributes are nested too deeply"));
        }
        *self.depth.borrow_mut() += 1;
        let r = f();
        *self.depth.borrow_mut() -= 1;
        r
    }

    fn value(&self, i: u64, from: &Bytes) -> R<Value> {
        let i = i as usize;
        let Some(e) = self.attrs.get(i).copied() else {
            return from.damaged(format!("attribute {i} of {}", self.attrs.len()));
        };
        match &self.attr_slots.borrow()[i] {
            Slot::Done(v) => return Ok(v.clone()),
            Slot::Open => return from.damaged("an attribute contains itself"),
            Slot::New => {}
        }
        self.attr_slots.borrow_mut()[i] = Slot::Open;
        let mut b = Bytes::new(&self.data.data[e.at..e.at + e.len], self.data.base + e.at);
        let v = self.deeper(b.base, || match (e.custom, e.dialect) {
            (false, _) => self.text_attr(&mut b),
            (true, Dialect::Builtin) => self.builtin_attr(&mut b),
            (true, Dialect::Vhlo) => self.vhlo_attr(&mut b),
            // Left out by who takes the dictionary it is in.
            (true, Dialect::Sdy) => Ok(Value::Attr(Attr::Unit)),
            (true, Dialect::Other) => Err(Box::new(other_dialect("an attribute"))),
        })?;
        self.attr_slots.borrow_mut()[i] = Slot::Done(v.clone());
        Ok(v)
    }

    fn any_ty(&self, i: u64, from: &Bytes) -> R<Ty> {
        let i = i as usize;
        let Some(e) = self.types.get(i).copied() else {
            return from.damaged(format!("type {i} of {}", self.types.len()));
        };
        match &self.type_slots.borrow()[i] {
            Slot::Done(v) => return Ok(v.clone()),
            Slot::Open => return from.damaged("a type contains itself"),
            Slot::New => {}
        }
        self.type_slots.borrow_mut()[i] = Slot::Open;
        let mut b = Bytes::new(&self.data.data[e.at..e.at + e.len], self.data.base + e.at);
        let t = self.deeper(b.base, || match (e.custom, e.dialect) {
            (false, _) => {
                let text = b.terminated()?;
                crate::text::parse_type(text).map(Ty::Type).or_else(|_| b.damaged("a type as text does not parse"))
            }
            (true, Dialect::Builtin) => self.builtin_ty(&mut b).map(Ty::Type),
            (true, Dialect::Vhlo) => self.vhlo_ty(&mut b),
            (true, Dialect::Sdy | Dialect::Other) => Err(Box::new(other_dialect("a type"))),
        })?;
        self.type_slots.borrow_mut()[i] = Slot::Done(t.clone());
        Ok(t)
    }

    /// Names and values; a dictionary has an order of its own, by name, and each name once.
    fn dict(&self, b: &mut Bytes) -> R<Attr> {
        let n = b.count()?;
        let mut list: Attrs = vec![];
        for _ in 0..n {
            let Attr::Str(name) = self.attr(b)? else {
                return b.damaged("an attribute's name is not a string");
            };
            list.push((name, self.attr(b)?));
        }
        list.sort_by(|a, b| a.0.cmp(&b.0));
        match list.windows(2).find(|w| w[0].0 == w[1].0) {
            Some(twice) => b.damaged(format!("attribute `{}` is given twice", twice[0].0)),
            None => Ok(Attr::Dict(list)),
        }
    }

    fn text_attr(&self, b: &mut Bytes) -> R<Value> {
        let text = b.terminated()?;
        if text.starts_with(b"loc(") {
            return Ok(Value::Loc(Loc::Unknown));
        }
        match crate::text::parse_attr(text) {
            Ok(a) => Ok(Value::Attr(a)),
            Err(e) => b.damaged(format!("an attribute's text `{}`: {}", String::from_utf8_lossy(text), e.message)),
        }
    }

    fn element(&self, b: &mut Bytes) -> R<(DType, Option<Arc<Quant>>)> {
        let i = b.varint()?;
        match self.any_ty(i, b)? {
            Ty::Quant(d, q) => Ok((d, Some(q))),
            Ty::Type(t) => Ok((self.dtype(&t, b)?, None)),
        }
    }
    fn dtype(&self, t: &Type, b: &Bytes) -> R<DType> {
        let Type::Other(s) = t else { return b.damaged("an element type was expected") };
        let name = if s == "index" { "i64" } else { s };
        name.parse().or_else(|_| b.damaged(format!("element type `{name}`")))
    }
    fn dims(&self, b: &mut Bytes) -> R<Vec<Option<u64>>> {
        Ok(b.signed_list()?.into_iter().map(|d| u64::try_from(d).ok()).collect())
    }
    fn tensor(&self, b: &mut Bytes, encoded: bool) -> R<Type> {
        let mut bounds = vec![];
        if encoded {
            let i = b.varint()?;
            bounds = match self.value(i, b)? {
                Value::Bounds(v) => v,
                _ => return b.damaged("a tensor's encoding is not bounds"),
            };
        }
        let dims = self.dims(b)?;
        let (dtype, quant) = self.element(b)?;
        if !bounds.is_empty() && bounds.len() != dims.len() {
            return b.damaged("bounds of another rank than the tensor's");
        }
        Ok(Type::Tensor(TensorType { dtype, dims, bounds, quant }))
    }

    /// Bits of a float or integer whose width is known: a byte up to 8 bits, a signed integer up to 64.
    fn known_width(&self, b: &mut Bytes, bits: u32) -> R<i64> {
        if bits <= 8 { Ok(i64::from(b.byte()?)) } else { b.signed() }
    }
    fn known_float(&self, b: &mut Bytes, d: DType) -> R<f64> {
        Ok(float::decode(d, self.known_width(b, d.bits())? as u64))
    }
    fn int_attr(&self, b: &mut Bytes) -> R<Attr> {
        let t = self.ty(b)?;
        let Type::Other(name) = &t else { return b.damaged("an integer's type was expected") };
        let d = self.dtype(&t, b)?;
        if d.is_float() || d.is_complex() {
            return b.damaged("an integer's type was expected");
        }
        let v = self.known_width(b, d.bits())?;
        if d == DType::I1 {
            return Ok(Attr::Bool(v != 0));
        }
        let unused = 64 - d.bits();
        let v = if d.is_unsigned_int() {
            i128::from((v as u64) << unused >> unused)
        } else {
            i128::from(v << unused >> unused)
        };
        Ok(Attr::Int(v, name.clone()))
    }
    fn float_attr(&self, b: &mut Bytes) -> R<Attr> {
        let t = self.ty(b)?;
        let d = self.dtype(&t, b)?;
        if !d.is_float() {
            return b.damaged("a float's type was expected");
        }
        Ok(Attr::Float(self.known_float(b, d)?, d.name().into()))
    }
    fn dense(&self, b: &mut Bytes) -> R<Attr> {
        let Type::Tensor(ty) = self.ty(b)? else { return b.damaged("a constant's type is not a tensor") };
        let data = b.blob()?;
        let n = ty.elements();
        if n.is_none_or(|n| n > 1 << 40) {
            return b.damaged("a constant of dynamic shape, or of too many elements");
        }
        match from_storage(&ty, data.to_vec()) {
            Some(data) => Ok(Attr::Dense(Literal::new(ty, data))),
            None => b.damaged(format!("{} bytes for a constant of {}", data.len(), crate::print::tensor(&ty))),
        }
    }

    fn builtin_attr(&self, b: &mut Bytes) -> R<Value> {
        let code = b.varint()?;
        let attr = match code {
            0 => Attr::Array(self.attr_list(b)?),
            1 => self.dict(b)?,
            2 => Attr::Str(self.string(b)?),
            3 => {
                let s = self.string(b)?;
                self.ty(b)?;
                Attr::Str(s)
            }
            4 => Attr::Symbol(self.name(b)?),
            5 => {
                let mut s = self.name(b)?;
                for a in self.attr_list(b)? {
                    if let Attr::Symbol(n) = a {
                        s.push_str("::@");
                        s.push_str(&n);
                    }
                }
                Attr::Symbol(s)
            }
            6 => Attr::Type(self.ty(b)?),
            7 => Attr::Unit,
            8 => self.int_attr(b)?,
            9 => self.float_attr(b)?,
            10..=15 | 22 => return self.builtin_loc(code, b).map(Value::Loc),
            17 => {
                let t = self.ty(b)?;
                let d = self.dtype(&t, b)?;
                let n = b.varint()?;
                let data = b.blob()?;
                if n.checked_mul(d.bytes() as u64) != Some(data.len() as u64) || d.is_float() || d.is_complex() {
                    return b.damaged("a dense array of another length, or of floats");
                }
                Attr::Ints(d, data.chunks_exact(d.bytes()).map(|e| crate::literal::get_int(d, e) as i64).collect())
            }
            18 => self.dense(b)?,
            _ => return b.damaged(format!("builtin attribute of kind {code}")),
        };
        Ok(Value::Attr(attr))
    }
    fn attr_list(&self, b: &mut Bytes) -> R<Vec<Attr>> {
        let n = b.count()?;
        (0..n).map(|_| self.attr(b)).collect()
    }
    fn name(&self, b: &mut Bytes) -> R<String> {
        match self.attr(b)? {
            Attr::Str(s) => Ok(s),
            _ => b.damaged("a name is not a string"),
        }
    }
    fn builtin_loc(&self, code: u64, b: &mut Bytes) -> R<Loc> {
        let number = |b: &mut Bytes| -> R<u32> { Ok(b.varint()?.min(u64::from(u32::MAX)) as u32) };
        Ok(match code {
            10 => {
                let callee = Arc::new(self.loc(b)?);
                Loc::CallSite { callee, caller: Arc::new(self.loc(b)?) }
            }
            11 => {
                let file = self.name(b)?.into();
                Loc::File { file, line: number(b)?, column: number(b)? }
            }
            12 | 13 => {
                let n = b.count()?;
                let parts = (0..n).map(|_| self.loc(b)).collect::<R<Vec<_>>>()?;
                if code == 13 {
                    self.attr(b)?;
                }
                Loc::Fused(parts.into())
            }
            14 => {
                let name = self.name(b)?.into();
                Loc::Name { name, child: Arc::new(self.loc(b)?) }
            }
            22 => {
                // File, then as many of: line, column, end column, end line.
                let file = self.name(b)?.into();
                let n = b.varint()?;
                let mut v = vec![];
                for _ in 0..n.min(4) {
                    v.push(number(b)?);
                }
                Loc::File { file, line: v.first().copied().unwrap_or(0), column: v.get(1).copied().unwrap_or(0) }
            }
            _ => Loc::Unknown,
        })
    }

    fn builtin_ty(&self, b: &mut Bytes) -> R<Type> {
        let code = b.varint()?;
        Ok(match code {
            0 => {
                let v = b.varint()?;
                let prefix = ["i", "si", "ui"].get((v & 3) as usize).copied().unwrap_or("i");
                Type::Other(format!("{prefix}{}", v >> 2))
            }
            1 => Type::Other("index".into()),
            2 => {
                let inputs = self.tys(b)?;
                Type::Function(inputs, self.tys(b)?)
            }
            3 => Type::Other("bf16".into()),
            4 => Type::Other("f16".into()),
            5 => Type::Other("f32".into()),
            6 => Type::Other("f64".into()),
            9 => {
                let t = self.ty(b)?;
                Type::Other(format!("complex<{}>", crate::print::ty(&t)))
            }
            12 => Type::Other("none".into()),
            13 => self.tensor(b, false)?,
            14 => self.tensor(b, true)?,
            15 => Type::Tuple(self.tys(b)?),
            _ => return b.damaged(format!("builtin type of kind {code}")),
        })
    }

    fn vhlo_attr(&self, b: &mut Bytes) -> R<Value> {
        let code = b.varint()?;
        let word = |b: &mut Bytes, kind: &str, words: &[&str]| -> R<Attr> {
            let v = b.varint()?;
            match words.get(v as usize).filter(|w| !w.is_empty()) {
                Some(w) => Ok(Attr::Enum("stablehlo".into(), kind.into(), (*w).into())),
                None => b.damaged(format!("{kind} {v}")),
            }
        };
        let attr = match code {
            1 => Attr::Array(self.attr_list(b)?),
            2 => Attr::Bool(b.varint()? != 0),
            3 => word(b, "comparison_direction", &["EQ", "NE", "GE", "GT", "LE", "LT"])?,
            4 => word(b, "comparison_type", &["NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"])?,
            5 => Attr::Int(i128::from(b.varint()?), "i32".into()),
            6 => self.dict(b)?,
            7 => word(b, "fft_type", &["FFT", "IFFT", "RFFT", "IRFFT"])?,
            8 => self.float_attr(b)?,
            9 => self.int_attr(b)?,
            10 => {
                let list =
                    |v: Vec<i64>| Attr::Array(v.into_iter().map(|x| Attr::Int(i128::from(x), "i64".into())).collect());
                let outputs = list(b.signed_list()?);
                let operand = Attr::Int(i128::from(b.signed()?), "i64".into());
                let inner = list(b.signed_list()?);
                let fields =
                    [("output_tuple_indices", outputs), ("operand_index", operand), ("operand_tuple_indices", inner)];
                let fields = fields.map(|(n, a)| (n.to_string(), a)).into();
                Attr::Struct("stablehlo".into(), "output_operand_alias".into(), fields)
            }
            11 => word(b, "precision", &["DEFAULT", "HIGH", "HIGHEST"])?,
            12 => word(b, "rng_algorithm", &["DEFAULT", "THREE_FRY", "PHILOX"])?,
            13 => word(b, "rng_distribution", &["", "UNIFORM", "NORMAL"])?,
            14 => Attr::Str(self.string(b)?),
            15 => self.dense(b)?,
            16 => word(b, "transpose", &["TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])?,
            17 => Attr::Type(self.ty(b)?),
            18 => {
                return Ok(Value::Bounds(self.dims(b)?));
            }
            19 => word(b, "result_accuracy_mode", &["DEFAULT", "HIGHEST", "TOLERANCE"])?,
            20 => {
                let mut fields = vec![];
                for n in ["atol", "rtol"] {
                    let v = self.known_float(b, DType::F64)?;
                    if !v.is_finite() {
                        return b.damaged(format!("the tolerance {n} of a result's accuracy is {v}"));
                    }
                    if v != 0.0 {
                        fields.push((n.to_string(), Attr::Float(v, "f64".into())));
                    }
                }
                let ulps = b.signed()?;
                if ulps != 0 {
                    fields.push(("ulps".into(), Attr::Int(i128::from(ulps), "i64".into())));
                }
                let mode @ Attr::Enum(..) = self.attr(b)? else {
                    return b.damaged("the mode of a result's accuracy is none");
                };
                fields.push(("mode".into(), mode));
                Attr::Struct("stablehlo".into(), "result_accuracy".into(), fields)
            }
            21 => return Ok(Value::SubAxis(b.signed()?, b.signed()?)),
            22..=25 => self.mesh_attr(code, b)?,
            _ => return Err(Box::new(from_the_future(&format!("an attribute of kind {code}")))),
        };
        Ok(Value::Attr(attr))
    }

    /// Meshes and their axes, as text has them.
    fn mesh_attr(&self, code: u64, b: &mut Bytes) -> R<Attr> {
        let of = |name: &str, fields: Vec<(&str, Attr)>| {
            let fields = fields.into_iter().map(|(n, a)| (n.to_string(), a)).collect();
            Attr::Struct("stablehlo".into(), name.into(), fields)
        };
        Ok(match code {
            22 => {
                let name = self.attr(b)?;
                if b.varint()? == 0 {
                    return Ok(of("axis_ref", vec![("name", name)]));
                }
                let i = b.varint()?;
                match (name, self.value(i, b)?) {
                    (name @ Attr::Str(_), Value::SubAxis(before, size)) => {
                        let name = crate::print::attr(&name);
                        Attr::Raw(format!("#stablehlo.axis_ref<name = {name}, sub_axis_info = ({before}){size}>"))
                    }
                    _ => return b.damaged("the sub-axis of an axis reference is not `(pre-size)size`"),
                }
            }
            23 => {
                let mesh = match self.attr(b)? {
                    Attr::Str(s) => Attr::Symbol(s),
                    a => a,
                };
                of("replica_group_mesh_axes", vec![("mesh", mesh), ("axes", self.attr(b)?)])
            }
            24 => {
                let name @ Attr::Str(_) = self.attr(b)? else {
                    return b.damaged("the name of a mesh's axis is not a string");
                };
                of("mesh_axis", vec![("name", name), ("size", Attr::Int(i128::from(b.signed()?), "i64".into()))])
            }
            _ => {
                let mut fields = vec![("axes", self.attr(b)?)];
                let (i, present) = b.flagged()?;
                if present {
                    fields.push(("device_ids", self.attr_at(i, b)?));
                }
                of("mesh", fields)
            }
        })
    }

    fn vhlo_ty(&self, b: &mut Bytes) -> R<Ty> {
        let code = b.varint()?;
        let name = match code {
            0 => "i1",
            1 => {
                let t = self.ty(b)?;
                return Ok(Ty::Type(Type::Other(format!("complex<{}>", crate::print::ty(&t)))));
            }
            2 => "bf16",
            3 => "f16",
            4 => "f32",
            5 => "f64",
            6 => "f8E4M3FN",
            7 => "f8E5M2",
            8 => {
                let inputs = self.tys(b)?;
                return Ok(Ty::Type(Type::Function(inputs, self.tys(b)?)));
            }
            9 => "index",
            10 => "i4",
            11 => "i8",
            12 => "i16",
            13 => "i32",
            14 => "i64",
            15 => "ui4",
            16 => "ui8",
            17 => "ui16",
            18 => "ui32",
            19 => "ui64",
            20 => return self.tensor(b, false).map(Ty::Type),
            21 => return self.tensor(b, true).map(Ty::Type),
            22 => return Ok(Ty::Type(Type::Token)),
            23 => return Ok(Ty::Type(Type::Tuple(self.tys(b)?))),
            24 | 30 => return self.quantized(code == 30, b),
            25 => {
                return Err(Box::new(
                    Diagnostic::error("E0108", Span::NONE, "unranked tensor")
                        .hint("export with the rank known; single dimensions may stay dynamic"),
                ));
            }
            26 => "!shape.witness",
            27 => "f8E4M3FNUZ",
            28 => "f8E5M2FNUZ",
            29 => "f8E4M3B11FNUZ",
            31 => "i2",
            32 => "ui2",
            33 => "none",
            34 => "tf32",
            35 => "f8E4M3",
            36 => "f8E3M4",
            37 => "f4E2M1FN",
            38 => "f6E2M3FN",
            39 => "f6E3M2FN",
            40 => "f8E8M0FNU",
            41 => {
                let dims = self.dims(b)?;
                let (dtype, _) = self.element(b)?;
                let t = crate::print::tensor(&TensorType { dtype, dims, bounds: vec![], quant: None });
                return Ok(Ty::Type(Type::Other(t.replacen("tensor", "memref", 1))));
            }
            42 => {
                let t = self.tys(b)?;
                let mut s = String::new();
                crate::print::write_types(&mut s, &t);
                return Ok(Ty::Type(Type::Other(format!("!stablehlo.future<{s}>"))));
            }
            _ => return Err(Box::new(from_the_future(&format!("a type of kind {code}")))),
        };
        Ok(Ty::Type(Type::Other(name.into())))
    }

    fn quantized(&self, per_axis: bool, b: &mut Bytes) -> R<Ty> {
        b.varint()?; // Whether the storage is signed, which its type says too.
        let storage = self.ty(b)?;
        let storage = self.dtype(&storage, b)?;
        let expressed = self.ty(b)?;
        let expressed = self.dtype(&expressed, b)?;
        if !storage.is_int() {
            return b.damaged("a quantized type's storage is not an integer");
        }
        let (mut scales, mut zero_points) = (vec![], vec![]);
        let (axis, low, high);
        if per_axis {
            axis = Some(b.varint()?.min(u64::from(u32::MAX)) as u32);
            (low, high) = (b.signed()?, b.signed()?);
            let n = b.count()?;
            for _ in 0..n {
                scales.push(self.known_float(b, DType::F64)?.to_bits());
            }
            zero_points = b.signed_list()?;
        } else {
            axis = None;
            scales.push(self.known_float(b, DType::F64)?.to_bits());
            zero_points.push(b.signed()?);
            (low, high) = (b.signed()?, b.signed()?);
        }
        if scales.len() != zero_points.len() {
            return b.damaged("a quantized type has other numbers of scales and zero points");
        }
        let range = Some((low, high)).filter(|r| *r != crate::text::full_range(storage));
        Ok(Ty::Quant(storage, Arc::new(Quant { expressed, range, axis, scales, zero_points })))
    }
}

fn other_dialect(what: &str) -> Diagnostic {
    Diagnostic::error(
        "E0503",
        Span::NONE,
        format!("{what} in the bytecode is of a dialect that is not part of portable artifacts"),
    )
    .hint("write the program with `stablehlo.serialize_portable_artifact`, or as text")
}

/// Something that no version up to the newest known has.
pub(super) fn from_the_future(what: &str) -> Diagnostic {
    let (a, b, c) = vhlo::NEWEST;
    Diagnostic::error(
        "E0502",
        Span::NONE,
        format!("the artifact has {what}, which StableHLO {a}.{b}.{c} does not know"),
    )
    .hint(format!("write it for an older version: `serialize_portable_artifact(module, \"{a}.{b}.{c}\")`"))
}
