//! Data out of nothing: iota.

use super::{
    lower::Cx,
    value::{Val, element, zeros},
};
use crate::ir::{B, V};
use zmlc_import::tree::DType;

pub(super) fn iota<'c>(cx: &Cx<'_, '_, 'c>, dim: u64) -> Val<'c> {
    let (shape, d) = (cx.out_shape(), cx.out(0).dtype);
    let ramp = cx.b.map(&shape, element(&cx.b, d), &[], |b, _| {
        let i = b.loop_index(dim as i64);
        index_to(b, i, shape[dim as usize], d.real())
    });
    if d.is_complex() { Val::Complex(ramp, zeros(&cx.b, &shape, d)) } else { Val::One(ramp) }
}
/// An index below `extent` as an element type; floats round, integers wrap.
pub(super) fn index_to<'c>(b: &B<'c>, i: V<'c>, extent: i64, d: DType) -> V<'c> {
    // The narrowest that holds it: 64-bit integers are slow or absent on some devices.
    let via = if extent > i64::from(i32::MAX) || d.is_int() && d.bits() == 64 { DType::I64 } else { DType::I32 };
    let i = b.op1("arith.index_cast", &[i], element(b, via), &[]);
    super::scalar::convert(b, via, d, &Val::One(i)).map_or(i, |v| v.one())
}
