//! How StableHLO values and element types look at level 1. Complex is a pair of real tensors; floats below 16 bits and
//! integers below 8 are `i8` that hold the value's bits or the extended value, so that no target need know them.

use crate::ir::{B, TypeLike, V, ValueLike};
use melior::ir::{Attribute, Location, Type as MlirType, attribute::DenseElementsAttribute};
use zmlc_import::tree::{DType, Literal, Loc, TensorType, Type};

/// A StableHLO value: a tensor, or a scalar in a region that works on elements.
#[derive(Clone, Debug)]
pub(super) enum Val<'c> {
    One(V<'c>),
    Complex(V<'c>, V<'c>),
    Tuple(Vec<Val<'c>>),
    Token,
}
impl<'c> Val<'c> {
    /// The value of a type that is not complex.
    pub fn one(&self) -> V<'c> {
        match self {
            Val::One(v) => *v,
            _ => panic!("a real tensor was expected of a verified operand"),
        }
    }
    /// The MLIR values that hold it.
    pub fn parts(&self) -> Vec<V<'c>> {
        match self {
            Val::One(v) => vec![*v],
            Val::Complex(re, im) => vec![*re, *im],
            Val::Tuple(v) => v.iter().flat_map(Val::parts).collect(),
            Val::Token => vec![],
        }
    }
    /// Back from `parts`.
    pub fn rebuild(ty: &Type, parts: &mut impl Iterator<Item = V<'c>>) -> Val<'c> {
        let mut next = || parts.next().expect("as many parts as the type has");
        match ty {
            Type::Tensor(t) if t.dtype.is_complex() => {
                let re = next();
                Val::Complex(re, next())
            }
            Type::Tensor(_) => Val::One(next()),
            Type::Tuple(types) => Val::Tuple(types.iter().map(|t| Val::rebuild(t, parts)).collect()),
            _ => Val::Token,
        }
    }
    /// Of one real part, or of two.
    pub fn of(parts: &[V<'c>]) -> Val<'c> {
        if let [re, im] = parts { Val::Complex(*re, *im) } else { Val::One(parts[0]) }
    }
    /// Each part changed.
    pub fn each(&self, f: impl FnMut(V<'c>) -> V<'c>) -> Val<'c> {
        Val::of(&self.parts().into_iter().map(f).collect::<Vec<_>>())
    }
}

/// Element type at level 1; of a complex type, that of its parts.
pub(super) fn element<'c>(b: &B<'c>, d: DType) -> MlirType<'c> {
    match d.real() {
        DType::F16 => MlirType::float16(b.c),
        DType::BF16 => MlirType::bfloat16(b.c),
        DType::F32 => b.f32(),
        DType::F64 => MlirType::float64(b.c),
        DType::I1 => b.i1(),
        d => b.i(d.bits().max(8)),
    }
}
/// The extents of a type that is known to be static.
pub(super) fn extents(t: &TensorType) -> Vec<i64> {
    t.dims.iter().map(|d| d.expect("dynamic shapes were refused") as i64).collect()
}
/// Types of the MLIR values of a StableHLO type.
pub(super) fn part_types<'c>(b: &B<'c>, t: &Type) -> Vec<MlirType<'c>> {
    match t {
        Type::Tensor(t) => {
            let part = b.tensor(&extents(t), element(b, t.dtype));
            if t.dtype.is_complex() { vec![part; 2] } else { vec![part] }
        }
        Type::Tuple(types) => types.iter().flat_map(|t| part_types(b, t)).collect(),
        _ => vec![],
    }
}

/// `arith.constant` tensors of a literal.
pub(super) fn literal<'c>(b: &B<'c>, l: &Literal) -> Val<'c> {
    let d = l.ty.dtype;
    let parts = real_parts(l);
    let t = b.tensor(&extents(&l.ty), element(b, d));
    Val::of(
        &parts.iter().map(|bytes| b.constant(dense(b, &extents(&l.ty), d.real(), bytes).into(), t)).collect::<Vec<_>>(),
    )
}
/// The bytes of each part: one, or real and imaginary.
fn real_parts(l: &Literal) -> Vec<Vec<u8>> {
    if !l.ty.dtype.is_complex() {
        return vec![l.data.to_vec()];
    }
    let half = l.ty.dtype.real().bytes();
    [0, half].iter().map(|k| l.data.chunks(2 * half).flat_map(|z| z[*k..][..half].to_vec()).collect()).collect()
}
fn dense<'c>(b: &B<'c>, shape: &[i64], d: DType, bytes: &[u8]) -> DenseElementsAttribute<'c> {
    let t = b.tensor(shape, element(b, d));
    if d != DType::I1 {
        return DenseElementsAttribute::raw_buffer(t, bytes);
    }
    // MLIR packs the raw bits of i1.
    let values: Vec<i32> = bytes.iter().map(|x| i32::from(*x != 0)).collect();
    match values[..] {
        [one] => DenseElementsAttribute::bool_splat(t, one != 0),
        _ => DenseElementsAttribute::bool_values(t, &values),
    }
}
/// The value that every element of a constant tensor has.
pub(super) fn splat_of<'c>(v: V<'c>) -> Option<Attribute<'c>> {
    let op = crate::ir::def(v).filter(|op| crate::ir::name(*op) == "arith.constant")?;
    let dense = DenseElementsAttribute::try_from(crate::ir::attr(op, "value")?).ok()?;
    dense.is_splat().then(|| dense.splat_value())
}
/// A tensor full of zeros, of any element type.
pub(super) fn zeros<'c>(b: &B<'c>, shape: &[i64], d: DType) -> V<'c> {
    let a = dense(b, shape, d.real(), &vec![0; d.real().bytes()]);
    b.constant(a.into(), b.tensor(shape, element(b, d)))
}
/// A scalar zero of an element type.
pub(super) fn zero<'c>(b: &B<'c>, t: MlirType<'c>) -> V<'c> {
    if t.is_integer() || t.is_index() { b.cint(t, 0) } else { b.cfloat(t, 0.0) }
}
/// The first value of a literal as scalar constants.
pub(super) fn scalar_literal<'c>(b: &B<'c>, l: &Literal) -> Val<'c> {
    let (d, t) = (l.ty.dtype, element(b, l.ty.dtype));
    let one = |bytes: &Vec<u8>| b.constant(dense(b, &[], d.real(), &bytes[..d.real().bytes()]).splat_value(), t);
    Val::of(&real_parts(l).iter().map(one).collect::<Vec<_>>())
}

/// An MLIR location for a program's.
pub(super) fn location<'c>(b: &B<'c>, l: &Loc) -> Location<'c> {
    match l {
        Loc::Unknown => Location::unknown(b.c),
        Loc::File { file, line, column } => Location::new(b.c, file, *line as usize, *column as usize),
        Loc::Name { name, child } => Location::name(b.c, name, location(b, child)),
        Loc::CallSite { callee, caller } => Location::call_site(location(b, callee), location(b, caller)),
        Loc::Fused(all) => {
            let all: Vec<_> = all.iter().map(|l| location(b, l)).collect();
            fused(b, &all)
        }
    }
}
/// Whether a value is a scalar, as in regions that work on elements.
pub(super) fn is_scalar(v: V) -> bool {
    !v.r#type().is_ranked_tensor()
}
fn fused<'c>(b: &B<'c>, all: &[Location<'c>]) -> Location<'c> {
    let raw: Vec<_> = all.iter().map(|l| l.to_raw()).collect();
    let none = mlir_sys::MlirAttribute { ptr: std::ptr::null_mut() };
    // Sound: the context is alive; a null attribute means no metadata, which melior cannot say.
    unsafe { Location::from_raw(mlir_sys::mlirLocationFusedGet(b.c.to_raw(), raw.len() as isize, raw.as_ptr(), none)) }
}
