//! Reads an entry function after fuse as the planner's plain data. It must not decide anything.

use super::model::*;
use crate::{gemm::WORKSPACE, ir::*, pass::PassError};
use melior::ir::Attribute;
use std::collections::HashMap;

/// An entry with what only MLIR can hold: its constants and the attributes of its boundary.
pub struct Read<'c> {
    pub entry: Entry,
    /// The value attribute of each constant.
    pub constants: Vec<Attribute<'c>>,
}

pub fn read<'c>(func: O<'c>, top: Blk<'c>) -> Result<Read<'c>, PassError> {
    let body = block(func, 0);
    let results = attribute_list(func, "res_attrs");
    let arguments = attribute_list(func, "arg_attrs");
    let mut r = Reader { top, known: HashMap::new(), values: vec![], constants: vec![] };
    let mut ownership = vec![];
    for (i, a) in args(body).into_iter().enumerate() {
        let attrs = arguments.get(i).copied();
        let name = attrs.and_then(|d| dict_string(d, "zml.name")).unwrap_or_else(|| format!("argument {i}"));
        r.define(a, Source::Argument(i), name);
        let has = |key: &str| attrs.is_some_and(|d| dict_get(d, key).is_some());
        let state = attrs.filter(|d| dict_string(*d, "zml.role").as_deref() == Some("state"));
        let next = state
            .and_then(|d| dict_int(d, "zml.index"))
            .and_then(|s| results.iter().position(|d| dict_int(*d, "zml.state") == Some(s)));
        ownership.push(match next {
            Some(result) => Ownership::State(result),
            None if has("zml.donated") => Ownership::Donated,
            None => Ownership::ReadOnly,
        });
    }
    let steps = r.steps(body)?;
    let returned = ops(body).pop().map(operands).unwrap_or_default();
    let results = returned.into_iter().map(|v| r.get(v)).collect::<Result<_, _>>()?;
    Ok(Read { entry: Entry { values: r.values, arguments: ownership, steps, results }, constants: r.constants })
}

pub fn attribute_list<'c>(func: O<'c>, name: &str) -> Vec<Attribute<'c>> {
    attr(func, name).map(array).unwrap_or_default()
}
pub fn dict_string(d: Attribute, name: &str) -> Option<String> {
    dict_get(d, name).and_then(string)
}
pub fn dict_int(d: Attribute, name: &str) -> Option<i64> {
    melior::ir::attribute::IntegerAttribute::try_from(dict_get(d, name)?).ok().map(|i| i.value())
}
/// Bytes of a tensor in memory.
pub fn bytes(v: V) -> u64 {
    let t = v.r#type();
    elements(t).max(0) as u64 * elem_bytes(t).max(0) as u64
}

struct Reader<'c> {
    top: Blk<'c>,
    known: HashMap<usize, Val>,
    values: Vec<Value>,
    constants: Vec<Attribute<'c>>,
}
impl<'c> Reader<'c> {
    fn define(&mut self, v: V<'c>, source: Source, name: String) -> Val {
        self.values.push(Value { bytes: bytes(v), source, name });
        self.known.insert(key(v), self.values.len() - 1);
        self.values.len() - 1
    }
    fn get(&self, v: V<'c>) -> Result<Val, PassError> {
        self.known.get(&key(v)).copied().ok_or_else(|| PassError::Bug(format!("{v} is not in memory")))
    }
    fn all(&self, vs: &[V<'c>]) -> Result<Vec<Val>, PassError> {
        vs.iter().map(|v| self.get(*v)).collect()
    }
    /// The tensor that a scalar of the host was taken from.
    fn behind(&self, v: V<'c>) -> Result<Val, PassError> {
        let mut at = v;
        while let Some(d) = def(at) {
            at = match name(d) {
                "tensor.extract" => return self.get(operand(d, 0)),
                "arith.index_cast" | "arith.index_castui" | "arith.extsi" | "arith.extui" => operand(d, 0),
                other => return Err(PassError::Bug(format!("control flow depends on {other}"))),
            };
        }
        Err(PassError::Bug("control flow depends on a scalar argument".into()))
    }
    fn steps(&mut self, b: Blk<'c>) -> Result<Vec<Step>, PassError> {
        let mut steps = vec![];
        for op in ops(b) {
            match name(op) {
                "func.call" => steps.push(self.call(op)?),
                "scf.while" => steps.push(self.while_loop(op)?),
                "scf.if" => {
                    let on = self.behind(operand(op, 0))?;
                    steps.push(self.branch(op, on, false, &[0, 1])?);
                }
                "scf.index_switch" => {
                    let on = self.behind(operand(op, 0))?;
                    // The default comes first in the op and is the last branch of StableHLO's case.
                    let mut regions: Vec<usize> = (1..op.region_count()).collect();
                    regions.push(0);
                    steps.push(self.branch(op, on, true, &regions)?);
                }
                "arith.constant" if is_tensor(result(op, 0).r#type()) => {
                    let a = attr(op, "value").ok_or_else(|| PassError::Bug("a constant without a value".into()))?;
                    let known = self.constants.iter().position(|c| *c == a);
                    let index = known.unwrap_or_else(|| {
                        self.constants.push(a);
                        self.constants.len() - 1
                    });
                    self.define(result(op, 0), Source::Constant(index), format!("constant {index}"));
                }
                "tensor.empty" => {
                    self.define(result(op, 0), Source::Empty, "an empty buffer".into());
                }
                _ => {}
            }
        }
        Ok(steps)
    }
    fn call(&mut self, op: O<'c>) -> Result<Step, PassError> {
        let kernel = symbol_attr(op, "callee").unwrap_or_default().to_string();
        let target = find(self.top, &kernel).ok_or_else(|| PassError::Bug(format!("there is no dispatch {kernel}")))?;
        let alias = i64s_attr(target, "zml.alias").unwrap_or_default();
        let arguments = self.all(&operands(op))?;
        let results = results(op).into_iter().map(|v| self.define(v, Source::Step, format!("the value of {kernel}")));
        let mut results: Vec<Val> = results.collect();
        let mut alias: Vec<Option<usize>> = alias.into_iter().map(|a| usize::try_from(a).ok()).collect();
        if str_attr(target, "zml.hero") == Some("library") {
            let name = format!("the workspace of {kernel}");
            self.values.push(Value { bytes: WORKSPACE, source: Source::Step, name });
            results.push(self.values.len() - 1);
            alias.push(None);
        }
        Ok(Step::Call { kernel, arguments, results, alias })
    }
    fn while_loop(&mut self, op: O<'c>) -> Result<Step, PassError> {
        let inits = self.all(&operands(op))?;
        let (first, second) = (block(op, 0), block(op, 1));
        let carried = |r: &mut Self, vs: Vec<V<'c>>, what: &str| -> Vec<Val> {
            vs.into_iter().enumerate().map(|(i, v)| r.define(v, Source::Step, format!("{what} {i}"))).collect()
        };
        let before = carried(self, args(first), "carried value");
        let condition = self.steps(first)?;
        let end = ops(first).pop().ok_or_else(|| PassError::Bug("an empty condition".into()))?;
        let forwarded = self.all(&operands(end)[1..])?;
        if forwarded != before {
            return Err(PassError::Bug("a condition hands on other values than it got".into()));
        }
        let predicate = self.behind(operand(end, 0))?;
        let after = carried(self, args(second), "carried value");
        let body = self.steps(second)?;
        let next = self.all(&ops(second).pop().map(operands).unwrap_or_default())?;
        let results = carried(self, results(op), "loop result");
        let turns = int_attr(op, "zml.turns");
        Ok(Step::While { inits, before, condition, predicate, after, body, next, results, turns })
    }
    fn branch(&mut self, op: O<'c>, on: Val, case: bool, regions: &[usize]) -> Result<Step, PassError> {
        let mut branches = vec![];
        for region in regions {
            let b = block(op, *region);
            let steps = self.steps(b)?;
            let ends = self.all(&ops(b).pop().map(operands).unwrap_or_default())?;
            branches.push((steps, ends));
        }
        let all = results(op).into_iter().enumerate();
        let results = all.map(|(i, v)| self.define(v, Source::Step, format!("branch result {i}"))).collect();
        Ok(Step::Branch { on, case, branches, results })
    }
}
