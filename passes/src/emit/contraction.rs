//! A contraction read from its generic: which loops are batch, m, n and k, and what the body does to each input before it
//! multiplies.

use super::{body::Scalar, body::Scalars, build::Em, nest::Nest};
use crate::ir::*;
use melior::ir::Type;

pub struct Contraction<'c> {
    pub nest: Nest<'c>,
    /// The body's argument for each input of the nest.
    arguments: [usize; 2],
    /// Loops of each kind, outermost first.
    pub batch: Vec<usize>,
    pub m: Vec<usize>,
    pub n: Vec<usize>,
    pub k: Vec<usize>,
    /// What is multiplied, made from input 0 and from input 1.
    factors: [V<'c>; 2],
    multiply: &'c str,
    add: &'c str,
}

impl<'c> Contraction<'c> {
    /// `None` if the op is not accumulator + f(first input) * g(second input).
    pub fn of(nest: Nest<'c>) -> Option<Self> {
        if nest.ins.len() != 2 || nest.outs.len() != 1 {
            return None;
        }
        let end = *ops(nest.body).last()?;
        let add = def(operand(end, 0))?;
        let accumulator = arg(nest.body, 2);
        let product = match [operand(add, 0), operand(add, 1)] {
            [a, p] if key(a) == key(accumulator) => p,
            [p, a] if key(a) == key(accumulator) => p,
            _ => return None,
        };
        let multiply = def(product)?;
        if !matches!(name(add), "arith.addf" | "arith.addi" | "arith.ori")
            || !matches!(name(multiply), "arith.mulf" | "arith.muli" | "arith.andi")
        {
            return None;
        }
        let [x, y] = [operand(multiply, 0), operand(multiply, 1)];
        let factors = match (leaf(x, nest.body)?, leaf(y, nest.body)?) {
            (0, 1) => [x, y],
            (1, 0) => [y, x],
            _ => return None,
        };
        let (mut batch, mut m, mut n, mut k) = (vec![], vec![], vec![], vec![]);
        for l in 0..nest.bounds.len() {
            match (nest.moved_dim(0, l).is_some(), nest.moved_dim(1, l).is_some(), nest.reduces[l]) {
                (true, true, false) => batch.push(l),
                (true, false, false) => m.push(l),
                (false, true, false) => n.push(l),
                (true, true, true) => k.push(l),
                _ if nest.bounds[l] == 1 && !nest.reduces[l] => m.push(l),
                _ if nest.bounds[l] == 1 => k.push(l),
                _ => return None,
            }
        }
        let (multiply, add) = (name(multiply), name(add));
        Some(Contraction { batch, m, n, k, factors, multiply, add, nest, arguments: [0, 1] })
    }
    /// The same with the result's neighbours along n, and with the order of k in which an input has its neighbours.
    pub fn by_neighbours(mut self) -> Self {
        let extents = shape(result(self.nest.op, 0).r#type());
        let last = extents.iter().rposition(|n| *n > 1);
        if last.is_some() && self.m.iter().any(|l| self.nest.output_dim(0, *l) == last) {
            self.nest.exchange_inputs();
            self.arguments.swap(0, 1);
            self.factors.swap(0, 1);
            std::mem::swap(&mut self.m, &mut self.n);
        }
        let along_k = |i: &usize| {
            let along = self.nest.along(*i).unwrap_or_default();
            !along.is_empty() && along.iter().all(|(l, _)| self.k.contains(l))
        };
        if let Some(i) = (0..2).find(along_k) {
            self.k.sort_by_key(|l| self.nest.moved_dim(i, *l));
        }
        self
    }
    pub fn extent(&self, loops: &[usize]) -> i64 {
        loops.iter().map(|l| self.nest.bounds[*l]).product()
    }
    pub fn accumulator_type(&self) -> Type<'c> {
        elem(self.nest.outs[0].r#type())
    }
    /// What is multiplied before it was widened to the type of the sums, if both factors have one such type: the
    /// products are exact then, so the narrow factors may be multiplied as they are.
    pub fn narrow(&self) -> Option<[V<'c>; 2]> {
        let narrow = |v: V<'c>| def(v).filter(|op| matches!(name(*op), "arith.extf" | "arith.extsi"));
        let [x, y] = self.factors.map(|v| narrow(v).map(|op| operand(op, 0)));
        let (x, y) = (x?, y?);
        (x.r#type() == y.r#type()).then_some([x, y])
    }
    /// Whether `x`, a value of the body, is the element of input `i` as it is.
    pub fn is_input(&self, i: usize, x: V<'c>) -> bool {
        key(arg(self.nest.body, self.arguments[i])) == key(x)
    }
    /// `x`, a value of the body, from an element of input `i`.
    pub fn value(&self, em: &mut Em<'c>, b: &B<'c>, i: usize, x: V<'c>, element: V<'c>) -> V<'c> {
        let argument = arg(self.nest.body, self.arguments[i]);
        let mut map = Scalars::from([(key(argument), Scalar::Value(element))]);
        em.value_in(b, x, &mut map)
    }
    pub fn factor_type(&self) -> Type<'c> {
        self.factors[0].r#type()
    }
    /// What is multiplied, from an element of input `i`.
    pub fn factor(&self, em: &mut Em<'c>, b: &B<'c>, i: usize, x: V<'c>) -> V<'c> {
        self.value(em, b, i, self.factors[i], x)
    }
    /// accumulator + x * y.
    pub fn step(&self, b: &B<'c>, x: V<'c>, y: V<'c>, accumulator: V<'c>) -> V<'c> {
        if self.add == "arith.addf" && matches!(bits(accumulator.r#type()), 32 | 64) {
            return b.same("math.fma", &[x, y, accumulator]);
        }
        let product = b.same(self.multiply, &[x, y]);
        b.same(self.add, &[accumulator, product])
    }
}

/// The one argument of the body that `v` is made from.
fn leaf(v: V, body: Blk) -> Option<usize> {
    if v.is_block_argument() {
        return (0..2).find(|i| key(arg(body, *i)) == key(v));
    }
    let op = def(v)?;
    let mut found = None;
    for x in operands(op) {
        if def(x).is_some_and(|d| name(d) == "arith.constant") {
            continue;
        }
        let l = leaf(x, body)?;
        if found.is_some_and(|f| f != l) {
            return None;
        }
        found = Some(l);
    }
    found.filter(|_| op.region_count() == 0 && name(op) != "tensor.extract")
}
