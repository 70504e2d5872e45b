//! The runtime on whatever device there is, with artifacts made by hand: values, counts, state, control flow, refusals.

use crate::common::*;
use zml_runtime::{Artifact, Backend, Device, DeviceRequest, Error, format::*};

const A: fn(usize) -> BufferKind = BufferKind::Argument;
const R: fn(usize) -> BufferKind = BufferKind::Result;

/// `y = x + w * 3` with an intermediate in the arena, and a weight.
fn chained(n: u64) -> Artifact {
    let mut m = any();
    let weight = m.writer.blob(&f32s(&(0..n).map(|i| i as f32).collect::<Vec<_>>()));
    m.manifest.weights = vec![Weight {
        tensor: tensor("w", DType::F32, &[n]),
        sha256: String::new(),
        source: WeightSource::Embedded { blob: weight },
    }];
    let bytes = 4 * n;
    let program = Program {
        arena_bytes: bytes,
        buffers: vec![
            buffer(A(0), bytes),
            buffer(A(1), bytes),
            buffer(BufferKind::Arena(0), bytes),
            buffer(R(0), bytes),
        ],
        results: vec![3],
        steps: vec![
            dispatch("scale", &[slice(1, 0, bytes), slice(2, 0, bytes)], n as u32, 3),
            Step::Barrier,
            dispatch("add", &[slice(0, 0, bytes), slice(2, 0, bytes), slice(3, 0, bytes)], n as u32, 0),
        ],
    };
    let arguments = vec![input("x", n), Argument::Weight { weight: 0 }];
    m.entry("main", arguments, vec![result("y", n)], &program).artifact()
}

#[test]
fn kernels_chain_in_one_submit_and_later_calls_allocate_nothing() {
    let Some((_, mut s)) = open(&chained(1000)) else { return };
    for call in 1..=3u64 {
        s.write("main", 0, &f32s(&vec![call as f32; 1000])).unwrap();
        let before = s.counters();
        s.call("main").unwrap();
        let expected: Vec<f32> = (0..1000).map(|i| 3.0 * i as f32 + call as f32).collect();
        assert_eq!(read(&s, "main", 0), expected);
        let c = s.counters();
        assert_eq!((c.submits, c.dispatches, c.barriers, c.read_backs), (call, 2 * call, call, 0));
        assert_eq!(c.allocations, before.allocations);
    }
    // An input that is not donated stays.
    s.call("main").unwrap();
    assert_eq!(read(&s, "main", 0)[1], 6.0);
}

#[test]
fn a_model_has_any_number_of_sessions() {
    let artifact = chained(8);
    let Some((model, mut one)) = open(&artifact) else { return };
    drop(artifact);
    let mut two = zml_runtime::Session::new(&model).unwrap();
    let worker = std::thread::spawn(move || {
        two.write("main", 0, &f32s(&[1.0; 8])).unwrap();
        two.call("main").unwrap();
        read(&two, "main", 0)
    });
    one.write("main", 0, &f32s(&[2.0; 8])).unwrap();
    one.call("main").unwrap();
    assert_eq!(worker.join().unwrap()[..3], [1.0, 4.0, 7.0]);
    assert_eq!(read(&one, "main", 0)[..3], [2.0, 5.0, 8.0]);
}

/// `y = x + x`, written over `x`.
#[test]
fn a_donated_input_is_written_in_place_and_supplied_anew() {
    let program = Program {
        arena_bytes: 0,
        buffers: vec![buffer(A(0), 16)],
        results: vec![0],
        steps: vec![dispatch("add", &[slice(0, 0, 16), slice(0, 0, 16), slice(0, 0, 16)], 4, 0)],
    };
    let artifact = any().entry("main", vec![donated("x", 4)], vec![result("y", 4)], &program).artifact();
    let Some((_, mut s)) = open(&artifact) else { return };
    s.write("main", 0, &f32s(&[1.0, 2.0, 3.0, 4.0])).unwrap();
    s.call("main").unwrap();
    assert_eq!(read(&s, "main", 0), [2.0, 4.0, 6.0, 8.0]);
    let why = s.call("main").unwrap_err().to_string();
    assert_eq!(why, "input 0 `x` of entry `main` is not supplied: f32 [4]");
    assert_eq!(s.counters().copies, 0);
}

/// `push`: s = s + x, in place or through a result of its own. `get`: y = s * 1.
fn stateful(in_place: bool) -> Artifact {
    let mut m = any();
    m.manifest.state = vec![State { tensor: tensor("s", DType::F32, &[4]) }];
    let at = if in_place { 1 } else { 2 };
    let push = Program {
        arena_bytes: 0,
        buffers: vec![buffer(A(0), 16), buffer(A(1), 16), buffer(R(0), 16)],
        results: vec![at],
        steps: vec![dispatch("add", &[slice(0, 0, 16), slice(1, 0, 16), slice(at, 0, 16)], 4, 0)],
    };
    let get = Program {
        arena_bytes: 0,
        buffers: vec![buffer(A(0), 16), buffer(R(0), 16)],
        results: vec![1],
        steps: vec![dispatch("scale", &[slice(0, 0, 16), slice(1, 0, 16)], 4, 1)],
    };
    let state = || Argument::State { state: 0 };
    let next = EntryResult { state: Some(0), ..result("s", 4) };
    m.entry("push", vec![input("x", 4), state()], vec![next], &push)
        .entry("get", vec![state()], vec![result("y", 4)], &get)
        .artifact()
}

#[test]
fn state_lives_across_calls_and_entries() {
    for (in_place, copies) in [(true, 0), (false, 2)] {
        let Some((_, mut s)) = open(&stateful(in_place)) else { return };
        s.call("get").unwrap();
        assert_eq!(read(&s, "get", 0), [0.0; 4]);
        s.write("push", 0, &f32s(&[1.0, 2.0, 3.0, 4.0])).unwrap();
        s.call("push").unwrap();
        s.call("push").unwrap();
        s.call("get").unwrap();
        assert_eq!(read(&s, "get", 0), [2.0, 4.0, 6.0, 8.0]);
        assert_eq!((s.counters().copies, s.counters().submits), (copies, 4));
        s.reset().unwrap();
        s.call("get").unwrap();
        assert_eq!(read(&s, "get", 0), [0.0; 4]);
        assert!(s.read("push", 0).unwrap_err().to_string().contains("no output 0"));
    }
}

/// While x[0] < 100: x = x + x. Buffers: x donated, predicate in the arena.
fn doubling() -> Artifact {
    let x = slice(0, 0, 8);
    let program = Program {
        arena_bytes: 256,
        buffers: vec![buffer(A(0), 8), buffer(BufferKind::Arena(0), 1)],
        results: vec![0],
        steps: vec![Step::While {
            condition: vec![dispatch("below", &[slice(0, 0, 4), slice(1, 0, 1)], 1, 100)],
            predicate: slice(1, 0, 1),
            body: vec![dispatch("add", &[x, x, x], 2, 0)],
            turns: None,
        }],
    };
    any().entry("main", vec![donated("x", 2)], vec![result("y", 2)], &program).artifact()
}

#[test]
fn a_loop_reads_its_predicate_back_once_a_turn() {
    let Some((model, mut s)) = open(&doubling()) else { return };
    let is_vulkan = model.device().info().backend == Backend::Vulkan;
    for (start, turns) in [([3.0, 1.0], 6), ([100.0, 1.0], 0)] {
        let before = s.counters();
        s.write("main", 0, &f32s(&start)).unwrap();
        s.call("main").unwrap();
        let factor = 2f32.powi(turns);
        assert_eq!(read(&s, "main", 0), [start[0] * factor, start[1] * factor]);
        let turns = turns as u64;
        let c = s.counters();
        assert_eq!(c.read_backs - before.read_backs, turns + 1);
        // On Vulkan one submit a turn holds body and condition; a graph has one segment.
        let submits = if is_vulkan { turns + 2 } else { 2 * turns + 1 };
        assert_eq!(c.submits - before.submits, submits);
        assert_eq!(c.dispatches - before.dispatches, 2 * turns + 1);
    }
}

/// By x[0] < 10: y = x * 2, else y = x * 5; then by the index in `i` y is scaled into z by 1, 2 or 3.
#[test]
fn branches_by_predicate_and_by_index() {
    let scale = |from, to, by| vec![dispatch("scale", &[slice(from, 0, 4), slice(to, 0, 4)], 1, by)];
    let program = Program {
        arena_bytes: 512,
        buffers: vec![
            buffer(A(0), 4),
            buffer(A(1), 4),
            buffer(BufferKind::Arena(256), 1),
            buffer(BufferKind::Arena(0), 4),
            buffer(R(0), 4),
        ],
        results: vec![4],
        steps: vec![
            dispatch("below", &[slice(0, 0, 4), slice(2, 0, 1)], 1, 10),
            Step::If { predicate: slice(2, 0, 1), then: scale(0, 3, 2), otherwise: scale(0, 3, 5) },
            Step::Case { index: slice(1, 0, 4), branches: vec![scale(3, 4, 1), scale(3, 4, 2), scale(3, 4, 3)] },
        ],
    };
    let index = Argument::Input { tensor: tensor("i", DType::I32, &[]), donated: false };
    let artifact = any().entry("main", vec![input("x", 1), index], vec![result("z", 1)], &program).artifact();
    let Some((_, mut s)) = open(&artifact) else { return };
    for (x, i, expected) in [(1.0, 0, 2.0), (1.0, 1, 4.0), (20.0, 2, 300.0), (20.0, 7, 300.0), (1.0, -1, 6.0)] {
        s.write("main", 0, &f32s(&[x])).unwrap();
        s.write("main", 1, &i32::to_le_bytes(i)).unwrap();
        s.call("main").unwrap();
        assert_eq!(read(&s, "main", 0), [expected], "x = {x}, i = {i}");
    }
    assert_eq!(s.counters().read_backs, 10);
}

/// Fills and copies at every odd offset and length of a row of bytes.
#[test]
fn fills_and_copies_reach_any_byte() {
    for (offset, bytes) in [(0, 0), (0, 1), (1, 2), (3, 1), (3, 9), (4, 4), (5, 11), (0, 24), (7, 17)] {
        let u8s = |name: &str| tensor(name, DType::U8, &[24]);
        let program = Program {
            arena_bytes: 0,
            buffers: vec![buffer(A(0), 24), buffer(R(1), 24)],
            results: vec![0, 1],
            steps: vec![
                Step::Fill { to: slice(1, 0, 24), byte: 9 },
                Step::Fill { to: slice(0, offset, bytes), byte: 0xab },
                Step::Barrier,
                Step::Copy { from: slice(0, offset, bytes), to: slice(1, 24 - bytes, bytes) },
            ],
        };
        let x = Argument::Input { tensor: u8s("x"), donated: true };
        let results = ["y", "z"].map(|n| EntryResult { tensor: u8s(n), state: None }).to_vec();
        let Some((_, mut s)) = open(&any().entry("main", vec![x], results, &program).artifact()) else { return };
        s.write("main", 0, &[7; 24]).unwrap();
        s.call("main").unwrap();
        let (from, to) = (offset as usize, (offset + bytes) as usize);
        let filled: Vec<u8> = (0..24).map(|i| if (from..to).contains(&i) { 0xab } else { 7 }).collect();
        assert_eq!(s.read("main", 0).unwrap(), filled, "{offset} {bytes}");
        let copied: Vec<u8> = (0..24).map(|i| if i >= 24 - bytes as usize { 0xab } else { 9 }).collect();
        assert_eq!(s.read("main", 1).unwrap(), copied, "{offset} {bytes}");
    }
}

#[test]
fn tensors_without_elements_pass_through() {
    let program = Program {
        arena_bytes: 0,
        buffers: vec![buffer(A(0), 0), buffer(R(0), 0)],
        results: vec![1],
        // Bound to nothing, and run for no element; a grid of zero is not run at all.
        steps: vec![
            dispatch("scale", &[slice(0, 0, 0), slice(1, 0, 0)], 0, 1),
            Step::Dispatch(Dispatch {
                kernel: 0,
                grid: [1, 1, 1],
                buffers: vec![slice(0, 0, 0), slice(0, 0, 0), slice(1, 0, 0)],
                scalars: vec![0, 0],
            }),
        ],
    };
    let artifact = any().entry("main", vec![input("x", 0)], vec![result("y", 0)], &program).artifact();
    let Some((_, mut s)) = open(&artifact) else { return };
    s.write("main", 0, &[]).unwrap();
    s.call("main").unwrap();
    assert!(s.read("main", 0).unwrap().is_empty());
    assert_eq!(s.counters().dispatches, 1);
}

#[test]
fn an_output_may_be_an_input_or_a_constant() {
    let mut m = any();
    let constant = m.writer.blob(&f32s(&[5.0, 6.0]));
    let program = Program {
        arena_bytes: 0,
        buffers: vec![buffer(A(0), 8), buffer(BufferKind::Constant(constant), 8)],
        results: vec![1, 0],
        steps: vec![],
    };
    let artifact = m.entry("main", vec![input("x", 2)], vec![result("c", 2), result("x", 2)], &program).artifact();
    let Some((_, mut s)) = open(&artifact) else { return };
    s.write("main", 0, &f32s(&[1.0, 2.0])).unwrap();
    s.call("main").unwrap();
    assert_eq!((read(&s, "main", 0), read(&s, "main", 1)), (vec![5.0, 6.0], vec![1.0, 2.0]));
    let c = s.counters();
    assert_eq!((c.dispatches, c.copies, c.barriers), (0, 0, 0));
}

#[test]
fn wrong_calls_are_named() {
    let Some((model, mut s)) = open(&chained(4)) else { return };
    let why = |r: Result<(), Error>| r.unwrap_err().to_string();
    assert_eq!(why(s.call("main")), "input 0 `x` of entry `main` is not supplied: f32 [4]");
    assert_eq!(why(s.write("main", 0, &[0; 15])), "input 0 `x` is f32 [4], 16 bytes; 15 were given");
    assert_eq!(why(s.write("main", 1, &[])), "entry `main` has no input 1");
    assert_eq!(why(s.call("other")), "no entry `other`; `test` has: main");
    assert_eq!(why(s.read("main", 0).map(|_| ())), "entry `main` was not called yet");
    assert_eq!(model.entry(Some("f")).unwrap_err().to_string(), "no entry `f`; `test` has: main");
}

#[test]
fn a_device_that_lacks_something_says_what() {
    let mut m = builder(&["vulkan"]);
    let r = &mut m.manifest.profiles[0].requires;
    r.features.extend(["shaderFancy".into(), "VK_KHR_never".into()]);
    r.limits.push(("maxPushConstantsSize".into(), 1 << 20));
    let artifact = m.artifact();
    let Err(Error::NoDevice(why)) = Device::open(DeviceRequest::Auto, &artifact) else { panic!() };
    if !why.contains("cannot: ") {
        return skipped(&why);
    }
    for part in [
        "no device can run `test`\n  vulkan: ",
        "the feature `shaderFancy` is unknown to this runtime",
        "it has no VK_KHR_never",
        "maxPushConstantsSize is",
    ] {
        assert!(why.contains(part), "{why}");
    }
    assert_eq!(why.lines().count(), 2, "{why}");
}

#[test]
fn only_backends_of_the_artifact_are_spoken_of() {
    let artifact = builder(&["vulkan"]).artifact();
    let open = |r: &str| Device::open(r.parse().unwrap(), &artifact).unwrap_err().to_string();
    assert_eq!(
        open("cuda:0"),
        "`test` was not built for cuda, only for vulkan: build it again with --target cuda, or name another device"
    );
    let why = open("vulkan:99");
    assert!(why.starts_with("no device can run `test`\n  vulkan: "), "{why}");
    assert!(!why.contains("cuda") && !why.contains("rocm"), "{why}");
}
