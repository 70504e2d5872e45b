//! Writes a planned program as `zml.program`. All decisions are made before.

use super::{
    entry::{Read, attribute_list},
    model::*,
};
use crate::{
    gemm::Gemm,
    ir::{rewrite::set_attr, *},
};
use melior::ir::{Attribute, Region, Type};

pub fn write<'c>(b: &B<'c>, func: O<'c>, top: Blk<'c>, read: &Read<'c>, p: &Program) {
    let body = block(func, 0);
    let arguments: Vec<Attribute> = args(body)
        .into_iter()
        .zip(attribute_list(func, "arg_attrs").into_iter().map(Some).chain(std::iter::repeat(None)))
        .map(|(v, a)| boundary(b, v.r#type(), a, &["zml.role", "zml.index", "zml.donated"]))
        .collect();
    let returned = ops(body).pop().map(operands).unwrap_or_default();
    let results: Vec<Attribute> = returned
        .into_iter()
        .zip(attribute_list(func, "res_attrs").into_iter().map(Some).chain(std::iter::repeat(None)))
        .map(|(v, a)| boundary(b, v.r#type(), a, &["zml.state"]))
        .collect();
    let region = b.region(&[], |b, _| {
        let mut w = Writer { b: *b, buffers: vec![], program: p, top };
        let buffer = b.ty("!zml.buffer");
        for x in &p.buffers {
            let (kind, index) = match x.place {
                Place::Argument(i) => ("argument", i as i64),
                Place::Result(i) => ("result", i as i64),
                Place::Constant(i) => ("constant", i as i64),
                Place::Arena(offset) => ("arena", offset as i64),
            };
            let mut attrs =
                vec![("kind", b.str(kind)), ("index", b.i64_attr(index)), ("bytes", b.i64_attr(x.bytes as i64))];
            if let Place::Constant(i) = x.place {
                attrs.push(("value", read.constants[i]));
            }
            w.buffers.push(b.op1("zml.buffer", &[], buffer, &attrs));
        }
        w.steps(&p.steps);
        let results: Vec<V> = p.results.iter().map(|i| w.buffers[*i]).collect();
        b.op("zml.results", &results, &[], &[], vec![]);
    });
    let name = str_attr(func, "sym_name").unwrap_or_default();
    let mut attrs = vec![
        ("sym_name", b.str(name)),
        ("arguments", b.array(&arguments)),
        ("results", b.array(&results)),
        ("arena_bytes", b.i64_attr(p.arena_bytes as i64)),
    ];
    // Of a specialisation: the entry that it is of, and the sizes.
    attrs.extend(["zml.entry", "zml.dims"].into_iter().filter_map(|n| Some((n, attr(func, n)?))));
    b.op("zml.program", &[], &[], &attrs, vec![region]);
}

/// `{name, dtype, shape, ...}` of an argument or result: what the function's attributes say, without their prefix. The
/// shape counts complex numbers, of which the function's tensor has both parts as a last dimension.
fn boundary<'c>(b: &B<'c>, t: Type<'c>, attrs: Option<Attribute<'c>>, keep: &[&str]) -> Attribute<'c> {
    let get = |key: &str| attrs.and_then(|a| dict_get(a, key));
    let mut dims = shape(t);
    if get("zml.dtype").and_then(string).is_some_and(|d| d.starts_with("complex")) {
        dims.pop();
    }
    let mut all = vec![("shape", b.i64s(&dims))];
    for key in ["zml.name", "zml.dtype"].iter().chain(keep) {
        if let Some(a) = get(key) {
            all.push((key.strip_prefix("zml.").unwrap_or(key), a));
        }
    }
    b.dict(&all)
}

struct Writer<'p, 'c> {
    b: B<'c>,
    buffers: Vec<V<'c>>,
    program: &'p Program,
    /// Has the dispatch functions.
    top: Blk<'c>,
}
impl<'c> Writer<'_, 'c> {
    fn steps(&self, steps: &[Do]) {
        let b = &self.b;
        for s in steps {
            match s {
                Do::Dispatch { kernel, reads, writes, .. } if self.product(kernel).is_some() => {
                    if let Some((op, gemm)) = self.product(kernel) {
                        self.library_call(op, &gemm, reads, writes);
                    }
                }
                Do::Dispatch { kernel, reads, writes, .. } => {
                    let all: Vec<usize> = reads.iter().chain(writes).copied().collect();
                    let values: Vec<V> = all.iter().map(|i| self.buffers[*i]).collect();
                    let sizes: Vec<i64> = all.iter().map(|i| self.program.buffers[*i].bytes as i64).collect();
                    let attrs = [
                        ("kernel", b.symbol(kernel)),
                        ("offsets", b.i64s(&vec![0; all.len()])),
                        ("sizes", b.i64s(&sizes)),
                        ("scalars", b.i32s(&[])),
                    ];
                    b.op("zml.dispatch", &values, &[], &attrs, vec![]);
                }
                Do::Copy { from, to, why } => {
                    let bytes = self.program.buffers[*from].bytes as i64;
                    let attrs =
                        [("from_offset", b.i64_attr(0)), ("to_offset", b.i64_attr(0)), ("bytes", b.i64_attr(bytes))];
                    let copy = b.op("zml.copy", &[self.buffers[*from], self.buffers[*to]], &[], &attrs, vec![]);
                    set_attr(copy, "zml.why", b.str(why));
                }
                Do::Barrier => {
                    b.op("zml.barrier", &[], &[], &[], vec![]);
                }
                Do::While { predicate, condition, body, turns } => {
                    let regions = vec![self.region(condition), self.region(body)];
                    let mut attrs = vec![("offset", b.i64_attr(0))];
                    attrs.extend(turns.map(|n| ("turns", b.i64_attr(n))));
                    b.op("zml.while", &[self.buffers[*predicate]], &[], &attrs, regions);
                }
                Do::Branch { on, case, branches } => {
                    let regions = branches.iter().map(|x| self.region(x)).collect();
                    let op = if *case { "zml.case" } else { "zml.if" };
                    b.op(op, &[self.buffers[*on]], &[], &[("offset", b.i64_attr(0))], regions);
                }
            }
        }
    }
    /// The contraction of a dispatch that a library computes.
    fn product(&self, kernel: &str) -> Option<(O<'c>, Gemm)> {
        let func = find(self.top, kernel).filter(|f| str_attr(*f, "zml.hero") == Some("library"))?;
        ops(block(func, 0)).into_iter().find_map(|o| Some((o, Gemm::of(o).ok()?)))
    }
    fn library_call(&self, op: O<'c>, gemm: &Gemm, reads: &[usize], writes: &[usize]) {
        let b = &self.b;
        // Reshapes stand between the contraction and the function's arguments.
        let argument = |i: usize| {
            let mut v = operand(op, i);
            while let Some(reshape) = def(v) {
                v = operand(reshape, 0);
            }
            reads[arg_number(v)]
        };
        let used = [argument(0), argument(1), writes[0], writes[1]];
        let values = used.map(|i| self.buffers[i]);
        let sizes = used.map(|i| self.program.buffers[i].bytes as i64);
        let dtypes = gemm.dtypes.map(|d| b.str(d.name()));
        let attrs = [
            ("extents", b.i64s(&[gemm.batch, gemm.m, gemm.n, gemm.k])),
            ("strides", b.i64s(&gemm.strides.concat())),
            ("sizes", b.i64s(&sizes)),
            ("dtypes", b.array(&dtypes)),
        ];
        let call = b.op("zml.library_call", &values, &[], &attrs, vec![]);
        if gemm.tf32 {
            set_attr(call, "tf32", b.unit());
        }
    }
    fn region(&self, steps: &[Do]) -> Region<'c> {
        self.b.region(&[], |b, _| {
            Writer { b: *b, buffers: self.buffers.clone(), program: self.program, top: self.top }.steps(steps);
        })
    }
}
