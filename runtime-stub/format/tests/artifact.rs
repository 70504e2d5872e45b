//! The file as others see it: it round-trips, and every damage is refused by name, never by a panic.

use zml_format::*;

fn tensor(name: &str, shape: &[u64]) -> Tensor {
    Tensor { name: name.into(), dtype: DType::F32, shape: shape.to_vec() }
}

fn slice(buffer: usize, bytes: u64) -> Slice {
    Slice { buffer, offset: 0, bytes }
}

/// One entry `y, n = f(x, w, s)` with a weight, a state, and a kernel shared by two profiles.
fn example() -> (Writer, Manifest) {
    let mut w = Writer::new();
    let kernel = w.blob(b"kernel words");
    let weight = w.blob(&[7; 16]);
    let profile = |target: &str, name: &str| Profile {
        target: target.into(),
        name: name.into(),
        requires: Requires {
            api: "1.2".into(),
            features: vec!["shaderInt8".into()],
            limits: vec![("maxPushConstantsSize".into(), 128)],
            ..Requires::default()
        },
        native: None,
        kernels: vec![Kernel {
            symbol: "add".into(),
            blob: kernel,
            block: [64, 1, 1],
            shared_bytes: 0,
            buffers: vec![Access::Read, Access::Read, Access::Write],
            addresses: vec![],
            scalar_bytes: 4,
            label: "add".into(),
            overlaps: false,
        }],
        programs: vec![Program {
            arena_bytes: 64,
            buffers: vec![
                Buffer { kind: BufferKind::Argument(0), bytes: 16 },
                Buffer { kind: BufferKind::Argument(1), bytes: 16 },
                Buffer { kind: BufferKind::Argument(2), bytes: 16 },
                Buffer { kind: BufferKind::Result(0), bytes: 16 },
                Buffer { kind: BufferKind::Arena(32), bytes: 32 },
            ],
            results: vec![3, 2],
            steps: vec![
                Step::Dispatch(Dispatch {
                    kernel: 0,
                    grid: [1, 1, 1],
                    buffers: vec![slice(0, 16), slice(1, 16), slice(3, 16)],
                    scalars: vec![4],
                }),
                Step::Barrier,
                Step::While {
                    condition: vec![Step::Fill { to: slice(4, 1), byte: 0 }],
                    predicate: slice(4, 1),
                    body: vec![Step::Copy { from: slice(3, 16), to: slice(2, 16) }],
                    turns: None,
                },
            ],
        }],
    };
    let m = Manifest {
        producer: "zmlc 0.1.0".into(),
        model: Model { name: "f".into(), version: "1".into() },
        sources: None,
        weights: vec![
            Weight { tensor: tensor("w", &[4]), sha256: "00".into(), source: WeightSource::Embedded { blob: weight } },
            Weight {
                tensor: tensor("v", &[2, 2]),
                sha256: "11".into(),
                source: WeightSource::External { file: "f.safetensors".into(), key: "v".into() },
            },
        ],
        state: vec![State { tensor: tensor("s", &[4]) }],
        entries: vec![Entry {
            name: "main".into(),
            dims: vec![],
            arguments: vec![
                Argument::Input { tensor: tensor("x", &[4]), donated: false },
                Argument::Weight { weight: 0 },
                Argument::State { state: 0 },
            ],
            results: vec![
                EntryResult { tensor: tensor("y", &[4]), state: None },
                EntryResult { tensor: tensor("n", &[4]), state: Some(0) },
            ],
        }],
        profiles: vec![profile("vulkan", "vulkan1.2"), profile("null", "null")],
        blobs: vec![],
    };
    (w, m)
}

fn bytes() -> Vec<u8> {
    let (w, m) = example();
    w.finish(m)
}

/// The file with another manifest text and a header that fits it.
fn forged(edit: impl FnOnce(String) -> String) -> Vec<u8> {
    let old = bytes();
    let length = u64::from_le_bytes(old[16..24].try_into().unwrap()) as usize;
    let text = edit(String::from_utf8(old[64..64 + length].to_vec()).unwrap());
    // Trailing spaces are JSON too: blobs stay where they are.
    assert!(text.len() <= length, "the edit must not grow the manifest");
    let mut new = old.clone();
    new[64..64 + length].fill(b' ');
    new[64..64 + text.len()].copy_from_slice(text.as_bytes());
    seal(&mut new);
    new
}

fn seal(file: &mut [u8]) {
    use sha2::{Digest, Sha256};
    let digest = Sha256::digest(&file[64..]);
    file[32..64].copy_from_slice(&digest);
}

fn refused(file: Vec<u8>) -> String {
    Artifact::from_bytes(file).expect_err("must be refused").to_string()
}

#[test]
fn what_was_written_is_read_back() {
    let (w, mut m) = example();
    let file = w.finish(m.clone());
    assert_eq!(&file[..8], b"ZMLMODEL");
    assert_eq!(file[8..16], [1, 0, 0, 0, 0, 0, 0, 0]);
    let a = Artifact::from_bytes(file.clone()).unwrap();
    m.blobs = a.manifest.blobs.clone();
    assert_eq!(a.manifest, m);
    assert_eq!(a.blob(0), b"kernel words");
    assert_eq!(a.blob(1), [7; 16]);
    for b in &m.blobs {
        assert_eq!(b.offset % 64, 0);
    }
    assert_eq!(file, bytes(), "equal input, equal bytes");

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f.zml");
    std::fs::write(&path, &file).unwrap();
    let b = Artifact::open(&path).unwrap();
    assert_eq!((b.manifest.clone(), b.digest()), (a.manifest.clone(), a.digest()));
    assert_eq!((b.path(), a.path()), (Some(path.as_path()), None));
    assert_eq!(b.file_bytes(), file.len() as u64);
}

#[test]
fn equal_blobs_are_stored_once() {
    let mut w = Writer::new();
    assert_eq!([w.blob(b"a"), w.blob(b"b"), w.blob(b"a"), w.blob(b"")], [0, 1, 0, 2]);
    let m = Manifest { weights: vec![], state: vec![], entries: vec![], profiles: vec![], ..example().1 };
    let a = Artifact::from_bytes(w.finish(m)).unwrap();
    assert_eq!(a.manifest.blobs.len(), 3);
    assert_eq!((a.blob(0), a.blob(1), a.blob(2)), (&b"a"[..], &b"b"[..], &b""[..]));
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let file = bytes();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cut.zml");
    for n in 0..file.len() {
        let why = refused(file[..n].to_vec());
        let expected = if n < 64 { "not a .zml artifact" } else { "its header says" };
        assert!(why.contains(expected), "{n}: {why}");
        if n % 97 == 0 {
            std::fs::write(&path, &file[..n]).unwrap();
            assert_eq!(Artifact::open(&path).unwrap_err().to_string(), why);
        }
    }
    let longer = [file, vec![0]].concat();
    assert!(refused(longer).contains("its header says"));
}

#[test]
fn a_flipped_bit_anywhere_is_refused() {
    let file = bytes();
    for i in 0..file.len() {
        let mut f = file.clone();
        f[i] ^= 0x10;
        let why = refused(f);
        let expected = match i {
            0..8 => "not a .zml artifact",
            8..12 => "format version",
            12..16 => "header",
            16..24 => "manifest",
            24..32 => "its header says",
            _ => "SHA-256",
        };
        assert!(why.contains(expected), "byte {i}: {why}");
    }
}

#[test]
fn other_versions_are_named() {
    let mut f = bytes();
    f[8] = 9;
    assert_eq!(
        refused(f.clone()),
        "artifact format version 9; this program reads versions 1 to 5: use a newer runtime, or build again with this zmlc"
    );
    f[8] = 0;
    assert_eq!(refused(f), "artifact format version 0; this program reads versions 1 to 5");
}

#[test]
fn specialisations_are_version_2() {
    let (w, mut m) = example();
    specialise(&mut m, |e| {
        double(e);
    });
    assert_eq!((m.entries[0].id(), m.entries[1].id()), ("main[batch=4]".into(), "main[batch=8]".into()));
    let mut file = w.finish(m.clone());
    assert_eq!(file[8], 2);
    assert_eq!(Artifact::from_bytes(file.clone()).unwrap().manifest.entries, m.entries);
    file[8] = 1;
    assert!(refused(file).ends_with("the manifest is invalid: version 1 has no `dims`"));
}

#[test]
fn addresses_are_version_4() {
    let (w, mut m) = example();
    m.profiles[0].kernels[0].addresses = vec![0, 2];
    let mut file = w.finish(m.clone());
    assert_eq!(file[8], 4);
    assert_eq!(Artifact::from_bytes(file.clone()).unwrap().manifest.profiles, m.profiles);
    file[8] = 3;
    assert!(refused(file).ends_with("the manifest is invalid: version 3 has no `addresses`"));
}

#[test]
fn sources_machine_code_and_drivers_are_version_5() {
    type Edit = fn(&mut Manifest);
    let edits: [Edit; 3] = [
        |m| m.sources = Some(Sources { model: "00".into(), programs: vec![], weights: vec![] }),
        |m| m.profiles[0].native = Some(native(vec![1])),
        |m| {
            m.profiles[0].target = "rocm".into();
            m.profiles[0].requires.api = "5".into();
        },
    ];
    for edit in edits {
        let (w, mut m) = example();
        edit(&mut m);
        let mut file = w.finish(m.clone());
        assert_eq!(file[8], 5);
        let read = Artifact::from_bytes(file.clone()).unwrap().manifest;
        assert_eq!((read.sources, read.profiles), (m.sources, m.profiles));
        file[8] = 4;
        assert!(refused(file).ends_with("invalid: version 4 has no `sources`, `native` and `api` of ROCm"));
    }
}

/// Kernels that overlap were written before they had a version: every version has them, and only 5 is written for them.
#[test]
fn overlaps_is_read_in_every_version() {
    let (w, mut m) = example();
    m.profiles[0].kernels[0].overlaps = true;
    let mut file = w.finish(m.clone());
    assert_eq!(file[8], 5);
    for version in 1..=5 {
        file[8] = version;
        assert_eq!(Artifact::from_bytes(file.clone()).unwrap().manifest.profiles, m.profiles, "{version}");
    }
}

#[test]
fn machine_code_takes_the_place_of_the_kernels() {
    let (_, mut m) = example();
    let p = &mut m.profiles[0];
    p.native = Some(native(vec![1]));
    p.use_native();
    assert_eq!((p.kernels[0].blob, &p.native), (1, &None));
    p.use_native();
    assert_eq!(p.kernels[0].blob, 1);
}

fn native(blobs: Vec<usize>) -> Native {
    let requires = Requires { api: "13000".into(), arch: "sm_90a".into(), ..Requires::default() };
    Native { producer: "ptxas 13.0.88".into(), requires, blobs }
}

#[test]
fn hostile_lengths_are_refused() {
    let mut f = bytes();
    f[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(refused(f).contains("manifest length"));
    let why = refused(forged(|t| t.replacen("\"bytes\":12,", "\"bytes\":-1,", 1)));
    assert!(why.contains("manifest is invalid"), "{why}");
    let first = Artifact::from_bytes(bytes()).unwrap().manifest.blobs[0].offset;
    for (offset, expected) in [
        ("999999999", "damaged artifact: blob out of the file"),
        ("18446744073709551615", "damaged artifact: blob out of the file"),
        ("99999999999999999999", "manifest is invalid"),
    ] {
        // Names that may be empty make room for the longer number.
        let why = refused(forged(|t| {
            let roomy = t.replacen("zmlc 0.1.0", "", 1).replacen("vulkan1.2", "", 1);
            roomy.replacen(&format!("\"offset\":{first}"), &format!("\"offset\":{offset}"), 1)
        }));
        assert!(why.contains(expected), "{offset}: {why}");
    }
    let (w, mut m) = example();
    for _ in 0..100 {
        let p = &mut m.profiles[0].programs[0];
        p.steps = vec![Step::If { predicate: slice(4, 1), then: std::mem::take(&mut p.steps), otherwise: vec![] }];
    }
    let why = refused(w.finish(m));
    assert!(why.contains("recursion limit"), "{why}");
    assert!(refused(forged(|t| t.replacen("producer", "producex", 1))).contains("unknown field `producex`"));
}

#[test]
fn something_that_is_no_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(Artifact::open(dir.path()).unwrap_err().to_string(), "this is a folder; give the .zml file in it");
    let none = Artifact::open(&dir.path().join("none.zml")).unwrap_err();
    assert!(matches!(none, ArtifactError::Io(_)), "{none}");
}

/// Each edit breaks one line of the list at the top of check.rs.
#[test]
fn invalid_manifests_are_refused_by_name() {
    type Edit = fn(&mut Manifest);
    let cases: &[(Edit, &str)] = &[
        (|m| m.weights[0].source = WeightSource::Embedded { blob: 9 }, "blob 9 does not exist"),
        (|m| m.weights[0].tensor.shape = vec![3], "weight `w` has 16 bytes"),
        (|m| m.weights[1].tensor.shape = vec![u64::MAX, 9], "tensor `v` is too large"),
        (|m| m.state[0].tensor.shape = vec![1 << 60, 1 << 60], "tensor `s` is too large"),
        (|m| m.entries.push(m.entries[0].clone()), "two entries are called `main`"),
        (|m| specialise(m, |e| e.dims.clear()), "`main[batch=4]` and `main` differ in more than their sizes"),
        (|m| specialise(m, |_| ()), "two entries are called `main[batch=4]`"),
        (|m| specialise(m, |e| e.dims[0].name = "b".into()), "`main[batch=4]` and `main[b=4]` differ in more than"),
        (|m| specialise(m, |e| double(e).results[0].tensor.dtype = DType::F16), "differ in more than their sizes"),
        (|m| specialise(m, |e| double(e).results[0].tensor.shape.push(1)), "differ in more than their sizes"),
        (|m| specialise(m, |e| double(e).arguments[1] = e.arguments[2].clone()), "differ in more than their sizes"),
        (|m| m.entries[0].arguments[1] = Argument::Weight { weight: 2 }, "weight 2 does not exist"),
        (|m| m.entries[0].arguments[2] = Argument::State { state: 1 }, "state 1 does not exist"),
        (|m| m.entries[0].results[1].state = Some(4), "state 4 does not exist"),
        (|m| m.entries[0].results[1].tensor.shape = vec![2, 2], "result `n` is not of the type of state `s`"),
        (|m| m.entries[0].results[0].state = Some(0), "two results are the next value of state `s`"),
        (|m| m.profiles[0].kernels[0].blob = 5, "profile vulkan:vulkan1.2: blob 5 does not exist"),
        (|m| m.profiles[0].native = Some(native(vec![5])), "profile vulkan:vulkan1.2: blob 5 does not exist"),
        (|m| m.profiles[0].native = Some(native(vec![])), "machine code of 0 kernels for 1"),
        (|m| m.profiles[0].kernels[0].block[1] = 0, "kernel add has a workgroup of [64, 0, 1] threads"),
        (|m| m.profiles[0].kernels[0].block = [1 << 16; 3], "kernel add has a workgroup of"),
        (|m| m.profiles[0].kernels[0].scalar_bytes = 3, "kernel add has scalars of broken words"),
        (|m| m.profiles[0].kernels[0].addresses = vec![3], "kernel add has addresses of no buffers"),
        (|m| m.profiles[0].kernels[0].addresses = vec![1, 1], "kernel add has addresses of no buffers"),
        (|m| m.profiles[1].programs.clear(), "profile null:null: 0 programs for 1 entries"),
        (|m| program(m).buffers[4].kind = BufferKind::Arena(33), "buffer 4 is larger than what holds it"),
        (|m| program(m).buffers[4].kind = BufferKind::Arena(65), "buffer 4 is larger than what holds it"),
        (|m| program(m).buffers[0].kind = BufferKind::Argument(3), "buffer 0 is larger than what holds it"),
        (|m| program(m).buffers[3].bytes = 17, "buffer 3 is larger than what holds it"),
        (|m| program(m).results.truncate(1), "1 results for 2"),
        (|m| program(m).results[0] = 9, "buffer 9 does not exist"),
        (|m| program(m).results[0] = 4, "result `y` lies in a buffer of 32 bytes"),
        (|m| dispatch(m).kernel = 1, "kernel 1 does not exist"),
        (|m| dispatch(m).scalars.clear(), "dispatch of add has other arguments than the kernel"),
        (|m| dispatch(m).buffers[2].offset = 1, "dispatch of add: slice out of buffer 3"),
        (|m| dispatch(m).buffers[2].offset = u64::MAX, "dispatch of add: slice out of buffer 3"),
        (|m| dispatch(m).buffers[2].buffer = 5, "dispatch of add: buffer 5 does not exist"),
        (|m| dispatch(m).buffers[2].buffer = 0, "dispatch of add: buffer 0 is written, and may only be read"),
        (|m| dispatch(m).buffers[2].buffer = 1, "dispatch of add: buffer 1 is written, and may only be read"),
        (|m| program(m).steps.push(Step::Fill { to: slice(0, 1), byte: 0 }), "buffer 0 is written"),
        (|m| program(m).steps.push(copy(slice(0, 8), slice(2, 9))), "copy between different sizes"),
        (|m| program(m).steps.push(copy(slice(2, 8), slice(2, 8))), "copy within buffer 2 onto itself"),
        (|m| program(m).steps.push(Step::Case { index: slice(4, 4), branches: vec![] }), "a case without branches"),
        (|m| predicate(m).bytes = 4, "a predicate or index of 4 bytes"),
        (|m| gemm(m, |g| g.k = 0), "library call: an extent"),
        (|m| gemm(m, |g| g.k = 3), "library call: a matrix with gaps"),
        (|m| gemm(m, |g| g.batch = 2), "library call: a matrix leaves its slice"),
        (|m| gemm(m, |g| g.a.strides = [u64::MAX, u64::MAX, 1]), "library call: a matrix leaves its slice"),
        (|m| gemm(m, |g| g.a.strides = [0, 2, 2]), "library call: a matrix with gaps"),
        (|m| gemm(m, |g| g.to.strides = [0, 1, 2]), "library call: a result by columns"),
        (|m| gemm(m, |g| g.to.dtype = DType::F16), "is no product"),
        (|m| gemm(m, |g| g.to.slice.buffer = 0), "library call: its result is an operand"),
        (|m| gemm(m, |g| g.workspace = slice(1, 16)), "library call: buffer 1 is written"),
        (|m| gemm(m, |g| g.b.slice.bytes = 17), "library call: slice out of buffer 1"),
    ];
    example().1.check().unwrap_err(); // Its blobs are not written yet.
    let written = Artifact::from_bytes(bytes()).unwrap().manifest;
    written.check().unwrap();
    for (i, (edit, expected)) in cases.iter().enumerate() {
        let mut m = written.clone();
        edit(&mut m);
        let why = m.check().expect_err(expected);
        assert!(why.contains(expected), "case {i}: expected `{expected}`, got `{why}`");
    }
}

/// The entry as one of two specialisations, the second as `edit` leaves it.
fn specialise(m: &mut Manifest, edit: fn(&mut Entry)) {
    m.entries[0].dims = vec![Dim { name: "batch".into(), size: 4 }];
    m.entries.push(m.entries[0].clone());
    edit(&mut m.entries[1]);
    for p in &mut m.profiles {
        p.programs.push(p.programs[0].clone());
    }
}
fn double(e: &mut Entry) -> &mut Entry {
    e.dims[0].size = 8;
    e
}
/// Adds a product of two 2 by 2 matrices, edited.
fn gemm(m: &mut Manifest, edit: fn(&mut Gemm)) {
    let matrix = |buffer| Matrix { slice: slice(buffer, 16), dtype: DType::F32, strides: [4, 2, 1] };
    let (a, b, to) = (matrix(0), matrix(1), matrix(3));
    let mut g = Gemm { batch: 1, m: 2, n: 2, k: 2, tf32: false, a, b, to, workspace: slice(4, 32) };
    program(m).steps.push(Step::Library(g.clone()));
    m.check().unwrap();
    edit(&mut g);
    *program(m).steps.last_mut().unwrap() = Step::Library(g);
}
fn program(m: &mut Manifest) -> &mut Program {
    &mut m.profiles[0].programs[0]
}
fn dispatch(m: &mut Manifest) -> &mut Dispatch {
    let Step::Dispatch(d) = &mut program(m).steps[0] else { unreachable!() };
    d
}
fn predicate(m: &mut Manifest) -> &mut Slice {
    let Step::While { predicate, .. } = &mut program(m).steps[2] else { unreachable!() };
    predicate
}
fn copy(from: Slice, to: Slice) -> Step {
    Step::Copy { from, to }
}
