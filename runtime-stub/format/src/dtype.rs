//! Element types and how many bytes each takes at the boundary (inputs, outputs, weights, buffers).

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// A StableHLO element type, named as StableHLO prints it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum DType {
    I1,
    I2,
    I4,
    I8,
    I16,
    I32,
    I64,
    U2,
    U4,
    U8,
    U16,
    U32,
    U64,
    F4E2M1FN,
    F6E2M3FN,
    F6E3M2FN,
    F8E3M4,
    F8E4M3,
    F8E4M3B11FNUZ,
    F8E4M3FN,
    F8E4M3FNUZ,
    F8E5M2,
    F8E5M2FNUZ,
    F8E8M0FNU,
    BF16,
    F16,
    F32,
    F64,
    C64,
    C128,
}

use DType as D;

const NAMES: &[(DType, &str, u32)] = &[
    (D::I1, "i1", 1),
    (D::I2, "i2", 2),
    (D::I4, "i4", 4),
    (D::I8, "i8", 8),
    (D::I16, "i16", 16),
    (D::I32, "i32", 32),
    (D::I64, "i64", 64),
    (D::U2, "ui2", 2),
    (D::U4, "ui4", 4),
    (D::U8, "ui8", 8),
    (D::U16, "ui16", 16),
    (D::U32, "ui32", 32),
    (D::U64, "ui64", 64),
    (D::F4E2M1FN, "f4E2M1FN", 4),
    (D::F6E2M3FN, "f6E2M3FN", 6),
    (D::F6E3M2FN, "f6E3M2FN", 6),
    (D::F8E3M4, "f8E3M4", 8),
    (D::F8E4M3, "f8E4M3", 8),
    (D::F8E4M3B11FNUZ, "f8E4M3B11FNUZ", 8),
    (D::F8E4M3FN, "f8E4M3FN", 8),
    (D::F8E4M3FNUZ, "f8E4M3FNUZ", 8),
    (D::F8E5M2, "f8E5M2", 8),
    (D::F8E5M2FNUZ, "f8E5M2FNUZ", 8),
    (D::F8E8M0FNU, "f8E8M0FNU", 8),
    (D::BF16, "bf16", 16),
    (D::F16, "f16", 16),
    (D::F32, "f32", 32),
    (D::F64, "f64", 64),
    (D::C64, "complex<f32>", 64),
    (D::C128, "complex<f64>", 128),
];

impl DType {
    pub fn all() -> impl Iterator<Item = DType> {
        NAMES.iter().map(|x| x.0)
    }
    /// Bits of one value, not of its storage: 1 for `i1`.
    pub fn bits(self) -> u32 {
        NAMES[self as usize].2
    }
    /// Bytes of one value in memory: a value never shares a byte with another (predicates are bytes of 0 or 1).
    pub fn bytes(self) -> usize {
        self.bits().div_ceil(8) as usize
    }
    pub fn name(self) -> &'static str {
        NAMES[self as usize].1
    }
    pub fn is_float(self) -> bool {
        (D::F4E2M1FN..=D::F64).contains(&self)
    }
    pub fn is_complex(self) -> bool {
        self >= D::C64
    }
    pub fn is_signed_int(self) -> bool {
        (D::I2..=D::I64).contains(&self)
    }
    pub fn is_unsigned_int(self) -> bool {
        (D::U2..=D::U64).contains(&self)
    }
    /// Signed or unsigned, `i1` not among them.
    pub fn is_int(self) -> bool {
        (D::I2..=D::U64).contains(&self)
    }
    /// The part type of a complex type, and the type itself otherwise.
    pub fn real(self) -> DType {
        match self {
            D::C64 => D::F32,
            D::C128 => D::F64,
            x => x,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}
impl FromStr for DType {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        NAMES.iter().find(|x| x.1 == s).map(|x| x.0).ok_or_else(|| format!("unknown element type `{s}`"))
    }
}
impl From<DType> for String {
    fn from(x: DType) -> String {
        x.name().into()
    }
}
impl TryFrom<String> for DType {
    type Error = String;
    fn try_from(s: String) -> Result<Self, String> {
        s.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn table_is_in_declaration_order_and_names_round_trip() {
        for (i, (d, name, _)) in NAMES.iter().enumerate() {
            assert_eq!(*d as usize, i);
            assert_eq!(name.parse::<DType>().unwrap(), *d);
        }
        assert_eq!(D::I1.bytes(), 1);
        assert_eq!(D::C64.bytes(), 8);
        assert!("f33".parse::<DType>().is_err());
    }
}
