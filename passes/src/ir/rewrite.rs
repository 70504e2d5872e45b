//! Changing IR in place: attributes, operands, cloning with a value map (the C API has no IRMapping), erasing.

use super::{AttributeLike, B, Blk, O, OperationLike, V, arg, key, op_ref, operands, ops, result, walk};
use melior::{
    StringRef,
    ir::{Attribute, ValueLike},
};
use mlir_sys::*;
use std::collections::HashMap;

/// What each value becomes, by [`key`].
pub type Map<'c> = HashMap<usize, V<'c>>;

pub fn set_attr(op: O, name: &str, a: Attribute) {
    unsafe { mlirOperationSetAttributeByName(op.to_raw(), StringRef::new(name).to_raw(), a.to_raw()) }
}
pub fn remove_attr(op: O, name: &str) {
    unsafe { mlirOperationRemoveAttributeByName(op.to_raw(), StringRef::new(name).to_raw()) };
}
pub fn set_operand<'c>(op: O<'c>, i: usize, v: V<'c>) {
    unsafe { mlirOperationSetOperand(op.to_raw(), i as isize, v.to_raw()) }
}
pub fn replace_uses<'c>(old: V<'c>, new: V<'c>) {
    unsafe { mlirValueReplaceAllUsesOfWith(old.to_raw(), new.to_raw()) }
}
/// Clones `op` and everything in it to the end of the builder's block, with operands replaced by `map`, into which the results go.
pub fn clone_mapped<'c>(b: &B<'c>, op: O<'c>, map: &mut Map<'c>) -> O<'c> {
    let new = op_ref(unsafe { mlirOperationClone(op.to_raw()) });
    b.insert(new.to_raw());
    remap(new, map);
    for i in 0..op.result_count() {
        map.insert(key(result(op, i)), result(new, i));
    }
    new
}
/// Replaces the operands of `op` and of everything in it by `map`.
pub fn remap<'c>(op: O<'c>, map: &Map<'c>) {
    for inner in walk(op) {
        for i in 0..inner.operand_count() {
            if let Some(new) = map.get(&key(super::operand(inner, i))) {
                set_operand(inner, i, *new);
            }
        }
    }
}
/// Removes an op that nothing uses any more.
pub fn erase(op: O) {
    unsafe {
        mlirOperationRemoveFromParent(op.to_raw());
        mlirOperationDestroy(op.to_raw());
    }
}
/// Takes an op out of its block and puts it at the end of another.
pub fn move_to_end(op: O, block: Blk) {
    use melior::ir::BlockLike;
    unsafe {
        mlirOperationRemoveFromParent(op.to_raw());
        mlirBlockAppendOwnedOperation(block.to_raw(), op.to_raw());
    }
}

/// The ops of `body` again, for these arguments: what its terminator would take.
pub fn yielded<'c>(b: &B<'c>, body: Blk<'c>, with: &[V<'c>]) -> Vec<V<'c>> {
    let mut map = Map::new();
    for (i, v) in with.iter().enumerate() {
        map.insert(key(arg(body, i)), *v);
    }
    let all = ops(body);
    let (last, rest) = all.split_last().expect("a body has a terminator");
    for op in rest {
        clone_mapped(b, *op, &mut map);
    }
    operands(*last).into_iter().map(|v| map.get(&key(v)).copied().unwrap_or(v)).collect()
}
