//! The builder: one struct, an insertion point, short op helpers. melior's dialect builders cover few dialects and its
//! generated ones are long; a pass wants `b.mulf(x, y)`.

use super::{AttributeLike, Blk, BlockLike, O, OperationLike, V, ValueLike, arg, elem, op_ref, result};
use melior::{
    Context,
    ir::{
        AffineExpr, AffineMap, Attribute, Block, BlockRef, Identifier, Location, Region, RegionLike, Type,
        attribute::{
            ArrayAttribute, DenseI32ArrayAttribute, DenseI64ArrayAttribute, FlatSymbolRefAttribute, FloatAttribute,
            IntegerAttribute, StringAttribute, TypeAttribute,
        },
        operation::OperationBuilder,
        r#type::{FunctionType, IntegerType, RankedTensorType},
    },
};
use mlir_sys::*;

/// Appends to a block, or inserts before an op.
#[derive(Clone, Copy)]
pub struct B<'c> {
    pub c: &'c Context,
    pub loc: Location<'c>,
    pub at: MlirBlock,
    before: Option<MlirOperation>,
    /// Goes on structured ops, but on none inside a region, as `zml.op`.
    label: Option<Attribute<'c>>,
}

impl<'c> B<'c> {
    pub fn new(c: &'c Context, at: Blk<'c>) -> Self {
        B { c, loc: Location::unknown(c), at: at.to_raw(), before: None, label: None }
    }
    /// Inserts before `op`.
    pub fn before(c: &'c Context, op: O<'c>) -> Self {
        let at = unsafe { mlirOperationGetBlock(op.to_raw()) };
        B { c, loc: super::read::location(op), at, before: Some(op.to_raw()), label: None }
    }
    /// Inserts after `op`, which is not the last of its block.
    pub fn after(c: &'c Context, op: O<'c>) -> Self {
        let next = unsafe { mlirOperationGetNextInBlock(op.to_raw()) };
        assert!(!next.ptr.is_null(), "nothing follows a block's last op");
        B { loc: super::read::location(op), ..Self::before(c, op_ref(next)) }
    }
    pub fn in_block(&self, at: Blk<'c>) -> Self {
        B { at: at.to_raw(), before: None, label: None, ..*self }
    }
    pub fn with_loc(&self, loc: Location<'c>) -> Self {
        B { loc, ..*self }
    }
    /// Names the StableHLO op that the ops to come stand for.
    pub fn labelled(&self, op: &str) -> Self {
        B { label: Some(self.str(op)), ..*self }
    }
    pub(super) fn insert(&self, op: MlirOperation) {
        unsafe {
            match self.before {
                Some(b) => mlirBlockInsertOwnedOperationBefore(self.at, b, op),
                None => mlirBlockAppendOwnedOperation(self.at, op),
            }
        }
    }

    // Attributes and types.

    /// From text; for forms without a short helper.
    pub fn attr(&self, s: &str) -> Attribute<'c> {
        Attribute::parse(self.c, s).unwrap_or_else(|| panic!("attribute {s}"))
    }
    pub fn ty(&self, s: &str) -> Type<'c> {
        Type::parse(self.c, s).unwrap_or_else(|| panic!("type {s}"))
    }
    pub fn str(&self, s: &str) -> Attribute<'c> {
        StringAttribute::new(self.c, s).into()
    }
    pub fn unit(&self) -> Attribute<'c> {
        Attribute::unit(self.c)
    }
    pub fn symbol(&self, s: &str) -> Attribute<'c> {
        FlatSymbolRefAttribute::new(self.c, s).into()
    }
    pub fn i64_attr(&self, x: i64) -> Attribute<'c> {
        IntegerAttribute::new(self.i(64), x).into()
    }
    pub fn i64s(&self, x: &[i64]) -> Attribute<'c> {
        DenseI64ArrayAttribute::new(self.c, x).into()
    }
    pub fn i32s(&self, x: &[i32]) -> Attribute<'c> {
        DenseI32ArrayAttribute::new(self.c, x).into()
    }
    pub fn array(&self, x: &[Attribute<'c>]) -> Attribute<'c> {
        ArrayAttribute::new(self.c, x).into()
    }
    pub fn dict(&self, x: &[(&str, Attribute<'c>)]) -> Attribute<'c> {
        let named: Vec<MlirNamedAttribute> = x
            .iter()
            .map(|(k, a)| unsafe { mlirNamedAttributeGet(Identifier::new(self.c, k).to_raw(), a.to_raw()) })
            .collect();
        unsafe { Attribute::from_raw(mlirDictionaryAttrGet(self.c.to_raw(), named.len() as isize, named.as_ptr())) }
    }
    pub fn type_attr(&self, t: Type<'c>) -> Attribute<'c> {
        TypeAttribute::new(t).into()
    }
    pub fn f32(&self) -> Type<'c> {
        Type::float32(self.c)
    }
    pub fn i1(&self) -> Type<'c> {
        self.i(1)
    }
    pub fn i(&self, bits: u32) -> Type<'c> {
        IntegerType::new(self.c, bits).into()
    }
    pub fn index(&self) -> Type<'c> {
        Type::index(self.c)
    }
    pub fn tensor(&self, shape: &[i64], e: Type<'c>) -> Type<'c> {
        let dims: Vec<u64> = shape.iter().map(|d| *d as u64).collect();
        RankedTensorType::new(&dims, e, None).into()
    }
    pub fn vector(&self, n: i64, e: Type<'c>) -> Type<'c> {
        Type::vector(&[n as u64], e)
    }
    /// Flat memref in the default space.
    pub fn memref(&self, n: i64, e: Type<'c>) -> Type<'c> {
        self.ty(&format!("memref<{n}x{e}>"))
    }

    // Ops.

    pub fn op(
        &self,
        name: &str,
        operands: &[V<'c>],
        results: &[Type<'c>],
        attrs: &[(&str, Attribute<'c>)],
        regions: Vec<Region<'c>>,
    ) -> O<'c> {
        let mut attrs: Vec<_> = attrs.iter().map(|(k, a)| (Identifier::new(self.c, k), *a)).collect();
        if let Some(label) = self.label
            && ["linalg.", "tensor.", "zml."].iter().any(|d| name.starts_with(d))
            && name != "tensor.empty"
        {
            attrs.push((Identifier::new(self.c, "zml.op"), label));
        }
        let op = OperationBuilder::new(name, self.loc)
            .add_operands(operands)
            .add_results(results)
            .add_attributes(&attrs)
            .add_regions_vec(regions)
            .build()
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        let raw = op.to_raw();
        std::mem::forget(op);
        self.insert(raw);
        op_ref(raw)
    }
    /// An op with one result and no region.
    pub fn op1(&self, name: &str, operands: &[V<'c>], t: Type<'c>, attrs: &[(&str, Attribute<'c>)]) -> V<'c> {
        result(self.op(name, operands, &[t], attrs, vec![]), 0)
    }
    /// An op whose result has the type of its first operand.
    pub fn same(&self, name: &str, operands: &[V<'c>]) -> V<'c> {
        self.op1(name, operands, operands[0].r#type(), &[])
    }
    /// A region of one block; `f` fills it.
    pub fn region(&self, args: &[Type<'c>], f: impl FnOnce(&B<'c>, &[V<'c>])) -> Region<'c> {
        let region = Region::new();
        let block = region.append_block(Block::new(&args.iter().map(|t| (*t, self.loc)).collect::<Vec<_>>()));
        let block: Blk<'c> = unsafe { BlockRef::from_raw(block.to_raw()) };
        let values: Vec<_> = (0..args.len()).map(|i| arg(block, i)).collect();
        f(&self.in_block(block), &values);
        region
    }
    pub fn constant(&self, a: Attribute<'c>, t: Type<'c>) -> V<'c> {
        self.op1("arith.constant", &[], t, &[("value", a)])
    }
    pub fn cidx(&self, x: i64) -> V<'c> {
        self.cint(self.index(), x)
    }
    /// Integer or index constant.
    pub fn cint(&self, t: Type<'c>, x: i64) -> V<'c> {
        self.constant(IntegerAttribute::new(t, x).into(), t)
    }
    /// 0 of an integer or float type.
    pub fn zero(&self, t: Type<'c>) -> V<'c> {
        if super::is_float(t) { self.cfloat(t, 0.0) } else { self.cint(t, 0) }
    }
    /// Float constant of any float type, rounded once.
    pub fn cfloat(&self, t: Type<'c>, x: f64) -> V<'c> {
        self.constant(FloatAttribute::new(self.c, t, x).into(), t)
    }
    /// `predicate` by name: `eq ne slt sle sgt sge ult ule ugt uge`.
    pub fn cmpi(&self, predicate: &str, a: V<'c>, b: V<'c>) -> V<'c> {
        const NAMES: [&str; 10] = ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"];
        self.cmp("arith.cmpi", &NAMES, predicate, a, b)
    }
    /// `predicate` by name: `oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno`.
    pub fn cmpf(&self, predicate: &str, a: V<'c>, b: V<'c>) -> V<'c> {
        const NAMES: [&str; 16] = [
            "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno",
            "true",
        ];
        self.cmp("arith.cmpf", &NAMES, predicate, a, b)
    }
    fn cmp(&self, op: &str, names: &[&str], predicate: &str, a: V<'c>, b: V<'c>) -> V<'c> {
        let p = names.iter().position(|n| *n == predicate).unwrap_or_else(|| panic!("{op} {predicate}"));
        let t = match super::vector_len(a.r#type()) {
            Some(n) => self.vector(n, self.i1()),
            None => self.i1(),
        };
        self.op1(op, &[a, b], t, &[("predicate", self.i64_attr(p as i64))])
    }
    pub fn select(&self, condition: V<'c>, a: V<'c>, b: V<'c>) -> V<'c> {
        self.op1("arith.select", &[condition, a, b], a.r#type(), &[])
    }
    pub fn addi(&self, a: V<'c>, b: V<'c>) -> V<'c> {
        self.same("arith.addi", &[a, b])
    }
    pub fn muli(&self, a: V<'c>, b: V<'c>) -> V<'c> {
        self.same("arith.muli", &[a, b])
    }
    pub fn addf(&self, a: V<'c>, b: V<'c>) -> V<'c> {
        self.same("arith.addf", &[a, b])
    }
    pub fn mulf(&self, a: V<'c>, b: V<'c>) -> V<'c> {
        self.same("arith.mulf", &[a, b])
    }
    pub fn empty(&self, shape: &[i64], e: Type<'c>) -> V<'c> {
        self.op1("tensor.empty", &[], self.tensor(shape, e), &[])
    }
    /// linalg.fill of a fresh tensor.
    pub fn fill(&self, x: V<'c>, shape: &[i64]) -> V<'c> {
        let init = self.empty(shape, x.r#type());
        let r = self.region(&[x.r#type(); 2], |b, a| {
            b.op("linalg.yield", &[a[0]], &[], &[], vec![]);
        });
        let segments = self.i32s(&[1, 1]);
        result(self.op("linalg.fill", &[x, init], &[init.r#type()], &[("operandSegmentSizes", segments)], vec![r]), 0)
    }
    /// A map whose results are loop dimensions: `projection(3, &[0, 2])` is (d0, d1, d2) -> (d0, d2).
    pub fn projection(&self, dims: usize, results: &[usize]) -> AffineMap<'c> {
        let e: Vec<_> = results.iter().map(|i| AffineExpr::dim(self.c, *i)).collect();
        AffineMap::new(self.c, dims, 0, &e)
    }
    /// linalg.generic. `iterators`: "ppr" for two parallel loops and a reduction. The body gets inputs, then accumulators.
    pub fn generic(
        &self,
        iterators: &str,
        ins: &[(V<'c>, AffineMap<'c>)],
        outs: &[(V<'c>, AffineMap<'c>)],
        f: impl FnOnce(&B<'c>, &[V<'c>]) -> Vec<V<'c>>,
    ) -> O<'c> {
        let all: Vec<V> = ins.iter().chain(outs).map(|x| x.0).collect();
        let maps: Vec<Attribute> = ins.iter().chain(outs).map(|x| super::map_attr(x.1)).collect();
        let kinds: Vec<Attribute> = iterators
            .chars()
            .map(|k| {
                self.attr(if k == 'p' { "#linalg.iterator_type<parallel>" } else { "#linalg.iterator_type<reduction>" })
            })
            .collect();
        let scalars: Vec<Type> = all.iter().map(|x| elem(x.r#type())).collect();
        let r = self.region(&scalars, |b, a| {
            let y = f(b, a);
            b.op("linalg.yield", &y, &[], &[], vec![]);
        });
        let types: Vec<Type> = outs.iter().map(|x| x.0.r#type()).collect();
        self.op(
            "linalg.generic",
            &all,
            &types,
            &[
                ("indexing_maps", self.array(&maps)),
                ("iterator_types", self.array(&kinds)),
                ("operandSegmentSizes", self.i32s(&[ins.len() as i32, outs.len() as i32])),
            ],
            vec![r],
        )
    }
    /// A generic of parallel loops only, one result in loop order. `ins`: value and the loop that each of its dimensions follows.
    pub fn map(
        &self,
        shape: &[i64],
        e: Type<'c>,
        ins: &[(V<'c>, &[usize])],
        f: impl FnOnce(&B<'c>, &[V<'c>]) -> V<'c>,
    ) -> V<'c> {
        let n = shape.len();
        let ins: Vec<_> = ins.iter().map(|(v, r)| (*v, self.projection(n, r))).collect();
        let identity: Vec<usize> = (0..n).collect();
        let init = self.empty(shape, e);
        let outs = [(init, self.projection(n, &identity))];
        result(self.generic(&"p".repeat(n), &ins, &outs, |b, a| vec![f(b, a)]), 0)
    }
    /// linalg.reduce over `dims` (ascending): `f` is the combiner, (inputs, accumulators) -> accumulators.
    pub fn reduce(
        &self,
        inputs: &[V<'c>],
        inits: &[V<'c>],
        dims: &[i64],
        f: impl FnOnce(&B<'c>, &[V<'c>]) -> Vec<V<'c>>,
    ) -> O<'c> {
        let all: Vec<V> = inputs.iter().chain(inits).copied().collect();
        let scalars: Vec<Type> = all.iter().map(|x| elem(x.r#type())).collect();
        let r = self.region(&scalars, |b, a| {
            let y = f(b, a);
            b.op("linalg.yield", &y, &[], &[], vec![]);
        });
        let types: Vec<Type> = inits.iter().map(ValueLike::r#type).collect();
        self.op("linalg.reduce", &all, &types, &[("dimensions", self.i64s(dims))], vec![r])
    }
    /// zml.scan over `.0`, reversed, exclusive: `f` combines elements with those that come after them.
    pub fn scan(
        &self,
        inputs: &[V<'c>],
        inits: &[V<'c>],
        (dimension, reverse, exclusive): (usize, bool, bool),
        f: impl FnOnce(&B<'c>, &[V<'c>]) -> Vec<V<'c>>,
    ) -> Vec<V<'c>> {
        let all: Vec<V> = inputs.iter().chain(inits).copied().collect();
        let scalars: Vec<Type> = inputs.iter().chain(inputs).map(|x| elem(x.r#type())).collect();
        let r = self.region(&scalars, |b, a| {
            let y = f(b, a);
            b.op("zml.yield", &y, &[], &[], vec![]);
        });
        let types: Vec<Type> = inputs.iter().map(ValueLike::r#type).collect();
        let flag = |x: bool| self.attr(if x { "true" } else { "false" });
        let attrs = [
            ("dimension", self.i64_attr(dimension as i64)),
            ("reverse", flag(reverse)),
            ("exclusive", flag(exclusive)),
        ];
        super::results(self.op("zml.scan", &all, &types, &attrs, vec![r]))
    }
    /// Index of a loop, in a generic's body.
    pub fn loop_index(&self, dim: i64) -> V<'c> {
        self.op1("linalg.index", &[], self.index(), &[("dim", self.i64_attr(dim))])
    }
    pub fn extract(&self, tensor: V<'c>, at: &[V<'c>]) -> V<'c> {
        let mut operands = vec![tensor];
        operands.extend(at);
        self.op1("tensor.extract", &operands, elem(tensor.r#type()), &[])
    }
    /// scf.if with results.
    pub fn if_else(
        &self,
        condition: V<'c>,
        types: &[Type<'c>],
        f: impl FnOnce(&B<'c>) -> Vec<V<'c>>,
        g: impl FnOnce(&B<'c>) -> Vec<V<'c>>,
    ) -> Vec<V<'c>> {
        let then = self.region(&[], |b, _| {
            let y = f(b);
            b.op("scf.yield", &y, &[], &[], vec![]);
        });
        let otherwise = self.region(&[], |b, _| {
            let y = g(b);
            b.op("scf.yield", &y, &[], &[], vec![]);
        });
        super::results(self.op("scf.if", &[condition], types, &[], vec![then, otherwise]))
    }
    /// scf.if without results or else.
    pub fn if_then(&self, condition: V<'c>, f: impl FnOnce(&B<'c>)) {
        let then = self.region(&[], |b, _| {
            f(b);
            b.op("scf.yield", &[], &[], &[], vec![]);
        });
        self.op("scf.if", &[condition], &[], &[], vec![then, Region::new()]);
    }
    /// scf.for with carried values.
    pub fn for_loop(
        &self,
        from: V<'c>,
        to: V<'c>,
        step: V<'c>,
        init: &[V<'c>],
        f: impl FnOnce(&B<'c>, V<'c>, &[V<'c>]) -> Vec<V<'c>>,
    ) -> Vec<V<'c>> {
        let mut types = vec![from.r#type()];
        types.extend(init.iter().map(ValueLike::r#type));
        let r = self.region(&types, |b, a| {
            let y = f(b, a[0], &a[1..]);
            b.op("scf.yield", &y, &[], &[], vec![]);
        });
        let mut operands = vec![from, to, step];
        operands.extend(init);
        super::results(self.op("scf.for", &operands, &types[1..], &[], vec![r]))
    }
    pub fn func(
        &self,
        symbol: &str,
        ins: &[Type<'c>],
        outs: &[Type<'c>],
        private: bool,
        f: impl FnOnce(&B<'c>, &[V<'c>]) -> Vec<V<'c>>,
    ) -> O<'c> {
        let r = self.region(ins, |b, a| {
            let y = f(b, a);
            b.op("func.return", &y, &[], &[], vec![]);
        });
        let mut attrs = vec![
            ("sym_name", self.str(symbol)),
            ("function_type", self.type_attr(FunctionType::new(self.c, ins, outs).into())),
        ];
        if private {
            attrs.push(("sym_visibility", self.str("private")));
        }
        self.op("func.func", &[], &[], &attrs, vec![r])
    }
}
