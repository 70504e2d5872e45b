//! The simulator itself: kernels with one fault each, which it must name.

use super::simulate::{Memory, Num, launch};
use zmlc_passes::{context, ir::*};

/// Runs a kernel of two threads over 4 integers with this body, `%a` in, `%r` out, `%w` in workgroup memory.
fn fault(body_text: &str) -> String {
    let text = format!(
        "gpu.module @k {{ gpu.func @k(%a: memref<4xi32>, %r: memref<4xi32>) \
         workgroup(%w: memref<4xi32, #gpu.address_space<workgroup>>) kernel \
         attributes {{known_block_size = array<i32: 2, 1, 1>, zml.grid = array<i32: 2, 1, 1>}} {{\n\
         %t = gpu.thread_id x\n %g = gpu.block_id x\n %c0 = arith.constant 0 : index\n\
         %c1 = arith.constant 1 : index\n %c2 = arith.constant 2 : index\n {body_text}\n gpu.return }} }}"
    );
    let c = context::context();
    let module = context::parse(&c, &text).expect("parses");
    let data = (0..4).map(|i| Some(Num::Int(i))).collect();
    let mut buffers = vec![Memory::new("a", data), Memory::new("r", vec![None; 4])];
    launch(find(body(&module), "k").expect("the kernel"), &mut buffers).expect_err("a fault")
}

#[test]
fn outside() {
    let e = fault(
        "%i = arith.muli %g, %c2 : index\n %j = arith.addi %i, %c2 : index\n %x = memref.load %a[%j] : memref<4xi32>",
    );
    assert_eq!(e, "a[4] is outside of 4");
}
#[test]
fn two_threads_write_one_element() {
    let e = fault("%x = memref.load %a[%t] : memref<4xi32>\n memref.store %x, %r[%g] : memref<4xi32>");
    assert_eq!(e, "r[0] is written by one thread and touched by another");
}
#[test]
fn a_forgotten_barrier() {
    let share = "%x = memref.load %a[%t] : memref<4xi32>\n\
        memref.store %x, %w[%t] : memref<4xi32, #gpu.address_space<workgroup>>\n";
    let other = "%o = arith.xori %t, %c1 : index\n\
        %y = memref.load %w[%o] : memref<4xi32, #gpu.address_space<workgroup>>";
    assert_eq!(fault(&format!("{share}{other}")), "shared0[1] is written by one thread and read by another");
    let late = "memref.store %y, %w[%t] : memref<4xi32, #gpu.address_space<workgroup>>";
    let e = fault(&format!("{share}gpu.barrier\n{other}\n{late}"));
    assert_eq!(e, "shared0[0] is written by one thread and touched by another");
}
#[test]
fn a_barrier_that_some_threads_miss() {
    let e = fault("%p = arith.cmpi eq, %t, %c0 : index\n scf.if %p { gpu.barrier }");
    assert_eq!(e, "a barrier that not all threads reach");
}
#[test]
fn a_vector_between_its_places() {
    let e = fault("%v = vector.load %a[%c1] {alignment = 8 : i64} : memref<4xi32>, vector<2xi32>");
    assert_eq!(e, "vector.load of 2 at 1 is not aligned");
}
#[test]
fn nothing_there_yet() {
    assert_eq!(fault("%x = memref.load %r[%t] : memref<4xi32>"), "r[0] is read before it is written");
}
