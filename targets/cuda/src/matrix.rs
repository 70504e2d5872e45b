//! Fragments, products of them and copies beside the threads, in PTX terms, before the conversion to the llvm dialect.
//!
//! A thread's part of a fragment is a vector: four registers of a factor, eight sums. Registers are those of `mma.sync`
//! m16n8, twice for 16 columns: in lane l, sums 0 and 1 are row l/4, columns 2(l mod 4) and the next; 2 and 3 lie 8 rows
//! below; 4 to 7 the same 8 columns to the right. `wgmma` keeps its sums in the same places, so stores know one layout.
//!
//! `zml.fragment_load` is `ldmatrix` with four 8x8 matrices of 16-bit elements (or pairs of bytes), `zml.copy_async`
//! is `cp.async`, `zml.team_mma` one `wgmma` for each 32 bytes of k in 128-byte swizzled tiles.

use melior::{
    Context,
    ir::{Attribute, Module, Type},
};
use std::collections::HashMap;
use zmlc_passes::{
    ir::{
        B, Fragment, O, OperationLike, V, ValueLike, args, block, blocks, def, elem, elem_bytes, has_attr, int_attr,
        name, op_key, operand, operands, ops, result, results,
        rewrite::{erase, replace_uses},
        walk,
    },
    llvm::gpu_modules,
};

/// Replaces every `zml` op in kernels.
pub fn lower<'c>(context: &'c Context, module: &Module<'c>) {
    for f in gpu_modules(module).into_iter().flat_map(|g| ops(block(g, 0))) {
        let all = walk(f);
        if !all.iter().any(|op| name(*op).starts_with("zml.")) {
            continue;
        }
        let team = all.iter().any(|op| name(*op) == "zml.team_mma");
        // Of each op the fragment that decides its form, while its operands have their types.
        let decides = |op: &O<'c>| match name(*op) {
            "zml.fragment_load" => Fragment::of(result(*op, 0)),
            "zml.mma" => Fragment::of(operand(*op, 0)),
            _ => None,
        };
        let fragments: HashMap<usize, Fragment> =
            all.iter().filter_map(|op| decides(op).map(|f| (op_key(*op), f))).collect();
        let values = all
            .iter()
            .flat_map(|op| results(*op).into_iter().chain(blocks(*op).into_iter().flat_map(args)).collect::<Vec<_>>());
        let b = B::new(context, block(f, 0));
        for v in values.collect::<Vec<V>>() {
            if let Some(f) = Fragment::of(v) {
                v.set_type(registers(&b, &f));
            }
        }
        for op in all {
            if name(op).starts_with("zml.") {
                let work = Lower { b: B::before(context, op), op, fragments: &fragments, team };
                work.replace();
            }
        }
    }
}
/// A thread's part of a fragment.
fn registers<'c>(b: &B<'c>, f: &Fragment) -> Type<'c> {
    let sums = if f.element == "f32" { b.f32() } else { b.i(32) };
    if f.role == 'c' { b.vector(8, sums) } else { b.vector(4, b.i(32)) }
}

struct Lower<'a, 'c> {
    b: B<'c>,
    op: O<'c>,
    fragments: &'a HashMap<usize, Fragment>,
    team: bool,
}

impl<'c> Lower<'_, 'c> {
    fn replace(&self) {
        let (b, op) = (&self.b, self.op);
        let number = |key| int_attr(op, key).expect("verified by the dialect");
        let new = match name(op) {
            "zml.fragment_fill" => {
                let t = result(op, 0).r#type();
                vec![b.op1("vector.from_elements", &[operand(op, 0); 8], t, &[])]
            }
            "zml.fragment_load" => vec![self.load(number("stride"))],
            "zml.fragment_store" => {
                self.store(number("stride"));
                vec![]
            }
            "zml.mma" => vec![self.multiply()],
            "zml.team_mma" => self.team_multiply(),
            "zml.team_wait" => {
                let text = format!("wgmma.wait_group.sync.aligned {};", number("pending"));
                self.through(&text, &operands(op), &[])
            }
            "zml.copy_async" => {
                self.copy(number("elements"));
                vec![]
            }
            "zml.async_commit" => {
                b.op("nvvm.cp.async.commit.group", &[], &[], &[], vec![]);
                vec![]
            }
            "zml.async_wait" => {
                let n = b.attr(&format!("{} : i32", number("pending")));
                b.op("nvvm.cp.async.wait.group", &[], &[], &[("n", n)], vec![]);
                if self.team {
                    self.assembly("fence.proxy.async.shared::cta;", "~{memory}", &[], None);
                }
                vec![]
            }
            other => unreachable!("{other} is no op of kernels"),
        };
        for (old, new) in results(op).into_iter().zip(new) {
            replace_uses(old, new);
        }
        erase(op);
    }
    fn fragment(&self) -> &Fragment {
        &self.fragments[&op_key(self.op)]
    }
    fn constant(&self, x: i64) -> V<'c> {
        self.b.cidx(x)
    }
    /// `x` divided by, and the rest of it, and a product with constants.
    fn div(&self, x: V<'c>, c: i64) -> V<'c> {
        self.b.same("arith.divui", &[x, self.constant(c)])
    }
    fn rem(&self, x: V<'c>, c: i64) -> V<'c> {
        self.b.same("arith.remui", &[x, self.constant(c)])
    }
    fn scaled(&self, x: V<'c>, c: i64) -> V<'c> {
        self.b.muli(x, self.constant(c))
    }
    fn lane(&self) -> V<'c> {
        self.b.op1("gpu.lane_id", &[], self.b.index(), &[])
    }
    /// Pointer to element `at + more` of a memref. A constant part of `at` is added last: all accesses around one place
    /// share the rest.
    fn pointer(&self, memory: V<'c>, at: V<'c>, more: Option<V<'c>>, space: u32) -> V<'c> {
        let b = &self.b;
        let bytes = elem_bytes(elem(memory.r#type()));
        let (at, constant) = split(at);
        let at = more.map_or(at, |m| b.addi(at, m));
        let base = b.op1("memref.extract_aligned_pointer_as_index", &[memory], b.index(), &[]);
        let address = b.addi(base, self.scaled(at, bytes));
        let address = b.op1("arith.index_cast", &[address], b.i(64), &[]);
        let t = b.ty(&format!("!llvm.ptr<{space}>"));
        let pointer = b.op1("llvm.inttoptr", &[address], t, &[]);
        if constant == 0 {
            return pointer;
        }
        let offset = i32::try_from(constant * bytes).expect("workgroup memory is small");
        let attributes = [("rawConstantIndices", b.i32s(&[offset])), ("elem_type", b.type_attr(b.i(8)))];
        b.op1("llvm.getelementptr", &[pointer], t, &attributes)
    }
    fn load(&self, stride: i64) -> V<'c> {
        let (b, op) = (&self.b, self.op);
        let f = self.fragment();
        let transposed = has_attr(op, "transposed");
        let piece = 16 / elem_bytes(elem(operand(op, 0).r#type()));
        let lane = self.lane();
        // Lane l has the address of row l mod 8 of matrix l div 8.
        let (matrix, row) = (self.div(lane, 8), self.rem(lane, 8));
        let (low, high) = (self.rem(matrix, 2), self.div(matrix, 2));
        // Matrices of a: rows 0 and 8 of the first half of k, then of the second. Of b: both halves of k of columns 0, then 8.
        // Lines of memory run along k where a is as it is and b is transposed.
        let along_k = transposed != (f.role == 'a');
        let (line, along) = match (f.role, along_k) {
            ('a', true) => (low, high),
            ('a', false) => (high, low),
            (_, true) => (high, low),
            (_, false) => (low, high),
        };
        let line = b.addi(self.scaled(line, 8), row);
        let offset = b.addi(self.scaled(line, stride), self.scaled(along, piece));
        let pointer = self.pointer(operand(op, 0), operand(op, 1), Some(offset), 3);
        let layout = if along_k { "row" } else { "col" };
        let four = b.ty("!llvm.struct<(i32, i32, i32, i32)>");
        let attributes = [
            ("num", b.attr("4 : i32")),
            ("layout", b.attr(&format!("#nvvm.mma_layout<{layout}>"))),
            ("shape", b.attr("#nvvm.ld_st_matrix_shape<m = 8, n = 8>")),
            ("eltType", b.attr("#nvvm.ld_st_matrix_elt_type<b16>")),
        ];
        let loaded = b.op1("nvvm.ldmatrix", &[pointer], four, &attributes);
        let parts: Vec<V> = (0..4).map(|i| self.part(loaded, i, b.i(32))).collect();
        b.op1("vector.from_elements", &parts, result(op, 0).r#type(), &[])
    }
    fn part(&self, structure: V<'c>, i: i64, t: Type<'c>) -> V<'c> {
        self.b.op1("llvm.extractvalue", &[structure], t, &[("position", self.b.i64s(&[i]))])
    }
    fn elements(&self, vector: V<'c>) -> Vec<V<'c>> {
        let t = elem(vector.r#type());
        let n = zmlc_passes::ir::elements(vector.r#type());
        let at = |i| [("static_position", self.b.i64s(&[i]))];
        (0..n).map(|i| self.b.op1("vector.extract", &[vector], t, &at(i))).collect()
    }
    fn store(&self, stride: i64) {
        let (b, op) = (&self.b, self.op);
        let sums = self.elements(operand(op, 0));
        let lane = self.lane();
        let (row, column) = (self.div(lane, 4), self.scaled(self.rem(lane, 4), 2));
        let own = b.addi(self.scaled(row, stride), column);
        let own = b.addi(operand(op, 2), own);
        let t = sums[0].r#type();
        for (i, pair) in sums.chunks(2).enumerate() {
            let offset = (i as i64 % 2) * 8 * stride + (i as i64 / 2) * 8;
            let at = b.addi(own, self.constant(offset));
            let pair = b.op1("vector.from_elements", pair, b.vector(2, t), &[]);
            let alignment = ("alignment", b.i64_attr(2 * elem_bytes(t)));
            b.op("vector.store", &[pair, operand(op, 1), at], &[], &[alignment], vec![]);
        }
    }
    fn assembly(&self, text: &str, constraints: &str, operands: &[V<'c>], t: Option<Type<'c>>) -> Option<V<'c>> {
        let b = &self.b;
        let mut attributes =
            vec![("asm_string", b.str(text)), ("constraints", b.str(constraints)), ("asm_dialect", b.attr("0 : i64"))];
        if constraints.contains("~{memory}") {
            attributes.push(("has_side_effects", b.unit()));
        }
        let types: Vec<Type> = t.into_iter().collect();
        let op = b.op("llvm.inline_asm", operands, &types, &attributes, vec![]);
        t.map(|_| result(op, 0))
    }
    fn multiply(&self) -> V<'c> {
        let (b, op) = (&self.b, self.op);
        let f = self.fragment();
        let [x, y, z] = [0, 1, 2].map(|i| self.elements(operand(op, i)));
        let sum = z[0].r#type();
        let (text, register) = match f.element.as_str() {
            "i8" => ("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32".to_string(), "r"),
            e => (format!("mma.sync.aligned.m16n8k16.row.col.f32.{e}.{e}.f32"), "f"),
        };
        let text = format!("{text} {{$0,$1,$2,$3}}, {{$4,$5,$6,$7}}, {{$8,$9}}, {{$10,$11,$12,$13}};");
        let out = [register; 4].map(|r| format!("={r}")).join(",");
        let constraints = format!("{out},r,r,r,r,r,r,{}", [register; 4].join(","));
        let four = b.ty(&format!("!llvm.struct<({})>", vec![sum.to_string(); 4].join(", ")));
        let mut sums = vec![];
        for half in 0..2 {
            let all = [&x[..], &y[2 * half..2 * half + 2], &z[4 * half..4 * half + 4]].concat();
            let made = self.assembly(&text, &constraints, &all, Some(four)).expect("it has a result");
            sums.extend((0..4).map(|i| self.part(made, i, sum)));
        }
        b.op1("vector.from_elements", &sums, result(op, 0).r#type(), &[])
    }
    /// Assembly that every sum of `vectors` goes through, in its own register; `more` are operands after them.
    fn through(&self, text: &str, vectors: &[V<'c>], more: &[V<'c>]) -> Vec<V<'c>> {
        let b = &self.b;
        let sums: Vec<V> = vectors.iter().flat_map(|v| self.elements(*v)).collect();
        let t = sums[0].r#type();
        let register = if t.to_string() == "f32" { "=f" } else { "=r" };
        let mut constraints = vec![register.to_string(); sums.len()];
        constraints.extend((0..sums.len()).map(|i| i.to_string()));
        constraints.extend(more.iter().map(|_| "l".to_string()));
        constraints.push("~{memory}".into());
        let all = b.ty(&format!("!llvm.struct<({})>", vec![t.to_string(); sums.len()].join(", ")));
        let operands = [&sums[..], more].concat();
        let made = self.assembly(text, &constraints.join(","), &operands, Some(all)).expect("it has a result");
        let parts: Vec<V> = (0..sums.len()).map(|i| self.part(made, i as i64, t)).collect();
        parts.chunks(8).zip(vectors).map(|(eight, v)| b.op1("vector.from_elements", eight, v.r#type(), &[])).collect()
    }
    /// Descriptor of a factor in workgroup memory, and what a step of 32 bytes along k adds to it.
    fn descriptor(&self, memory: V<'c>, at: V<'c>, lines: i64, across: bool) -> (V<'c>, i64) {
        let b = &self.b;
        let pointer = self.pointer(memory, at, None, 3);
        let t = b.i(64);
        let address = b.op1("llvm.ptrtoint", &[pointer], t, &[]);
        let constant = |x: i64| b.cint(t, x);
        let low = b.same("arith.shrui", &[b.same("arith.andi", &[address, constant(0x3ffff)]), constant(4)]);
        // Units of 16 bytes: 8 lines of 128 bytes, and across lines the next 64 elements after all lines.
        let leading = if across { lines * 8 } else { 1 };
        let fields = (leading << 16) | (64 << 32) | (1 << 62);
        (b.same("arith.ori", &[low, constant(fields)]), if across { 16 * 8 } else { 2 })
    }
    fn team_multiply(&self) -> Vec<V<'c>> {
        let op = self.op;
        let number = |key| int_attr(op, key).expect("verified by the dialect");
        let sums: Vec<V> = operands(op)[4..].to_vec();
        let element = elem(operand(op, 0).r#type());
        let columns = 16 * sums.len();
        let (a_across, b_across) = (has_attr(op, "a_across"), has_attr(op, "b_across"));
        let (x, x_step) = self.descriptor(operand(op, 0), operand(op, 1), number("a_rows"), a_across);
        let (y, y_step) = self.descriptor(operand(op, 2), operand(op, 3), number("b_rows"), b_across);
        let registers = 8 * sums.len();
        let held: Vec<String> = (0..registers).map(|i| format!("${i}")).collect();
        let (kind, end) = if element.to_string() == "i8" {
            (format!("m64n{columns}k32.s32.s8.s8"), String::new())
        } else {
            let ways = [a_across, b_across].map(u8::from);
            (format!("m64n{columns}k16.f32.{element}.{element}"), format!(", 1, 1, {}, {}", ways[0], ways[1]))
        };
        let mut text = String::from("{ .reg .pred p; .reg .b64 x, y; setp.eq.u32 p, 0, 0; wgmma.fence.sync.aligned; ");
        let steps = number("depth") * elem_bytes(element) / 32;
        for k in 0..steps {
            text += &format!(
                "add.s64 x, ${}, {}; add.s64 y, ${}, {}; wgmma.mma_async.sync.aligned.{kind} {{{}}}, x, y, p{end}; ",
                2 * registers,
                k * x_step,
                2 * registers + 1,
                k * y_step,
                held.join(", ")
            );
        }
        text += "wgmma.commit_group.sync.aligned; }";
        self.through(&text, &sums, &[x, y])
    }
    fn copy(&self, elements: i64) {
        let (b, op) = (&self.b, self.op);
        let from = self.pointer(operand(op, 0), operand(op, 1), None, 1);
        let to = self.pointer(operand(op, 2), operand(op, 3), None, 3);
        let bytes = elements * elem_bytes(elem(operand(op, 0).r#type()));
        let mut operands = vec![to, from];
        if op.operand_count() == 5 {
            let t = b.i(32);
            operands.push(b.select(operand(op, 4), b.cint(t, bytes), b.cint(t, 0)));
        }
        let attributes: [(&str, Attribute); 2] =
            [("size", b.attr(&format!("{bytes} : i32"))), ("modifier", b.attr("#nvvm<load_cache_modifier cg>"))];
        b.op("nvvm.cp.async.shared.global", &operands, &[], &attributes, vec![]);
    }
}

/// `x` as a sum of something and a constant.
fn split(x: V) -> (V, i64) {
    let constant = |v: V| def(v).filter(|op| name(*op) == "arith.constant").and_then(|op| int_attr(op, "value"));
    match def(x).filter(|op| name(*op) == "arith.addi") {
        Some(op) => match constant(operand(op, 1)) {
            Some(k) => (operand(op, 0), k),
            None => (x, 0),
        },
        None => (x, 0),
    }
}
