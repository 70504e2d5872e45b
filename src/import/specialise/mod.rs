//! Programs with dynamic dimensions made static: given the shapes of an entry's arguments, every type is worked out, shape
//! computations become constants, dynamic ops their static forms, and shape assertions are checked.
//!
//! Also of use without dynamic dimensions: programs with dynamic ops on static shapes come out with static ops.

mod calls;
mod infer;
mod moving;

pub(crate) use calls::is_dynamic as is_dynamic_call;

use crate::{
    diag::Diagnostic,
    interp::{self, Tensor},
    print,
    tree::{Attr, Block, DType, Func, Literal, Op, OpKind, Program, Span, TensorType, Type, Value, ValueId},
    unbuild,
};
use std::collections::HashMap;

/// Constants up to this number of elements are followed through the program.
const LARGEST: u64 = 1024;
/// Calls inside of calls.
const DEEPEST: u32 = 100;

/// A dimension of an argument for which a size must be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DynamicDim {
    pub argument: usize,
    pub dim: usize,
    /// The expression that the exporter had for it, `b` or `2*b`, if the program tells.
    pub name: Option<String>,
    /// Largest size, if the type has a bound.
    pub bound: Option<u64>,
}

/// The dynamic dimensions of a function's arguments.
pub fn dynamic_dims(p: &Program, func: &str) -> Vec<DynamicDim> {
    let Some(f) = p.func(func) else { return vec![] };
    let dynamic: Vec<(usize, &TensorType)> = f
        .body
        .args
        .iter()
        .enumerate()
        .filter_map(|(i, v)| match f.ty(*v) {
            Type::Tensor(t) if !t.is_static() => Some((i, t)),
            _ => None,
        })
        .collect();
    let names = polymorphic_shapes(f);
    // The exporter lists the arguments that have dynamic dimensions, by their paths in its trees of arguments.
    let fits = |(s, (_, t)): (&Vec<String>, &(usize, &TensorType))| s.len() == t.rank();
    let named = names.len() == dynamic.len() && names.iter().zip(&dynamic).all(fits);
    let mut list = vec![];
    for (at, (argument, t)) in dynamic.into_iter().enumerate() {
        for dim in (0..t.rank()).filter(|d| t.dims[*d].is_none()) {
            let name = named.then(|| names[at][dim].clone());
            list.push(DynamicDim { argument, dim, name, bound: t.bounds.get(dim).copied().flatten() });
        }
    }
    list
}

/// JAX writes the shapes that it was given into the messages of its assertions: `args[0].shape = (b, 4)`.
fn polymorphic_shapes(f: &Func) -> Vec<Vec<String>> {
    const START: &str = "polymorphic shapes specifications: ";
    let messages = f.body.ops.iter().filter_map(|op| match op.attr("error_message") {
        Some(Attr::Str(m)) => m.split_once(START),
        _ => None,
    });
    let Some((_, shapes)) = messages.into_iter().next() else { return vec![] };
    let shapes = shapes.split("Obtained dimension variables").next().unwrap_or_default();
    shapes.split(".shape = (").skip(1).filter_map(closing).map(dims).collect()
}
/// `b, max(s, 2), 4`, split where no bracket is open.
fn dims(shape: &str) -> Vec<String> {
    let mut list = vec![String::new()];
    let mut depth = 0;
    for c in shape.chars() {
        depth += i32::from(c == '(') - i32::from(c == ')');
        match list.last_mut() {
            Some(last) if c != ',' || depth > 0 => last.push(c),
            _ => list.push(String::new()),
        }
    }
    list.iter().map(|s| s.trim().to_string()).filter(|s| !s.is_empty()).collect()
}
/// The text up to the bracket that closes it.
fn closing(s: &str) -> Option<&str> {
    let mut depth = 0;
    for (i, c) in s.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => return Some(&s[..i]),
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// The program for one set of argument shapes: `func` first, then what it calls. Fails where a size contradicts the program
/// or where a shape depends on values that only the run knows.
pub fn specialise(p: &Program, func: &str, shapes: &[Vec<u64>]) -> Result<Program, Vec<Diagnostic>> {
    let refuse = |span: Span, m: String, label: &str| vec![Diagnostic::error("E0701", span, m).label(label)];
    let Some(f) = p.func(func) else {
        return Err(refuse(Span::NONE, format!("no function `@{func}`"), "not in this program"));
    };
    if shapes.len() != f.body.args.len() {
        return Err(refuse(
            f.span,
            format!("`@{func}` takes {} arguments, {} shapes were given", f.body.args.len(), shapes.len()),
            "",
        ));
    }
    let mut types = vec![];
    for (i, (v, s)) in f.body.args.iter().zip(shapes).enumerate() {
        let value = &f.values[v.0 as usize];
        let fits = match &value.ty {
            Type::Tensor(t) => {
                t.rank() == s.len()
                    && t.dims.iter().zip(s).enumerate().all(|(k, (d, n))| {
                        d.is_none_or(|d| d == *n) && t.bounds.get(k).copied().flatten().is_none_or(|b| *n <= b)
                    })
            }
            _ => s.is_empty(),
        };
        if !fits {
            return Err(refuse(
                value.span,
                format!("argument {i} of `@{func}` is {}, not of shape {s:?}", print::ty(&value.ty)),
                "another shape",
            ));
        }
        types.push(match &value.ty {
            Type::Tensor(t) => {
                Type::Tensor(TensorType { dims: s.iter().map(|d| Some(*d)).collect(), bounds: vec![], ..t.clone() })
            }
            t => t.clone(),
        });
    }
    let mut s = Specialiser { p, out: vec![], made: HashMap::new(), errors: vec![], depth: 0 };
    let known = vec![None; types.len()];
    s.function(f, types, known, f.name.clone());
    if !s.errors.is_empty() {
        return Err(s.errors);
    }
    // Callees were finished before their callers.
    s.out.reverse();
    Ok(Program { name: p.name.clone(), attrs: p.attrs.clone(), funcs: s.out })
}

/// What a specialised function gives: its name, result types, and results that are constants.
type Made = (String, Vec<Type>, Vec<Option<Tensor>>);

struct Specialiser<'a> {
    p: &'a Program,
    out: Vec<Func>,
    made: HashMap<String, Made>,
    errors: Vec<Diagnostic>,
    depth: u32,
}

impl<'a> Specialiser<'a> {
    fn function(
        &mut self,
        f: &'a Func,
        types: Vec<Type>,
        known: Vec<Option<Tensor>>,
        name: String,
    ) -> (Vec<Type>, Vec<Option<Tensor>>) {
        let mut w = Work {
            s: self,
            old: f,
            new: Func { name, values: vec![], body: Block::default(), ..f.clone() },
            map: vec![None; f.values.len()],
            known: HashMap::new(),
            sums: HashMap::new(),
        };
        let mut body = Block { span: f.body.span, ..Block::default() };
        for ((v, ty), k) in f.body.args.iter().zip(types).zip(known) {
            let id = w.define(*v, ty.clone());
            body.args.push(id);
            if let (Some(t), Type::Tensor(ty)) = (k, ty) {
                // The argument stays in the signature; the body reads the constant.
                let c = w.fresh(*v, Type::Tensor(ty));
                w.map[v.0 as usize] = Some(c);
                body.ops.push(Op::new(OpKind::Constant(t.to_literal()), vec![], vec![c]));
                w.known.insert(c, t);
            }
        }
        w.ops(&f.body, &mut body.ops);
        body.results = w.mapped(&f.body.results);
        let constants = body.results.iter().map(|r| w.known.get(r).cloned()).collect();
        let mut new = w.new;
        new.result_types = body.results.iter().map(|r| new.ty(*r).clone()).collect();
        new.body = body;
        let types = new.result_types.clone();
        self.out.push(new);
        (types, constants)
    }

    fn callee(&mut self, name: &str, types: Vec<Type>, known: Vec<Option<Tensor>>, span: Span) -> Option<Made> {
        let f = self.p.func(name)?;
        let key = format!("{name} {types:?} {known:?}");
        if let Some(m) = self.made.get(&key) {
            return Some(m.clone());
        }
        if self.depth >= DEEPEST {
            self.errors.push(Diagnostic::error("E0103", span, "calls are nested too deeply").label("here"));
            return None;
        }
        let taken =
            |n: &str| self.made.values().any(|m| m.0 == n) || self.p.funcs.iter().any(|g| g.name == n && n != name);
        let mut new = name.to_string();
        let mut n = 0;
        while taken(&new) {
            n += 1;
            new = format!("{name}__{n}");
        }
        self.depth += 1;
        // The name is taken while the body, which may need others, is worked out.
        self.made.insert(key.clone(), (new.clone(), vec![], vec![]));
        let (types, constants) = self.function(f, types, known, new.clone());
        self.depth -= 1;
        let made = (new, types, constants);
        self.made.insert(key, made.clone());
        Some(made)
    }
}

/// A function being specialised.
struct Work<'s, 'a> {
    s: &'s mut Specialiser<'a>,
    old: &'a Func,
    new: Func,
    map: Vec<Option<ValueId>>,
    known: HashMap<ValueId, Tensor>,
    sums: moving::Sums,
}

impl<'a> Work<'_, 'a> {
    fn fresh(&mut self, like: ValueId, ty: Type) -> ValueId {
        let v = &self.old.values[like.0 as usize];
        self.new.values.push(Value { ty, name: v.name.clone(), loc: v.loc.clone(), span: v.span });
        ValueId(self.new.values.len() as u32 - 1)
    }
    fn define(&mut self, v: ValueId, ty: Type) -> ValueId {
        let id = self.fresh(v, ty);
        self.map[v.0 as usize] = Some(id);
        id
    }
    fn mapped(&self, list: &[ValueId]) -> Vec<ValueId> {
        list.iter().map(|v| self.map[v.0 as usize].unwrap_or(ValueId(0))).collect()
    }
    fn error(&mut self, op: &Op, m: String, label: &str) {
        let d = Diagnostic::error("E0701", op.span, m).label(label);
        self.s
            .errors
            .push(d.hint("give sizes for all dynamic dimensions, and export without shapes that depend on data"));
    }
    fn ints(&self, v: ValueId) -> Option<Vec<i64>> {
        self.known.get(&v)?.to_literal().to_i64s()
    }

    fn ops(&mut self, b: &'a Block, out: &mut Vec<Op>) {
        for op in &b.ops {
            // After an error, the values that it leaves undefined would raise others.
            if !self.s.errors.is_empty() {
                return;
            }
            self.op(op, out);
        }
    }

    fn block(&mut self, b: &'a Block, types: Vec<Type>) -> Block {
        let mut new = Block { span: b.span, ..Block::default() };
        for (v, ty) in b.args.iter().zip(types) {
            let id = self.define(*v, ty);
            new.args.push(id);
        }
        self.ops(b, &mut new.ops);
        new.results = self.mapped(&b.results);
        new
    }

    fn op(&mut self, op: &'a Op, out: &mut Vec<Op>) {
        let operands = self.mapped(&op.operands);
        let types: Vec<Type> = operands.iter().map(|v| self.new.ty(*v).clone()).collect();
        match &op.kind {
            OpKind::Call { callee } | OpKind::Composite { decomposition: callee, .. } => {
                return self.call(op, callee, operands, types, out);
            }
            OpKind::CustomCall { target, .. } if target == "shape_assertion" && self.assertion(op, &operands) => return,
            OpKind::If | OpKind::Case => {
                if let Some(i) = self.ints(operands[0]) {
                    let last = op.regions.len() - 1;
                    let branch = match op.kind {
                        OpKind::If => usize::from(i[0] == 0),
                        _ => usize::try_from(i[0]).ok().filter(|i| *i <= last).unwrap_or(last),
                    };
                    self.ops(&op.regions[branch], out);
                    let results = self.mapped(&op.regions[branch].results);
                    for (v, r) in op.results.iter().zip(results) {
                        self.map[v.0 as usize] = Some(r);
                    }
                    return;
                }
            }
            OpKind::RealDynamicSlice if self.moving_slice(op, &operands, out) => return,
            OpKind::SetDimensionSize { dim } => {
                let full = matches!(&types[0], Type::Tensor(t) if self.ints(operands[1]).is_some_and(|n| Some(n[0] as u64) == t.dims[*dim as usize]));
                if full {
                    self.map[op.results[0].0 as usize] = Some(operands[0]);
                    return;
                }
            }
            _ => {}
        }
        let computation = match &op.kind {
            OpKind::CustomCall { target, called, .. } if is_dynamic_call(target) => {
                called.first().and_then(|c| self.computation(op, c))
            }
            _ => None,
        };
        let mut regions: Vec<Block> = op
            .regions
            .iter()
            .map(|r| {
                let args = match op.kind {
                    OpKind::While => types.clone(),
                    _ => r.args.iter().map(|a| self.old.ty(*a).clone()).collect(),
                };
                self.block(r, args)
            })
            .collect();
        regions.extend(computation);
        let Some((kind, operands, shape)) = self.static_form(op, operands, &types) else {
            let names = unbuild::name(&op.kind);
            return self.error(
                op,
                format!("the shape of `{names}` is not known before the program runs"),
                "depends on data",
            );
        };
        let mut results = vec![];
        for (i, r) in op.results.iter().enumerate() {
            let Some(ty) = self.result_type(&kind, self.old.ty(*r), &operands, &regions, i, shape.as_deref()) else {
                let names = unbuild::name(&op.kind);
                return self.error(
                    op,
                    format!("the type of `{names}` stays {}", print::ty(self.old.ty(*r))),
                    "a dimension stays dynamic",
                );
            };
            results.push(self.define(*r, ty));
        }
        let mut new = Op { kind, operands, results, regions, ..op.clone() };
        if new.operands.len() != op.operands.len() {
            new.operand_spans.clear();
        }
        if let OpKind::CustomCall { target, .. } = &op.kind
            && is_dynamic_call(target)
        {
            new.extra.clear();
            if let (OpKind::Chlo(_), Some(k)) = (&new.kind, shape.as_ref().and_then(|s| s.last())) {
                new.extra.push(("k".into(), Attr::Int(i128::from(*k), "i64".into())));
            }
        }
        self.fold(&mut new);
        self.note_sum(&new);
        out.push(new);
    }

    /// The static form of a dynamic op, with the operands that it still has and, where an operand gives it, its shape.
    fn static_form(&self, op: &Op, operands: Vec<ValueId>, types: &[Type]) -> Option<calls::StaticForm> {
        let sizes = |i: usize| -> Option<Vec<u64>> {
            // The operand, or the result's type if that says it all.
            match self.ints(operands[i]) {
                Some(v) => v.into_iter().map(|d| u64::try_from(d).ok()).collect(),
                None => match self.old.ty(op.results[0]) {
                    Type::Tensor(t) => t.shape(),
                    _ => None,
                },
            }
        };
        let ints = |i: usize| self.ints(operands[i]);
        let first = operands.first().copied();
        Some(match &op.kind {
            OpKind::DynamicReshape => (OpKind::Reshape, vec![first?], Some(sizes(1)?)),
            OpKind::DynamicBroadcastInDim { dims } => {
                (OpKind::BroadcastInDim { dims: dims.clone() }, vec![first?], Some(sizes(1)?))
            }
            OpKind::DynamicIota { dim } => (OpKind::Iota { dim: *dim }, vec![], Some(sizes(0)?)),
            OpKind::RealDynamicSlice => {
                (OpKind::Slice { start: ints(1)?, limit: ints(2)?, strides: ints(3)? }, vec![first?], None)
            }
            OpKind::DynamicPad => {
                (OpKind::Pad { low: ints(2)?, high: ints(3)?, interior: ints(4)? }, operands[..2].to_vec(), None)
            }
            OpKind::DynamicGather { dims, indices_are_sorted } => (
                OpKind::Gather { dims: dims.clone(), slice_sizes: ints(2)?, indices_are_sorted: *indices_are_sorted },
                operands[..2].to_vec(),
                None,
            ),
            OpKind::DynamicConv(c) => {
                let mut c = c.clone();
                c.padding = ints(2)?.chunks_exact(2).map(|p| (p[0], p[1])).collect();
                (OpKind::Convolution(c), operands[..2].to_vec(), None)
            }
            OpKind::GetDimensionSize { dim } => {
                let Type::Tensor(t) = &types[0] else { return None };
                let n = i32::try_from(t.dims[*dim as usize]?).ok()?;
                let l = Literal::new(TensorType::new(DType::I32, &[]), n.to_le_bytes().to_vec());
                (OpKind::Constant(l), vec![], None)
            }
            OpKind::SetDimensionSize { .. } => return None,
            OpKind::CustomCall { target, .. } if is_dynamic_call(target) => {
                return self.static_call(target, op, &operands);
            }
            OpKind::Chlo(name) if name == "top_k" => {
                let Some(Attr::Int(k, _)) = op.attr("k") else { return None };
                let shape = self.with_last(first?, u64::try_from(*k).ok()?)?;
                (op.kind.clone(), operands, Some(shape))
            }
            k => (k.clone(), operands, None),
        })
    }

    fn result_type(
        &self,
        k: &OpKind,
        old: &Type,
        operands: &[ValueId],
        regions: &[Block],
        i: usize,
        shape: Option<&[u64]>,
    ) -> Option<Type> {
        let Type::Tensor(t) = old else {
            return Some(match (k, old) {
                (OpKind::Tuple, _) => Type::Tuple(operands.iter().map(|v| self.new.ty(*v).clone()).collect()),
                _ => old.clone(),
            });
        };
        let made = |s: &[u64]| {
            Some(Type::Tensor(TensorType { dims: s.iter().map(|d| Some(*d)).collect(), bounds: vec![], ..t.clone() }))
        };
        if t.is_static() && t.bounds.is_empty() {
            return Some(old.clone());
        }
        if let Some(s) = shape {
            return made(s);
        }
        match k {
            OpKind::If | OpKind::Case => return Some(self.new.ty(*regions.first()?.results.get(i)?).clone()),
            OpKind::GetTupleElement { index } => {
                return match self.new.ty(operands[0]) {
                    Type::Tuple(parts) => parts.get(*index as usize).cloned(),
                    _ => None,
                };
            }
            _ => {}
        }
        let x: Vec<&TensorType> = operands
            .iter()
            .map(|v| match self.new.ty(*v) {
                Type::Tensor(t) => Some(t),
                _ => None,
            })
            .collect::<Option<_>>()?;
        made(&match k {
            OpKind::BitcastConvert => calls::bitcast(&x.first()?.shape()?, x[0].dtype, t.dtype)?,
            OpKind::CustomCall { target, .. } => {
                crate::linalg::shape(target, &x.iter().map(|t| t.shape()).collect::<Option<Vec<_>>>()?, i)?
            }
            _ => infer::result(k, &x, i)?,
        })
    }

    fn call(&mut self, op: &'a Op, callee: &str, operands: Vec<ValueId>, types: Vec<Type>, out: &mut Vec<Op>) {
        let known: Vec<Option<Tensor>> = operands.iter().map(|v| self.known.get(v).cloned()).collect();
        let Some((name, types, constants)) = self.s.callee(callee, types, known, op.span) else {
            return self.error(op, format!("no function `@{callee}`"), "not in this program");
        };
        let kind = match &op.kind {
            OpKind::Composite { name: composite, version, attributes, .. } => OpKind::Composite {
                name: composite.clone(),
                decomposition: name,
                version: *version,
                attributes: attributes.clone(),
            },
            _ => OpKind::Call { callee: name },
        };
        let mut results = vec![];
        let mut replaced = vec![];
        for ((r, ty), c) in op.results.iter().zip(types).zip(constants) {
            let id = self.define(*r, ty.clone());
            results.push(id);
            if let Some(t) = c {
                // What the callee computes in any case is a constant here too.
                let v = self.fresh(*r, ty);
                self.map[r.0 as usize] = Some(v);
                replaced.push(Op::new(OpKind::Constant(t.to_literal()), vec![], vec![v]));
                self.known.insert(v, t);
            }
        }
        out.push(Op { kind, operands, results, ..op.clone() });
        out.extend(replaced);
    }

    /// True if the assertion could be decided.
    fn assertion(&mut self, op: &Op, operands: &[ValueId]) -> bool {
        let Some(holds) = self.ints(operands[0]) else { return false };
        if holds[0] == 0 {
            let mut m = match op.attr("error_message") {
                Some(Attr::Str(s)) => s.clone(),
                _ => "a shape assertion of the program fails".into(),
            };
            for (i, v) in operands[1..].iter().enumerate() {
                let value = self.ints(*v).map_or("?".into(), |v| v[0].to_string());
                m = m.replace(&format!("{{{i}}}"), &value);
            }
            let d = Diagnostic::error("E0701", op.span, m).label("does not hold for these sizes");
            self.s
                .errors
                .push(d.hint("choose sizes for which it holds, or export the program without that constraint"));
        }
        true
    }

    /// Computes an op on constants, and remembers what it gives.
    fn fold(&mut self, op: &mut Op) {
        let [result] = op.results[..] else { return };
        if let OpKind::Constant(l) = &op.kind {
            if l.elements() as u64 <= LARGEST && l.ty.quant.is_none() {
                self.known.insert(result, Tensor::from_literal(l));
            }
            return;
        }
        let Type::Tensor(t) = self.new.ty(result) else { return };
        let small = t.quant.is_none() && t.elements().is_some_and(|n| n <= LARGEST);
        let plain = op.regions.is_empty()
            && !op.operands.is_empty()
            && !matches!(
                op.kind,
                OpKind::CustomCall { .. } | OpKind::OptimizationBarrier | OpKind::Other(_) | OpKind::Rng { .. }
            );
        if !small || !plain {
            return;
        }
        let Some(operands) = op.operands.iter().map(|v| self.known.get(v).cloned()).collect::<Option<Vec<_>>>() else {
            return;
        };
        let dtype = t.dtype;
        let Ok(mut results) = interp::one(&self.new, op, operands) else { return };
        let Some(r) = results.pop().filter(|r| r.dtype == dtype) else { return };
        *op = Op {
            loc: op.loc.clone(),
            span: op.span,
            ..Op::new(OpKind::Constant(r.to_literal()), vec![], vec![result])
        };
        self.known.insert(result, r);
    }
}
