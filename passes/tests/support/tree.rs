//! A StableHLO function built op by op, for tests that want no reader.

use zml_format::DType;
use zmlc_import::tree::{
    BinaryOp, Block, Func, Literal, Loc, Op, OpKind, Program, Span, TensorType, Type, Value, ValueId,
};

pub struct Build {
    func: Func,
}
impl Build {
    pub fn new() -> Self {
        Build {
            func: Func {
                name: "main".into(),
                public: true,
                external: false,
                values: vec![],
                body: Block::default(),
                arg_attrs: vec![],
                result_types: vec![],
                result_attrs: vec![],
                attrs: vec![],
                loc: Loc::Unknown,
                span: Span::NONE,
            },
        }
    }
    fn value(&mut self, d: DType, dims: &[u64]) -> ValueId {
        let ty = Type::Tensor(TensorType::new(d, dims));
        self.func.values.push(Value { ty, name: String::new(), loc: Loc::Unknown, span: Span::NONE });
        ValueId(self.func.values.len() as u32 - 1)
    }
    pub fn arg(&mut self, d: DType, dims: &[u64]) -> ValueId {
        let v = self.value(d, dims);
        self.func.body.args.push(v);
        self.func.arg_attrs.push(vec![]);
        v
    }
    pub fn op(&mut self, kind: OpKind, operands: &[ValueId], d: DType, dims: &[u64]) -> ValueId {
        let v = self.value(d, dims);
        let mut op = Op::new(kind, operands.to_vec(), vec![v]);
        op.loc = Loc::Name { name: format!("op{}", v.0).into(), child: Loc::Unknown.into() };
        self.func.body.ops.push(op);
        v
    }
    pub fn splat(&mut self, x: f32) -> ValueId {
        let l = Literal { ty: TensorType::new(DType::F32, &[]), splat: true, data: x.to_le_bytes().into() };
        self.op(OpKind::Constant(l), &[], DType::F32, &[])
    }
    /// reduce with a region of one binary op.
    pub fn reduce(&mut self, kind: BinaryOp, x: ValueId, init: ValueId, over: &[u64], dims: &[u64]) -> ValueId {
        let d = self.func.tensor(x).dtype;
        let (l, r, y) = (self.value(d, &[]), self.value(d, &[]), self.value(d, &[]));
        let combine = Op::new(OpKind::Binary(kind), vec![l, r], vec![y]);
        let region = Block { args: vec![l, r], ops: vec![combine], results: vec![y], span: Span::NONE };
        let v = self.op(OpKind::Reduce { dims: over.to_vec() }, &[x, init], d, dims);
        self.func.body.ops.last_mut().unwrap().regions.push(region);
        v
    }
    pub fn finish(mut self, results: &[ValueId]) -> Program {
        self.func.body.results = results.to_vec();
        self.func.result_types = results.iter().map(|v| self.func.ty(*v).clone()).collect();
        self.func.result_attrs = vec![vec![]; results.len()];
        Program { name: None, attrs: vec![], funcs: vec![self.func] }
    }
}
