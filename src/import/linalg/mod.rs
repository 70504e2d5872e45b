//! The custom calls that JAX writes for linear algebra, on CPUs (LAPACK), GPUs (cuSOLVER, hipSOLVER) and TPUs: each becomes
//! an op of the language or a call of a function written here in ops of the language, so that every target has it.

mod eigh;
mod lu;
mod qr;

use crate::tree::{Attr, Block, DType, Func, Literal, Op, OpKind, TensorType, Type, Value, ValueId};

/// What is done with a call.
pub(crate) enum Outcome {
    Replaced,
    /// Its shapes are not known yet.
    Later,
    /// It is not one of these, or not in the form that is known.
    Unknown,
}

/// The routine that a target names: `lapack_sgetrf_ffi`, `cusolver_getrf_ffi` and `hipsolver_getrf_ffi` are `getrf`.
fn routine(target: &str) -> Option<&str> {
    if let "Qr" | "Eigh" | "ProductOfElementaryHouseholderReflectors" = target {
        return Some(target);
    }
    if let "cu_lu_pivots_to_permutation" | "hip_lu_pivots_to_permutation" = target {
        return Some("lu_pivots_to_permutation");
    }
    let name = target.strip_suffix("_ffi")?;
    match name.strip_prefix("lapack_") {
        Some(typed) => typed.strip_prefix(['s', 'd', 'c', 'z']),
        None => name.strip_prefix("cusolver_").or_else(|| name.strip_prefix("hipsolver_")),
    }
}

/// The shape of result `i` of a call whose batch or sizes were not known, where the operands alone tell it.
pub(crate) fn shape(target: &str, operands: &[Vec<u64>], i: usize) -> Option<Vec<u64>> {
    let a = operands.first()?;
    let (batch, matrix) = a.split_at_checked(a.len().checked_sub(2)?)?;
    let vector = |n: u64| Some([batch, &[n]].concat());
    let least = matrix[0].min(matrix[1]);
    match (routine(target)?, i) {
        ("potrf" | "getrf" | "geqrf" | "orgqr" | "ungqr" | "syevd" | "heevd", 0) => Some(a.clone()),
        ("trsm", 0) => operands.get(1).cloned(),
        ("potrf", 1) | ("getrf" | "syevd" | "heevd", 2) => Some(batch.to_vec()),
        ("getrf" | "geqrf" | "syevd" | "heevd", 1) => vector(least),
        _ => None,
    }
}

/// Replaces a call in `f`, pushing ops to `out` and functions that they call to `made`.
pub(crate) fn replace(target: &str, f: &mut Func, op: &Op, out: &mut Vec<Op>, made: &mut Vec<Func>) -> Outcome {
    let Some(routine) = routine(target) else { return Outcome::Unknown };
    let tensors = op.operands.iter().chain(&op.results).all(|v| matches!(f.ty(*v), Type::Tensor(_)));
    if !tensors || op.operands.is_empty() {
        return Outcome::Unknown;
    }
    if op.operands.iter().chain(&op.results).any(|v| !f.tensor(*v).is_static()) {
        return Outcome::Later;
    }
    match routine {
        "potrf" => return cholesky(f, op, out),
        "trsm" => return triangular_solve(op, out),
        _ => {}
    }
    let a = f.tensor(op.operands[0]).clone();
    let Some(call) = Call::new(routine, f, op, &a) else { return Outcome::Unknown };
    // What an empty matrix has of vectors is not zero.
    if is_empty(&a) && op.results.iter().any(|r| f.tensor(*r).dtype == a.dtype && !is_empty(f.tensor(*r))) {
        return Outcome::Unknown;
    }
    call.write(f, op, out, made);
    Outcome::Replaced
}

/// A function to call: its name and how it is made, the shapes that it takes and what the call's results are.
struct Call {
    name: String,
    function: Box<dyn Fn(String) -> Func>,
    /// Shapes of the operands with one batch dimension.
    takes: Vec<Vec<u64>>,
    /// For each result of the call: the function's, or a number in every element.
    gives: Vec<Given>,
}
#[derive(Clone, Copy, PartialEq)]
enum Given {
    Result(usize),
    Zero,
}

impl Call {
    fn new(routine: &str, f: &Func, op: &Op, a: &TensorType) -> Option<Call> {
        use Given::{Result, Zero};
        let shapes = |list: &[ValueId]| -> Vec<Vec<u64>> {
            list.iter().map(|v| f.tensor(*v).shape().expect("static")).collect()
        };
        let (operands, results) = (shapes(&op.operands), shapes(&op.results));
        if routine == "lu_pivots_to_permutation" {
            let ([p], [r]) = (&operands[..], &results[..]) else { return None };
            let (batch, k) = split(p, 1)?;
            let n = *r.last()?;
            let fits = a.dtype == DType::I32 && f.tensor(op.results[0]).dtype == DType::I32 && k[0] <= n;
            let shape = [batch, k[0], n];
            return fits.then(|| Call {
                name: format!("zml.permutation.{batch}x{}x{n}", k[0]),
                function: Box::new(move |name| lu::permutation(name, shape)),
                takes: vec![vec![batch, k[0]]],
                gives: vec![Result(0)],
            });
        }
        let d = a.dtype;
        let element = match d {
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::C64 => "c64",
            DType::C128 => "c128",
            _ => return None,
        };
        let (batch, matrix) = split(&operands[0], 2)?;
        let (m, n) = (matrix[0], matrix[1]);
        let shape = [batch, m, n];
        let whole = vec![batch, m, n];
        let call = |what: &str, function: Box<dyn Fn(String) -> Func>, gives: Vec<Given>| {
            let name = format!("zml.{what}.{element}.{batch}x{m}x{n}");
            (gives.len() == results.len()).then(|| Call { name, function, takes: vec![whole.clone()], gives })
        };
        match routine {
            "getrf" => {
                call("lu", Box::new(move |name| lu::decompose(name, d, shape)), vec![Result(0), Result(1), Result(2)])
            }
            "geqrf" | "Qr" => {
                call("qr", Box::new(move |name| qr::decompose(name, d, shape)), vec![Result(0), Result(1)])
            }
            "orgqr" | "ungqr" | "ProductOfElementaryHouseholderReflectors" => {
                let taus = *operands.get(1)?.last()?;
                let made = call(
                    &format!("reflectors.{taus}"),
                    Box::new(move |name| qr::product(name, d, shape, taus)),
                    vec![Result(0)],
                )?;
                (n <= m && taus <= n).then(|| Call { takes: vec![whole.clone(), vec![batch, taus]], ..made })
            }
            "syevd" | "heevd" | "Eigh" => {
                let lower = lower(op)?;
                let gives = [Result(0), Result(1), Zero];
                let side = if lower { "lower" } else { "upper" };
                let function = Box::new(move |name| eigh::eigenvalues(name, d, [batch, n], lower));
                (m == n)
                    .then(|| call(&format!("eigenvalues.{side}"), function, gives[..results.len().min(3)].to_vec()))?
            }
            "gesdd" | "gesvd" | "gesvdj" | "gesvdp" => {
                let [_, _, third, fourth, _] = &results[..] else { return None };
                let transposed = matches!(flag(op, "transposed"), Some(true));
                let (u, v) = if transposed { (fourth, third) } else { (third, fourth) };
                let k = m.min(n);
                let by_columns = matches!(routine, "gesvdj" | "gesvdp");
                let last = |s: &[u64], rows: u64, columns: u64| s.ends_with(&[rows, columns]);
                let v_fits = |k: u64| if by_columns { last(v, n, k) } else { last(v, k, n) };
                let full = last(u, m, m) && v_fits(n);
                let economic = last(u, m, k) && v_fits(k);
                let (mut iu, mut iv) = (Result(0), Result(if by_columns { 3 } else { 2 }));
                if !full && !economic {
                    // Without vectors there is nothing in their place that anyone reads.
                    if !matches!(config(op, "mode"), Some(78)) && flag(op, "compute_uv") != Some(false) {
                        return None;
                    }
                    (iu, iv) = (Zero, Zero);
                }
                if transposed {
                    (iu, iv) = (iv, iu);
                }
                let size = if full { "full" } else { "economic" };
                let function = Box::new(move |name| eigh::singular_values(name, d, shape, full));
                call(&format!("singular_values.{size}"), function, vec![Zero, Result(1), iu, iv, Zero])
            }
            _ => None,
        }
    }

    fn write(self, f: &mut Func, op: &Op, out: &mut Vec<Op>, made: &mut Vec<Func>) {
        let mut put = |kind: OpKind, operands: Vec<ValueId>, results: Vec<ValueId>| {
            out.push(Op { loc: op.loc.clone(), span: op.span, ..Op::new(kind, operands, results) });
        };
        let mut computed = vec![];
        if !is_empty(f.tensor(op.operands[0])) {
            let at = made.iter().position(|g| g.name == self.name).unwrap_or_else(|| {
                let mut g = (self.function)(self.name.clone());
                place(&mut g, op);
                made.push(g);
                made.len() - 1
            });
            let types = made[at].result_types.clone();
            let mut operands = vec![];
            for (v, shape) in op.operands.iter().zip(&self.takes) {
                let ty = TensorType::new(f.tensor(*v).dtype, shape);
                let r = value(f, ty, op);
                put(OpKind::Reshape, vec![*v], vec![r]);
                operands.push(r);
            }
            computed = types.iter().map(|t| value(f, t.tensor().clone(), op)).collect();
            put(OpKind::Call { callee: self.name }, operands, computed.clone());
        }
        for (r, given) in op.results.iter().zip(&self.gives) {
            match given {
                Given::Result(i) if !computed.is_empty() => put(OpKind::Reshape, vec![computed[*i]], vec![*r]),
                _ => put(OpKind::Constant(zeros(f.tensor(*r))), vec![], vec![*r]),
            }
        }
    }
}

fn is_empty(t: &TensorType) -> bool {
    t.dims.contains(&Some(0))
}
fn zeros(t: &TensorType) -> Literal {
    Literal::new(t.clone(), if is_empty(t) { vec![] } else { vec![0; t.dtype.bytes()] })
}
fn value(f: &mut Func, ty: TensorType, op: &Op) -> ValueId {
    f.values.push(Value { ty: Type::Tensor(ty), name: String::new(), loc: op.loc.clone(), span: op.span });
    ValueId(f.values.len() as u32 - 1)
}
/// The batch dimensions as one, and the last `n` dimensions.
fn split(shape: &[u64], n: usize) -> Option<(u64, &[u64])> {
    let at = shape.len().checked_sub(n)?;
    Some((shape[..at].iter().product(), &shape[at..]))
}

/// A function made for a call stands where the call does.
fn place(g: &mut Func, op: &Op) {
    fn block(b: &mut Block, op: &Op) {
        for o in &mut b.ops {
            (o.loc, o.span) = (op.loc.clone(), op.span);
            o.regions.iter_mut().for_each(|r| block(r, op));
        }
    }
    block(&mut g.body, op);
}

/// `potrf(a) -> (factor, info)`: info is 0 where the matrix is positive definite. JAX looks at info only to put NaN in place
/// of failed factors, which cholesky gives by itself.
fn cholesky(f: &Func, op: &Op, out: &mut Vec<Op>) -> Outcome {
    let ([factor, info], Some(lower)) = (&op.results[..], lower(op)) else { return Outcome::Unknown };
    let mut c = Op::new(OpKind::Cholesky { lower }, vec![op.operands[0]], vec![*factor]);
    (c.loc, c.span, c.operand_spans) = (op.loc.clone(), op.span, op.operand_spans.clone());
    out.push(c);
    let info_op = Op::new(OpKind::Constant(zeros(f.tensor(*info))), vec![], vec![*info]);
    out.push(Op { loc: op.loc.clone(), span: op.span, ..info_op });
    Outcome::Replaced
}

/// `trsm(a, b) -> x`
fn triangular_solve(op: &Op, out: &mut Vec<Op>) -> Outcome {
    let letter = |name: &str| config(op, name).and_then(|v| u8::try_from(v).ok());
    let (Some(side), Some(uplo), Some(trans), Some(diag), [result], [a, b, ..]) =
        (letter("side"), letter("uplo"), letter("trans_x"), letter("diag"), &op.results[..], &op.operands[..])
    else {
        return Outcome::Unknown;
    };
    let transpose_a = match trans {
        b'N' => "NO_TRANSPOSE",
        b'T' => "TRANSPOSE",
        _ => "ADJOINT",
    };
    let kind = OpKind::TriangularSolve {
        left_side: side == b'L',
        lower: uplo == b'L',
        unit_diagonal: diag == b'U',
        transpose_a: transpose_a.into(),
    };
    let mut s = Op::new(kind, vec![*a, *b], vec![*result]);
    (s.loc, s.span, s.operand_spans) = (op.loc.clone(), op.span, op.operand_spans.clone());
    out.push(s);
    Outcome::Replaced
}

/// Which triangle a call reads: LAPACK's letter, the flag of the GPU libraries, or the first number of a TPU's.
fn lower(op: &Op) -> Option<bool> {
    if let OpKind::CustomCall { backend_config: Attr::Str(s), target, .. } = &op.kind
        && target == "Eigh"
    {
        return Some(s.starts_with('1'));
    }
    flag(op, "lower").or_else(|| config(op, "uplo").map(|v| v == i128::from(b'L')))
}

/// The call's configuration: JAX writes it as `mhlo.backend_config` or `backend_config`, others as attributes.
fn setting<'a>(op: &'a Op, name: &str) -> Option<&'a Attr> {
    let own = match &op.kind {
        OpKind::CustomCall { backend_config, .. } => Some(backend_config),
        _ => None,
    };
    let within = |a: &'a Attr| match a {
        Attr::Dict(d) => d.iter().find(|(n, _)| n == name).map(|(_, a)| a),
        _ => None,
    };
    [op.attr("mhlo.backend_config"), own].into_iter().flatten().find_map(within).or_else(|| op.attr(name))
}
fn config(op: &Op, name: &str) -> Option<i128> {
    if let Some(Attr::Int(v, _)) = setting(op, name) { Some(*v) } else { None }
}
fn flag(op: &Op, name: &str) -> Option<bool> {
    if let Some(Attr::Bool(v)) = setting(op, name) { Some(*v) } else { None }
}
