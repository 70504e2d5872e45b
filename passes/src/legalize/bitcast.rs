//! bitcast_convert: between element types of one width an elementwise op; to a narrower one the bits spread over a new last
//! dimension, lowest first; to a wider one the last dimension is put together. Complex numbers go to complex numbers alone.

use super::{
    elementwise,
    error::Refusal,
    lower::Cx,
    scalar::{bits_of, of_bits},
    shape::slice_static,
    value::{Val, element},
};
use crate::ir::{B, V};
use zmlc_import::tree::DType;

pub(super) fn lower<'c>(cx: &Cx<'_, '_, 'c>) -> Result<Val<'c>, Refusal> {
    let b = &cx.b;
    let (from, to) = (cx.dtype(0), cx.out(0).dtype);
    if from == to {
        return Ok(cx.arg(0));
    }
    let out = cx.out_shape();
    match (cx.arg(0), from.bits() > to.bits()) {
        (Val::Complex(re, im), true) => return Ok(halves(b, &out, to, re, im)),
        (Val::Complex(re, im), false) => return Ok(whole(b, &cx.shape(0), to, re, im)),
        _ => {}
    }
    let x = cx.arg(0).one();
    let t = element(b, to);
    let (n, m) = (from.bits(), to.bits());
    if n == m {
        return elementwise::map(b, &out, to, &[Val::One(x)], |b, a| {
            Ok(Val::One(of_bits(b, to, bits_of(b, from, a[0].one()))))
        });
    }
    if n > m {
        let last = out.len() - 1;
        let outer: Vec<usize> = (0..last).collect();
        return Ok(Val::One(b.map(&out, t, &[(x, &outer)], |b, a| {
            let raw = bits_of(b, from, a[0]);
            let k = b.op1("arith.index_cast", &[b.loop_index(last as i64)], b.i(n), &[]);
            let by = b.muli(k, b.cint(b.i(n), i64::from(m)));
            of_bits(b, to, b.same("arith.shrui", &[raw, by]))
        })));
    }
    // The pieces, each without the last dimension.
    let inner = cx.shape(0);
    let last = inner.len() - 1;
    let pieces: Vec<V> = (0..inner[last])
        .map(|k| {
            let (mut starts, mut sizes) = (vec![0; inner.len()], inner.clone());
            (starts[last], sizes[last]) = (k, 1);
            b.reshape(slice_static(b, x, &starts, &sizes, &vec![1; inner.len()]), &out)
        })
        .collect();
    let loops: Vec<usize> = (0..out.len()).collect();
    let ins: Vec<(V, &[usize])> = pieces.iter().map(|v| (*v, &loops[..])).collect();
    Ok(Val::One(b.map(&out, t, &ins, |b, a| {
        let whole = b.i(m);
        let mut raw = b.cint(whole, 0);
        for (k, piece) in a[..pieces.len()].iter().enumerate() {
            let piece = bits_of(b, from, *piece);
            let wide = if crate::ir::bits(crate::ir::ValueLike::r#type(&piece)) < m {
                b.op1("arith.extui", &[piece], whole, &[])
            } else {
                piece
            };
            let moved = b.same("arith.shli", &[wide, b.cint(whole, k as i64 * i64::from(n))]);
            raw = b.same("arith.ori", &[raw, moved]);
        }
        of_bits(b, to, raw)
    })))
}

/// A complex<f64> as two complex<f32>, of the bits of its real and of its imaginary part: low halves are real parts.
fn halves<'c>(b: &B<'c>, out: &[i64], to: DType, re: V<'c>, im: V<'c>) -> Val<'c> {
    let outer: Vec<usize> = (0..out.len() - 1).collect();
    let part = |by: i64| {
        b.map(out, element(b, to), &[(re, &outer), (im, &outer)], |b, a| {
            let first = b.cmpi("eq", b.loop_index(outer.len() as i64), b.cidx(0));
            let raw = bits_of(b, DType::F64, b.select(first, a[0], a[1]));
            of_bits(b, DType::F32, b.same("arith.shrui", &[raw, b.cint(b.i(64), by)]))
        })
    };
    Val::Complex(part(0), part(32))
}
/// The way back: `inner` ends in the two.
fn whole<'c>(b: &B<'c>, inner: &[i64], to: DType, re: V<'c>, im: V<'c>) -> Val<'c> {
    let out = &inner[..inner.len() - 1];
    let part = |k: i64| {
        b.map(out, element(b, to), &[], |b, _| {
            let mut at: Vec<V> = (0..out.len()).map(|d| b.loop_index(d as i64)).collect();
            at.push(b.cidx(k));
            let [low, high] = [re, im].map(|v| {
                let raw = bits_of(b, DType::F32, b.extract(v, &at));
                b.op1("arith.extui", &[raw], b.i(64), &[])
            });
            let high = b.same("arith.shli", &[high, b.cint(b.i(64), 32)]);
            of_bits(b, DType::F64, b.same("arith.ori", &[high, low]))
        })
    };
    Val::Complex(part(0), part(1))
}
