//! Tensors of the interpreter: bytes in the layout of the artifact's boundary, and their elements as numbers.

use super::EvalError;
use crate::{
    float,
    literal::{get_int, put_float, put_int},
    tree::{DType, Literal, TensorType},
};

/// Row-major elements of `dtype.bytes()` bytes each, little-endian: predicates a byte of 0 or 1, sub-byte integers
/// extended to a byte, complex numbers interleaved.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    pub dtype: DType,
    pub shape: Vec<u64>,
    pub bytes: Vec<u8>,
}

/// Elements as numbers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Numbers {
    Float(Vec<f64>),
    Int(Vec<i128>),
    Complex(Vec<(f64, f64)>),
}

impl Tensor {
    /// Fails if the number of bytes is not that of the shape.
    pub fn new(dtype: DType, shape: &[u64], bytes: Vec<u8>) -> Result<Self, EvalError> {
        let n: u64 = shape.iter().product();
        if n * dtype.bytes() as u64 != bytes.len() as u64 {
            return Err(EvalError::Arguments(format!(
                "{} bytes for {n} elements of {dtype} (expected {})",
                bytes.len(),
                n * dtype.bytes() as u64
            )));
        }
        Ok(Tensor { dtype, shape: shape.to_vec(), bytes })
    }
    pub fn from_literal(l: &Literal) -> Self {
        Tensor { dtype: l.ty.dtype, shape: l.ty.shape().expect("literals are static"), bytes: l.bytes() }
    }
    pub fn to_literal(&self) -> Literal {
        Literal::new(self.ty(), self.bytes.clone())
    }
    pub fn ty(&self) -> TensorType {
        TensorType::new(self.dtype, &self.shape)
    }
    pub fn elements(&self) -> usize {
        self.shape.iter().product::<u64>() as usize
    }
    pub(crate) fn scalar(dtype: DType, v: f64) -> Self {
        let mut bytes = vec![];
        if dtype.is_float() {
            put_float(dtype, v, &mut bytes);
        } else {
            put_int(dtype, v as i128, &mut bytes);
        }
        Tensor { dtype, shape: vec![], bytes }
    }
    /// Shape as sizes of memory.
    pub(crate) fn dims(&self) -> Vec<usize> {
        self.shape.iter().map(|d| *d as usize).collect()
    }
    pub(crate) fn element(&self, i: usize) -> &[u8] {
        let n = self.dtype.bytes();
        &self.bytes[i * n..(i + 1) * n]
    }
    /// Element `i` as a tensor of rank 0.
    pub(crate) fn at(&self, i: usize) -> Tensor {
        Tensor { dtype: self.dtype, shape: vec![], bytes: self.element(i).to_vec() }
    }
    pub(crate) fn numbers(&self) -> Numbers {
        let d = self.dtype;
        if d.is_complex() {
            let parts = floats(d.real(), &self.bytes);
            Numbers::Complex(parts.chunks_exact(2).map(|p| (p[0], p[1])).collect())
        } else if d.is_float() {
            Numbers::Float(floats(d, &self.bytes))
        } else {
            Numbers::Int(self.bytes.chunks_exact(d.bytes()).map(|b| get_int(d, b)).collect())
        }
    }
    pub(crate) fn from_numbers(dtype: DType, shape: &[u64], n: &Numbers) -> Self {
        let mut bytes = Vec::with_capacity(shape.iter().product::<u64>() as usize * dtype.bytes());
        match n {
            Numbers::Float(v) => v.iter().for_each(|x| put_float(dtype, *x, &mut bytes)),
            Numbers::Int(v) => v.iter().for_each(|x| put_int(dtype, *x, &mut bytes)),
            Numbers::Complex(v) => v.iter().for_each(|(re, im)| {
                put_float(dtype.real(), *re, &mut bytes);
                put_float(dtype.real(), *im, &mut bytes);
            }),
        }
        Tensor { dtype, shape: shape.to_vec(), bytes }
    }
    /// Elements as integers. For types that are not integers, panics.
    pub(crate) fn ints(&self) -> Vec<i64> {
        match self.numbers() {
            Numbers::Int(v) => v.into_iter().map(|x| x as i64).collect(),
            _ => panic!("verified operand is not of integers"),
        }
    }
    /// Elements as floats; integers are converted.
    pub(crate) fn floats(&self) -> Vec<f64> {
        match self.numbers() {
            Numbers::Float(v) => v,
            Numbers::Int(v) => v.into_iter().map(|x| x as f64).collect(),
            Numbers::Complex(v) => v.into_iter().map(|x| x.0).collect(),
        }
    }
    pub(crate) fn is_true(&self, i: usize) -> bool {
        self.bytes[i] != 0
    }
}

fn floats(d: DType, bytes: &[u8]) -> Vec<f64> {
    match d {
        DType::F32 => {
            bytes.chunks_exact(4).map(|b| f64::from(f32::from_le_bytes(b.try_into().expect("4 bytes")))).collect()
        }
        DType::F64 => bytes.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().expect("8 bytes"))).collect(),
        _ => bytes
            .chunks_exact(d.bytes())
            .map(|b| float::decode(d, b.iter().rev().fold(0, |x, b| x << 8 | u64::from(*b))))
            .collect(),
    }
}

/// Elements to step over for one step along each dimension.
pub(crate) fn strides(dims: &[usize]) -> Vec<usize> {
    let mut s = vec![1; dims.len()];
    for i in (0..dims.len().saturating_sub(1)).rev() {
        s[i] = s[i + 1] * dims[i + 1];
    }
    s
}

/// Calls `f` with each index of a shape in row-major order.
pub(crate) fn each_index(dims: &[usize], mut f: impl FnMut(&[usize])) {
    if dims.contains(&0) {
        return;
    }
    let mut index = vec![0; dims.len()];
    loop {
        f(&index);
        let mut d = dims.len();
        loop {
            if d == 0 {
                return;
            }
            d -= 1;
            index[d] += 1;
            if index[d] < dims[d] {
                break;
            }
            index[d] = 0;
        }
    }
}

pub(crate) fn dot_index(index: &[usize], strides: &[usize]) -> usize {
    index.iter().zip(strides).map(|(i, s)| i * s).sum()
}
