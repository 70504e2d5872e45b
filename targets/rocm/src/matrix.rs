//! Fragments and products of them as AMD's matrix instructions, before the conversion to the llvm dialect.
//!
//! A thread's part of a fragment is a vector. In lane l of all kinds, factor a has row l mod 16 and factor b column
//! l mod 16, each at neighbours along k, and sums lie in column l mod 16; how many, and in which rows, is [`Layout`]'s.
//!
//! Option of the profile: `matrix`, "mfma" (CDNA), "wmma" (RDNA 3) or "wmma-gfx12" (RDNA 4).

use melior::{
    Context,
    ir::{Module, Type},
};
use std::collections::HashMap;
use zmlc_passes::{
    ir::{
        B, Fragment, O, V, ValueLike, args, block, blocks, elem, elem_bytes, elements, has_attr, int_attr, name,
        op_key, operand, ops, result, results,
        rewrite::{erase, replace_uses},
        walk,
    },
    llvm::gpu_modules,
    pass::PassError,
    spec::DeviceSpec,
};

/// Where a kind of instruction keeps what.
#[derive(Clone, Copy)]
struct Layout {
    /// Lanes of a group: the next group has the next elements along k, unless it repeats the same.
    repeats: bool,
    /// Sums of a thread, rows between them, and rows between groups of 16 lanes.
    sums: i64,
    row_step: i64,
    group_step: i64,
}
impl Layout {
    fn of(spec: &DeviceSpec) -> Option<Self> {
        let layout = |repeats, sums, row_step, group_step| Some(Layout { repeats, sums, row_step, group_step });
        match spec.options.get("matrix").map(String::as_str) {
            Some("mfma") => layout(false, 4, 1, 4),
            Some("wmma") => layout(true, 8, 2, 1),
            Some("wmma-gfx12") => layout(false, 8, 1, 8),
            _ => None,
        }
    }
}

/// Replaces every `zml` op in kernels.
pub fn lower<'c>(context: &'c Context, module: &Module<'c>, spec: &DeviceSpec) -> Result<(), PassError> {
    for f in gpu_modules(module).into_iter().flat_map(|g| ops(block(g, 0))) {
        let all = walk(f);
        if !all.iter().any(|op| name(*op).starts_with("zml.")) {
            continue;
        }
        let layout = Layout::of(spec)
            .ok_or_else(|| PassError::Bug(format!("profile {} has matrices but no option `matrix`", spec.name)))?;
        // Of each op the fragment that decides its form, while its operands have their types.
        let decides = |op: &O<'c>| match name(*op) {
            "zml.fragment_load" => Fragment::of(result(*op, 0)),
            "zml.mma" => Fragment::of(operand(*op, 0)),
            _ => None,
        };
        let fragments: HashMap<usize, Fragment> =
            all.iter().filter_map(|op| decides(op).map(|f| (op_key(*op), f))).collect();
        let b = B::new(context, block(f, 0));
        let groups = i64::from(spec.subgroup) / 16;
        let values: Vec<V> = all
            .iter()
            .flat_map(|op| results(*op).into_iter().chain(blocks(*op).into_iter().flat_map(args)).collect::<Vec<_>>())
            .collect();
        for v in values {
            if let Some(f) = Fragment::of(v) {
                v.set_type(registers(&b, &f, layout, groups));
            }
        }
        for op in all {
            if name(op).starts_with("zml.") {
                let fragment = fragments.get(&op_key(op));
                Lower { b: B::before(context, op), op, fragment, layout, groups, spec }.replace()?;
            }
        }
    }
    Ok(())
}

/// Elements along k of a thread's part of a factor.
fn depth(f: &Fragment, layout: Layout, groups: i64) -> i64 {
    let k = if f.role == 'a' { f.columns } else { f.rows };
    if layout.repeats { k } else { k / groups }
}
fn registers<'c>(b: &B<'c>, f: &Fragment, layout: Layout, groups: i64) -> Type<'c> {
    match (f.role, f.element.as_str()) {
        ('c', "f32") => b.vector(layout.sums, b.f32()),
        ('c', _) => b.vector(layout.sums, b.i(32)),
        (_, "f16") => b.vector(depth(f, layout, groups), b.ty("f16")),
        (_, "i8") => b.vector(depth(f, layout, groups) / 4, b.i(32)),
        _ => b.vector(depth(f, layout, groups), b.i(16)),
    }
}

struct Lower<'a, 'c> {
    b: B<'c>,
    op: O<'c>,
    fragment: Option<&'a Fragment>,
    layout: Layout,
    /// Of 16 lanes in a subgroup.
    groups: i64,
    spec: &'a DeviceSpec,
}

impl<'c> Lower<'_, 'c> {
    fn replace(&self) -> Result<(), PassError> {
        let (b, op) = (&self.b, self.op);
        let new = match name(op) {
            "zml.fragment_fill" => {
                let copies = vec![self.in_register(operand(op, 0)); self.layout.sums as usize];
                Some(b.op1("vector.from_elements", &copies, result(op, 0).r#type(), &[]))
            }
            "zml.fragment_load" => Some(self.load()),
            "zml.fragment_store" => {
                self.store();
                None
            }
            "zml.mma" => Some(self.multiply()),
            other => return Err(PassError::Bug(format!("no form of {other} for {}", self.spec.name))),
        };
        if let Some(new) = new {
            replace_uses(result(op, 0), new);
        }
        erase(op);
        Ok(())
    }
    fn fragment(&self) -> &Fragment {
        self.fragment.expect("noted before")
    }
    /// What sums start from, kept from becoming a constant in the instruction: tinygrad's emulator of RDNA takes the code
    /// of such a constant, 128 and up, for the number of a register.
    fn in_register(&self, x: V<'c>) -> V<'c> {
        if self.is_mfma() {
            return x;
        }
        let attributes = [
            ("asm_string", self.b.str("")),
            ("constraints", self.b.str("=v,0")),
            ("asm_dialect", self.b.attr("0 : i64")),
        ];
        result(self.b.op("llvm.inline_asm", &[x], &[x.r#type()], &attributes, vec![]), 0)
    }
    fn is_mfma(&self) -> bool {
        !self.layout.repeats && self.layout.sums == 4
    }
    /// Number of the lane in its group of 16, and of the group.
    fn place(&self) -> (V<'c>, V<'c>) {
        let b = &self.b;
        let lane = b.op1("gpu.lane_id", &[], b.index(), &[]);
        (b.same("arith.remui", &[lane, b.cidx(16)]), b.same("arith.divui", &[lane, b.cidx(16)]))
    }
    fn stride(&self) -> i64 {
        int_attr(self.op, "stride").expect("verified by the dialect")
    }
    fn load(&self) -> V<'c> {
        let (b, op, f) = (&self.b, self.op, self.fragment());
        let (memory, stride) = (operand(op, 0), self.stride());
        let element = elem(memory.r#type());
        let n = depth(f, self.layout, self.groups);
        let (outer, group) = self.place();
        let first = if self.layout.repeats { b.cidx(0) } else { b.muli(group, b.cidx(n)) };
        let at = operand(op, 1);
        let along_k = has_attr(op, "transposed") != (f.role == 'a');
        let t = result(op, 0).r#type();
        let whole = if along_k {
            let line = b.addi(at, b.muli(outer, b.cidx(stride)));
            let start = b.addi(line, first);
            let wide = n.min(16 / elem_bytes(element));
            let alignment = ("alignment", b.i64_attr(wide * elem_bytes(element)));
            let loads = (0..n / wide).map(|i| {
                let at = b.addi(start, b.cidx(i * wide));
                b.op1("vector.load", &[memory, at], b.vector(wide, element), &[alignment])
            });
            let all: Vec<V> = loads.flat_map(|v| self.elements(v)).collect();
            b.op1("vector.from_elements", &all, b.vector(n, element), &[])
        } else {
            let start = b.addi(at, outer);
            let one = |i: i64| {
                let line = b.muli(b.addi(first, b.cidx(i)), b.cidx(stride));
                b.op1("memref.load", &[memory, b.addi(start, line)], element, &[])
            };
            self.words(&(0..n).map(one).collect::<Vec<V>>())
        };
        if whole.r#type() == t { whole } else { b.op1("vector.bitcast", &[whole], t, &[]) }
    }
    /// Elements of one or two bytes as a vector of words, put together by arithmetic: tinygrad's emulator loses the lower
    /// half of a register whose upper half is loaded from workgroup memory alone.
    fn words(&self, all: &[V<'c>]) -> V<'c> {
        let b = &self.b;
        let (word, bits) = (b.i(32), elem_bytes(all[0].r#type()) * 8);
        let bytes = |x: &V<'c>| {
            let x = b.op1("arith.bitcast", &[*x], b.i(bits as u32), &[]);
            b.op1("arith.extui", &[x], word, &[])
        };
        let words: Vec<V> = all
            .chunks((32 / bits) as usize)
            .map(|part| {
                let placed = part.iter().enumerate().map(|(i, x)| match i as i64 * bits {
                    0 => bytes(x),
                    by => b.same("arith.shli", &[bytes(x), b.cint(word, by)]),
                });
                placed.reduce(|low, high| b.same("arith.ori", &[low, high])).expect("a word")
            })
            .collect();
        b.op1("vector.from_elements", &words, b.vector(words.len() as i64, word), &[])
    }
    fn elements(&self, vector: V<'c>) -> Vec<V<'c>> {
        let at = |i| [("static_position", self.b.i64s(&[i]))];
        let t = elem(vector.r#type());
        (0..elements(vector.r#type())).map(|i| self.b.op1("vector.extract", &[vector], t, &at(i))).collect()
    }
    fn store(&self) {
        let (b, op, stride) = (&self.b, self.op, self.stride());
        let (column, group) = self.place();
        let row = b.muli(group, b.cidx(self.layout.group_step));
        let own = b.addi(operand(op, 2), b.addi(b.muli(row, b.cidx(stride)), column));
        for (i, x) in self.elements(operand(op, 0)).into_iter().enumerate() {
            let at = b.addi(own, b.cidx(i as i64 * self.layout.row_step * stride));
            b.op("memref.store", &[x, operand(op, 1), at], &[], &[], vec![]);
        }
    }
    fn multiply(&self) -> V<'c> {
        let (b, op) = (&self.b, self.op);
        let f = self.fragment();
        let [x, y, z] = [0, 1, 2].map(|i| operand(op, i));
        let (word, bit) = (|k: i64| self.number(b.i(32), k), |on: i64| self.number(b.i1(), on));
        let mfma = self.is_mfma();
        let n = elements(x.r#type());
        let (intrinsic, operands) = match (mfma, f.element.as_str()) {
            (true, "i8") => {
                let [x, y] = [x, y].map(|v| {
                    let one = b.op1("vector.bitcast", &[v], b.vector(1, b.i(64)), &[]);
                    self.elements(one)[0]
                });
                ("mfma.i32.16x16x32.i8".to_string(), vec![x, y, z, word(0), word(0), word(0)])
            }
            (true, "f16") => ("mfma.f32.16x16x16f16".to_string(), vec![x, y, z, word(0), word(0), word(0)]),
            (true, _) => ("mfma.f32.16x16x16bf16.1k".to_string(), vec![x, y, z, word(0), word(0), word(0)]),
            // Both signed, and sums that wrap.
            (false, "i8") => (format!("wmma.i32.16x16x16.iu8.v8i32.v{n}i32"), vec![bit(1), x, bit(1), y, z, bit(0)]),
            (false, "f16") => (format!("wmma.f32.16x16x16.f16.v8f32.v{n}f16"), vec![x, y, z]),
            (false, _) => (format!("wmma.f32.16x16x16.bf16.v8f32.v{n}i16"), vec![x, y, z]),
        };
        let attributes = [
            ("intrin", b.str(&format!("llvm.amdgcn.{intrinsic}"))),
            ("op_bundle_sizes", b.i32s(&[])),
            ("operandSegmentSizes", b.i32s(&[operands.len() as i32, 0])),
        ];
        b.op1("llvm.call_intrinsic", &operands, z.r#type(), &attributes)
    }
    /// A number that an instruction holds.
    fn number(&self, t: Type<'c>, x: i64) -> V<'c> {
        let value = match zmlc_passes::ir::int_bits(t) {
            Some(1) => self.b.attr(if x == 0 { "false" } else { "true" }),
            _ => self.b.attr(&format!("{x} : {t}")),
        };
        self.b.op1("llvm.mlir.constant", &[], t, &[("value", value)])
    }
}
