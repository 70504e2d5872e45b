//! Hand-written kernels, in the form that emit leaves, to code objects, and what stands in these.

use melior::ir::Module;
use object::{
    LittleEndian, Object, ObjectSection, ObjectSymbol,
    read::elf::{ElfFile64, ElfSymbol64},
};
use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
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
use zmlc_target_rocm::{Rocm, code_object::CodeObject};

fn spec(name: &str) -> DeviceSpec {
    Rocm.specs().into_iter().find(|s| s.name == name).unwrap()
}
/// Fixtures by name, sorted.
fn fixtures() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/kernels");
    let mut all: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|f| f.unwrap().path())
        .map(|p| (p.file_stem().unwrap().to_string_lossy().into_owned(), std::fs::read_to_string(&p).unwrap()))
        .collect();
    all.sort();
    assert!(all.len() > 5);
    all
}
/// Binaries of every fixture for every chip, built once for all tests.
fn built() -> &'static [(&'static str, String, Vec<Binary>)] {
    static ALL: OnceLock<Vec<(&'static str, String, Vec<Binary>)>> = OnceLock::new();
    ALL.get_or_init(|| {
        let fixtures = fixtures();
        let of_chip = |chip: &'static str| {
            let build = move |(name, text): &(String, String)| {
                let binaries = build(text, &spec(chip)).unwrap_or_else(|e| panic!("{name} for {chip}: {e}"));
                (chip, name.clone(), binaries)
            };
            fixtures.iter().map(build).collect::<Vec<_>>()
        };
        MACHINES.iter().flat_map(|m| of_chip(m.0)).collect()
    })
}
/// Of one fixture for one chip.
fn binaries(name: &str, chip: &str) -> &'static [Binary] {
    &built().iter().find(|b| b.0 == chip && b.1 == name).unwrap().2
}
/// Through all passes. Kernels are as emit leaves them, or dispatches.
fn lowered<'c>(c: &'c melior::Context, text: &str, spec: &DeviceSpec) -> Result<Module<'c>, PassError> {
    let mut module = context::parse(c, text)?;
    let mut passes: Vec<&dyn Pass> = vec![&Emit, &WidenPredicates, &ExpandMath, &KernelAbi];
    passes.extend(Rocm.passes());
    pass::run(c, &mut module, &passes, Env { spec: Some(spec) }, pass::Run::default())?;
    Ok(module)
}
fn build(text: &str, spec: &DeviceSpec) -> Result<Vec<Binary>, PassError> {
    let c = context::context();
    let module = lowered(&c, text, spec)?;
    // What is printed resumes, and another context makes the same bytes of it.
    let other = context::context();
    let again = context::parse(&other, &context::print(&module))?;
    let binaries = Rocm.serialize(&c, &module, spec)?;
    if text.contains("@choose") {
        assert_eq!(Rocm.serialize(&other, &again, spec)?, binaries);
    }
    Ok(binaries)
}

/// What is loaded of a code object that we link has to be byte for byte what lld writes, and the names beside it the same.
fn as_lld(object: &[u8]) {
    const LLD: &str = "/usr/lib/llvm-22/bin/ld.lld";
    if !Path::new(LLD).exists() {
        assert!(std::env::var_os("CI").is_none(), "CI installs lld-22");
        eprintln!("skipped: no {LLD}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("k.o"), folder.path().join("k.hsaco"));
    std::fs::write(&from, object).unwrap();
    let run = Command::new(LLD).args(["-shared", "--no-undefined", "-o"]).arg(&to).arg(&from).status().unwrap();
    assert!(run.success());
    let (theirs, ours) = (std::fs::read(&to).unwrap(), zmlc_target_rocm::link(object).unwrap());
    let (theirs, ours) = (Linked::of(&theirs), Linked::of(&ours));
    let differs = theirs.loaded.iter().zip(&ours.loaded).position(|(a, b)| a != b);
    assert!(theirs.loaded.len() == ours.loaded.len() && differs.is_none(), "byte {differs:?} differs");
    assert_eq!(theirs.symbols, ours.symbols);
}
/// A shared object as `object`, another reader, sees it.
struct Linked {
    /// Header, segments and all sections that have addresses; where the section table is left out.
    loaded: Vec<u8>,
    /// Of `.symtab`, the assembler's own names left out: name, value, size, section, and what else it says.
    symbols: Vec<(String, u64, u64, String, String)>,
}
impl Linked {
    fn of(file: &[u8]) -> Self {
        let elf = ElfFile64::<LittleEndian>::parse(file).unwrap();
        let loaded = elf.sections().filter(|s| s.address() != 0).filter_map(|s| s.file_range());
        let mut loaded = file[..loaded.map(|(at, bytes)| at + bytes).max().unwrap() as usize].to_vec();
        loaded[40..48].fill(0);
        loaded[60..64].fill(0);
        let section = |s: &ElfSymbol64<LittleEndian>| match s.section_index() {
            Some(i) => elf.section_by_index(i).unwrap().name().unwrap().to_string(),
            None => format!("{:?}", s.section()),
        };
        let kind =
            |s: &ElfSymbol64<LittleEndian>| format!("{:?} {:?}", s.elf_symbol().st_info, s.elf_symbol().st_other);
        let named = elf.symbols().filter(|s| !s.name().unwrap().starts_with(".L"));
        let symbols = named.map(|s| (s.name().unwrap().into(), s.address(), s.size(), section(&s), kind(&s))).collect();
        Linked { loaded, symbols }
    }
}

#[test]
fn what_is_loaded_is_what_lld_writes() {
    for chip in ["gfx942", "gfx1100"] {
        for (_, text) in fixtures() {
            let c = context::context();
            let module = lowered(&c, &text, &spec(chip)).unwrap();
            as_lld(&zmlc_target_rocm::object(&c, &module, &spec(chip)).unwrap().expect("a kernel").0);
        }
    }
}

#[test]
fn what_cannot_be_linked_is_named() {
    let c = context::context();
    let (name, text) = &fixtures()[0];
    assert_eq!(name, "add");
    let module = lowered(&c, text, &spec("gfx1100")).unwrap();
    let good = zmlc_target_rocm::object(&c, &module, &spec("gfx1100")).unwrap().expect("a kernel").0;
    let refused = |bytes: &[u8]| match zmlc_target_rocm::link(bytes) {
        Err(PassError::Bug(m)) => m,
        other => panic!("{other:?}"),
    };
    let place = ElfFile64::<LittleEndian>::parse(&*good).unwrap().section_by_name(".rela.rodata").unwrap().file_range();
    // Of the first relocation: 8 bytes of offset, 4 of kind, 4 of symbol. Symbol 0 is the undefined one.
    let info = place.unwrap().0 as usize + 8;
    for (at, number, why) in [(info + 4, 0u32, "undefined symbol "), (info, 99, "a relocation of kind 99 against ")] {
        let mut bad = good.clone();
        bad[at..at + 4].copy_from_slice(&number.to_le_bytes());
        let said = refused(&bad);
        assert!(said.starts_with(&format!("linking a code object: {why}")), "{said}");
    }
    assert!(refused(&good[..good.len() / 2]).contains("outside the file"));
    assert!(refused(b"text").contains("not a relocatable object"));
}

/// EF_AMDGPU_MACH_AMDGCN_* of LLVM's User Guide for AMDGPU Backend, "ELF header flags".
const MACHINES: &[(&str, u32, u64)] =
    &[("gfx942", 0x04c, 64), ("gfx90a", 0x03f, 64), ("gfx1100", 0x041, 32), ("gfx1201", 0x04e, 32)];

#[test]
fn profiles_are_valid_and_the_defaults_among_them() {
    let names: Vec<_> = Rocm.specs().into_iter().map(|s| s.name).collect();
    assert_eq!(names, MACHINES.iter().map(|m| m.0).collect::<Vec<_>>());
    assert!(Rocm.defaults().iter().all(|d| names.contains(&d.to_string())));
}

#[test]
fn contractions_by_matrix_instructions() {
    let text = include_str!("../../../fixtures/emit/fragments.mlir");
    for (chip, halves, bytes) in [
        ("gfx942", "v_mfma_f32_16x16x16_bf16", "v_mfma_i32_16x16x32_i8"),
        ("gfx90a", "v_mfma_f32_16x16x16bf16_1k", ""),
        ("gfx1100", "v_wmma_f32_16x16x16_bf16", "v_wmma_i32_16x16x16_iu8"),
        ("gfx1201", "v_wmma_f32_16x16x16_bf16", "v_wmma_i32_16x16x16_iu8"),
    ] {
        let spec = spec(chip);
        let binaries = build(text, &spec).unwrap();
        let assembly = Rocm.disassemble(&binaries[0].bytes, &spec).unwrap();
        for word in [halves, bytes] {
            assert!(assembly.contains(word), "{chip}: {word}");
        }
        assert!(!assembly.contains("scratch_"), "{chip}: registers do not suffice");
        // Emulators take a constant there for a register.
        let constant = assembly
            .lines()
            .find(|l| l.contains("v_wmma_") && l.split("//").next().is_some_and(|l| l.trim().ends_with(", 0")));
        assert_eq!(constant, None, "{chip}: sums that start from a constant in the instruction");
        let half = assembly.lines().find(|l| l.contains("d16_hi"));
        assert_eq!(half, None, "{chip}: halves of registers are loaded");
    }
}

#[test]
fn every_kernel_has_descriptor_and_metadata_and_nothing_is_undefined() {
    for (chip, machine, wave) in MACHINES {
        for (_, name, binaries) in built().iter().filter(|b| b.0 == *chip) {
            // For an emulator: what is checked here can be run there.
            let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.{chip}.hsaco"));
            std::fs::write(file, &binaries[0].bytes).unwrap();
            let object = CodeObject::read(&binaries[0].bytes).unwrap();
            assert_eq!((object.machine, object.abi_version), (*machine, 3), "{chip}: code object version 5");
            assert_eq!(spec(chip).requires.api, "5", "{chip}");
            assert_eq!(object.undefined, Vec::<String>::new());
            assert_eq!(object.kernels.len(), binaries.len());
            for (kernel, binary) in object.kernels.iter().zip(binaries) {
                assert_eq!((&kernel.name, kernel.symbol.clone()), (&binary.symbol, format!("{}.kd", binary.symbol)));
                assert_eq!((kernel.wavefront, kernel.wave32), (*wave, *wave == 32));
                assert_eq!((kernel.private_bytes, kernel.vgpr_spills), (0, 0), "{name} for {chip} uses scratch");
            }
        }
    }
}

#[test]
fn arguments_and_workgroup_memory() {
    let read = |name, chip| CodeObject::read(&binaries(name, chip)[0].bytes).unwrap().kernels;
    for (chip, ..) in MACHINES {
        let kernel = &read("row_sum", chip)[0];
        assert_eq!((kernel.group_bytes, kernel.max_block), (256, 64));
        let args: Vec<_> = kernel.args.iter().filter(|a| !a.kind.starts_with("hidden_")).collect();
        assert!(args.iter().all(|a| a.kind == "global_buffer" && a.space.as_deref() == Some("global")), "{args:?}");
        assert_eq!(args.iter().map(|a| (a.offset, a.bytes)).collect::<Vec<_>>(), [(0, 8), (8, 8)]);
        let kernel = &read("native", chip)[1];
        let args: Vec<_> = kernel.args.iter().filter(|a| !a.kind.starts_with("hidden_")).collect();
        assert_eq!((args[3].kind.as_str(), args[3].offset, args[3].bytes), ("by_value", 24, 4));
        assert_eq!(read("matmul", chip)[0].group_bytes, 512);
    }
}

#[test]
fn memory_is_never_reached_by_flat_instructions() {
    for (chip, name, binaries) in built() {
        let shown = Rocm.disassemble(&binaries[0].bytes, &spec(chip)).unwrap();
        let flat = shown.lines().find(|l| l.trim_start().starts_with("flat_") || l.contains("scratch_"));
        assert_eq!(flat, None, "{name} for {chip}");
    }
    let shown = Rocm.disassemble(&binaries("add", "gfx1100")[0].bytes, &spec("gfx1100")).unwrap();
    insta::with_settings!({snapshot_path => "../../../snapshots/rocm", prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!("add_gfx1100", shown);
    });
}

/// Positions are words, unless a buffer or emit wants more than 31 bits.
#[test]
fn positions_are_words_where_they_fit() {
    let kernel = |elements: i64, attribute: &str| {
        format!(
            r#"gpu.module @third {{
  gpu.func @third(%a: memref<{elements}xf32> {{zml.access = "read"}}, %r: memref<4096xf32> {{zml.access = "write"}}) kernel
      attributes {{known_block_size = array<i32: 64, 1, 1>, zml.grid = array<i32: 64, 1, 1>, zml.label = "third"{attribute}}} {{
    %block = gpu.block_id x
    %thread = gpu.thread_id x
    %c64 = arith.constant 64 : index
    %c7919 = arith.constant 7919 : index
    %c1365 = arith.constant 1365 : index
    %first = arith.muli %block, %c64 : index
    %at = arith.addi %first, %thread : index
    %far = arith.muli %at, %c7919 : index
    %from = arith.remsi %far, %c1365 : index
    %x = memref.load %a[%from] : memref<{elements}xf32>
    memref.store %x, %r[%at] : memref<4096xf32>
    gpu.return
  }}
}}
"#
        )
    };
    for (chip, ..) in MACHINES {
        let c = context::context();
        let is_wide = |elements, attribute| {
            let module = lowered(&c, &kernel(elements, attribute), &spec(chip)).unwrap();
            let text = context::print(&module);
            let remainder = text.lines().find(|l| l.contains("llvm.srem")).unwrap_or_else(|| panic!("{text}"));
            remainder.trim_end().ends_with("i64")
        };
        assert!(!is_wide(4096, ""), "{chip}");
        assert!(is_wide(1 << 31, ""), "{chip}");
        assert!(is_wide(4096, ", zml.wide"), "{chip}");
    }
}

#[test]
fn damaged_code_objects_are_refused() {
    let bytes = &binaries("add", "gfx942")[0].bytes;
    assert!(CodeObject::read(bytes).is_ok());
    for end in [0, 3, 20, 63, 64, 200, bytes.len() - 100] {
        assert!(CodeObject::read(&bytes[..end]).is_err(), "{end}");
    }
    for at in 0..bytes.len().min(4096) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0xff;
        // Whatever it says, it must say it and not panic.
        let _ = CodeObject::read(&damaged).map(|o| o.kernels.iter().map(|k| o.code(k).len()).sum::<usize>());
    }
}

/// Of so few elements that they are in scalar registers.
#[test]
fn few_quotients_of_f16() {
    let text = r#"gpu.module @k {
  gpu.func @k(%a: memref<2xf16> {zml.access = "read"}, %c: memref<2xf16> {zml.access = "read"}, %r: memref<2xf16> {zml.access = "write"}) kernel
      attributes {known_block_size = array<i32: 64, 1, 1>, zml.grid = array<i32: 1, 1, 1>} {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %t = gpu.thread_id x
    %first = arith.cmpi ult, %t, %one : index
    scf.if %first {
      %x = vector.load %a[%zero] {alignment = 4 : i64} : memref<2xf16>, vector<2xf16>
      %y = vector.load %c[%zero] {alignment = 4 : i64} : memref<2xf16>, vector<2xf16>
      %x0 = vector.extract %x[0] : f16 from vector<2xf16>
      %x1 = vector.extract %x[1] : f16 from vector<2xf16>
      %y0 = vector.extract %y[0] : f16 from vector<2xf16>
      %y1 = vector.extract %y[1] : f16 from vector<2xf16>
      %p0 = arith.extf %x0 : f16 to f32
      %p1 = arith.extf %x1 : f16 to f32
      %s0 = arith.extf %y0 : f16 to f32
      %s1 = arith.extf %y1 : f16 to f32
      %q0 = arith.divf %p0, %s0 : f32
      %q1 = arith.divf %p1, %s1 : f32
      %z0 = arith.truncf %q0 : f32 to f16
      %z1 = arith.truncf %q1 : f32 to f16
      %z = vector.from_elements %z0, %z1 : vector<2xf16>
      vector.store %z, %r[%zero] {alignment = 4 : i64} : memref<2xf16>, vector<2xf16>
    }
    gpu.return
  }
}"#;
    for (chip, ..) in MACHINES {
        let spec = spec(chip);
        let assembly = Rocm.disassemble(&build(text, &spec).unwrap()[0].bytes, &spec).unwrap();
        assert_eq!(assembly.matches("v_div_fixup_f32").count(), 2, "{chip}\n{assembly}");
    }
}

/// Instructions that tinygrad's emulator does not have, or has in part.
#[test]
fn quotients_and_halves_of_registers_are_what_emulators_know() {
    let text = r#"gpu.module @k {
  gpu.func @k(%a: memref<64xf16> {zml.access = "read"}, %c: memref<64xf16> {zml.access = "read"}, %r: memref<64xf16> {zml.access = "write"}) kernel
      attributes {known_block_size = array<i32: 32, 1, 1>, zml.grid = array<i32: 1, 1, 1>} {
    %two = arith.constant 2 : index
    %t = gpu.thread_id x
    %i = arith.muli %t, %two : index
    %x = vector.load %a[%i] {alignment = 4 : i64} : memref<64xf16>, vector<2xf16>
    %y = vector.load %c[%i] {alignment = 4 : i64} : memref<64xf16>, vector<2xf16>
    %x0 = vector.extract %x[0] : f16 from vector<2xf16>
    %x1 = vector.extract %x[1] : f16 from vector<2xf16>
    %y0 = vector.extract %y[0] : f16 from vector<2xf16>
    %p = arith.extf %x0 : f16 to f32
    %q = arith.extf %x1 : f16 to f32
    %s = arith.extf %y0 : f16 to f32
    %u = arith.divf %p, %s : f32
    %n = arith.negf %q : f32
    %e = math.exp %n : f32
    %u0 = arith.truncf %u : f32 to f16
    %e0 = arith.truncf %e : f32 to f16
    %z = vector.from_elements %u0, %e0 : vector<2xf16>
    vector.store %z, %r[%i] {alignment = 4 : i64} : memref<64xf16>, vector<2xf16>
    gpu.return
  }
}"#;
    for (chip, ..) in MACHINES {
        let spec = spec(chip);
        let assembly = Rocm.disassemble(&build(text, &spec).unwrap()[0].bytes, &spec).unwrap();
        for word in ["v_div_fixup_f16", "_sdwa"] {
            assert!(!assembly.contains(word), "{chip}: {word}\n{assembly}");
        }
    }
}
