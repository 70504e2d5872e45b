//! Constants as data: making literals in their one canonical form (all elements equal is a splat), reading and writing
//! their elements.

use crate::{
    float,
    tree::{DType, Literal, TensorType},
};

impl TensorType {
    /// Number of elements, if the shape is static and the number fits.
    pub fn elements(&self) -> Option<u64> {
        self.dims.iter().try_fold(1u64, |n, d| n.checked_mul((*d)?))
    }
}

impl Literal {
    /// `data` holds all elements or, as a splat, one. Panics if it holds another number.
    pub fn new(ty: TensorType, data: Vec<u8>) -> Self {
        let n = ty.elements().expect("literals are static") as usize;
        let size = ty.dtype.bytes();
        if n == 0 {
            return Literal { ty, splat: false, data: [].into() };
        }
        assert!(data.len() == size || data.len() == n * size, "{} bytes for {n} elements of {}", data.len(), ty.dtype);
        if data.chunks_exact(size).all(|e| e == &data[..size]) {
            return Literal { ty, splat: true, data: data[..size].into() };
        }
        Literal { ty, splat: false, data: data.into() }
    }
    /// One-dimensional, of i64.
    pub fn i64s(values: &[i64]) -> Self {
        let data = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Literal::new(TensorType::new(DType::I64, &[values.len() as u64]), data)
    }
    pub fn elements(&self) -> usize {
        self.ty.elements().expect("literals are static") as usize
    }
    /// The bytes of element `i` in row-major order.
    pub fn element(&self, i: usize) -> &[u8] {
        let size = self.ty.dtype.bytes();
        let at = if self.splat { 0 } else { i * size };
        &self.data[at..at + size]
    }
    /// All elements, a splat written out.
    pub fn bytes(&self) -> Vec<u8> {
        if self.splat { self.data.repeat(self.elements()) } else { self.data.to_vec() }
    }
    /// The elements as integers, if they are integers or predicates.
    pub fn to_i64s(&self) -> Option<Vec<i64>> {
        let d = self.ty.dtype;
        let integer = d.is_int() || d == DType::I1;
        integer.then(|| (0..self.elements()).map(|i| get_int(d, self.element(i)) as i64).collect())
    }
}

fn raw(bytes: &[u8]) -> u64 {
    let mut b = [0; 8];
    b[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(b)
}

/// An integer or predicate element. Sub-byte elements are already extended in memory.
pub(crate) fn get_int(d: DType, bytes: &[u8]) -> i128 {
    let x = raw(bytes);
    let unused = 64 - d.bytes() as u32 * 8;
    if d.is_signed_int() { i128::from((x << unused) as i64 >> unused) } else { i128::from(x) }
}

/// Appends the low bits of `v` as an element: signed types sign-extended to whole bytes, others zero-extended.
pub(crate) fn put_int(d: DType, v: i128, out: &mut Vec<u8>) {
    let unused = 128 - d.bits();
    let v = if d.is_signed_int() { v << unused >> unused } else { ((v as u128) << unused >> unused) as i128 };
    out.extend_from_slice(&v.to_le_bytes()[..d.bytes()]);
}

pub(crate) fn put_float(d: DType, v: f64, out: &mut Vec<u8>) {
    out.extend_from_slice(&float::encode(d, v).to_le_bytes()[..d.bytes()]);
}

/// Elements as MLIR stores them (text hex strings, bytecode blobs) to elements as we store them. `None` if the length
/// fits neither all elements nor one.
///
/// Predicates come in two layouts: eight to a byte (older exporters) and a byte each (newer ones); the length decides.
/// Where both would have one byte, 0x00 and 0xff are splats in either and anything else is packed.
pub(crate) fn from_storage(ty: &TensorType, data: Vec<u8>) -> Option<Vec<u8>> {
    let n = usize::try_from(ty.elements()?).ok()?;
    let d = ty.dtype;
    if n == 0 {
        return data.is_empty().then_some(data);
    }
    if d == DType::I1 {
        return if data.len() == 1 && (n == 1 || data[0] == 0 || data[0] == 0xff) {
            Some(vec![u8::from(data[0] != 0)])
        } else if data.len() == n.div_ceil(8) {
            Some((0..n).map(|i| data[i / 8] >> (i % 8) & 1).collect())
        } else if data.len() == n {
            Some(data.into_iter().map(|b| u8::from(b != 0)).collect())
        } else {
            None
        };
    }
    if data.len() != d.bytes() && data.len() != n.checked_mul(d.bytes())? {
        return None;
    }
    if d.bits() < 8 && d.is_int() {
        let mut out = Vec::with_capacity(data.len());
        for b in data {
            put_int(d, i128::from(b), &mut out);
        }
        return Some(out);
    }
    Some(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predicates_come_packed_and_unpacked() {
        let t = |n| TensorType::new(DType::I1, &[n]);
        let nine = vec![1, 0, 1, 1, 0, 0, 0, 1, 1];
        assert_eq!(from_storage(&t(9), vec![0b1000_1101, 1]), Some(nine.clone()));
        assert_eq!(from_storage(&t(9), nine.clone()), Some(nine));
        assert_eq!(from_storage(&t(5), vec![0b0000_0001]), Some(vec![1, 0, 0, 0, 0]));
        assert_eq!(from_storage(&t(5), vec![0xff]), Some(vec![1]));
        assert_eq!(from_storage(&t(9), vec![1, 2, 3]), None);
    }

    #[test]
    fn sub_byte_integers_are_extended() {
        assert_eq!(from_storage(&TensorType::new(DType::I4, &[2]), vec![0x0f, 7]), Some(vec![0xff, 7]));
        assert_eq!(from_storage(&TensorType::new(DType::U4, &[2]), vec![0xff, 7]), Some(vec![0x0f, 7]));
    }

    #[test]
    fn equal_elements_are_a_splat() {
        let l = Literal::new(TensorType::new(DType::I8, &[3]), vec![4, 4, 4]);
        assert!(l.splat);
        assert_eq!(l.bytes(), [4, 4, 4]);
        assert_eq!(l.to_i64s(), Some(vec![4, 4, 4]));
    }
}
