//! sort, top_k and scatter as zml ops, which `expand-special` or an emitter of their own takes; complex values are two
//! inputs each, and the regions get both parts.

use super::{
    error::Refusal,
    lower::Cx,
    reduce::unflatten,
    shape::slice_static,
    value::{Val, element, zero},
};
use crate::ir::{B, V, ValueLike, elem, result, results};
use zmlc_import::tree::{Attr, Block, OpKind, ScatterDims, ValueId};

/// The region of a zml op must be closed: what it reads from outside could be any tensor.
pub(super) fn closed(region: &Block) -> Result<(), Refusal> {
    fn walk(block: &Block, known: &mut Vec<ValueId>) -> bool {
        known.extend(&block.args);
        block.ops.iter().all(|op| {
            let ok = op.operands.iter().all(|v| known.contains(v)) && op.regions.iter().all(|r| walk(r, known));
            known.extend(&op.results);
            ok
        }) && block.results.iter().all(|v| known.contains(v))
    }
    if walk(region, &mut vec![]) { Ok(()) } else { Err(Refusal::form("the region reads values from outside")) }
}
fn flatten<'c>(values: &[Val<'c>]) -> Vec<V<'c>> {
    values.iter().flat_map(Val::parts).collect()
}

pub(super) fn sort<'c>(cx: &mut Cx<'_, '_, 'c>, dim: i64, is_stable: bool) -> Result<Vec<Val<'c>>, Refusal> {
    let b = cx.b;
    closed(&cx.op.regions[0])?;
    let inputs = cx.args();
    let rank = cx.shape(0).len() as i64;
    let dim = if dim < 0 { dim + rank } else { dim };
    if rank == 0 {
        return Ok(inputs);
    }
    let sorted = sort_op(&b, &flatten(&inputs), dim, is_stable, |b, left, right| {
        let (left, right) = (unflatten(&inputs, left), unflatten(&inputs, right));
        let args: Vec<Val> = left.into_iter().zip(right).flat_map(|(l, r)| [l, r]).collect();
        cx.scalar_region(b, 0, &args)[0].one()
    });
    Ok(unflatten(&inputs, &sorted))
}
/// `less` gets an element of each input at two places.
fn sort_op<'c>(
    b: &B<'c>,
    inputs: &[V<'c>],
    dim: i64,
    is_stable: bool,
    less: impl FnOnce(&B<'c>, &[V<'c>], &[V<'c>]) -> V<'c>,
) -> Vec<V<'c>> {
    let types: Vec<_> = inputs.iter().map(ValueLike::r#type).collect();
    let scalars: Vec<_> = types.iter().flat_map(|t| [elem(*t); 2]).collect();
    let region = b.region(&scalars, |b, a| {
        let left: Vec<V> = a.iter().step_by(2).copied().collect();
        let right: Vec<V> = a.iter().skip(1).step_by(2).copied().collect();
        let y = less(b, &left, &right);
        b.op("zml.yield", &[y], &[], &[], vec![]);
    });
    let attrs = [("dimension", b.i64_attr(dim)), ("is_stable", b.attr(if is_stable { "true" } else { "false" }))];
    results(b.op("zml.sort", inputs, &types, &attrs, vec![region]))
}
/// The k largest of the last dimension and their places: a sort in total order, cut off.
pub(super) fn top_k<'c>(cx: &Cx<'_, '_, 'c>) -> Result<Vec<Val<'c>>, Refusal> {
    let b = &cx.b;
    let d = cx.dtype(0);
    if d.is_complex() {
        return Err(Refusal::dtype("complex numbers have no order"));
    }
    let from = cx.shape(0);
    let last = from.len() - 1;
    let Some(Attr::Int(k, _)) = cx.op.attr("k") else { return Err(Refusal::form("top_k without k")) };
    let places =
        cx.b.map(&from, b.i(32), &[], |b, _| b.op1("arith.index_cast", &[b.loop_index(last as i64)], b.i(32), &[]));
    let sorted = sort_op(b, &[cx.arg(0).one(), places], last as i64, true, |b, l, r| {
        super::scalar::descending(b, d, l[0], r[0])
    });
    let mut sizes = from.clone();
    sizes[last] = *k as i64;
    let cut = |v: V<'c>| {
        if sizes == from { v } else { slice_static(b, v, &vec![0; from.len()], &sizes, &vec![1; from.len()]) }
    };
    Ok(sorted.into_iter().map(|v| Val::One(cut(v))).collect())
}

pub(super) fn scatter<'c>(cx: &mut Cx<'_, '_, 'c>, dims: &ScatterDims, unique: bool) -> Result<Vec<Val<'c>>, Refusal> {
    let b = cx.b;
    closed(&cx.op.regions[0])?;
    let n = cx.op.operands.len() / 2;
    let inputs: Vec<Val> = (0..n).map(|i| cx.arg(i)).collect();
    let updates: Vec<Val> = (0..n).map(|i| cx.arg(n + 1 + i)).collect();
    if cx.shape(n + 1).contains(&0) {
        return Ok(inputs);
    }
    let mut operands = flatten(&inputs);
    let types: Vec<_> = operands.iter().map(ValueLike::r#type).collect();
    operands.push(cx.arg(n).one());
    operands.extend(flatten(&updates));
    let scalars: Vec<_> = types.iter().chain(&types).map(|t| elem(*t)).collect();
    let region = b.region(&scalars, |b, a| {
        let (old, new) = a.split_at(types.len());
        let args: Vec<Val> = unflatten(&inputs, old).into_iter().chain(unflatten(&updates, new)).collect();
        let y = flatten(&cx.scalar_region(b, 0, &args));
        b.op("zml.yield", &y, &[], &[], vec![]);
    });
    let list = |x: &[u64]| b.i64s(&x.iter().map(|d| *d as i64).collect::<Vec<_>>());
    let mut attrs = vec![
        ("update_window_dims", list(&dims.update_window_dims)),
        ("inserted_window_dims", list(&dims.inserted_window_dims)),
        ("input_batching_dims", list(&dims.input_batching_dims)),
        ("scatter_indices_batching_dims", list(&dims.scatter_indices_batching_dims)),
        ("scatter_dims_to_operand_dims", list(&dims.scatter_dims_to_operand_dims)),
        ("index_vector_dim", b.i64_attr(dims.index_vector_dim as i64)),
        ("unique_indices", b.attr(if unique { "true" } else { "false" })),
    ];
    if !cx.dtype(n).is_signed_int() {
        attrs.push(("unsigned_indices", b.unit()));
    }
    let op = b.op("zml.scatter", &operands, &types, &attrs, vec![region]);
    Ok(unflatten(&inputs, &results(op)))
}

/// Two passes: where in the operand each window's selected element is, then for each element of the operand the sources of
/// the windows that selected it.
pub(super) fn select_and_scatter<'c>(cx: &mut Cx<'_, '_, 'c>) -> Result<Vec<Val<'c>>, Refusal> {
    let OpKind::SelectAndScatter { window_dimensions: window, window_strides: strides, padding } = &cx.op.kind else {
        return Err(Refusal::form("not a select_and_scatter"));
    };
    if cx.dtype(0).is_complex() {
        return Err(Refusal::dtype("select_and_scatter on complex numbers is not supported"));
    }
    let b = cx.b;
    let (operand, source, init) = (cx.arg(0).one(), cx.arg(1).one(), cx.arg(2));
    let (extents, windows) = (cx.shape(0), cx.shape(1));
    if windows.contains(&0) {
        return Ok(vec![super::shape::fill(&b, &init, &extents)]);
    }
    let (rank, t) = (extents.len(), element(&b, cx.dtype(0)));
    let low: Vec<i64> = padding.iter().map(|p| p.0).collect();
    let identity: Vec<usize> = (0..rank).collect();
    let reductions: Vec<usize> = (rank..2 * rank).collect();
    let iterators = "p".repeat(rank) + &"r".repeat(rank);
    let project = |of: &[usize]| b.projection(2 * rank, of);
    let index = b.index();
    // 64-bit integers are absent on some devices.
    let whole: i64 = extents.iter().product();
    let place_type = b.i(if whole > i64::from(i32::MAX) { 64 } else { 32 });
    let strides_of = |d: usize| -> i64 { extents[d + 1..].iter().product() };

    // Whether anything was selected yet is in the place: -1 is nothing.
    let nothing = b.fill(b.cint(place_type, -1), &windows);
    let value = b.fill(zero(&b, t), &windows);
    let bounds = b.empty(window, t);
    let outs = [(value, project(&identity)), (nothing, project(&identity))];
    let ins = [(bounds, project(&reductions)), (source, project(&identity))];
    let picked = b.generic(&iterators, &ins, &outs, |b, a| {
        let (best, at) = (a[2], a[3]);
        let (mut inside, mut place, mut flat) = (b.cint(b.i1(), 1), vec![], b.cidx(0));
        for d in 0..rank {
            let o = b.muli(b.loop_index(d as i64), b.cidx(strides[d]));
            let p = b.addi(o, b.loop_index((rank + d) as i64));
            let p = b.same("arith.subi", &[p, b.cidx(low[d])]);
            let within = b.cmpi("ult", p, b.cidx(extents[d]));
            inside = b.same("arith.andi", &[inside, within]);
            let p = b.select(within, p, b.cidx(0));
            flat = b.addi(flat, b.muli(p, b.cidx(strides_of(d))));
            place.push(p);
        }
        let x = b.extract(operand, &place);
        let keeps = cx.scalar_region(b, 0, &[Val::One(best), Val::One(x)])[0].one();
        let some = b.cmpi("sge", at, b.cint(place_type, 0));
        let keeps = b.same("arith.andi", &[keeps, some]);
        let taken = b.same("arith.andi", &[inside, b.same("arith.xori", &[keeps, b.cint(b.i1(), 1)])]);
        let flat = b.op1("arith.index_cast", &[flat], place_type, &[]);
        vec![b.select(taken, x, best), b.select(taken, flat, at)]
    });
    let selected = result(picked, 1);

    // At most this many windows along a dimension hold one element.
    let over: Vec<i64> = (0..rank).map(|d| (window[d] + strides[d] - 1) / strides[d]).collect();
    let bounds = b.empty(&over, t);
    let start = super::shape::fill(&b, &init, &extents).one();
    let ins = [(bounds, project(&reductions))];
    let outs = [(start, project(&identity))];
    let done = b.generic(&iterators, &ins, &outs, |b, a| {
        let (mut inside, mut place, mut flat) = (b.cint(b.i1(), 1), vec![], b.cidx(0));
        for d in 0..rank {
            let i = b.loop_index(d as i64);
            flat = b.addi(flat, b.muli(i, b.cidx(strides_of(d))));
            // The last window that starts at or before the element, then those before it.
            let padded = b.addi(i, b.cidx(low[d]));
            let last = b.same("arith.divsi", &[padded, b.cidx(strides[d])]);
            let back = b.same("arith.subi", &[b.cidx(over[d] - 1), b.loop_index((rank + d) as i64)]);
            let o = b.same("arith.subi", &[last, back]);
            let within = b.cmpi("ult", o, b.cidx(windows[d]));
            inside = b.same("arith.andi", &[inside, within]);
            place.push(b.select(within, o, b.cidx(0)));
        }
        let at = b.op1("arith.index_cast", &[b.extract(selected, &place)], index, &[]);
        let hit = b.same("arith.andi", &[inside, b.cmpi("eq", at, flat)]);
        let x = b.extract(source, &place);
        let sum = cx.scalar_region(b, 1, &[Val::One(a[1]), Val::One(x)])[0].one();
        vec![b.select(hit, sum, a[1])]
    });
    Ok(vec![Val::One(result(done, 0))])
}
