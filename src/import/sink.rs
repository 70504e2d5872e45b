//! Constants that a comparator or combiner reads from around it are put into its region: `jax.export` writes them outside,
//! and what runs such a region for each element takes it closed.

use crate::tree::{Block, Func, Literal, Op, OpKind, Program, ValueId};
use std::collections::HashMap;

/// For every function of a program.
pub fn sink(p: &mut Program) {
    for f in &mut p.funcs {
        let mut body = std::mem::take(&mut f.body);
        block(f, &mut body, &mut HashMap::new());
        f.body = body;
    }
}

fn block(f: &mut Func, b: &mut Block, known: &mut HashMap<ValueId, Literal>) {
    for op in &mut b.ops {
        match &op.kind {
            OpKind::Constant(l) if l.elements() == 1 => {
                known.insert(op.results[0], l.clone());
            }
            OpKind::Sort { .. }
            | OpKind::Scatter { .. }
            | OpKind::SelectAndScatter { .. }
            | OpKind::Reduce { .. }
            | OpKind::ReduceWindow(_)
            | OpKind::Map { .. } => op.regions.iter_mut().for_each(|r| close(f, r, known)),
            _ => op.regions.iter_mut().for_each(|r| block(f, r, known)),
        }
    }
}

fn close(f: &mut Func, region: &mut Block, known: &HashMap<ValueId, Literal>) {
    let mut inside: Vec<(ValueId, ValueId)> = vec![];
    let mut constants = vec![];
    let mut own = |v: &mut ValueId| {
        let Some(l) = known.get(v) else { return };
        if let Some((_, copy)) = inside.iter().find(|(from, _)| from == v) {
            *v = *copy;
            return;
        }
        f.values.push(f.values[v.0 as usize].clone());
        let copy = ValueId(f.values.len() as u32 - 1);
        constants.push(Op::new(OpKind::Constant(l.clone()), vec![], vec![copy]));
        inside.push((std::mem::replace(v, copy), copy));
    };
    rename(region, &mut own);
    region.ops.splice(0..0, constants);
}

fn rename(b: &mut Block, own: &mut impl FnMut(&mut ValueId)) {
    for op in &mut b.ops {
        op.operands.iter_mut().for_each(&mut *own);
        op.regions.iter_mut().for_each(|r| rename(r, own));
    }
    b.results.iter_mut().for_each(own);
}

#[cfg(test)]
mod tests {
    use crate::{Source, prepare, print, read};

    #[test]
    fn constants_around_a_comparator_go_into_it() {
        let text = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %zero = stablehlo.constant dense<0.0> : tensor<f32>
          %0 = \"stablehlo.sort\"(%x) <{dimension = 0 : i64, is_stable = true}> ({
          ^bb0(%a: tensor<f32>, %b: tensor<f32>):
            %1 = stablehlo.add %a, %zero : tensor<f32>
            %2 = stablehlo.add %b, %zero : tensor<f32>
            %3 = stablehlo.compare LT, %1, %2, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
            stablehlo.return %3 : tensor<i1>
          }) : (tensor<4xf32>) -> tensor<4xf32>
          return %0 : tensor<4xf32>
        }";
        let p = read(Source::new("sort.mlir", text)).unwrap_or_else(|e| panic!("{e}"));
        let p = prepare(p, "main", None).unwrap_or_else(|e| panic!("{e:?}"));
        let f = p.func("main").expect("main");
        let sort = f.body.ops.last().expect("the sort");
        assert_eq!(sort.regions[0].ops.len(), 4, "{}", print(&p));
        let args = &sort.regions[0].args;
        let constant = sort.regions[0].ops[0].results[0];
        for add in &sort.regions[0].ops[1..3] {
            assert!(args.contains(&add.operands[0]) && add.operands[1] == constant);
        }
    }
}
