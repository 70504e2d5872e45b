//! Makes functions of the tree op by op: what linear algebra and composites are written in. Types of results follow from the operands.

use crate::{
    literal::{put_float, put_int},
    tree::{
        BinaryOp, Block, CompareType, DType, Direction, DotDims, Func, GatherDims, Literal, Loc, Op, OpKind, Span,
        TensorType, Type, UnaryOp, Value, ValueId,
    },
};

pub(crate) struct Builder {
    values: Vec<Value>,
    /// The block being written and those around it.
    blocks: Vec<Block>,
}

impl Builder {
    pub fn new() -> Self {
        Builder { values: vec![], blocks: vec![Block::default()] }
    }
    pub fn argument(&mut self, dtype: DType, shape: &[u64]) -> ValueId {
        let v = self.value(TensorType::new(dtype, shape));
        self.block().args.push(v);
        v
    }
    pub fn finish(mut self, name: String, results: Vec<ValueId>) -> Func {
        let mut body = self.blocks.pop().expect("the body");
        let result_types: Vec<Type> = results.iter().map(|r| self.values[r.0 as usize].ty.clone()).collect();
        let arg_attrs = vec![vec![]; body.args.len()];
        body.results = results;
        Func {
            name,
            public: false,
            external: false,
            values: self.values,
            arg_attrs,
            body,
            result_attrs: vec![vec![]; result_types.len()],
            result_types,
            attrs: vec![],
            loc: Loc::Unknown,
            span: Span::NONE,
        }
    }

    fn block(&mut self) -> &mut Block {
        self.blocks.last_mut().expect("a block is open")
    }
    fn value(&mut self, ty: TensorType) -> ValueId {
        self.values.push(Value { ty: Type::Tensor(ty), name: String::new(), loc: Loc::Unknown, span: Span::NONE });
        ValueId(self.values.len() as u32 - 1)
    }
    pub fn ty(&self, v: ValueId) -> TensorType {
        self.values[v.0 as usize].ty.tensor().clone()
    }
    pub fn dtype(&self, v: ValueId) -> DType {
        self.ty(v).dtype
    }
    pub fn shape(&self, v: ValueId) -> Vec<u64> {
        self.ty(v).shape().expect("shapes are static here")
    }
    pub fn emit(&mut self, kind: OpKind, operands: Vec<ValueId>, dtype: DType, shape: &[u64]) -> ValueId {
        let v = self.value(TensorType::new(dtype, shape));
        self.block().ops.push(Op::new(kind, operands, vec![v]));
        v
    }

    /// A number in every element.
    pub fn splat(&mut self, dtype: DType, shape: &[u64], x: f64) -> ValueId {
        let mut data = vec![];
        if dtype.is_complex() {
            put_float(dtype.real(), x, &mut data);
            put_float(dtype.real(), 0.0, &mut data);
        } else if dtype.is_float() {
            put_float(dtype, x, &mut data);
        } else {
            put_int(dtype, x as i128, &mut data);
        }
        let l = Literal::new(TensorType::new(dtype, shape), data);
        self.emit(OpKind::Constant(l), vec![], dtype, shape)
    }
    /// As `splat`, of the type of another value.
    pub fn like(&mut self, v: ValueId, x: f64) -> ValueId {
        let t = self.shape(v);
        self.splat(self.dtype(v), &t, x)
    }
    /// Each element's index along `dim`, in i32.
    pub fn iota(&mut self, shape: &[u64], dim: u64) -> ValueId {
        self.emit(OpKind::Iota { dim }, vec![], DType::I32, shape)
    }
    pub fn unary(&mut self, k: UnaryOp, x: ValueId) -> ValueId {
        let t = self.ty(x);
        let real = matches!(k, UnaryOp::Abs | UnaryOp::Real | UnaryOp::Imag) && t.dtype.is_complex();
        let d = match k {
            UnaryOp::IsFinite => DType::I1,
            _ if real => t.dtype.real(),
            _ => t.dtype,
        };
        let shape = self.shape(x);
        self.emit(OpKind::Unary(k), vec![x], d, &shape)
    }
    pub fn binary(&mut self, k: BinaryOp, x: ValueId, y: ValueId) -> ValueId {
        let shape = self.shape(x);
        self.emit(OpKind::Binary(k), vec![x, y], self.dtype(x), &shape)
    }
    pub fn add(&mut self, x: ValueId, y: ValueId) -> ValueId {
        self.binary(BinaryOp::Add, x, y)
    }
    pub fn sub(&mut self, x: ValueId, y: ValueId) -> ValueId {
        self.binary(BinaryOp::Subtract, x, y)
    }
    pub fn mul(&mut self, x: ValueId, y: ValueId) -> ValueId {
        self.binary(BinaryOp::Multiply, x, y)
    }
    pub fn div(&mut self, x: ValueId, y: ValueId) -> ValueId {
        self.binary(BinaryOp::Divide, x, y)
    }
    pub fn and(&mut self, x: ValueId, y: ValueId) -> ValueId {
        self.binary(BinaryOp::And, x, y)
    }
    pub fn compare(&mut self, direction: Direction, x: ValueId, y: ValueId) -> ValueId {
        let shape = self.shape(x);
        self.emit(OpKind::Compare { direction, ty: CompareType::Default }, vec![x, y], DType::I1, &shape)
    }
    pub fn select(&mut self, p: ValueId, x: ValueId, y: ValueId) -> ValueId {
        let shape = self.shape(x);
        self.emit(OpKind::Select, vec![p, x, y], self.dtype(x), &shape)
    }
    /// `x` where `p`, else zero.
    pub fn keep(&mut self, p: ValueId, x: ValueId) -> ValueId {
        let zero = self.like(x, 0.0);
        self.select(p, x, zero)
    }
    /// The real part of a complex value; any other as it is.
    pub fn real(&mut self, x: ValueId) -> ValueId {
        if self.dtype(x).is_complex() { self.unary(UnaryOp::Real, x) } else { x }
    }
    pub fn conj(&mut self, x: ValueId) -> ValueId {
        if !self.dtype(x).is_complex() {
            return x;
        }
        let (re, im) = (self.unary(UnaryOp::Real, x), self.unary(UnaryOp::Imag, x));
        let im = self.unary(UnaryOp::Negate, im);
        self.complex(re, im)
    }
    pub fn complex(&mut self, re: ValueId, im: ValueId) -> ValueId {
        let d = if self.dtype(re) == DType::F64 { DType::C128 } else { DType::C64 };
        let shape = self.shape(re);
        self.emit(OpKind::Binary(BinaryOp::Complex), vec![re, im], d, &shape)
    }
    /// A real value as one of `dtype`, which may be complex.
    pub fn widen(&mut self, x: ValueId, dtype: DType) -> ValueId {
        if !dtype.is_complex() || self.dtype(x).is_complex() {
            return x;
        }
        let zero = self.like(x, 0.0);
        let shape = self.shape(x);
        self.emit(OpKind::Binary(BinaryOp::Complex), vec![x, zero], dtype, &shape)
    }
    /// Dimension `i` of `x` becomes dimension `dims[i]`.
    pub fn spread(&mut self, x: ValueId, dims: &[u64], shape: &[u64]) -> ValueId {
        self.emit(OpKind::BroadcastInDim { dims: dims.to_vec() }, vec![x], self.dtype(x), shape)
    }
    pub fn reshape(&mut self, x: ValueId, shape: &[u64]) -> ValueId {
        self.emit(OpKind::Reshape, vec![x], self.dtype(x), shape)
    }
    pub fn transpose(&mut self, x: ValueId, permutation: &[u64]) -> ValueId {
        let s = self.shape(x);
        let shape: Vec<u64> = permutation.iter().map(|p| s[*p as usize]).collect();
        self.emit(OpKind::Transpose { permutation: permutation.to_vec() }, vec![x], self.dtype(x), &shape)
    }
    pub fn slice(&mut self, x: ValueId, dim: usize, from: u64, to: u64) -> ValueId {
        let mut shape = self.shape(x);
        let start = (0..shape.len()).map(|d| if d == dim { from as i64 } else { 0 }).collect();
        let limit = shape.iter().enumerate().map(|(d, n)| if d == dim { to as i64 } else { *n as i64 }).collect();
        shape[dim] = to - from;
        let strides = vec![1; shape.len()];
        self.emit(OpKind::Slice { start, limit, strides }, vec![x], self.dtype(x), &shape)
    }
    pub fn concatenate(&mut self, parts: &[ValueId], dim: usize) -> ValueId {
        let mut shape = self.shape(parts[0]);
        shape[dim] = parts.iter().map(|p| self.shape(*p)[dim]).sum();
        self.emit(OpKind::Concatenate { dim: dim as u64 }, parts.to_vec(), self.dtype(parts[0]), &shape)
    }
    /// Zeros behind the elements of `dim`, up to `n`.
    pub fn pad(&mut self, x: ValueId, dim: usize, n: u64) -> ValueId {
        let mut shape = self.shape(x);
        if shape[dim] == n {
            return x;
        }
        let high = (0..shape.len()).map(|d| if d == dim { (n - shape[d]) as i64 } else { 0 }).collect();
        shape[dim] = n;
        let none = vec![0; shape.len()];
        let zero = self.splat(self.dtype(x), &[], 0.0);
        self.emit(OpKind::Pad { low: none.clone(), high, interior: none }, vec![x, zero], self.dtype(x), &shape)
    }
    /// The slice of `dim` at `index`, an i32 scalar; `dim` goes.
    pub fn at(&mut self, x: ValueId, dim: usize, index: ValueId) -> ValueId {
        let mut shape = self.shape(x);
        let zero = self.splat(DType::I32, &[], 0.0);
        let mut operands = vec![x];
        operands.extend((0..shape.len()).map(|d| if d == dim { index } else { zero }));
        shape[dim] = 1;
        let sizes = shape.iter().map(|n| *n as i64).collect();
        let s = self.emit(OpKind::DynamicSlice { sizes }, operands, self.dtype(x), &shape);
        shape.remove(dim);
        self.reshape(s, &shape)
    }
    /// Slices of `dim` in the order of `index`, a vector of i32.
    pub fn take(&mut self, x: ValueId, dim: usize, index: ValueId) -> ValueId {
        let mut shape = self.shape(x);
        let n = self.shape(index)[0];
        let mut sizes: Vec<i64> = shape.iter().map(|n| *n as i64).collect();
        (sizes[dim], shape[dim]) = (1, n);
        let dims = GatherDims {
            offset_dims: (0..shape.len() as u64).filter(|d| *d != dim as u64).collect(),
            collapsed_slice_dims: vec![dim as u64],
            start_index_map: vec![dim as u64],
            index_vector_dim: 1,
            ..GatherDims::default()
        };
        let kind = OpKind::Gather { dims, slice_sizes: sizes, indices_are_sorted: false };
        self.emit(kind, vec![x, index], self.dtype(x), &shape)
    }
    /// The elements of `[b, m, n]` at `[row, column]` for each of two vectors of i32: `[b, count]`.
    pub fn pick(&mut self, x: ValueId, rows: ValueId, columns: ValueId) -> ValueId {
        let (b, n) = (self.shape(x)[0], self.shape(rows)[0]);
        let (rows, columns) = (self.reshape(rows, &[n, 1]), self.reshape(columns, &[n, 1]));
        let places = self.concatenate(&[rows, columns], 1);
        let dims = GatherDims {
            offset_dims: vec![0],
            collapsed_slice_dims: vec![1, 2],
            start_index_map: vec![1, 2],
            index_vector_dim: 1,
            ..GatherDims::default()
        };
        let kind = OpKind::Gather { dims, slice_sizes: vec![b as i64, 1, 1], indices_are_sorted: false };
        self.emit(kind, vec![x, places], self.dtype(x), &[b, n])
    }
    /// Combines the elements along `dims` by `k`, starting with `init`.
    pub fn reduce(&mut self, k: BinaryOp, init: f64, x: ValueId, dims: &[u64]) -> ValueId {
        let d = self.dtype(x);
        let init = self.splat(d, &[], init);
        let scalar = TensorType::new(d, &[]);
        let args = vec![self.value(scalar.clone()), self.value(scalar.clone())];
        let sum = self.value(scalar);
        let op = Op::new(OpKind::Binary(k), args.clone(), vec![sum]);
        let region = Block { args, ops: vec![op], results: vec![sum], span: Span::NONE };
        let shape: Vec<u64> = (0u64..).zip(self.shape(x)).filter(|(i, _)| !dims.contains(i)).map(|(_, n)| n).collect();
        let v = self.value(TensorType::new(d, &shape));
        let op = Op::new(OpKind::Reduce { dims: dims.to_vec() }, vec![x, init], vec![v]);
        self.block().ops.push(Op { regions: vec![region], ..op });
        v
    }
    pub fn sum(&mut self, x: ValueId, dims: &[u64]) -> ValueId {
        self.reduce(BinaryOp::Add, 0.0, x, dims)
    }
    /// Where the largest of the non-negative elements of `x`, `[b, n]`, stands in each row: the first of equals.
    pub fn largest(&mut self, x: ValueId) -> ValueId {
        let shape = self.shape(x);
        let n = shape[1];
        let most = self.reduce(BinaryOp::Maximum, -1.0, x, &[1]);
        let most = self.spread(most, &[0], &shape);
        let hit = self.compare(Direction::Eq, x, most);
        let (index, none) = (self.iota(&shape, 1), self.splat(DType::I32, &shape, n as f64));
        let index = self.select(hit, index, none);
        self.reduce(BinaryOp::Minimum, n as f64, index, &[1])
    }
    /// Sorts along the last dimension by `keys`, stably; `values` go with their keys. Gives all of them.
    pub fn sort(&mut self, ascending: bool, keys: ValueId, values: ValueId) -> (ValueId, ValueId) {
        let direction = if ascending { Direction::Lt } else { Direction::Gt };
        self.sort_by(direction, CompareType::Default, keys, values)
    }
    pub fn sort_by(
        &mut self,
        direction: Direction,
        ty: CompareType,
        keys: ValueId,
        values: ValueId,
    ) -> (ValueId, ValueId) {
        let (tk, tv) = (self.ty(keys), self.ty(values));
        let scalar = |t: &TensorType| TensorType::new(t.dtype, &[]);
        let args: Vec<ValueId> = [&tk, &tk, &tv, &tv].into_iter().map(|t| self.value(scalar(t))).collect();
        let less = self.value(TensorType::new(DType::I1, &[]));
        let op = Op::new(OpKind::Compare { direction, ty }, args[..2].to_vec(), vec![less]);
        let region = Block { args, ops: vec![op], results: vec![less], span: Span::NONE };
        let out = (self.value(tk.clone()), self.value(tv));
        let op = Op::new(
            OpKind::Sort { dim: tk.rank() as i64 - 1, is_stable: true },
            vec![keys, values],
            vec![out.0, out.1],
        );
        self.block().ops.push(Op { regions: vec![region], ..op });
        out
    }
    /// The product of two matrices, `[b, m, k]` and `[b, k, n]`.
    pub fn matmul(&mut self, x: ValueId, y: ValueId) -> ValueId {
        let (s, t) = (self.shape(x), self.shape(y));
        let dims = DotDims {
            lhs_batching: vec![0],
            rhs_batching: vec![0],
            lhs_contracting: vec![2],
            rhs_contracting: vec![1],
        };
        let kind = OpKind::DotGeneral { dims, precision: vec!["HIGHEST".into(), "HIGHEST".into()], algorithm: None };
        self.emit(kind, vec![x, y], self.dtype(x), &[s[0], s[1], t[2]])
    }

    /// A loop over values: while `cond`, `body`.
    pub fn repeat(
        &mut self,
        init: Vec<ValueId>,
        cond: impl FnOnce(&mut Self, &[ValueId]) -> ValueId,
        body: impl FnOnce(&mut Self, &[ValueId]) -> Vec<ValueId>,
    ) -> Vec<ValueId> {
        let mut regions = vec![];
        self.open(&init);
        let args = self.block().args.clone();
        let p = cond(self, &args);
        regions.push(self.close(vec![p]));
        self.open(&init);
        let args = self.block().args.clone();
        let next = body(self, &args);
        regions.push(self.close(next));
        let results: Vec<ValueId> = init
            .iter()
            .map(|v| {
                let t = self.ty(*v);
                self.value(t)
            })
            .collect();
        self.block().ops.push(Op { regions, ..Op::new(OpKind::While, init, results.clone()) });
        results
    }
    /// A loop of `n` rounds; `body` gets the number of the round.
    pub fn count(
        &mut self,
        n: u64,
        init: Vec<ValueId>,
        body: impl FnOnce(&mut Self, ValueId, &[ValueId]) -> Vec<ValueId>,
    ) -> Vec<ValueId> {
        let zero = self.splat(DType::I32, &[], 0.0);
        let all = [vec![zero], init].concat();
        let mut out = self.repeat(
            all,
            |b, v| {
                let n = b.splat(DType::I32, &[], n as f64);
                b.compare(Direction::Lt, v[0], n)
            },
            |b, v| {
                let one = b.splat(DType::I32, &[], 1.0);
                let next = b.add(v[0], one);
                [vec![next], body(b, v[0], &v[1..])].concat()
            },
        );
        out.remove(0);
        out
    }
    fn open(&mut self, like: &[ValueId]) {
        let args = like
            .iter()
            .map(|v| {
                let t = self.ty(*v);
                self.value(t)
            })
            .collect();
        self.blocks.push(Block { args, ..Block::default() });
    }
    fn close(&mut self, results: Vec<ValueId>) -> Block {
        let mut b = self.blocks.pop().expect("opened before");
        b.results = results;
        b
    }
}
