//! Loops that may run zero times. MLIR gives each result of an `scf.for` a variable that only the loop's body stores, so
//! after zero rounds it holds anything (seen: a reduction's tail doubled part of a sum, nothing complained). Here each
//! variable gets the loop's initial value first.

use melior::ir::BlockRef;
use mlir_sys::{mlirBlockGetNextInRegion, mlirOperationGetRegion, mlirRegionGetFirstBlock};
use zmlc_passes::{
    ir::{B, Blk, O, OperationLike, key, name, operand, operands, ops, walk},
    pass::PassError,
};

/// Every `spirv.mlir.loop` under `m`: stores its initial values into its results' variables before it.
pub fn initialise<'c>(b: &B<'c>, m: O<'c>) -> Result<(), PassError> {
    walk(m).into_iter().filter(|op| name(*op) == "spirv.mlir.loop").try_for_each(|l| one(b, l))
}

fn one<'c>(b: &B<'c>, the_loop: O<'c>) -> Result<(), PassError> {
    let bug = |what: &str| PassError::Bug(format!("a loop after convert-gpu-to-spirv {what}"));
    let blocks = blocks(the_loop);
    let entry = ops(blocks[0]).pop().filter(|op| name(*op) == "spirv.Branch").ok_or_else(|| bug("has no entry"))?;
    let initial = operands(entry);
    let before = B::before(b.c, the_loop);
    for block in &blocks[1..] {
        let Some((next, rest)) = ops(*block).split_last().map(|(n, r)| (*n, r.to_vec())) else { continue };
        if name(next) != "spirv.Branch" || next.operand_count() != initial.len() {
            continue;
        }
        // Of a for loop: the counter, then one value for each result, each stored in that order.
        let stores: Vec<O> = rest.into_iter().filter(|op| name(*op) == "spirv.Store").collect();
        let results = initial.len().saturating_sub(1);
        let Some(first) = stores.len().checked_sub(results) else { continue };
        let last = &stores[first..];
        if !last.iter().enumerate().all(|(i, s)| key(operand(*s, 1)) == key(operand(next, i + 1))) {
            return Err(bug("stores its results in another order than it yields them"));
        }
        for (store, value) in last.iter().zip(&initial[1..]) {
            before.op("spirv.Store", &[operand(*store, 0), *value], &[], &[], vec![]);
        }
    }
    Ok(())
}

fn blocks<'c>(op: O<'c>) -> Vec<Blk<'c>> {
    let mut found = vec![];
    // Sound: the region and its blocks belong to an op that lives.
    unsafe {
        let mut next = mlirRegionGetFirstBlock(mlirOperationGetRegion(op.to_raw(), 0));
        while !next.ptr.is_null() {
            found.push(BlockRef::from_raw(next));
            next = mlirBlockGetNextInRegion(next);
        }
    }
    found
}
