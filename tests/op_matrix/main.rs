//! Every op on every element type that the specification allows: built for all targets, run on the Vulkan device, and compared
//! with the interpreter; exactly where the op is exact, else in units in the last place.

#[path = "../common/mod.rs"]
mod common;
mod contract;
mod elementwise;
mod functions;
mod matrix;
mod reduce;
mod sort;

use zml_format::DType;

pub const INTEGERS: [DType; 12] = [
    DType::I2,
    DType::I4,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::U2,
    DType::U4,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
];
pub const SMALL_FLOATS: [DType; 11] = [
    DType::F4E2M1FN,
    DType::F6E2M3FN,
    DType::F6E3M2FN,
    DType::F8E3M4,
    DType::F8E4M3,
    DType::F8E4M3B11FNUZ,
    DType::F8E4M3FN,
    DType::F8E4M3FNUZ,
    DType::F8E5M2,
    DType::F8E5M2FNUZ,
    DType::F8E8M0FNU,
];
pub const FLOATS: [DType; 4] = [DType::BF16, DType::F16, DType::F32, DType::F64];
pub const DIRECTIONS: [&str; 6] = ["EQ", "NE", "LT", "LE", "GT", "GE"];
