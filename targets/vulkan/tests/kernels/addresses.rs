//! Buffers that are found by address: the same kernels as with bindings give the same bytes, whatever is stored in them.

use crate::{
    fixtures,
    support::{Built, build, fixture, pack, run, spec, validator},
};
use half::{bf16, f16};
use zmlc_passes::{pass::PassError, spec::DeviceSpec};

/// The portable profile where bindings span at most `bytes`, and a kernel has at most `buffers` of them.
fn narrow(bytes: u64, buffers: u32) -> DeviceSpec {
    DeviceSpec { max_buffer_bytes: bytes, max_buffers: buffers, ..spec() }
}
fn bindings(built: &Built, kernel: usize) -> Vec<String> {
    let text = built.text(kernel);
    let numbers = text.lines().filter(|l| l.starts_with("OpDecorate") && l.contains(" Binding "));
    let mut all: Vec<String> = numbers.filter_map(|l| Some(l.rsplit(' ').next()?.to_string())).collect();
    all.sort();
    all
}

/// Element count and type of each buffer of the first kernel, from its signature.
fn buffers(text: &str) -> Vec<(usize, String)> {
    let signature = text.split("gpu.func").nth(1).and_then(|f| f.split(')').next()).expect("a kernel");
    let types = signature.split("memref<").skip(1).filter_map(|m| m.split('>').next());
    types.filter_map(|t| t.split_once('x')).map(|(n, t)| (n.parse().expect("a size"), t.to_string())).collect()
}
/// Small values of any type.
fn values(n: usize, t: &str) -> Vec<u8> {
    let each = |f: &dyn Fn(usize) -> Vec<u8>| (0..n).flat_map(f).collect();
    let (whole, float) = (|i: usize| i * 7 % 5, |i: usize| (i * 37 % 29) as f32 / 8.0 - 1.5);
    match t {
        "i1" => each(&|i| vec![(i * 7 % 3 == 0).into()]),
        "i8" => each(&|i| vec![whole(i) as u8]),
        "i16" => each(&|i| pack(&[whole(i) as u16])),
        "i32" => each(&|i| pack(&[whole(i) as u32])),
        "i64" => each(&|i| pack(&[whole(i) as u64])),
        "f16" => each(&|i| pack(&[f16::from_f32(float(i))])),
        "bf16" => each(&|i| pack(&[bf16::from_f32(float(i))])),
        "f32" => each(&|i| pack(&[float(i)])),
        "f64" => each(&|i| pack(&[f64::from(float(i))])),
        other => panic!("no values of {other}"),
    }
}

/// One is a count of elements; of two the first is where they start.
fn scalars(built: &Built) -> Vec<u32> {
    let count = built.facts[0].scalar_bytes as usize / 4;
    [0, 64].into_iter().skip(2 - count).collect()
}

/// Kernels that run on any device, without those that are long for their arithmetic alone.
fn plain() -> Vec<(String, String)> {
    let mut all = fixtures();
    let special = ["zml.dispatch", "gpu.shuffle", "gpu.subgroup", "atomic"];
    let long = ["math.mlir", "native.mlir", "matmul.mlir"];
    all.retain(|(name, text)| !long.contains(&name.as_str()) && !special.iter().any(|s| text.contains(s)));
    assert!(all.len() >= 6, "{}", all.len());
    all
}

#[test]
fn every_fixture_computes_the_same_by_address() {
    let tool = validator();
    for (name, text) in plain() {
        let bound = build(&text, &spec()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let addressed = build(&text, &narrow(1, 1)).unwrap_or_else(|e| panic!("{name}: {e}"));
        for b in &addressed.binaries {
            if let Some(tool) = &tool {
                tool.check(&b.bytes).unwrap_or_else(|said| panic!("{name}: {}: {said}", b.kernel));
            }
        }
        let inputs: Vec<Vec<u8>> =
            buffers(&text).into_iter().take(bound.facts[0].buffers.len()).map(|(n, t)| values(n, &t)).collect();
        assert_eq!(addressed.facts[0].addresses.len(), inputs.len(), "{name}");
        let scalars = scalars(&bound);
        let Some(wanted) = run(&bound, 0, &inputs, &scalars) else { return };
        assert!(run(&addressed, 0, &inputs, &scalars) == Some(wanted), "{name}");
    }
}

#[test]
fn what_is_too_large_or_too_much_has_an_address() {
    let text = fixture("assign_descriptors/bind.mlir").replacen("%s: memref<64xf32>", "%s: memref<65xf32>", 1);
    let text = text.replacen("%s[%i] : memref<64xf32>", "%s[%i] : memref<65xf32>", 2);
    let build = |spec: DeviceSpec| build(&text, &spec).expect("builds");
    let bound = build(narrow(260, 3));
    assert_eq!(
        (bound.facts[0].addresses.clone(), bindings(&bound, 0)),
        (vec![], vec!["0".into(), "1".into(), "2".into()])
    );
    assert!(!bound.text(0).contains("PhysicalStorageBuffer"));
    // The table takes one binding.
    let large = build(narrow(256, 3));
    assert_eq!((&large.facts[0].addresses[..], bindings(&large, 0).len()), (&[1][..], 3));
    let many = build(narrow(260, 2));
    assert_eq!((&many.facts[0].addresses[..], bindings(&many, 0).len()), (&[1, 2][..], 2));
    let least = build(narrow(260, 1));
    assert_eq!((&least.facts[0].addresses[..], bindings(&least, 0).len()), (&[0, 1, 2][..], 1));
    let text = large.text(0);
    for wanted in ["OpCapability PhysicalStorageBufferAddresses", "OpMemoryModel PhysicalStorageBuffer64", "Aligned 4"]
    {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    assert!(!text.contains("OpCapability Int64"), "an address is two words");
}

#[test]
fn a_profile_without_addresses_refuses() {
    let without = DeviceSpec { addresses: false, ..narrow(255, 32) };
    let not_offered = {
        let mut s = narrow(255, 32);
        s.requires.features.retain(|f| f != "bufferDeviceAddress");
        s
    };
    let said: Vec<String> = [without, not_offered]
        .iter()
        .map(|spec| match build(&fixture("assign_descriptors/bind.mlir"), spec) {
            Err(PassError::Unsupported { what, .. }) => what,
            other => panic!("{:?}", other.map(|b| b.facts)),
        })
        .collect();
    insta::assert_snapshot!(said.join("\n"), @r"
    kernel scale needs 256 bytes in buffer 0, more than the 255 of the profile vulkan1.3
    kernel scale needs bufferDeviceAddress, which the profile vulkan1.3 does not offer
    ");
}

/// Drivers compute the offsets of access chains in 32 bits: of a buffer beyond that the kernel computes addresses itself.
/// The device sees only the first elements of what the kernel takes for 4 GiB and more.
#[test]
fn addresses_in_far_buffers_are_computed_in_64_bits() {
    for (name, from, to) in [
        ("kernels/predicate.mlir", "memref<64x", "memref<5000000000x"),
        ("kernels/half.mlir", "memref<256x", "memref<3000000000x"),
        ("kernels/add.mlir", "memref<1024x", "memref<600000000x"),
    ] {
        let text = fixture(name);
        let far = build(&text.replace(from, to), &spec()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(far.facts[0].addresses.len(), far.facts[0].buffers.len(), "{name}");
        let code = far.text(0);
        assert!(code.contains("OpConvertUToPtr") && code.contains("OpConvertPtrToU"), "{name}: {code}");
        if let Some(tool) = validator() {
            for b in &far.binaries {
                tool.check(&b.bytes).unwrap_or_else(|said| panic!("{name}: {}: {said}", b.kernel));
            }
        }
        let bound = build(&text, &spec()).expect("builds");
        let inputs: Vec<Vec<u8>> = buffers(&text).into_iter().map(|(n, t)| values(n, &t)).collect();
        let Some(wanted) = run(&bound, 0, &inputs, &[]) else { return };
        assert!(run(&far, 0, &inputs, &[]) == Some(wanted), "{name}");
    }
    let near = build(&fixture("kernels/add.mlir"), &narrow(1, 1)).expect("builds");
    assert!(!near.text(0).contains("OpConvertUToPtr"), "an address is no number where it need not be");
}

/// Indices of 64 bits on a device: what would differ is the width alone.
#[test]
fn wide_kernels_compute_the_same() {
    let tool = validator();
    for (name, text) in plain() {
        let wide = text.replace("attributes {", "attributes {zml.wide, ");
        let (narrow, wide) = (build(&text, &spec()).expect("builds"), build(&wide, &spec()).expect("builds"));
        assert!(wide.text(0).contains("OpCapability Int64"), "{name}");
        if let Some(tool) = &tool {
            tool.check(&wide.binaries[0].bytes).unwrap_or_else(|said| panic!("{name}: {said}"));
        }
        let inputs: Vec<Vec<u8>> =
            buffers(&text).into_iter().take(narrow.facts[0].buffers.len()).map(|(n, t)| values(n, &t)).collect();
        let scalars = scalars(&narrow);
        let Some(wanted) = run(&narrow, 0, &inputs, &scalars) else { return };
        assert!(run(&wide, 0, &inputs, &scalars) == Some(wanted), "{name}");
    }
}
/// `i64(-5) >= 0` held on Mesa 22.3 where the 64 bits came by a conversion: indices from data are clamped so.
#[test]
fn negative_indices_are_clamped_in_wide_kernels() {
    let text = r#"gpu.module @k {
  gpu.func @k(%a: memref<64xi32> {zml.access = "read"}, %r: memref<64xi32> {zml.access = "write"}) kernel
      attributes {zml.wide, known_block_size = array<i32: 64, 1, 1>, zml.grid = array<i32: 1, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c63 = arith.constant 63 : index
    %i = gpu.thread_id x
    %x = memref.load %a[%i] : memref<64xi32>
    %j = arith.index_cast %x : i32 to index
    %low = arith.cmpi slt, %j, %c0 : index
    %k = arith.select %low, %c0, %j : index
    %l = arith.minsi %k, %c63 : index
    %y = arith.index_cast %l : index to i32
    memref.store %y, %r[%i] : memref<64xi32>
    gpu.return
  }
}"#;
    let input: Vec<i32> = (0..64).map(|i| (i - 20) * 3).collect();
    let built = build(text, &spec()).expect("builds");
    let Some(got) = run(&built, 0, &[pack(&input), vec![0; 256]], &[]) else { return };
    let wanted: Vec<i32> = input.iter().map(|x| (*x).clamp(0, 63)).collect();
    assert_eq!(got[1], pack(&wanted));
}
/// The same of numbers of threads, as positions and as integers of 64 bits.
#[test]
fn numbers_of_threads_are_compared_with_constants() {
    for wide in ["", "zml.wide, "] {
        let text = format!(
            r#"gpu.module @k {{
  gpu.func @k(%r: memref<64xi32> {{zml.access = "write"}}) kernel
      attributes {{{wide}known_block_size = array<i32: 64, 1, 1>, zml.grid = array<i32: 1, 1, 1>}} {{
    %i = gpu.thread_id x
    %c20 = arith.constant 20 : index
    %d20 = arith.constant 20 : i64
    %d50 = arith.constant 50 : i64
    %x = arith.index_cast %i : index to i64
    %z = arith.index_castui %i : index to i64
    %p = arith.cmpi slt, %i, %c20 : index
    %q = arith.cmpi slt, %x, %d20 : i64
    %s = arith.cmpi sge, %z, %d20 : i64
    %m = arith.minsi %x, %d50 : i64
    %p1 = arith.extui %p : i1 to i32
    %q1 = arith.extui %q : i1 to i32
    %s1 = arith.extui %s : i1 to i32
    %m1 = arith.trunci %m : i64 to i32
    %c = arith.constant 2 : i32
    %y0 = arith.muli %m1, %c : i32
    %y1 = arith.addi %y0, %p1 : i32
    %y2 = arith.muli %y1, %c : i32
    %y3 = arith.addi %y2, %q1 : i32
    %y4 = arith.muli %y3, %c : i32
    %y = arith.addi %y4, %s1 : i32
    memref.store %y, %r[%i] : memref<64xi32>
    gpu.return
  }}
}}"#
        );
        let built = build(&text, &spec()).expect("builds");
        let Some(got) = run(&built, 0, &[vec![0; 256]], &[]) else { return };
        let wanted = |i: i32| i.min(50) * 8 + i32::from(i < 20) * 6 + i32::from(i >= 20);
        assert_eq!(got[0], pack(&(0..64).map(wanted).collect::<Vec<_>>()), "{wide}");
    }
}
