//! Control flow, calls, tuples and what has an effect outside of tensors.

use super::{EvalError, R, Run, Tensor, Val, call, check::check, unsupported};
use crate::tree::{Attr, Op, OpKind};

pub(super) fn is_control(k: &OpKind) -> bool {
    matches!(
        k,
        OpKind::While
            | OpKind::If
            | OpKind::Case
            | OpKind::Call { .. }
            | OpKind::Composite { .. }
            | OpKind::CustomCall { .. }
            | OpKind::Tuple
            | OpKind::GetTupleElement { .. }
            | OpKind::OptimizationBarrier
    ) || matches!(k, OpKind::Other(_))
}

impl<'a> Run<'a> {
    pub(super) fn control(&mut self, op: &'a Op) -> R<()> {
        let mut operands: Vec<Val> = op.operands.iter().map(|v| self.get(*v).clone()).collect();
        let results = match &op.kind {
            OpKind::While => {
                while self.block_tensors_of(&op.regions[0], &operands)? {
                    operands = self.block(&op.regions[1], operands)?;
                }
                operands
            }
            OpKind::If => {
                let pred = self.tensor(op.operands[0])?.is_true(0);
                self.block(&op.regions[usize::from(!pred)], vec![])?
            }
            OpKind::Case => {
                let i = self.tensor(op.operands[0])?.ints()[0];
                let last = op.regions.len() - 1;
                let branch = usize::try_from(i).ok().filter(|i| *i <= last).unwrap_or(last);
                self.block(&op.regions[branch], vec![])?
            }
            OpKind::Call { callee } => self.call_by_name(callee, operands)?,
            OpKind::Composite { decomposition, .. } => self.call_by_name(decomposition, operands)?,
            OpKind::CustomCall { target, called, .. } => match target.as_str() {
                "Sharding" | "SPMDFullToShardShape" | "SPMDShardToFullShape" | "annotate_device_placement" => operands,
                "shape_assertion" => {
                    if !self.tensor(op.operands[0])?.is_true(0) {
                        let message = match op.attr("error_message") {
                            Some(Attr::Str(s)) => s.clone(),
                            _ => "shape assertion failed".into(),
                        };
                        return Err(EvalError::Program(message));
                    }
                    vec![]
                }
                t if t.starts_with("check.expect") && op.operands.len() == 2 => {
                    check(&t[6..], op, self.tensor(op.operands[0])?, self.tensor(op.operands[1])?)?;
                    vec![]
                }
                _ if op.results.is_empty() && called.is_empty() => {
                    return unsupported(format!("custom_call @{target}"));
                }
                _ => return unsupported(format!("custom_call @{target}")),
            },
            OpKind::Tuple => vec![Val::Tuple(operands)],
            OpKind::GetTupleElement { index } => match operands.swap_remove(0) {
                Val::Tuple(mut parts) => vec![parts.swap_remove(*index as usize)],
                _ => return unsupported("get_tuple_element of something else than a tuple"),
            },
            OpKind::OptimizationBarrier => operands,
            OpKind::Other(name) if name == "stablehlo.after_all" => vec![Val::Token],
            OpKind::Other(name) if name.starts_with("check.") => {
                let found = self.tensor(op.operands[0])?;
                match (op.operands.get(1), op.attr("value")) {
                    (Some(want), _) => check(&name[6..], op, found, self.tensor(*want)?)?,
                    (None, Some(Attr::Dense(l))) => check(&name[6..], op, found, &Tensor::from_literal(l))?,
                    _ => return unsupported(format!("`{name}`")),
                }
                vec![]
            }
            OpKind::Other(name) => return unsupported(format!("`{name}`")),
            _ => unreachable!("the list of is_control"),
        };
        for (v, r) in op.results.iter().zip(results) {
            self.values[v.0 as usize] = Some(r);
        }
        Ok(())
    }

    fn block_tensors_of(&mut self, b: &'a crate::tree::Block, args: &[Val]) -> R<bool> {
        match &self.block(b, args.to_vec())?[..] {
            [Val::Tensor(t)] => Ok(t.is_true(0)),
            _ => unsupported("a loop condition that is not one predicate"),
        }
    }

    fn call_by_name(&mut self, name: &str, args: Vec<Val>) -> R<Vec<Val>> {
        let f = self.program.func(name).ok_or_else(|| EvalError::NoFunction(name.into()))?;
        call(self.program, f, args)
    }
}
