//! Hand-written kernels, in the form that emit leaves, to PTX: what must stand in it, and NVIDIA's assembler on all of
//! it. The assembler is `ZMLC_PTXAS`, or the `nvidia-cuda-nvcc` wheel in the repository's `.venv`.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};
use zmlc_passes::{
    context,
    emit::Emit,
    expand_math::ExpandMath,
    kernel_abi::KernelAbi,
    pass::{self, Env, Pass, PassError},
    spec::DeviceSpec,
    target::{Binary, Target},
    widen_predicates::WidenPredicates,
};
use zmlc_target_cuda::{Cuda, Ptxas, PtxasError, inspect_cubin, native};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
fn spec(name: &str) -> DeviceSpec {
    Cuda.specs().into_iter().find(|s| s.name == name).unwrap()
}
/// Fixtures by name, sorted.
fn fixtures() -> Vec<(String, String)> {
    let folder = std::fs::read_dir(root().join("fixtures/kernels")).unwrap();
    let mut all: Vec<_> = folder
        .map(|f| f.unwrap().path())
        .map(|p| (p.file_stem().unwrap().to_string_lossy().into_owned(), std::fs::read_to_string(&p).unwrap()))
        .collect();
    all.sort();
    assert!(all.len() > 5);
    all
}
/// Contractions, before they are emitted.
fn fragments() -> String {
    std::fs::read_to_string(root().join("fixtures/emit/fragments.mlir")).unwrap()
}
fn build(text: &str, spec: &DeviceSpec) -> Result<Vec<Binary>, PassError> {
    let c = context::context();
    let mut module = context::parse(&c, text)?;
    // Kernels are as emit leaves them, or dispatches.
    let mut passes: Vec<&dyn Pass> = vec![&Emit, &WidenPredicates, &ExpandMath, &KernelAbi];
    passes.extend(Cuda.passes());
    pass::run(&c, &mut module, &passes, Env { spec: Some(spec) }, pass::Run::default())?;
    // What was printed resumes to the same bytes.
    let binaries = Cuda.serialize(&c, &module, spec)?;
    if text.contains("@choose") {
        let other = context::context();
        let again = context::parse(&other, &context::print(&module))?;
        assert_eq!(Cuda.serialize(&other, &again, spec)?, binaries);
    }
    Ok(binaries)
}
fn ptx(text: &str, spec: &DeviceSpec) -> String {
    let binaries = build(text, spec).unwrap();
    Cuda.disassemble(&binaries[0].bytes, spec).unwrap()
}

#[test]
fn profiles_are_valid_and_the_defaults_among_them() {
    let names: Vec<_> = Cuda.specs().into_iter().map(|s| s.name).collect();
    assert_eq!(names, ["sm_90a", "sm_80", "generic"]);
    assert!(Cuda.defaults().iter().all(|d| names.contains(&d.to_string())));
}

#[test]
fn contractions_by_matrix_instructions() {
    let text = fragments();
    for (name, halves, bytes) in [
        ("generic", "mma.sync.aligned.m16n8k16.row.col.f32.bf16", "mma.sync.aligned.m16n8k32.row.col.s32.s8"),
        ("sm_80", "mma.sync.aligned.m16n8k16.row.col.f32.bf16", "mma.sync.aligned.m16n8k32.row.col.s32.s8"),
        ("sm_90a", "wgmma.mma_async", ".s32.s8"),
    ] {
        let spec = spec(name);
        let binaries = build(&text, &spec).unwrap();
        let ptx = Cuda.disassemble(&binaries[0].bytes, &spec).unwrap();
        for word in [halves, bytes, "cp.async.cg.shared.global"] {
            assert!(ptx.contains(word), "{name}: {word}");
        }
        assert!(binaries.iter().all(|b| b.shared_bytes <= spec.large_shared_bytes));
        // Stages beyond what needs no asking.
        assert!(name != "sm_90a" || binaries[0].shared_bytes > spec.shared_bytes);
    }
}

#[test]
fn one_module_for_all_kernels() {
    let (_, text) = fixtures().into_iter().find(|f| f.0 == "predicate").unwrap();
    let binaries = build(&text, &spec("sm_80")).unwrap();
    assert_eq!(binaries.iter().map(|b| b.symbol.as_str()).collect::<Vec<_>>(), ["less", "choose"]);
    assert_eq!(binaries[0].bytes, binaries[1].bytes);
    assert_eq!(binaries[0].bytes.last(), Some(&0), "the driver wants a C string");
}

#[test]
fn wide_loads_through_the_read_only_cache() {
    let (_, text) = fixtures().into_iter().find(|f| f.0 == "add").unwrap();
    for s in Cuda.specs() {
        let ptx = ptx(&text, &s);
        assert_eq!(ptx.matches("ld.global.nc.v4").count(), 2, "{ptx}");
        assert_eq!(ptx.matches("st.global.v4").count(), 1, "{ptx}");
    }
    insta::with_settings!({snapshot_path => "../../../snapshots/cuda", prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!("add_sm_80", ptx(&text, &spec("sm_80")));
    });
}

/// ptxas takes -(-32768) for 32768 and |-2^31| for 2^31, and LLVM takes a shift by 2^32 for one by 0 where the amount is tested
/// alone.
#[test]
fn least_numbers_are_negated_and_large_amounts_shifted_by() {
    let dispatch = |name: &str, t: &str, body: &str| {
        format!(
            "func.func private @{name}(%x: tensor<8x{t}>) -> tensor<8x{t}> attributes {{zml.dispatch, zml.hero = \"loop\", \
             zml.label = \"{name}\", zml.alias = array<i64: -1>}} {{
              %e = tensor.empty() : tensor<8x{t}>
              %y = linalg.generic {{indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], \
               iterator_types = [\"parallel\"]}} ins(%x : tensor<8x{t}>) outs(%e : tensor<8x{t}>) {{
              ^bb0(%a: {t}, %o: {t}):
                {body}
                linalg.yield %r : {t}
              }} -> tensor<8x{t}>
              return %y : tensor<8x{t}>
            }}\n"
        )
    };
    let negate = "%z = arith.constant 0 : i16\n %r = arith.subi %z, %a : i16";
    let magnitude = "%r = math.absi %a : i16";
    let large = "%r = math.absi %a : i32";
    let shift = "%z = arith.constant 0 : i64\n %n = arith.constant 64 : i64\n %m = arith.constant 63 : i64
                 %fits = arith.cmpi ult, %a, %n : i64\n %by = arith.minui %a, %m : i64
                 %s = arith.shli %a, %by : i64\n %r = arith.select %fits, %s, %z : i64";
    let text = [
        dispatch("negate", "i16", negate),
        dispatch("magnitude", "i16", magnitude),
        dispatch("large", "i32", large),
        dispatch("shift", "i64", shift),
    ];
    let ptx = ptx(&text.concat(), &spec("sm_90a"));
    assert!(["neg.s16", "abs.s16", "abs.s32 %r"].iter().all(|op| !ptx.contains(op)), "{ptx}");
    assert_eq!(ptx.matches("neg.s32 %wide").count() + ptx.matches("abs.s32 %wide").count(), 16, "{ptx}");
    assert_eq!((ptx.matches("shl.b64").count(), ptx.matches("selp.b64").count()), (2, 2), "{ptx}");
}

/// e^x of a vector's lanes: the unit once each, within limits.
#[test]
fn exponentials_are_by_the_unit() {
    let text = r#"gpu.module @k {
  gpu.func @k(%a: memref<128xf32> {zml.access = "read"}, %r: memref<128xf32> {zml.access = "write"}) kernel
      attributes {known_block_size = array<i32: 32, 1, 1>, zml.grid = array<i32: 1, 1, 1>} {
    %t = gpu.thread_id x
    %four = arith.constant 4 : index
    %i = arith.muli %t, %four : index
    %x = vector.load %a[%i] {alignment = 16} : memref<128xf32>, vector<4xf32>
    %y = math.exp %x : vector<4xf32>
    vector.store %y, %r[%i] {alignment = 16} : memref<128xf32>, vector<4xf32>
    gpu.return
  }
}"#;
    let code = ptx(text, &spec("sm_90a"));
    let count = |op: &str| code.matches(op).count();
    assert_eq!((count("ex2.approx.ftz.f32"), count("call"), count("selp")), (4, 0, 0), "{code}");
    assert_eq!((count("max.f32"), count("min.f32")), (4, 4), "{code}");
}

#[test]
fn nothing_is_called_and_threads_are_bounded() {
    for (name, text) in fixtures() {
        for s in Cuda.specs() {
            let ptx = ptx(&text, &s);
            for word in [".extern", "__nv_", "call", ".func"] {
                assert!(!ptx.contains(word), "{name} for {}: {word} in\n{ptx}", s.name);
            }
            assert_eq!(ptx.matches(".entry").count(), ptx.matches(".maxntid").count());
        }
    }
}

/// What a profile says beforehand of the driver is what its PTX needs.
#[test]
fn the_least_driver_follows_from_the_ptx() {
    let (_, text) = fixtures().into_iter().find(|f| f.0 == "add").unwrap();
    for (name, api) in [("sm_90a", "12000"), ("sm_80", "11000"), ("generic", "11000")] {
        let spec = spec(name);
        let binaries = build(&text, &spec).unwrap();
        assert_eq!((Cuda.requires(&spec, &binaries).api.as_str(), spec.requires.api.as_str()), (api, api), "{name}");
    }
}

#[test]
fn cubins_are_for_one_architecture_and_always_the_same() {
    let Some(path) = ptxas() else { return skipped("cubins_are_for_one_architecture_and_always_the_same") };
    let ptxas = Ptxas::open(&path).unwrap();
    let (_, text) = fixtures().into_iter().find(|f| f.0 == "add").unwrap();
    for (name, least) in [("sm_90a", 12000), ("sm_80", 11000)] {
        let spec = spec(name);
        let binaries = build(&text, &spec).unwrap();
        let requires = Cuda.requires(&spec, &binaries);
        let (chip, native) = native(&spec, &requires, &ptxas).unwrap();
        let api: u32 = native.api.parse().unwrap();
        assert!(api.is_multiple_of(1000) && api >= least, "a major version of CUDA: {api}");
        assert_eq!((&chip[..], &native.arch[..]), (name, name));
        let cubin = ptxas.assemble(&binaries[0].bytes, &chip).unwrap();
        assert_eq!(cubin, ptxas.assemble(&binaries[0].bytes, &chip).unwrap());
        inspect_cubin(&cubin, &binaries[0].symbol).unwrap();
        assert_eq!(inspect_cubin(&cubin, "other").unwrap_err(), "its cubin has no kernel of this name");
        for other in [&cubin[1..], &binaries[0].bytes, b"\x7fELF"] {
            assert_eq!(inspect_cubin(other, &binaries[0].symbol).unwrap_err(), "its machine code is no cubin");
        }
    }
    let spec = spec("generic");
    assert!(native(&spec, &spec.requires, &ptxas).is_none());
    let refused = ptxas.assemble(b"no PTX", "sm_90a").unwrap_err();
    assert!(matches!(&refused, PtxasError::Refused { chip, .. } if chip == "sm_90a"), "{refused}");
    assert!(matches!(Ptxas::open(Path::new("/absent/ptxas")), Err(PtxasError::Absent { .. })));
    assert!(matches!(Ptxas::open(Path::new("/bin/true")), Err(PtxasError::Other { .. })));
}

#[test]
fn ptxas_takes_every_kernel() {
    let Some(ptxas) = ptxas() else { return skipped("ptxas_takes_every_kernel") };
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    for (profile, chips) in
        [("sm_90a", vec!["sm_90a"]), ("sm_80", vec!["sm_80"]), ("generic", vec!["sm_80", "sm_89", "sm_90", "sm_120"])]
    {
        for (name, text) in fixtures().into_iter().chain([("fragments".to_string(), fragments())]) {
            let file = folder.join(format!("{name}.{profile}.ptx"));
            std::fs::write(&file, ptx(&text, &spec(profile))).unwrap();
            for chip in &chips {
                // A file of its own: ptxas changes the mode of what it writes, of /dev/null too.
                let cubin = file.with_extension("cubin");
                let ran = Command::new(&ptxas).arg(format!("-arch={chip}")).arg(&file).arg("-o").arg(cubin).output();
                let ran = ran.unwrap();
                let said = String::from_utf8_lossy(&ran.stderr).into_owned() + &String::from_utf8_lossy(&ran.stdout);
                assert!(ran.status.success() && said.trim().is_empty(), "{name} for {chip}: {said}");
            }
        }
    }
}

/// Straight to stderr: the test harness keeps what print macros write to itself.
fn skipped(test: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: no ptxas (ZMLC_PTXAS, .venv)");
}

fn ptxas() -> Option<PathBuf> {
    if let Some(given) = std::env::var_os("ZMLC_PTXAS") {
        return Some(given.into());
    }
    let pythons = std::fs::read_dir(root().join(".venv/lib")).ok()?;
    let mut found: Vec<_> = pythons
        .filter_map(|p| std::fs::read_dir(p.ok()?.path().join("site-packages/nvidia")).ok())
        .flatten()
        .filter_map(|d| Some(d.ok()?.path().join("bin/ptxas")))
        .filter(|p| p.is_file())
        .collect();
    found.sort();
    found.pop()
}
