//! The tree: a StableHLO program as data. Values are numbered per function, nested regions included, so a region reads
//! values of its parents by number. Attributes are typed per op; what has no meaning to us stays in `Op::extra`.
//!
//! The tree is what the readers produce, the verifier checks, the printer writes and `legalize` consumes. It is
//! well-typed only after `verify`.

use crate::raw::drop_shardings;
use std::sync::Arc;
pub use zml_format::DType;

/// A place in a source file: byte range. Bytecode gives `Span::NONE`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct Span {
    pub start: u32,
    pub end: u32,
}
impl Span {
    pub const NONE: Span = Span { start: 0, end: 0 };
}

/// An MLIR debug location, as written in the program.
#[derive(Clone, PartialEq, Debug)]
pub enum Loc {
    Unknown,
    File { file: Arc<str>, line: u32, column: u32 },
    Name { name: Arc<str>, child: Arc<Loc> },
    CallSite { callee: Arc<Loc>, caller: Arc<Loc> },
    Fused(Arc<[Loc]>),
}
impl Loc {
    /// The outermost name: for an argument, the name that the exporter gave it.
    pub fn name(&self) -> Option<&str> {
        match self {
            Loc::Name { name, .. } => Some(name),
            Loc::CallSite { callee, .. } => callee.name(),
            Loc::Fused(l) => l.iter().find_map(Loc::name),
            _ => None,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Type {
    Tensor(TensorType),
    Token,
    Tuple(Vec<Type>),
    /// Only as an attribute: inputs, results.
    Function(Vec<Type>, Vec<Type>),
    /// A type that no value of a program we compile has, verbatim: `memref<4xf32>`, `index`, `f32`.
    Other(String),
}
impl Type {
    /// Of a value whose definition could not be read; agrees with any.
    pub(crate) fn unknown() -> Type {
        Type::Other(String::new())
    }
    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self, Type::Other(s) if s.is_empty())
    }
    /// The tensor type; the verifier has shown that there is one wherever this is called.
    pub fn tensor(&self) -> &TensorType {
        match self {
            Type::Tensor(t) => t,
            _ => panic!("verified operand is not a tensor"),
        }
    }
}
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TensorType {
    pub dtype: DType,
    /// `None` is a dynamic dimension, `?`.
    pub dims: Vec<Option<u64>>,
    /// Upper bounds of dynamic dimensions, `#stablehlo.bounds<4, ?>`; empty if there are none.
    pub bounds: Vec<Option<u64>>,
    pub quant: Option<Arc<Quant>>,
}
impl TensorType {
    pub fn new(dtype: DType, dims: &[u64]) -> Self {
        TensorType { dtype, dims: dims.iter().map(|d| Some(*d)).collect(), bounds: vec![], quant: None }
    }
    pub fn rank(&self) -> usize {
        self.dims.len()
    }
    pub fn is_static(&self) -> bool {
        self.dims.iter().all(Option::is_some)
    }
    /// The shape, if every dimension is static.
    pub fn shape(&self) -> Option<Vec<u64>> {
        self.dims.iter().copied().collect()
    }
}
/// `!quant.uniform<storage:expressed, ...>`; the tensor's `dtype` is the storage type. Scales and zero points are bits and integers
/// so that types can be compared and hashed.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Quant {
    pub expressed: DType,
    /// Storage range, if it is narrower than the storage type's own.
    pub range: Option<(i64, i64)>,
    /// Quantised dimension, if per axis.
    pub axis: Option<u32>,
    /// f64 bits; one, or one for each index of `axis`.
    pub scales: Vec<u64>,
    pub zero_points: Vec<i64>,
}

/// Dense constant data: `elements` values of `dtype.bytes()` bytes, little-endian, i1 as 0 or 1, complex interleaved, or one
/// value if `splat`.
#[derive(Clone, PartialEq, Debug)]
pub struct Literal {
    pub ty: TensorType,
    pub splat: bool,
    pub data: Arc<[u8]>,
}

/// An attribute that no op of the tree gives a type.
#[derive(Clone, PartialEq, Debug)]
pub enum Attr {
    Unit,
    Bool(bool),
    /// Value and type as written, `i64`, `index`.
    Int(i128, String),
    Float(f64, String),
    Str(String),
    Array(Vec<Attr>),
    Dict(Vec<(String, Attr)>),
    Symbol(String),
    Type(Type),
    Dense(Literal),
    /// `array<i64: 1, 2>`; booleans are 0 and 1 of `i1`.
    Ints(DType, Vec<i64>),
    /// `#stablehlo<precision DEFAULT>`: dialect, kind, value.
    Enum(String, String, String),
    /// `#stablehlo.channel_handle<handle = 1, type = 1>`: dialect, name, fields.
    Struct(String, String, Attrs),
    /// Any other text, verbatim: `#sdy.sharding<...>`.
    Raw(String),
}

pub type Attrs = Vec<(String, Attr)>;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    pub name: Option<String>,
    pub attrs: Attrs,
    pub funcs: Vec<Func>,
}
impl Program {
    pub fn func(&self, name: &str) -> Option<&Func> {
        self.funcs.iter().find(|f| f.name == name)
    }
    /// `main`, or the only public function.
    pub fn main(&self) -> Option<&Func> {
        self.func("main").or_else(|| {
            let mut public = self.funcs.iter().filter(|f| f.public);
            public.next().filter(|_| public.next().is_none())
        })
    }
}

/// Index into `Func::values`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ValueId(pub u32);

#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    pub ty: Type,
    /// Without `%`, as the source spells it; empty from bytecode.
    pub name: String,
    pub loc: Loc,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Func {
    pub name: String,
    pub public: bool,
    /// Declared only: no body, and `body.args` stand for the types of the arguments.
    pub external: bool,
    pub values: Vec<Value>,
    pub body: Block,
    /// One for each of `body.args`.
    pub arg_attrs: Vec<Attrs>,
    pub result_types: Vec<Type>,
    pub result_attrs: Vec<Attrs>,
    pub attrs: Attrs,
    pub loc: Loc,
    pub span: Span,
}
impl Func {
    pub fn ty(&self, v: ValueId) -> &Type {
        &self.values[v.0 as usize].ty
    }
    pub fn tensor(&self, v: ValueId) -> &TensorType {
        self.ty(v).tensor()
    }
    /// Of the function, its arguments and its results.
    pub(crate) fn drop_shardings(&mut self) {
        let lists = self.arg_attrs.iter_mut().chain(&mut self.result_attrs);
        lists.chain([&mut self.attrs]).for_each(drop_shardings);
    }
}

/// A region: StableHLO's have one block. The terminator is `results`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    pub args: Vec<ValueId>,
    pub ops: Vec<Op>,
    pub results: Vec<ValueId>,
    /// Of the terminator.
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Op {
    pub kind: OpKind,
    pub operands: Vec<ValueId>,
    pub results: Vec<ValueId>,
    pub regions: Vec<Block>,
    /// Attributes that change no meaning: frontend attributes, shardings, precision.
    pub extra: Attrs,
    pub loc: Loc,
    /// The whole op in the source, and where each operand stands in it (empty from bytecode).
    pub span: Span,
    pub operand_spans: Vec<Span>,
    /// Where the value of each attribute stands in the source (empty from bytecode), by the name it has in StableHLO.
    pub attr_spans: Vec<(String, Span)>,
}
impl Op {
    /// An op with no regions, extra attributes or position.
    pub fn new(kind: OpKind, operands: Vec<ValueId>, results: Vec<ValueId>) -> Self {
        Op {
            kind,
            operands,
            results,
            regions: vec![],
            extra: vec![],
            loc: Loc::Unknown,
            span: Span::NONE,
            operand_spans: vec![],
            attr_spans: vec![],
        }
    }
    /// An attribute of `extra`.
    pub fn attr(&self, name: &str) -> Option<&Attr> {
        self.extra.iter().find(|(n, _)| n == name).map(|(_, a)| a)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum UnaryOp {
    Abs,
    Cbrt,
    Ceil,
    Clz,
    Cosine,
    Exponential,
    ExponentialMinusOne,
    Floor,
    Imag,
    IsFinite,
    Log,
    LogPlusOne,
    Logistic,
    Negate,
    Not,
    Popcnt,
    Real,
    RoundNearestAfz,
    RoundNearestEven,
    Rsqrt,
    Sign,
    Sine,
    Sqrt,
    Tan,
    Tanh,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BinaryOp {
    Add,
    And,
    Atan2,
    Complex,
    Divide,
    Maximum,
    Minimum,
    Multiply,
    Or,
    Power,
    Remainder,
    ShiftLeft,
    ShiftRightArithmetic,
    ShiftRightLogical,
    Subtract,
    Xor,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Direction {
    Eq,
    Ne,
    Ge,
    Gt,
    Le,
    Lt,
}
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CompareType {
    /// Not written: follows from the element type.
    Default,
    Float,
    TotalOrder,
    Signed,
    Unsigned,
}
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DotDims {
    pub lhs_batching: Vec<u64>,
    pub rhs_batching: Vec<u64>,
    pub lhs_contracting: Vec<u64>,
    pub rhs_contracting: Vec<u64>,
}
/// `algorithm = <lhs_precision_type = tf32, ...>` of dot_general.
#[derive(Clone, PartialEq, Debug)]
pub struct DotAlgorithm {
    pub lhs_precision: String,
    pub rhs_precision: String,
    pub accumulation: String,
    pub lhs_components: i64,
    pub rhs_components: i64,
    pub primitive_operations: i64,
    pub allow_imprecise_accumulation: bool,
}
#[derive(Clone, PartialEq, Debug)]
pub struct Convolution {
    pub window_strides: Vec<i64>,
    pub padding: Vec<(i64, i64)>,
    pub lhs_dilation: Vec<i64>,
    pub rhs_dilation: Vec<i64>,
    pub window_reversal: Vec<bool>,
    pub input_batch: u64,
    pub input_feature: u64,
    pub input_spatial: Vec<u64>,
    pub kernel_input_feature: u64,
    pub kernel_output_feature: u64,
    pub kernel_spatial: Vec<u64>,
    pub output_batch: u64,
    pub output_feature: u64,
    pub output_spatial: Vec<u64>,
    pub feature_group_count: i64,
    pub batch_group_count: i64,
    pub precision: Vec<String>,
}
/// Window of reduce_window. All vectors have the input's rank; the reader fills in the defaults.
#[derive(Clone, PartialEq, Debug)]
pub struct Window {
    pub dimensions: Vec<i64>,
    pub strides: Vec<i64>,
    pub base_dilations: Vec<i64>,
    pub window_dilations: Vec<i64>,
    pub padding: Vec<(i64, i64)>,
}
#[derive(Clone, PartialEq, Debug, Default)]
pub struct GatherDims {
    pub offset_dims: Vec<u64>,
    pub collapsed_slice_dims: Vec<u64>,
    pub operand_batching_dims: Vec<u64>,
    pub start_indices_batching_dims: Vec<u64>,
    pub start_index_map: Vec<u64>,
    pub index_vector_dim: u64,
}
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ScatterDims {
    pub update_window_dims: Vec<u64>,
    pub inserted_window_dims: Vec<u64>,
    pub input_batching_dims: Vec<u64>,
    pub scatter_indices_batching_dims: Vec<u64>,
    pub scatter_dims_to_operand_dims: Vec<u64>,
    pub index_vector_dim: u64,
}

/// StableHLO ops by kind. Operands are in the specification's order; variadic groups (reduce: inputs then init values) follow
/// from the counts. Ops of the language that are not here yet are `Other`, which later stages refuse by name.
#[derive(Clone, PartialEq, Debug)]
pub enum OpKind {
    Constant(Literal),
    Iota {
        dim: u64,
    },
    Unary(UnaryOp),
    Binary(BinaryOp),
    Compare {
        direction: Direction,
        ty: CompareType,
    },
    Select,
    Clamp,
    Convert,
    BitcastConvert,
    ReducePrecision {
        exponent_bits: i32,
        mantissa_bits: i32,
    },
    BroadcastInDim {
        dims: Vec<u64>,
    },
    Reshape,
    Transpose {
        permutation: Vec<u64>,
    },
    Slice {
        start: Vec<i64>,
        limit: Vec<i64>,
        strides: Vec<i64>,
    },
    Concatenate {
        dim: u64,
    },
    Pad {
        low: Vec<i64>,
        high: Vec<i64>,
        interior: Vec<i64>,
    },
    Reverse {
        dims: Vec<u64>,
    },
    DynamicSlice {
        sizes: Vec<i64>,
    },
    DynamicUpdateSlice,
    Gather {
        dims: GatherDims,
        slice_sizes: Vec<i64>,
        indices_are_sorted: bool,
    },
    /// Inputs, scatter_indices, updates. Region: update computation.
    Scatter {
        dims: ScatterDims,
        indices_are_sorted: bool,
        unique_indices: bool,
    },
    DotGeneral {
        dims: DotDims,
        /// One for each operand; empty if all are DEFAULT.
        precision: Vec<String>,
        algorithm: Option<DotAlgorithm>,
    },
    Convolution(Box<Convolution>),
    /// Inputs, then init values. Region: body.
    Reduce {
        dims: Vec<u64>,
    },
    ReduceWindow(Box<Window>),
    /// Operand, source, init. Regions: select, scatter.
    SelectAndScatter {
        window_dimensions: Vec<i64>,
        window_strides: Vec<i64>,
        padding: Vec<(i64, i64)>,
    },
    /// Region: computation.
    Map {
        dims: Vec<u64>,
    },
    /// Region: comparator.
    Sort {
        dim: i64,
        is_stable: bool,
    },
    /// Regions: cond, body.
    While,
    /// Operand: pred. Regions: true branch, false branch, with no arguments.
    If,
    /// Operand: index. Regions: branches.
    Case,
    Call {
        callee: String,
    },
    Tuple,
    GetTupleElement {
        index: i32,
    },
    OptimizationBarrier,
    Cholesky {
        lower: bool,
    },
    TriangularSolve {
        left_side: bool,
        lower: bool,
        unit_diagonal: bool,
        transpose_a: String,
    },
    Fft {
        kind: String,
        length: Vec<i64>,
    },
    RngBitGenerator {
        algorithm: String,
    },
    Rng {
        distribution: String,
    },
    BatchNormInference {
        epsilon: f32,
        feature_index: i64,
    },
    BatchNormTraining {
        epsilon: f32,
        feature_index: i64,
    },
    BatchNormGrad {
        epsilon: f32,
        feature_index: i64,
    },
    Composite {
        name: String,
        decomposition: String,
        version: i64,
        attributes: Attrs,
    },
    CustomCall {
        target: String,
        api_version: i64,
        backend_config: Attr,
        called: Vec<String>,
        has_side_effect: bool,
    },
    DynamicReshape,
    DynamicIota {
        dim: u64,
    },
    DynamicBroadcastInDim {
        dims: Vec<u64>,
    },
    /// Operand, start_indices, limit_indices, strides.
    RealDynamicSlice,
    /// Operand, padding_value, low, high, interior.
    DynamicPad,
    /// Operand, start_indices, slice_sizes.
    DynamicGather {
        dims: GatherDims,
        indices_are_sorted: bool,
    },
    /// Lhs, rhs, padding; `padding` of the attributes is empty.
    DynamicConv(Box<Convolution>),
    GetDimensionSize {
        dim: u64,
    },
    SetDimensionSize {
        dim: u64,
    },
    UniformQuantize,
    UniformDequantize,
    /// A chlo op, `erf_inv`, `top_k`, with its attributes in `extra`.
    Chlo(String),
    /// Full name, `stablehlo.partition_id`; attributes in `extra`.
    Other(String),
}
