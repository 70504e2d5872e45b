//! Reads and writes at computed places: gather, dynamic_slice, dynamic_update_slice. Starts are clamped as the
//! specification says, in their own integer type so that no value of an unsigned one is taken for negative.

use super::{lower::Cx, shape::slice_static, value::Val};
use crate::ir::{B, V, ValueLike, bits, elem, shape};
use zmlc_import::tree::{DType, GatherDims};

/// A start as an index in [0, limit].
fn clamp_index<'c>(b: &B<'c>, start: V<'c>, unsigned: bool, limit: i64) -> V<'c> {
    let t = start.r#type();
    let n = bits(t);
    if limit == 0 {
        return b.cidx(0);
    }
    let start = if unsigned { start } else { b.same("arith.maxsi", &[start, b.cint(t, 0)]) };
    // A limit that the type cannot hold is never exceeded.
    let holds = n >= 63 || limit < 1i64 << (n - u32::from(!unsigned));
    let start = match (holds, unsigned) {
        (false, _) => start,
        (true, false) => b.same("arith.minsi", &[start, b.cint(t, limit)]),
        (true, true) => b.same("arith.minui", &[start, b.cint(t, limit)]),
    };
    let cast = if unsigned { "arith.index_castui" } else { "arith.index_cast" };
    b.op1(cast, &[start], b.index(), &[])
}

/// A generic of parallel loops that reads `from` where `at` says; `at` gets the elements of `ins`.
fn read<'c>(
    b: &B<'c>,
    from: &Val<'c>,
    out: &[i64],
    ins: &[(V<'c>, &[usize])],
    at: impl Fn(&B<'c>, &[V<'c>]) -> Vec<V<'c>>,
) -> Val<'c> {
    from.each(|v| {
        b.map(out, elem(v.r#type()), ins, |b, a| {
            let place = at(b, a);
            b.extract(v, &place)
        })
    })
}

pub(super) fn reverse<'c>(cx: &Cx<'_, '_, 'c>, dims: &[u64]) -> Val<'c> {
    reverse_dims(&cx.b, &cx.arg(0), dims)
}
pub(super) fn reverse_dims<'c>(b: &B<'c>, x: &Val<'c>, dims: &[u64]) -> Val<'c> {
    let extents = shape(x.parts()[0].r#type());
    let turned: Vec<usize> = dims.iter().map(|d| *d as usize).filter(|d| extents[*d] > 1).collect();
    if turned.is_empty() {
        return x.clone();
    }
    read(b, x, &extents, &[], |b, _| {
        let place = |d: usize| {
            let i = b.loop_index(d as i64);
            if turned.contains(&d) { b.same("arith.subi", &[b.cidx(extents[d] - 1), i]) } else { i }
        };
        (0..extents.len()).map(place).collect()
    })
}

pub(super) fn dynamic_slice<'c>(cx: &Cx<'_, '_, 'c>) -> Val<'c> {
    let (b, out, from) = (&cx.b, cx.out_shape(), cx.shape(0));
    let starts: Vec<V> = (1..cx.op.operands.len()).map(|i| cx.arg(i).one()).collect();
    let d = cx.op.operands.get(1).map_or(DType::I32, |_| cx.dtype(1));
    // Only dimensions that the slice does not fill have a choice.
    let moving: Vec<usize> = (0..from.len()).filter(|i| from[*i] != out[*i]).collect();
    let ins: Vec<(V, &[usize])> = moving.iter().map(|i| (starts[*i], &[][..])).collect();
    read(b, &cx.arg(0), &out, &ins, |b, a| {
        let mut place: Vec<V> = (0..out.len()).map(|i| b.loop_index(i as i64)).collect();
        for (k, i) in moving.iter().enumerate() {
            let start = clamp_index(b, a[k], !d.is_signed_int(), from[*i] - out[*i]);
            place[*i] = b.addi(start, place[*i]);
        }
        place
    })
}
pub(super) fn dynamic_update_slice<'c>(cx: &Cx<'_, '_, 'c>) -> Val<'c> {
    let (b, rank) = (&cx.b, cx.shape(0).len());
    if cx.shape(1).contains(&0) {
        return cx.arg(0);
    }
    if rank == 0 {
        return cx.arg(1);
    }
    let starts: Vec<V> = (0..rank).map(|i| cx.arg(2 + i).one()).collect();
    let signed = cx.dtype(2).is_signed_int();
    let parts: Vec<V> = cx
        .arg(0)
        .parts()
        .into_iter()
        .zip(cx.arg(1).parts())
        .map(|(operand, update)| {
            let mut operands = vec![operand, update];
            operands.extend(&starts);
            let unsigned = [("unsigned_starts", b.unit())];
            b.op1("zml.dynamic_update_slice", &operands, operand.r#type(), if signed { &[] } else { &unsigned })
        })
        .collect();
    Val::of(&parts)
}

/// Component `k` of index vectors along dimension `at`, without that dimension.
pub(crate) fn index_component<'c>(b: &B<'c>, indices: V<'c>, at: usize, k: usize) -> V<'c> {
    let extents = shape(indices.r#type());
    if at == extents.len() {
        return indices;
    }
    let mut starts = vec![0; extents.len()];
    starts[at] = k as i64;
    let mut sizes = extents.clone();
    sizes[at] = 1;
    let one = if extents[at] == 1 { indices } else { slice_static(b, indices, &starts, &sizes, &vec![1; sizes.len()]) };
    let mut without = extents;
    without.remove(at);
    b.reshape(one, &without)
}
pub(super) fn gather<'c>(cx: &Cx<'_, '_, 'c>, dims: &GatherDims, sizes: &[i64]) -> Val<'c> {
    let (b, out, from) = (&cx.b, cx.out_shape(), cx.shape(0));
    let d = cx.dtype(1);
    let indices = cx.arg(1).one();
    let is_in = |list: &[u64], x: usize| list.iter().position(|d| *d as usize == x);
    // Loops of the result that follow the indices, in order; the others follow the slice.
    let batch: Vec<usize> = (0..out.len()).filter(|i| is_in(&dims.offset_dims, *i).is_none()).collect();
    let moving: Vec<usize> = (0..dims.start_index_map.len()).collect();
    let components: Vec<V> =
        moving.iter().map(|k| index_component(b, indices, dims.index_vector_dim as usize, *k)).collect();
    let ins: Vec<(V, &[usize])> = components.iter().map(|v| (*v, &batch[..])).collect();
    let windowed: Vec<usize> = (0..from.len())
        .filter(|i| is_in(&dims.collapsed_slice_dims, *i).is_none() && is_in(&dims.operand_batching_dims, *i).is_none())
        .collect();
    read(b, &cx.arg(0), &out, &ins, |b, a| {
        let place = |i: usize| {
            let offset = windowed.iter().position(|w| *w == i).map(|k| b.loop_index(dims.offset_dims[k] as i64));
            if let Some(k) = is_in(&dims.operand_batching_dims, i) {
                // A dimension of the indices; those after the index vector's are one place further in them.
                let at = dims.start_indices_batching_dims[k];
                let at = if at > dims.index_vector_dim { at - 1 } else { at };
                return b.loop_index(batch[at as usize] as i64);
            }
            let start =
                is_in(&dims.start_index_map, i).map(|k| clamp_index(b, a[k], !d.is_signed_int(), from[i] - sizes[i]));
            match (start, offset) {
                (Some(s), Some(o)) => b.addi(s, o),
                (Some(x), None) | (None, Some(x)) => x,
                (None, None) => b.cidx(0),
            }
        };
        (0..from.len()).map(place).collect()
    })
}
