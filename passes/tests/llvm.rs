//! What the targets of the llvm dialect share: preparing kernels, merging them, and finding what a conversion left.

use zmlc_passes::{
    context,
    llvm::{merge, only_dialects, prepare_kernels},
    pass::PassError,
};

#[test]
fn subgroup_ids_and_math_are_prepared() {
    let c = context::context();
    let text = "gpu.module @k { gpu.func @k(%r: memref<4xindex>, %f: memref<4xvector<2xf32>>) kernel
        attributes {known_block_size = array<i32: 16, 8, 1>} {
        %c0 = arith.constant 0 : index
        %lane = gpu.lane_id
        memref.store %lane, %r[%c0] : memref<4xindex>
        %n = gpu.num_subgroups : index
        memref.store %n, %r[%c0] : memref<4xindex>
        %x = memref.load %f[%c0] : memref<4xvector<2xf32>>
        %y = math.floor %x : vector<2xf32>
        memref.store %y, %f[%c0] : memref<4xvector<2xf32>>
        gpu.return } }";
    let module = context::parse(&c, text).unwrap();
    prepare_kernels(&c, &module, 64);
    context::verify(&c, &module).unwrap();
    let after = context::print(&module);
    for part in ["gpu.thread_id  y", "arith.remui", "arith.constant 2 : index", "\"llvm.floor.v2f32\""] {
        assert!(after.contains(part), "{part} in {after}");
    }
    for gone in ["gpu.lane_id", "gpu.num_subgroups", "math.floor"] {
        assert!(!after.contains(gone), "{after}");
    }
}

#[test]
fn merged_kernels_keep_order_and_clash_is_an_error() {
    let c = context::context();
    let kernel = |module: &str, symbol: &str| {
        format!("gpu.module @{module} {{ llvm.func @{symbol}() attributes {{gpu.kernel}} {{ llvm.return }} }}\n")
    };
    let module = context::parse(&c, &(kernel("b", "b") + &kernel("a", "a"))).unwrap();
    only_dialects(&module, &["llvm"]).unwrap();
    let (merged, entries) = merge(&c, &module).unwrap();
    assert_eq!(entries.iter().map(|e| e.symbol.as_str()).collect::<Vec<_>>(), ["b", "a"]);
    let text = context::print(&merged);
    assert_eq!((text.matches("gpu.module").count(), text.matches("llvm.func").count()), (1, 2), "{text}");

    let module = context::parse(&c, &(kernel("a", "same") + &kernel("b", "same"))).unwrap();
    assert!(matches!(merge(&c, &module), Err(PassError::Bug(m)) if m == "two kernels define @same"));
    let module = context::parse(&c, "gpu.module @k { gpu.func @k() kernel { gpu.return } }").unwrap();
    assert!(matches!(only_dialects(&module, &["llvm"]), Err(PassError::Bug(m)) if m.contains("gpu.func is left")));
}
