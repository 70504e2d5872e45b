//! One kernel, op by op, into new ops: every old value maps to its elements (one for a scalar).

use super::{
    integer, matrix,
    memory::Memory,
    rounds::{self, Loop},
    scalar::Scalar,
    vector,
};
use melior::ir::{Attribute, Region, Type};
use std::collections::HashMap;
use zmlc_passes::{
    ir::{
        B, Blk, BlockLike, Fragment, O, OperationLike, TypeLike, V, ValueLike, args, attr, block, elem, elem_bytes,
        elements, key, name, operand, operands, ops, read, result, results,
    },
    pass::PassError,
};

pub type Lanes<'c> = Vec<V<'c>>;

pub struct Rewrite<'c> {
    values: HashMap<usize, Lanes<'c>>,
    pub memory: HashMap<usize, Memory<'c>>,
    pub form: Form,
    /// Turns of a round of each loop.
    turns: rounds::Turns,
}

/// What the new form of a kernel is to be.
#[derive(Clone, Copy)]
pub struct Form {
    /// Indices are of 64 bits.
    pub wide: bool,
    /// `FMax` and `FMin` of f32 have -0 below +0.
    pub orders_zeros: bool,
    /// Arithmetic gives one NaN, that of all bits but the sign.
    pub has_one_nan: bool,
}

/// The type that an element is held in: bf16 as f32, f8 as its bits.
pub fn held<'c>(b: &B<'c>, t: Type<'c>) -> Type<'c> {
    if let Some(f) = Fragment::of_type(t) {
        matrix::matrix(b, &f)
    } else if read::is_bf16(t) {
        b.f32()
    } else if read::is_float(t) && read::bits(t) == 8 {
        b.i(8)
    } else {
        t
    }
}

/// Writes the new form of `f` before it.
pub fn function<'c>(b: &B<'c>, f: O<'c>, form: Form, turns: rounds::Turns) -> Result<(), PassError> {
    let symbol = read::str_attr(f, "sym_name").unwrap_or_default();
    let in_kernel = |e| match e {
        PassError::Bug(what) => PassError::Bug(format!("kernel {symbol}: {what}")),
        PassError::Unsupported { what, hint } => {
            PassError::Unsupported { what: format!("kernel {symbol}: {what}"), hint }
        }
        e => e,
    };
    write_function(b, f, form, turns).map_err(in_kernel)
}
fn write_function<'c>(b: &B<'c>, f: O<'c>, form: Form, turns: rounds::Turns) -> Result<(), PassError> {
    let entry = block(f, 0);
    let workgroup = read::int_attr(f, "workgroup_attributions").unwrap_or(0) as usize;
    let private = read::int_attr(f, "private_attributions").unwrap_or(0) as usize;
    let inner = entry.argument_count() - workgroup - private;
    let mut r = Rewrite { values: HashMap::new(), memory: HashMap::new(), form, turns };

    let arguments: Vec<V> = args(entry)[..inner].to_vec();
    let (buffers, scalars): (Vec<V>, Vec<V>) = arguments.into_iter().partition(|a| a.r#type().is_mem_ref());
    let argument_attrs = attr(f, "arg_attrs").map(read::array).unwrap_or_default();
    // What is found by address may be larger than a type can say.
    let bounded = |i: usize| argument_attrs.get(i).is_none_or(|a| read::dict_get(*a, "zml.address").is_none());
    let memories = buffers.iter().enumerate().map(|(i, v)| Memory::plan(b, *v, "StorageBuffer", bounded(i)));
    let memories = memories.collect::<Result<Vec<_>, _>>()?;
    let types: Vec<Type> = memories.iter().map(|m| m.r#type).collect();
    let words = (!scalars.is_empty()).then(|| push_constants(b, scalars.len()));
    let mut outcome = Ok(());
    let region = b.region(&types, |b, values| {
        outcome = (|| {
            for ((old, memory), value) in buffers.iter().zip(memories).zip(values) {
                r.memory.insert(key(*old), memory.at(*value));
            }
            for (i, s) in scalars.iter().enumerate() {
                let x = scalar(b, words.expect("there are scalars"), i);
                let x = if s.r#type().is_index() { b.op1("arith.index_cast", &[x], b.index(), &[]) } else { x };
                r.values.insert(key(*s), vec![x]);
            }
            for (i, old) in args(entry)[inner..].iter().enumerate() {
                let (class, op) =
                    if i < workgroup { ("Workgroup", "memref.alloc") } else { ("Function", "memref.alloca") };
                r.allocate(b, *old, class, op)?;
            }
            r.block(b, entry)?;
            b.op("gpu.return", &[], &[], &[], vec![]);
            Ok(())
        })();
    });
    outcome?;
    let mut attrs: Vec<(&str, Attribute)> = vec![];
    for (attr_name, a) in read::attributes(f) {
        let rewritten = ["function_type", "arg_attrs", "workgroup_attributions", "private_attributions"];
        if !rewritten.contains(&attr_name) && !attr_name.ends_with("attrib_attrs") {
            attrs.push((attr_name, a));
        }
    }
    let kept = argument_attrs.into_iter().zip(&buffers).map(|(given, buffer)| {
        let bytes = elements(buffer.r#type()) * elem_bytes(buffer.r#type());
        let far = read::dict_get(given, "zml.address").filter(|_| bytes > i64::from(i32::MAX));
        far.map_or(given, |at| {
            let access = read::dict_get(given, "zml.access").expect("assign-descriptors gives it");
            b.dict(&[("zml.access", access), ("zml.address", at), (super::FAR, b.unit())])
        })
    });
    let kept: Vec<Attribute> = kept.collect();
    let ty = melior::ir::r#type::FunctionType::new(b.c, &types, &[]);
    attrs.push(("function_type", b.type_attr(ty.into())));
    attrs.push(("arg_attrs", b.array(&kept)));
    b.op("gpu.func", &[], &[], &attrs, vec![region]);
    Ok(())
}

const SCALARS: &str = "scalars";
/// The block of scalars, and the pointer type to it.
fn push_constants<'c>(b: &B<'c>, count: usize) -> Type<'c> {
    let fields: Vec<String> = (0..count).map(|i| format!("i32 [{}]", 4 * i)).collect();
    let ty = b.ty(&format!("!spirv.ptr<!spirv.struct<({})>, PushConstant>", fields.join(", ")));
    b.op("spirv.GlobalVariable", &[], &[], &[("sym_name", b.str(SCALARS)), ("type", b.type_attr(ty))], vec![]);
    ty
}
fn scalar<'c>(b: &B<'c>, pointer: Type<'c>, i: usize) -> V<'c> {
    let block = b.op1("spirv.mlir.addressof", &[], pointer, &[("variable", b.symbol(SCALARS))]);
    let at = b.op1("spirv.Constant", &[], b.i(32), &[("value", b.attr(&format!("{i} : i32")))]);
    let word = b.op1("spirv.AccessChain", &[block, at], b.ty("!spirv.ptr<i32, PushConstant>"), &[]);
    b.op1("spirv.Load", &[word], b.i(32), &[])
}

impl<'c> Rewrite<'c> {
    pub fn lanes(&self, v: V<'c>) -> Lanes<'c> {
        self.values.get(&key(v)).cloned().unwrap_or_else(|| panic!("`{v}` is used before it is rewritten"))
    }
    /// A scalar's new value.
    pub fn one(&self, v: V<'c>) -> V<'c> {
        self.lanes(v)[0]
    }
    pub fn set(&mut self, old: V<'c>, lanes: Lanes<'c>) {
        debug_assert_eq!(lanes.len(), count(old));
        self.values.insert(key(old), lanes);
    }

    /// The ops of a block but its terminator.
    fn block(&mut self, b: &B<'c>, old: Blk<'c>) -> Result<(), PassError> {
        let all = ops(old);
        for op in &all[..all.len() - 1] {
            self.op(&b.with_loc(read::location(*op)), *op)?;
        }
        Ok(())
    }
    /// A region of one block, its arguments and what its terminator yields as elements.
    fn region(&mut self, b: &B<'c>, old: Blk<'c>) -> Result<Region<'c>, PassError> {
        let arguments = args(old);
        let types: Vec<Type> = arguments.iter().flat_map(|a| held_types(b, *a)).collect();
        let mut outcome = Ok(());
        let region = b.region(&types, |b, values| {
            let mut rest = values;
            for a in arguments {
                let (own, next) = rest.split_at(count(a));
                self.set(a, own.to_vec());
                rest = next;
            }
            outcome = self.block(b, old).map(|()| {
                let end = *ops(old).last().expect("a block has a terminator");
                b.op(name(end), &self.all_lanes(&operands(end)), &[], &[], vec![]);
            });
        });
        outcome.map(|()| region)
    }
    fn all_lanes(&self, values: &[V<'c>]) -> Lanes<'c> {
        values.iter().flat_map(|v| self.lanes(*v)).collect()
    }
    /// A structured op with its regions and the same attributes.
    fn structured(&mut self, b: &B<'c>, op: O<'c>) -> Result<(), PassError> {
        let mut regions = vec![];
        for i in 0..op.region_count() {
            regions.push(match read::region_block(op, i) {
                Some(old) => self.region(b, old)?,
                None => Region::new(),
            });
        }
        let inputs = self.all_lanes(&operands(op));
        let types: Vec<Type> = results(op).iter().flat_map(|r| held_types(b, *r)).collect();
        let new = b.op(name(op), &inputs, &types, &read::attributes(op), regions);
        self.set_results(op, &results(new));
        Ok(())
    }
    fn set_results(&mut self, op: O<'c>, lanes: &[V<'c>]) {
        let mut rest = lanes;
        for r in results(op) {
            let (own, next) = rest.split_at(count(r));
            self.set(r, own.to_vec());
            rest = next;
        }
    }
    /// An `scf.for` whose rounds make `turns` turns each.
    fn unrolled(&mut self, b: &B<'c>, op: O<'c>, turns: i64) -> Result<(), PassError> {
        let known = Loop::of(op);
        let body = block(op, 0);
        let [from, to, step] = [0, 1, 2].map(|i| self.one(operand(op, i)));
        let mut carried = self.all_lanes(&operands(op)[3..]);
        let count = known.turns.map(|n| n as i64);
        let whole = count.map(|n| n / turns);
        if whole != Some(0) {
            let end = match (known.from, known.step, whole) {
                (Some(from), Some(step), Some(whole)) => b.cidx(from + whole * turns * step),
                _ => to,
            };
            let stride = b.muli(step, b.cidx(turns));
            let mut inputs = vec![from, end, stride];
            inputs.extend(&carried);
            let mut types = vec![b.index()];
            types.extend(carried.iter().map(ValueLike::r#type));
            let mut outcome = Ok(());
            let round = b.region(&types, |b, values| {
                outcome = (|| {
                    let mut carried = values[1..].to_vec();
                    for k in 0..turns {
                        let at = b.addi(values[0], b.muli(step, b.cidx(k)));
                        carried = match whole {
                            None if k > 0 => self.turn_below(b, body, at, to, &carried)?,
                            _ => self.turn(b, body, at, &carried)?,
                        };
                    }
                    b.op("scf.yield", &carried, &[], &[], vec![]);
                    Ok(())
                })();
            });
            outcome?;
            carried = results(b.op("scf.for", &inputs, &types[1..], &[], vec![round]));
        }
        if let (Some(count), Some(whole), Some(first), Some(step)) = (count, whole, known.from, known.step) {
            for k in whole * turns..count {
                carried = self.turn(b, body, b.cidx(first + k * step), &carried)?;
            }
        }
        self.set_results(op, &carried);
        Ok(())
    }
    /// The body of a loop at `at`; what it hands on.
    fn turn(&mut self, b: &B<'c>, body: Blk<'c>, at: V<'c>, carried: &[V<'c>]) -> Result<Lanes<'c>, PassError> {
        let arguments = args(body);
        self.set(arguments[0], vec![at]);
        let mut rest = carried;
        for a in &arguments[1..] {
            let (own, next) = rest.split_at(count(*a));
            self.set(*a, own.to_vec());
            rest = next;
        }
        self.block(b, body)?;
        Ok(self.all_lanes(&operands(*ops(body).last().expect("a body has a terminator"))))
    }
    /// The same if `at` is below `to`; else what was carried.
    fn turn_below(
        &mut self,
        b: &B<'c>,
        body: Blk<'c>,
        at: V<'c>,
        to: V<'c>,
        carried: &[V<'c>],
    ) -> Result<Lanes<'c>, PassError> {
        let types: Vec<Type> = carried.iter().map(ValueLike::r#type).collect();
        let mut outcome = Ok(());
        let then = b.region(&[], |b, _| {
            outcome = self.turn(b, body, at, carried).map(|next| {
                b.op("scf.yield", &next, &[], &[], vec![]);
            });
        });
        outcome?;
        let otherwise = b.region(&[], |b, _| {
            b.op("scf.yield", carried, &[], &[], vec![]);
        });
        Ok(results(b.op("scf.if", &[b.cmpi("slt", at, to)], &types, &[], vec![then, otherwise])))
    }
    /// `scf.index_switch` as a chain of `scf.if`: SPIR-V's switch is not reached from scf.
    fn switch(&mut self, b: &B<'c>, op: O<'c>, case: usize) -> Result<Lanes<'c>, PassError> {
        let cases = read::i64s_attr(op, "cases").unwrap_or_default();
        let types: Vec<Type> = results(op).iter().flat_map(|r| held_types(b, *r)).collect();
        if case == cases.len() {
            // The default region is the first; it runs where the chain ends.
            let old = block(op, 0);
            self.block(b, old)?;
            return Ok(self.all_lanes(&operands(*ops(old).last().expect("a terminator"))));
        }
        let is = b.cmpi("eq", self.one(operand(op, 0)), b.cidx(cases[case]));
        let then = self.region(b, block(op, case + 1))?;
        let mut outcome = Ok(());
        let otherwise = b.region(&[], |b, _| {
            outcome = self.switch(b, op, case + 1).map(|y| {
                b.op("scf.yield", &y, &[], &[], vec![]);
            });
        });
        outcome?;
        Ok(results(b.op("scf.if", &[is], &types, &[], vec![then, otherwise])))
    }

    fn op(&mut self, b: &B<'c>, op: O<'c>) -> Result<(), PassError> {
        match name(op) {
            "scf.for" if rounds::turns(&self.turns, op) > 1 => {
                return self.unrolled(b, op, rounds::turns(&self.turns, op) as i64);
            }
            "scf.for" | "scf.if" | "scf.while" | "scf.execute_region" => return self.structured(b, op),
            "scf.index_switch" => {
                let y = self.switch(b, op, 0)?;
                self.set_results(op, &y);
                return Ok(());
            }
            "arith.constant" | "ub.poison" => {
                let y = constant(b, op);
                self.set(result(op, 0), y);
                return Ok(());
            }
            "gpu.shuffle" => return integer::shuffle(self, b, op),
            _ => {}
        }
        let dialect = name(op).split('.').next().unwrap_or_default();
        match dialect {
            "memref" => self.memory_op(b, op),
            "vector" if matches!(name(op), "vector.load" | "vector.store") => self.memory_op(b, op),
            "vector" => vector::op(self, b, op),
            "arith" | "math" => self.elementwise(b, op),
            "gpu" => self.structured(b, op),
            "zml" => matrix::op(self, b, op),
            _ => Err(PassError::Bug(format!("`{}` does not belong in a kernel", name(op)))),
        }
    }

    /// The same op on each element.
    fn elementwise(&mut self, b: &B<'c>, op: O<'c>) -> Result<(), PassError> {
        let inputs: Vec<Lanes> = operands(op).iter().map(|v| self.lanes(*v)).collect();
        let n = results(op).iter().map(|r| count(*r)).max().unwrap_or(1);
        let scalar = Scalar::of(op, self.form);
        let mut found: Vec<Lanes> = vec![vec![]; op.result_count()];
        for lane in 0..n {
            let x: Lanes = inputs.iter().map(|l| if l.len() == 1 { l[0] } else { l[lane] }).collect();
            let y = scalar.emit(b, &x)?;
            for (all, y) in found.iter_mut().zip(y) {
                all.push(y);
            }
        }
        for (r, lanes) in results(op).into_iter().zip(found) {
            self.set(r, lanes);
        }
        Ok(())
    }
}

/// Elements of a value: 1 for a scalar.
pub fn count(v: V) -> usize {
    read::vector_len(v.r#type()).map_or(1, |n| n as usize)
}
fn held_types<'c>(b: &B<'c>, v: V<'c>) -> Vec<Type<'c>> {
    vec![held(b, elem(v.r#type())); count(v)]
}
/// The elements of a constant, for canonicalize to fold.
fn constant<'c>(b: &B<'c>, op: O<'c>) -> Lanes<'c> {
    let t = result(op, 0).r#type();
    let whole = b.op1(name(op), &[], t, &read::attributes(op));
    let e = elem(t);
    let hold = |x: V<'c>| {
        if read::is_bf16(e) {
            b.op1("arith.extf", &[x], b.f32(), &[])
        } else if held(b, e) != e {
            b.op1("arith.bitcast", &[x], held(b, e), &[])
        } else {
            x
        }
    };
    match read::vector_len(t) {
        None => vec![hold(whole)],
        Some(n) => {
            (0..n).map(|i| hold(b.op1("vector.extract", &[whole], e, &[("static_position", b.i64s(&[i]))]))).collect()
        }
    }
}
