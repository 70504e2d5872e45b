//! Makes up a program from a seed. Every value carries what is known of its numbers; an op that would leave the range in
//! which right implementations agree is not used.

mod floats;
mod ints;
mod moves;
mod regions;

use crate::{
    graph::{Graph, Made, Node, Num, Ty, Value},
    random::Random,
};
use zml_format::DType;

/// What the programs are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Every element type and op.
    Mixed,
    /// Mostly predicates and small integers, at odd sizes.
    Predicates,
}

/// Elements of the largest value.
const MOST: usize = 600;
const DIMS: [usize; 14] = [1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31, 33, 65];

pub fn graph(seed: u64, kind: Kind) -> Graph {
    let mut m = Maker { r: Random::new(seed), nodes: vec![], kind };
    let inputs = 2 + m.r.below(3);
    for _ in 0..inputs {
        let (dtype, shape) = (m.dtype(), m.shape());
        m.input(Ty::new(dtype, &shape));
    }
    let ops = 5 + m.r.below(26);
    let mut tries = 0;
    while m.ops() < ops && tries < 40 * ops {
        tries += 1;
        m.op();
    }
    let read = |v: Value| m.nodes.iter().any(|n| matches!(&n.made, Made::Op { operands, .. } if operands.contains(&v)));
    let results = (0..m.nodes.len()).filter(|v| matches!(m.nodes[*v].made, Made::Op { .. }) && !read(*v)).collect();
    Graph { nodes: m.nodes, results }.pruned()
}

struct Maker {
    r: Random,
    nodes: Vec<Node>,
    kind: Kind,
}

impl Maker {
    fn ops(&self) -> usize {
        self.nodes.iter().filter(|n| matches!(n.made, Made::Op { .. })).count()
    }
    fn dtype(&mut self) -> DType {
        use DType as D;
        let small = [D::I1, D::I1, D::I1, D::I8, D::U8, D::I4, D::U4];
        match self.kind {
            Kind::Predicates if !self.r.one_in(6) => self.r.pick(&small),
            Kind::Mixed if self.r.one_in(3) => self.r.pick(&small),
            _ => self.r.pick(&[
                D::F32,
                D::F32,
                D::F32,
                D::F32,
                D::F16,
                D::BF16,
                D::F64,
                D::I16,
                D::U16,
                D::I32,
                D::I32,
                D::U32,
                D::I64,
                D::U64,
            ]),
        }
    }
    fn shape(&mut self) -> Vec<usize> {
        let rank = self.r.pick(&[0, 1, 1, 2, 2, 2, 3, 4]);
        let mut shape: Vec<usize> = (0..rank).map(|_| self.r.pick(&DIMS)).collect();
        while shape.iter().product::<usize>() > MOST {
            let largest = (0..shape.len()).max_by_key(|d| shape[*d]).expect("a dimension");
            shape[largest] = shape[largest].div_ceil(2);
        }
        shape
    }
    fn input(&mut self, ty: Ty) -> Value {
        let bytes = (0..ty.elements()).flat_map(|_| self.element(ty.dtype)).collect();
        let num = if ty.dtype.is_float() { Num { low: -4.0, high: 4.0, step: 0.25, error: 0.0 } } else { Num::INT };
        self.nodes.push(Node { ty, num, made: Made::Input(bytes) });
        self.nodes.len() - 1
    }
    /// Floats are multiples of 1/4 from -4 to 4; integers small, or at the ends of their range.
    fn element(&mut self, d: DType) -> Vec<u8> {
        let x = self.r.below(33) as f64 / 4.0 - 4.0;
        match d {
            DType::F32 => (x as f32).to_le_bytes().to_vec(),
            DType::F64 => x.to_le_bytes().to_vec(),
            DType::F16 => half::f16::from_f64(x).to_le_bytes().to_vec(),
            DType::BF16 => half::bf16::from_f64(x).to_le_bytes().to_vec(),
            DType::I1 => vec![self.r.below(2) as u8],
            d => {
                let k = match self.r.below(8) {
                    0 => i64::MIN >> (64 - d.bits()),
                    1 => i64::MAX >> (64 - d.bits()),
                    2 => -1,
                    _ => self.r.below(17) as i64 - 8,
                };
                let up = 64 - d.bits();
                let k = if d.is_signed_int() { k << up >> up } else { (((k << up) as u64) >> up) as i64 };
                k.to_le_bytes()[..d.bytes()].to_vec()
            }
        }
    }
    /// A new value.
    fn push(&mut self, ty: Ty, num: Num, text: String, operands: &[Value]) -> Value {
        self.nodes.push(Node { ty, num, made: Made::Op { text, operands: operands.to_vec() } });
        self.nodes.len() - 1
    }
    fn constant(&mut self, ty: &Ty, text: &str, num: Num) -> Value {
        self.push(ty.clone(), num, format!("stablehlo.constant dense<{text}> : {}", ty.text()), &[])
    }
    fn ty(&self, v: Value) -> Ty {
        self.nodes[v].ty.clone()
    }
    fn num(&self, v: Value) -> Num {
        self.nodes[v].num
    }
    /// A value for which `f` holds, a recent one more often than an old one.
    fn find(&mut self, f: impl Fn(&Node) -> bool) -> Option<Value> {
        let all: Vec<Value> = (0..self.nodes.len()).filter(|v| f(&self.nodes[*v])).collect();
        let from = if self.r.below(3) > 0 { all.len().saturating_sub(4) } else { 0 };
        (!all.is_empty()).then(|| all[from + self.r.below(all.len() - from)])
    }
    fn any(&mut self) -> Value {
        self.find(|_| true).expect("there are inputs")
    }
    /// Another value of this type, made if there is none.
    fn like(&mut self, ty: &Ty) -> Value {
        match self.find(|n| n.ty == *ty) {
            Some(v) if !self.r.one_in(6) => v,
            _ => self.input(ty.clone()),
        }
    }
    fn op(&mut self) {
        let v = self.any();
        let d = self.nodes[v].ty.dtype;
        match self.r.below(10) {
            0..=3 if d.is_float() => self.float_op(v),
            0..=3 => self.int_op(v),
            4 => self.compare(v),
            5 => self.convert(v),
            6 | 7 => self.movement(v),
            8 => self.reduction(v),
            _ => self.special(v),
        }
    }
}
