//! Calls that do not end, or that take the device with them: named errors, and what follows works.

use crate::{common::*, fakes, host_allocations};
use std::time::{Duration, Instant};
use zml_runtime::{Error, Session, format::*};

/// Adds 1 to `x` until it is no longer below `most`.
fn counting(most: u32) -> Program {
    Program {
        arena_bytes: 512,
        buffers: vec![
            buffer(BufferKind::Argument(0), 4),
            buffer(BufferKind::Argument(1), 4),
            buffer(BufferKind::Arena(0), 1),
        ],
        results: vec![0],
        steps: vec![Step::While {
            condition: vec![
                Step::Barrier,
                dispatch("below", &[slice(0, 0, 4), slice(2, 0, 1)], 1, most),
                Step::Barrier,
            ],
            predicate: slice(2, 0, 1),
            body: vec![dispatch("add", &[slice(0, 0, 4), slice(1, 0, 4), slice(0, 0, 4)], 1, 0)],
            turns: None,
        }],
    }
}

#[test]
fn a_call_past_its_deadline_ends_and_the_next_session_works() {
    let artifact =
        any().entry("main", vec![donated("x", 1), input("step", 1)], vec![result("y", 1)], &counting(5)).artifact();
    let Some((model, mut s)) = open(&artifact) else { return };
    s.set_deadline(Some(Duration::from_millis(300)));
    s.write("main", 0, &f32s(&[0.0])).unwrap();
    // Never gets there.
    s.write("main", 1, &f32s(&[0.0])).unwrap();
    let begin = Instant::now();
    let e = s.call("main").unwrap_err();
    assert!(matches!(e, Error::Deadline { .. }), "{e}");
    assert!(begin.elapsed() >= Duration::from_millis(300));
    let why = s.call("main").unwrap_err().to_string();
    assert_eq!(why, "an earlier call of this session failed: make a new session");

    drop(s);
    let mut next = Session::new(&model).unwrap();
    next.set_deadline(Some(Duration::from_secs(60)));
    next.write("main", 0, &f32s(&[0.0])).unwrap();
    next.write("main", 1, &f32s(&[1.0])).unwrap();
    next.call("main").unwrap();
    assert_eq!(read(&next, "main", 0), [5.0]);
}

/// A stream that is never done: the program ends without waiting for it.
#[test]
fn the_command_line_ends_at_the_deadline() {
    let dir = tempfile::tempdir().unwrap();
    for target in ["cuda", "rocm"] {
        fakes::model(dir.path(), target);
        let busy = [("ZML_FAKE_BUSY", "1000000000")];
        let (log, said) = fakes::run(dir.path(), "--input x=x.npy --deadline 0.2", &busy);
        let device = format!("{target}:0 Fake GPU (GPU)");
        let profile = if target == "cuda" { "generic" } else { "gfx942" };
        let expected =
            format!("1 device: {device}, profile {profile}\nerror: {device} did not finish within the deadline");
        assert_eq!(said, expected);
        assert!(!log.contains("GraphExecDestroy"), "nothing is taken from a device that is at work");
        let (log, said) = fakes::run(dir.path(), "--input x=x.npy --deadline 20", &[("ZML_FAKE_BUSY", "3")]);
        assert!(said.starts_with("0 "), "{said}");
        fakes::check_lifetimes(&log);
    }
}

#[test]
fn a_later_call_allocates_nothing_on_the_host() {
    let artifact = any()
        .entry(
            "main",
            vec![input("x", 1), input("step", 1)],
            vec![result("y", 1)],
            &Program {
                results: vec![2],
                buffers: vec![
                    buffer(BufferKind::Argument(0), 4),
                    buffer(BufferKind::Argument(1), 4),
                    buffer(BufferKind::Result(0), 4),
                ],
                steps: vec![dispatch("add", &[slice(0, 0, 4), slice(1, 0, 4), slice(2, 0, 4)], 1, 0)],
                ..counting(0)
            },
        )
        .artifact();
    let Some((_, mut s)) = open(&artifact) else { return };
    let mut round = |x: &[u8]| {
        s.write("main", 0, x).unwrap();
        s.write("main", 1, x).unwrap();
        s.call("main").unwrap();
        s.read("main", 0).unwrap()[3]
    };
    let (one, two) = (f32s(&[1.0]), f32s(&[2.0]));
    round(&one);
    let before = host_allocations();
    let seen = [round(&two), round(&one), round(&two)];
    assert_eq!(host_allocations() - before, 0);
    assert_eq!(seen, [0x40, 0x40, 0x40], "2, 4 and so on");
}
