//! linalg's ops of the evaluator: generic, reduce and fill, one element after the other in the order of their loops.

use super::{
    Evaluator, Shared,
    body::Body,
    tensor::{Tensor, each},
};
use crate::ir::*;
use melior::ir::{AffineExpr, AffineMap};
use std::rc::Rc;

/// Where an operand's element is for given loop indices: `start` plus a step for each loop.
struct Walk {
    start: i64,
    steps: Vec<i64>,
}
impl Walk {
    fn of(map: AffineMap, tensor: &Tensor) -> Result<Walk, String> {
        let loops = map.dim_count();
        let strides = tensor.strides();
        let mut walk = Walk { start: 0, steps: vec![0; loops] };
        for (d, stride) in strides.iter().enumerate() {
            let e = map.result(d).map_err(|e| e.to_string())?;
            let at = |dims: &[i64]| value(e, dims).ok_or("a map that is not affine");
            let zero = at(&vec![0; loops])?;
            walk.start += stride * zero;
            for l in 0..loops {
                let mut unit = vec![0; loops];
                unit[l] = 1;
                walk.steps[l] += stride * (at(&unit)? - zero);
            }
        }
        Ok(walk)
    }
    fn at(&self, indices: &[i64]) -> i64 {
        self.start + self.steps.iter().zip(indices).map(|(s, i)| s * i).sum::<i64>()
    }
}
fn value(e: AffineExpr, dims: &[i64]) -> Option<i64> {
    if e.is_dim() {
        return dims.get(e.dim_position()).copied();
    }
    if e.is_constant() {
        return Some(e.constant_value());
    }
    let (a, b) = (value(e.lhs(), dims)?, value(e.rhs(), dims)?);
    match () {
        () if e.is_add() => Some(a + b),
        () if e.is_mul() => Some(a * b),
        () => None,
    }
}

impl<'c> Evaluator<'c, '_> {
    pub(super) fn generic(&mut self, op: O<'c>) -> Result<Vec<Shared>, String> {
        let g = Generic::of(op).ok_or("a generic of an unknown form")?;
        let bounds = g.bounds();
        if bounds.contains(&-1) {
            return Err("a generic with a loop that no operand bounds".into());
        }
        let ins: Vec<Shared> = g.ins.iter().map(|v| self.get(*v)).collect::<Result<_, _>>()?;
        let mut outs: Vec<Tensor> =
            g.outs.iter().map(|v| Ok((*self.get(*v)?).clone())).collect::<Result<_, String>>()?;
        let reads = ins.iter().enumerate().map(|(i, t)| Walk::of(g.in_map(i), t)).collect::<Result<Vec<_>, _>>()?;
        let writes = outs.iter().enumerate().map(|(i, t)| Walk::of(g.out_map(i), t)).collect::<Result<Vec<_>, _>>()?;
        let mut body = Body::read(g.body, &self.values)?;
        let (mut args, mut yields, mut fault) = (vec![], vec![], None);
        each(&bounds, |at| {
            if fault.is_some() {
                return;
            }
            args.clear();
            let within = |place: i64, t: &Tensor| t.words.get(place as usize).copied();
            for (t, w) in ins.iter().map(|t| &**t).zip(&reads).chain(outs.iter().zip(&writes)) {
                match within(w.at(at), t) {
                    Some(x) => args.push(x),
                    None => fault = Some("a generic reads outside of an operand".to_string()),
                }
            }
            if let Err(e) = body.run(&args, at, &mut yields) {
                fault = Some(e);
            }
            for ((t, w), x) in outs.iter_mut().zip(&writes).zip(&yields) {
                if fault.is_none() {
                    t.words[w.at(at) as usize] = *x;
                }
            }
        });
        match fault {
            Some(f) => Err(f),
            None => Ok(outs.into_iter().map(Rc::new).collect()),
        }
    }

    pub(super) fn reduce(&mut self, op: O<'c>) -> Result<Vec<Shared>, String> {
        let all = operands(op);
        let (ins, inits) = all.split_at(all.len() / 2);
        let dims = i64s_attr(op, "dimensions").ok_or("a reduce without dimensions")?;
        let ins: Vec<Shared> = ins.iter().map(|v| self.get(*v)).collect::<Result<_, _>>()?;
        let mut outs: Vec<Tensor> =
            inits.iter().map(|v| Ok((*self.get(*v)?).clone())).collect::<Result<_, String>>()?;
        let kept: Vec<usize> = (0..ins[0].shape.len()).filter(|d| !dims.contains(&(*d as i64))).collect();
        let strides = outs[0].strides();
        let mut body = Body::read(block(op, 0), &self.values)?;
        // A partial reduction starts from its first elements.
        let mut begun = vec![!has_attr(op, "zml.partial"); outs[0].words.len()];
        let (mut args, mut yields, mut place, mut fault) = (vec![], vec![], 0, None);
        each(&ins[0].shape.clone(), |at| {
            if fault.is_some() {
                return;
            }
            let to: i64 = kept.iter().zip(&strides).map(|(d, s)| at[*d] * s).sum();
            if !std::mem::replace(&mut begun[to as usize], true) {
                outs.iter_mut().zip(&ins).for_each(|(out, x)| out.words[to as usize] = x.words[place]);
                place += 1;
                return;
            }
            args.clear();
            args.extend(ins.iter().map(|t| t.words[place]).chain(outs.iter().map(|t| t.words[to as usize])));
            match body.run(&args, at, &mut yields) {
                Ok(()) => outs.iter_mut().zip(&yields).for_each(|(t, x)| t.words[to as usize] = *x),
                Err(e) => fault = Some(e),
            }
            place += 1;
        });
        match fault {
            Some(f) => Err(f),
            None => Ok(outs.into_iter().map(Rc::new).collect()),
        }
    }

    pub(super) fn fill(&mut self, op: O<'c>) -> Result<Vec<Shared>, String> {
        let word = self.get(operand(op, 0))?.words[0];
        let mut out = Tensor::zeros(result(op, 0).r#type())?;
        out.words.fill(word);
        Ok(vec![Rc::new(out)])
    }
}
