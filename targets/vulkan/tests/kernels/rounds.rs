//! Loops on a device that ends them after some rounds: the same numbers in fewer and longer rounds.

use crate::support::{Built, build, pack, run, spec, unpack};
use zmlc_passes::{pass::PassError, spec::DeviceSpec};

/// Of thread t: a sum over 3 x 37 turns, then t turns of `x = 3 x + i` from t on, which a barrier may follow.
fn kernel(barrier: &str) -> String {
    format!(
        r#"gpu.module @k {{
  gpu.func @k(%a: memref<64xi32> {{zml.access = "read"}}, %r: memref<128xi32> {{zml.access = "write"}}) kernel
      attributes {{known_block_size = array<i32: 64, 1, 1>, zml.grid = array<i32: 1, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c5 = arith.constant 5 : index
    %c64 = arith.constant 64 : index
    %c76 = arith.constant 76 : index
    %three = arith.constant 3 : i32
    %t = gpu.thread_id x
    %x = memref.load %a[%t] : memref<64xi32>
    %s = scf.for %i = %c0 to %c3 step %c1 iter_args(%u = %x) -> (i32) {{
      %v = scf.for %j = %c2 to %c76 step %c2 iter_args(%w = %u) -> (i32) {{
        %k = arith.muli %i, %j : index
        %n = arith.index_cast %k : index to i32
        %y = arith.addi %w, %n : i32
        {barrier}
        scf.yield %y : i32
      }}
      scf.yield %v : i32
    }}
    memref.store %s, %r[%t] : memref<128xi32>
    %d = arith.muli %t, %c2 : index
    %e = arith.minui %d, %c64 : index
    %p:2 = scf.for %i = %t to %e step %c1 iter_args(%u = %x, %w = %c0) -> (i32, index) {{
      %n = arith.index_cast %i : index to i32
      %m = arith.muli %u, %three : i32
      %y = arith.addi %m, %n : i32
      %z = arith.addi %w, %c1 : index
      scf.yield %y, %z : i32, index
    }}
    %q = arith.index_cast %p#1 : index to i32
    %o = arith.addi %p#0, %q : i32
    %l = arith.addi %t, %c64 : index
    memref.store %o, %r[%l] : memref<128xi32>
    gpu.return
  }}
}}"#
    )
}
fn with_rounds(text: &str, most: &str) -> Result<Built, PassError> {
    let mut spec: DeviceSpec = spec();
    spec.options.insert("loop-rounds".into(), most.into());
    build(text, &spec)
}
fn wanted(x: &[i32]) -> Vec<i32> {
    let sum: i32 = (0..3).flat_map(|i| (2..76).step_by(2).map(move |j| i * j)).sum();
    let fold = |t: usize| {
        let turns = t..(2 * t).min(64);
        turns.clone().fold(x[t], |u, i| u.wrapping_mul(3).wrapping_add(i as i32)).wrapping_add(turns.len() as i32)
    };
    x.iter().map(|x| x + sum).chain((0..x.len()).map(fold)).collect()
}

#[test]
fn fewer_rounds_compute_the_same() {
    let x: Vec<i32> = (0..64).map(|i| i * i - 100).collect();
    for barrier in ["", "gpu.barrier"] {
        let text = kernel(barrier);
        let plain = with_rounds(&text, "65535").expect("builds");
        assert_eq!(plain.binaries, build(&text, &spec()).expect("builds").binaries, "short enough as it is");
        for most in ["150", "60", "30", "10"] {
            let built = with_rounds(&text, most).unwrap_or_else(|e| panic!("{most}: {e}"));
            assert_ne!(plain.binaries, built.binaries, "{most}");
            let Some(got) = run(&built, 0, &[pack(&x), vec![0; 512]], &[]) else { return };
            assert_eq!(unpack::<i32>(&got[1]), wanted(&x), "{most} {barrier}");
        }
    }
}
#[test]
fn more_rounds_than_can_be_put_together_are_refused() {
    let said = match with_rounds(&kernel("").replace("76 : index", "76000 : index"), "100") {
        Err(PassError::Unsupported { what, .. }) => what,
        other => panic!("{:?}", other.map(|b| b.facts)),
    };
    insta::assert_snapshot!(said, @"kernel k makes 1791 rounds of loops even at 64 turns each, and devices of the profile vulkan1.3 may end them after 100");
}
