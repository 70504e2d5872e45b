//! Runs an entry function as fuse leaves it: calls of dispatches go to their kernels in the simulator, the glue between
//! them is followed on the spot.

use super::{Memory, Num, launch, number};
use melior::ir::{Attribute, Type};
use mlir_sys::*;
use std::collections::HashMap;
use zmlc_passes::ir::*;

/// Elements of a tensor; those of `tensor.empty` are not there.
pub type Tensor = Vec<Option<Num>>;

pub struct Program<'c> {
    /// With entry and dispatch functions.
    pub fused: Blk<'c>,
    /// With a gpu.module for each dispatch.
    pub emitted: Blk<'c>,
}

impl<'c> Program<'c> {
    pub fn run(&self, entry: &str, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, String> {
        let function = find(self.fused, entry).ok_or("no entry")?;
        let mut values = HashMap::new();
        let body = block(function, 0);
        for (a, x) in args(body).into_iter().zip(inputs) {
            values.insert(key(a), x);
        }
        let end = self.block(body, &mut values)?;
        Ok(end.1)
    }
    /// Name of the terminator and its operands.
    fn block(&self, block: Blk<'c>, values: &mut HashMap<usize, Tensor>) -> Result<(&'c str, Vec<Tensor>), String> {
        let all = ops(block);
        let (last, rest) = all.split_last().expect("a terminator");
        for op in rest {
            let results_ = self.op(*op, values)?;
            for (r, x) in results(*op).into_iter().zip(results_) {
                values.insert(key(r), x);
            }
        }
        Ok((name(*last), operands(*last).iter().map(|v| values[&key(*v)].clone()).collect()))
    }
    fn enter(
        &self,
        op: O<'c>,
        region: usize,
        with: Vec<Tensor>,
        values: &mut HashMap<usize, Tensor>,
    ) -> Result<Vec<Tensor>, String> {
        let inner = block(op, region);
        for (a, x) in args(inner).into_iter().zip(with) {
            values.insert(key(a), x);
        }
        Ok(self.block(inner, values)?.1)
    }
    fn op(&self, op: O<'c>, values: &mut HashMap<usize, Tensor>) -> Result<Vec<Tensor>, String> {
        let at = |values: &HashMap<usize, Tensor>, i: usize| values[&key(operand(op, i))].clone();
        let int = |x: &Tensor| x[0].as_ref().expect("a value").int();
        match name(op) {
            "func.call" => {
                let inputs = (0..op.operand_count()).map(|i| at(values, i)).collect::<Vec<_>>();
                self.call(symbol_attr(op, "callee").expect("a callee"), &inputs)
            }
            "tensor.empty" => Ok(vec![vec![None; elements(result(op, 0).r#type()) as usize]]),
            "arith.constant" => Ok(vec![constant(attr(op, "value").expect("a value"), result(op, 0).r#type())]),
            "tensor.extract" => Ok(vec![at(values, 0)]),
            "arith.index_cast" | "arith.index_castui" => Ok(vec![at(values, 0)]),
            "scf.if" => {
                let region = usize::from(int(&at(values, 0)) == 0);
                self.enter(op, region, vec![], values)
            }
            "scf.index_switch" => {
                let cases = i64s_attr(op, "cases").unwrap_or_default();
                let x = int(&at(values, 0));
                let region = cases.iter().position(|c| *c == x).map_or(0, |i| i + 1);
                self.enter(op, region, vec![], values)
            }
            "scf.while" => {
                let mut carried: Vec<Tensor> = (0..op.operand_count()).map(|i| at(values, i)).collect();
                loop {
                    let mut end = self.enter(op, 0, carried, values)?;
                    if int(&end.remove(0)) == 0 {
                        return Ok(end);
                    }
                    carried = self.enter(op, 1, end, values)?;
                }
            }
            other => Err(format!("no simulation of {other} in an entry")),
        }
    }
    fn call(&self, callee: &str, inputs: &[Tensor]) -> Result<Vec<Tensor>, String> {
        let function = find(self.fused, callee).ok_or_else(|| format!("no {callee}"))?;
        let end = *ops(block(function, 0)).last().expect("a return");
        let alias = i64s_attr(function, "zml.alias").unwrap_or_default();
        let alias = |i: usize| alias.get(i).and_then(|a| usize::try_from(*a).ok());
        let outs = operands(end);
        let aliased: Vec<usize> = (0..outs.len()).filter_map(alias).collect();
        let mut buffers: Vec<Memory> = (0..inputs.len())
            .filter(|i| !aliased.contains(i))
            .map(|i| Memory::new(&format!("argument{i}"), inputs[i].clone()))
            .collect();
        let first = buffers.len();
        for (i, out) in outs.iter().enumerate() {
            let data = alias(i).map_or_else(|| vec![None; elements(out.r#type()) as usize], |a| inputs[a].clone());
            buffers.push(Memory::new(&format!("result{i}"), data));
        }
        let kernel = find(self.emitted, callee).ok_or_else(|| format!("no kernel {callee}"))?;
        launch(kernel, &mut buffers).map_err(|e| format!("{callee}: {e}"))?;
        let mut all = vec![];
        for (i, m) in buffers.drain(first..).enumerate() {
            let own = alias(i).is_none();
            if let Some(at) = m.writes.iter().position(|n| *n > 1 || (*n == 0 && own)) {
                return Err(format!("{callee}: result{i}[{at}] is written {} times", m.writes[at]));
            }
            all.push(m.data);
        }
        Ok(all)
    }
}

fn constant(a: Attribute, t: Type) -> Tensor {
    let e = elem(t);
    if !is_tensor(t) {
        return vec![Some(number::constant(a, e))];
    }
    let raw = a.to_raw();
    // The attribute is a dense one of the constant's type.
    let one = |i: isize| unsafe {
        if is_float(e) {
            // f16 and bf16 have no reader of their own; the element as an attribute has.
            return Num::Float(match bits(e) {
                32 => f64::from(mlirDenseElementsAttrGetFloatValue(raw, i)),
                64 => mlirDenseElementsAttrGetDoubleValue(raw, i),
                _ => {
                    let data = mlirDenseElementsAttrGetRawData(raw).cast::<u16>();
                    let bits = *data.offset(if mlirDenseElementsAttrIsSplat(raw) { 0 } else { i });
                    if is_bf16(e) { half::bf16::from_bits(bits).to_f64() } else { half::f16::from_bits(bits).to_f64() }
                }
            });
        }
        Num::Int(match bits(e) {
            1 => i64::from(mlirDenseElementsAttrGetBoolValue(raw, i)),
            8 => i64::from(mlirDenseElementsAttrGetInt8Value(raw, i)),
            16 => i64::from(mlirDenseElementsAttrGetInt16Value(raw, i)),
            32 => i64::from(mlirDenseElementsAttrGetInt32Value(raw, i)),
            _ => mlirDenseElementsAttrGetInt64Value(raw, i),
        })
    };
    let splat = unsafe { mlirDenseElementsAttrIsSplat(raw) };
    (0..elements(t) as isize).map(|i| Some(if splat { splat_value(a, e) } else { one(i) })).collect()
}
fn splat_value(a: Attribute, e: Type) -> Num {
    // The caller has asked that it is a splat.
    number::constant(unsafe { Attribute::from_raw(mlirDenseElementsAttrGetSplatValue(a.to_raw())) }, e)
}
