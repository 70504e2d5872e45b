//! SPIR-V for tests, assembled here so that its source is what you read.
//!
//! Every kernel has 64 threads a workgroup and two scalars: `n`, and one of its own use; thread `i < n` does
//!
//! | kernel | buffers | what |
//! |---|---|---|
//! | `add` | a, b, out: f32 | `out[i] = a[i] + b[i]` |
//! | `scale` | a, out: f32 | `out[i] = a[i] * float(scalar)` |
//! | `below` | a: f32, out: u8 | `out[i] = a[i] < float(scalar)` |

use rspirv::{
    binary::Assemble,
    dr::{Builder, Operand},
    spirv::{
        AddressingModel, BuiltIn, Capability, Decoration, ExecutionMode, ExecutionModel, FunctionControl, MemoryModel,
        SelectionControl, StorageClass, Word,
    },
};

/// Name, and `r` or `w` for each buffer.
pub const KERNELS: &[(&str, &str)] = &[("add", "rrw"), ("scale", "rw"), ("below", "rw")];

/// Types that all kernels share.
struct Types {
    void: Word,
    boolean: Word,
    byte: Word,
    int: Word,
    float: Word,
    function: Word,
    floats: Word,
    bytes: Word,
    float_element: Word,
    byte_element: Word,
    scalar_element: Word,
    scalars: Word,
    index: Word,
    index_element: Word,
    zero: Word,
    one: Word,
}

/// The words of one module with every kernel, little-endian.
pub fn module() -> Vec<u8> {
    let mut b = Builder::new();
    b.set_version(1, 3);
    [Capability::Shader, Capability::Int8, Capability::StorageBuffer8BitAccess]
        .into_iter()
        .for_each(|c| b.capability(c));
    b.extension("SPV_KHR_8bit_storage");
    b.memory_model(AddressingModel::Logical, MemoryModel::GLSL450);
    let t = types(&mut b);
    for (name, buffers) in KERNELS {
        kernel(&mut b, &t, name, buffers.len());
    }
    b.module().assemble().iter().flat_map(|w| w.to_le_bytes()).collect()
}

fn types(b: &mut Builder) -> Types {
    let void = b.type_void();
    let (boolean, byte, int, float) = (b.type_bool(), b.type_int(8, 0), b.type_int(32, 0), b.type_float(32, None));
    let function = b.type_function(void, []);
    let mut array = |element: Word, stride: u32| {
        let array = b.type_runtime_array(element);
        b.decorate(array, Decoration::ArrayStride, [Operand::LiteralBit32(stride)]);
        block(b, &[array], stride)
    };
    let (floats, bytes) = (array(float, 4), array(byte, 1));
    let scalars = block(b, &[int, int], 4);
    let vector = b.type_vector(int, 3);
    let index_pointer = b.type_pointer(None, StorageClass::Input, vector);
    let index = b.variable(index_pointer, None, StorageClass::Input, None);
    b.decorate(index, Decoration::BuiltIn, [Operand::BuiltIn(BuiltIn::GlobalInvocationId)]);
    let push = b.type_pointer(None, StorageClass::PushConstant, scalars);
    Types {
        void,
        boolean,
        byte,
        int,
        float,
        function,
        floats: b.type_pointer(None, StorageClass::StorageBuffer, floats),
        bytes: b.type_pointer(None, StorageClass::StorageBuffer, bytes),
        float_element: b.type_pointer(None, StorageClass::StorageBuffer, float),
        byte_element: b.type_pointer(None, StorageClass::StorageBuffer, byte),
        scalar_element: b.type_pointer(None, StorageClass::PushConstant, int),
        scalars: b.variable(push, None, StorageClass::PushConstant, None),
        index,
        index_element: b.type_pointer(None, StorageClass::Input, int),
        zero: b.constant_bit32(int, 0),
        one: b.constant_bit32(int, 1),
    }
}

fn block(b: &mut Builder, members: &[Word], stride: u32) -> Word {
    let s = b.type_struct(members.iter().copied());
    b.decorate(s, Decoration::Block, []);
    for i in 0..members.len() as u32 {
        b.member_decorate(s, i, Decoration::Offset, [Operand::LiteralBit32(i * stride)]);
    }
    s
}

fn kernel(b: &mut Builder, t: &Types, name: &str, buffers: usize) {
    let variables: Vec<Word> = (0..buffers)
        .map(|i| {
            let pointer = if name == "below" && i == 1 { t.bytes } else { t.floats };
            let v = b.variable(pointer, None, StorageClass::StorageBuffer, None);
            b.decorate(v, Decoration::DescriptorSet, [Operand::LiteralBit32(0)]);
            b.decorate(v, Decoration::Binding, [Operand::LiteralBit32(i as u32)]);
            v
        })
        .collect();
    let f = b.begin_function(t.void, None, FunctionControl::NONE, t.function).unwrap();
    b.begin_block(None).unwrap();
    let at = b.access_chain(t.index_element, None, t.index, [t.zero]).unwrap();
    let i = b.load(t.int, None, at, None, []).unwrap();
    let mut scalar = |k: Word| {
        let at = b.access_chain(t.scalar_element, None, t.scalars, [k]).unwrap();
        b.load(t.int, None, at, None, []).unwrap()
    };
    let (n, scalar) = (scalar(t.zero), scalar(t.one));
    let inside = b.u_less_than(t.boolean, None, i, n).unwrap();
    let (then, end) = (b.id(), b.id());
    b.selection_merge(end, SelectionControl::NONE).unwrap();
    b.branch_conditional(inside, then, end, []).unwrap();
    b.begin_block(Some(then)).unwrap();
    let mut load = |v: usize| {
        let at = b.access_chain(t.float_element, None, variables[v], [t.zero, i]).unwrap();
        b.load(t.float, None, at, None, []).unwrap()
    };
    let (element, value) = match name {
        "add" => {
            let (x, y) = (load(0), load(1));
            (t.float_element, b.f_add(t.float, None, x, y).unwrap())
        }
        "scale" => {
            let x = load(0);
            let s = b.convert_u_to_f(t.float, None, scalar).unwrap();
            (t.float_element, b.f_mul(t.float, None, x, s).unwrap())
        }
        _ => {
            let x = load(0);
            let s = b.convert_u_to_f(t.float, None, scalar).unwrap();
            let is = b.f_ord_less_than(t.boolean, None, x, s).unwrap();
            let (one, zero) = (b.constant_bit32(t.byte, 1), b.constant_bit32(t.byte, 0));
            (t.byte_element, b.select(t.byte, None, is, one, zero).unwrap())
        }
    };
    let at = b.access_chain(element, None, variables[buffers - 1], [t.zero, i]).unwrap();
    b.store(at, value, None, []).unwrap();
    b.branch(end).unwrap();
    b.begin_block(Some(end)).unwrap();
    b.ret().unwrap();
    b.end_function().unwrap();
    b.entry_point(ExecutionModel::GLCompute, f, name, [t.index]);
    b.execution_mode(f, ExecutionMode::LocalSize, [64, 1, 1]);
}
