//! Tensors of the evaluator: every element a word, row-major.

use super::number::{Kind, wrap};
use crate::ir::{dense_bytes, elem, elements, is_tensor, shape};
use melior::ir::{
    Attribute, Type,
    attribute::{FloatAttribute, IntegerAttribute},
};

#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    pub kind: Kind,
    pub shape: Vec<i64>,
    pub words: Vec<u64>,
}
impl Tensor {
    pub fn zeros(t: Type) -> Result<Self, String> {
        let kind = Kind::of(elem(t))?;
        Ok(Tensor { kind, shape: shape(t), words: vec![0; elements(t).max(0) as usize] })
    }
    pub fn scalar(kind: Kind, word: u64) -> Self {
        Tensor { kind, shape: vec![], words: vec![word] }
    }
    /// From the little-endian bytes of a buffer that holds a tensor of type `t`.
    pub fn from_bytes(t: Type, bytes: &[u8]) -> Result<Self, String> {
        let kind = Kind::of(elem(t))?;
        let words = kind.load(bytes);
        if words.len() as i64 != elements(t) || bytes.len() != words.len() * kind.bytes() {
            return Err(format!("{} bytes for {t}", bytes.len()));
        }
        Ok(Tensor { kind, shape: shape(t), words })
    }
    pub fn to_bytes(&self) -> Vec<u8> {
        self.kind.store(&self.words)
    }
    /// The value of `arith.constant`, of a scalar or a tensor.
    pub fn constant(a: Attribute, t: Type) -> Result<Self, String> {
        if is_tensor(t) {
            let bytes = dense_bytes(a).ok_or_else(|| format!("no evaluation of the constant {a}"))?;
            return Tensor::from_bytes(t, &bytes);
        }
        let kind = Kind::of(t)?;
        if let Ok(i) = IntegerAttribute::try_from(a) {
            return Ok(Tensor::scalar(kind, wrap(kind, i.value())));
        }
        match FloatAttribute::try_from(a) {
            Ok(f) => Ok(Tensor::scalar(kind, f.value().to_bits())),
            Err(_) => Ok(Tensor::scalar(kind, u64::from(a.to_string() == "true"))),
        }
    }
    /// How far one step along each dimension moves in `words`.
    pub fn strides(&self) -> Vec<i64> {
        strides(&self.shape)
    }
}

pub fn strides(shape: &[i64]) -> Vec<i64> {
    (0..shape.len()).map(|d| shape[d + 1..].iter().product()).collect()
}

/// Every index of a shape, row-major.
pub fn each(shape: &[i64], mut f: impl FnMut(&[i64])) {
    if shape.contains(&0) {
        return;
    }
    let mut at = vec![0; shape.len()];
    loop {
        f(&at);
        let Some(d) = (0..shape.len()).rev().find(|d| at[*d] + 1 < shape[*d]) else { return };
        at[d] += 1;
        at[d + 1..].fill(0);
    }
}
