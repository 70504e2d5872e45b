//! zml's tensor ops with a region: sort and scatter, as StableHLO says, and running reductions.

use super::{
    Evaluator, Shared,
    body::Body,
    tensor::{Tensor, each},
};
use crate::ir::*;
use std::rc::Rc;

impl<'c> Evaluator<'c, '_> {
    pub(super) fn sort(&mut self, op: O<'c>) -> Result<Vec<Shared>, String> {
        let ins: Vec<Shared> = operands(op).into_iter().map(|v| self.get(v)).collect::<Result<_, _>>()?;
        let dim = int_attr(op, "dimension").ok_or("a sort without dimension")? as usize;
        let mut body = Body::read(block(op, 0), &self.values)?;
        let mut outs: Vec<Tensor> = ins.iter().map(|t| (**t).clone()).collect();
        let (extent, stride) = (ins[0].shape[dim], ins[0].strides()[dim]);
        let mut rows = ins[0].shape.clone();
        rows[dim] = rows[dim].min(1);
        let strides = ins[0].strides();
        let mut fault = None;
        each(&rows, |at| {
            let first: i64 = at.iter().zip(&strides).map(|(i, s)| i * s).sum();
            let place = |i: usize| (first + i as i64 * stride) as usize;
            let mut order: Vec<usize> = (0..extent as usize).collect();
            let (mut args, mut yields) = (vec![], vec![]);
            let mut less = |a: usize, b: usize| {
                args.clear();
                args.extend(ins.iter().flat_map(|t| [t.words[place(a)], t.words[place(b)]]));
                match body.run(&args, &[], &mut yields) {
                    Ok(()) => yields[0] != 0,
                    Err(e) => {
                        fault = Some(e);
                        false
                    }
                }
            };
            // Stable, and total whatever the comparator is: a standard sort may panic on one that is no order.
            for i in 1..order.len() {
                let x = order[i];
                let at = order[..i].partition_point(|y| !less(x, *y));
                order[at..=i].rotate_right(1);
            }
            for (to, from) in outs.iter_mut().zip(&ins) {
                for (i, o) in order.iter().enumerate() {
                    to.words[place(i)] = from.words[place(*o)];
                }
            }
        });
        match fault {
            Some(f) => Err(f),
            None => Ok(outs.into_iter().map(Rc::new).collect()),
        }
    }

    pub(super) fn scatter(&mut self, op: O<'c>) -> Result<Vec<Shared>, String> {
        let all = operands(op);
        let n = all.len() / 2;
        let read = |e: &Self, vs: &[V<'c>]| vs.iter().map(|v| e.get(*v)).collect::<Result<Vec<_>, _>>();
        let (inputs, updates) = (read(self, &all[..n])?, read(self, &all[n + 1..])?);
        let indices = self.get(all[n])?;
        let list =
            |n: &str| -> Vec<usize> { i64s_attr(op, n).unwrap_or_default().into_iter().map(|d| d as usize).collect() };
        let window = list("update_window_dims");
        let (inserted, batching) = (list("inserted_window_dims"), list("input_batching_dims"));
        let (indices_batching, to_operand) =
            (list("scatter_indices_batching_dims"), list("scatter_dims_to_operand_dims"));
        let vector = int_attr(op, "index_vector_dim").unwrap_or_default() as usize;
        let unsigned = has_attr(op, "unsigned_indices");
        let mut body = Body::read(block(op, 0), &self.values)?;
        let mut outs: Vec<Tensor> = inputs.iter().map(|t| (**t).clone()).collect();
        let extents = outs[0].shape.clone();
        let (strides, index_strides) = (outs[0].strides(), indices.strides());
        let kept: Vec<usize> = (0..extents.len()).filter(|d| !inserted.contains(d) && !batching.contains(d)).collect();
        let scatter: Vec<usize> = (0..updates[0].shape.len()).filter(|d| !window.contains(d)).collect();
        // Dimensions of the indices but the vector's, in the order of the updates' scatter dimensions.
        let index_dims: Vec<usize> = (0..indices.shape.len()).filter(|d| *d != vector).collect();
        let (mut args, mut yields, mut place, mut fault) = (vec![], vec![], 0, None);
        each(&updates[0].shape.clone(), |at| {
            let update = place;
            place += 1;
            let first: i64 = index_dims.iter().zip(&scatter).map(|(i, u)| at[*u] * index_strides[*i]).sum();
            let mut to = vec![0i128; extents.len()];
            for (k, d) in to_operand.iter().enumerate() {
                let step = index_strides.get(vector).copied().unwrap_or(0);
                let word = indices.words[(first + k as i64 * step) as usize];
                to[*d] = if unsigned { indices.kind.unsigned(word).into() } else { (word as i64).into() };
            }
            for (d, i) in batching.iter().zip(&indices_batching) {
                let u = index_dims.iter().position(|x| x == i).map(|p| scatter[p]);
                to[*d] = u.map_or(0, |u| at[u]).into();
            }
            for (d, u) in kept.iter().zip(&window) {
                to[*d] += i128::from(at[*u]);
            }
            let inside = to.iter().zip(&extents).all(|(i, e)| (0..i128::from(*e)).contains(i));
            if !inside || fault.is_some() {
                return;
            }
            let p: i64 = to.iter().zip(&strides).map(|(i, s)| *i as i64 * s).sum();
            args.clear();
            args.extend(outs.iter().map(|t| t.words[p as usize]).chain(updates.iter().map(|t| t.words[update])));
            match body.run(&args, &[], &mut yields) {
                Ok(()) => outs.iter_mut().zip(&yields).for_each(|(t, x)| t.words[p as usize] = *x),
                Err(e) => fault = Some(e),
            }
        });
        match fault {
            Some(f) => Err(f),
            None => Ok(outs.into_iter().map(Rc::new).collect()),
        }
    }

    pub(super) fn scan(&mut self, op: O<'c>) -> Result<Vec<Shared>, String> {
        let all = operands(op).into_iter().map(|v| self.get(v)).collect::<Result<Vec<_>, _>>()?;
        let (ins, inits) = all.split_at(all.len() / 2);
        let dim = int_attr(op, "dimension").ok_or("a scan without dimension")? as usize;
        let (reverse, exclusive) = (bool_attr(op, "reverse") == Some(true), bool_attr(op, "exclusive") == Some(true));
        let mut body = Body::read(block(op, 0), &self.values)?;
        let mut outs: Vec<Tensor> = ins.iter().map(|t| (**t).clone()).collect();
        let (extent, strides) = (ins[0].shape[dim], ins[0].strides());
        let mut rows = ins[0].shape.clone();
        rows[dim] = rows[dim].min(1);
        let (mut row, mut yields, mut fault) = (0, vec![], None);
        each(&rows, |at| {
            let first: i64 = at.iter().zip(&strides).map(|(i, s)| i * s).sum();
            let mut sum: Vec<u64> = inits.iter().map(|t| t.words[row]).collect();
            row += 1;
            for k in 0..extent {
                let k = if reverse { extent - 1 - k } else { k };
                let place = (first + k * strides[dim]) as usize;
                let here: Vec<u64> = ins.iter().map(|t| t.words[place]).collect();
                let args = if reverse { [&here[..], &sum].concat() } else { [&sum[..], &here].concat() };
                if let Err(e) = body.run(&args, &[], &mut yields) {
                    fault = Some(e);
                    return;
                }
                for (i, out) in outs.iter_mut().enumerate() {
                    out.words[place] = if exclusive { sum[i] } else { yields[i] };
                }
                sum.clone_from(&yields);
            }
        });
        match fault {
            Some(f) => Err(f),
            None => Ok(outs.into_iter().map(Rc::new).collect()),
        }
    }
}
