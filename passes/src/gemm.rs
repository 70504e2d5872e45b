//! Contractions that a vendor's matrix library can do: two matrices for each batch, each dense in rows or columns, of
//! element types that libraries multiply exactly as the contraction says.

use crate::{
    fuse::{Coordinate, coordinates, multiplies_and_adds},
    ir::*,
};
use melior::ir::{Attribute, attribute::StringAttribute};
use zml_format::DType;

/// `to[b, m, n] = sum over k of a[b, m, k] * b[b, k, n]`
#[derive(Clone, Debug, PartialEq)]
pub struct Gemm {
    pub batch: i64,
    pub m: i64,
    pub n: i64,
    pub k: i64,
    /// Of `a`, `b` and `to`, in elements: from batch to batch, row to row, column to column.
    pub strides: [[i64; 3]; 3],
    pub dtypes: [DType; 3],
    /// The program lets f32 factors be rounded to tf32.
    pub tf32: bool,
}

/// What a library may use beside its operands; NVIDIA's documentation names this size for Hopper.
pub const WORKSPACE: u64 = 32 << 20;

/// Kinds of loops.
const BATCH: usize = 0;
const M: usize = 1;
const N: usize = 2;
const K: usize = 3;

impl Gemm {
    /// The product that a `linalg.generic` is, or why it is none that a library does.
    pub fn of(op: O) -> Result<Self, &'static str> {
        let g = Generic::of(op).filter(|g| g.ins.len() == 2 && g.outs.len() == 1).ok_or("is no product of two")?;
        let dtypes = match f8_factors(op, &g) {
            Some(known) => known,
            None if !multiplies_and_adds(&g) => return Err("is no product"),
            None => dtypes(&g).ok_or("multiplies in a way that libraries do not")?,
        };
        let maps = [g.in_map(0), g.in_map(1), g.out_map(0)];
        let mut dims: Vec<Vec<usize>> = vec![];
        for m in &maps {
            let loops = coordinates(m).into_iter().map(|c| if let Coordinate::Loop(i) = c { Some(i) } else { None });
            dims.push(loops.collect::<Option<_>>().ok_or("reads at computed places")?);
        }
        let bounds = g.bounds();
        let mut loops: [Vec<usize>; 4] = Default::default();
        for (l, bound) in bounds.iter().enumerate().filter(|(_, b)| **b != 1) {
            let kind = match (dims[0].contains(&l), dims[1].contains(&l), dims[2].contains(&l)) {
                (true, true, true) => BATCH,
                (true, false, true) => M,
                (false, true, true) => N,
                (true, true, false) => K,
                _ => return Err("sums over one operand alone"),
            };
            if *bound < 1 {
                return Err("is empty");
            }
            loops[kind].push(l);
        }
        let extent = |kind: usize| loops[kind].iter().map(|l| bounds[*l]).product::<i64>();
        let mut strides = [[0; 3]; 3];
        for (operand, kinds) in [[BATCH, M, K], [BATCH, K, N], [BATCH, M, N]].into_iter().enumerate() {
            for (place, kind) in kinds.into_iter().enumerate() {
                strides[operand][place] =
                    stride(&dims[operand], &loops[kind], &bounds).ok_or("has dimensions that no stride joins")?;
            }
        }
        let gemm = Gemm {
            batch: extent(BATCH),
            m: extent(M),
            n: extent(N),
            k: extent(K),
            strides,
            dtypes,
            tf32: has_attr(op, "zml.tf32"),
        };
        gemm.dense()
    }

    /// With rows or columns one after the other in each matrix.
    fn dense(mut self) -> Result<Self, &'static str> {
        let extents = [[self.m, self.k], [self.k, self.n], [self.m, self.n]];
        for ([_, rows, columns], [height, width]) in self.strides.iter_mut().zip(extents) {
            // A single row or column lies anyhow.
            if width == 1 {
                *columns = 1;
                *rows = (*rows).max(1);
            } else if height == 1 {
                *rows = if *columns == 1 { width } else { 1 };
            }
            let dense = (*columns == 1 && *rows >= width) || (*rows == 1 && *columns >= height);
            if !dense {
                return Err("has gaps between rows and columns");
            }
        }
        if self.strides[2][2] != 1 {
            return Err("writes its result by columns");
        }
        // Factors of a byte are multiplied only along k, and in whole pieces.
        let piece = match self.dtypes[0] {
            DType::I8 => 4,
            t if is_f8(t) => 16,
            _ => return Ok(self),
        };
        let along_k = self.strides[0][2] == 1 && self.strides[1][1] == 1;
        if !along_k || [self.m, self.n, self.k].iter().any(|e| e % piece != 0) {
            return Err("is of bytes that do not lie along k in whole pieces");
        }
        Ok(self)
    }
}

/// The element types, if the body widens both factors to the accumulator's, exactly, and multiplies them there.
fn dtypes(g: &Generic) -> Option<[DType; 3]> {
    let of = |v: V| dtype(elem(v.r#type()).to_string().as_str());
    let found = [of(g.ins[0])?, of(g.ins[1])?, of(g.outs[0])?];
    let known = [
        [DType::F32, DType::F32, DType::F32],
        [DType::F64, DType::F64, DType::F64],
        [DType::F16, DType::F16, DType::F32],
        [DType::BF16, DType::BF16, DType::F32],
        [DType::I8, DType::I8, DType::I32],
    ];
    let plain = ops(g.body).into_iter().all(|o| {
        matches!(
            name(o),
            "arith.extf" | "arith.extsi" | "arith.mulf" | "arith.muli" | "arith.addf" | "arith.addi" | "linalg.yield"
        )
    });
    (plain && known.contains(&found)).then_some(found)
}
/// The element types of a product that says what its bytes are: of one family, not both of two bits of mantissa.
fn f8_factors(op: O, g: &Generic) -> Option<[DType; 3]> {
    use DType::{F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ};
    let names = array(attr(op, "zml.factors")?);
    let [a, b] = names.try_into().ok()?;
    let of = |a: Attribute| StringAttribute::try_from(a).ok()?.value().parse::<DType>().ok();
    let factors = (of(a)?, of(b)?);
    let family = |fine: DType, coarse: DType| [(fine, fine), (fine, coarse), (coarse, fine)].contains(&factors);
    let known = family(F8E4M3FN, F8E5M2) || family(F8E4M3FNUZ, F8E5M2FNUZ);
    let to = dtype(elem(g.outs[0].r#type()).to_string().as_str())?;
    (known && to == DType::F32).then_some([factors.0, factors.1, to])
}
pub fn is_f8(t: DType) -> bool {
    t.is_float() && t.bits() == 8
}
fn dtype(t: &str) -> Option<DType> {
    match t {
        "i8" => Some(DType::I8),
        "i32" => Some(DType::I32),
        other => other.parse().ok().filter(|d: &DType| d.is_float()),
    }
}

/// Elements from one index to the next of the loops taken together, the last fastest; 0 if there are none.
fn stride(dims: &[usize], loops: &[usize], bounds: &[i64]) -> Option<i64> {
    let of = |l: usize| -> Option<i64> {
        let at = dims.iter().position(|d| *d == l)?;
        Some(dims[at + 1..].iter().map(|d| bounds[*d]).product())
    };
    let Some((last, outer)) = loops.split_last() else { return Some(0) };
    let stride = of(*last)?;
    let mut whole = stride * bounds[*last];
    for l in outer.iter().rev() {
        if of(*l)? != whole {
            return None;
        }
        whole *= bounds[*l];
    }
    Some(stride)
}
