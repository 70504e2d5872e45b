//! Files that are no programs: one clear message each, pinned as snapshots.

use std::fmt::Write as _;
use zmlc_import::{Diagnostics, Source, read, verify};

fn complain(name: &str, bytes: impl Into<Vec<u8>>) -> String {
    let source = Source::new(name, bytes);
    let found = match read(&source) {
        Err(d) => d,
        Ok(p) => Diagnostics::from(verify(&p)).locate(&source),
    };
    assert!(found.has_errors(), "{name} was accepted");
    let mut out = String::new();
    let _ = writeln!(out, "--- {name}\n{found}");
    out
}

const GOOD: &str = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %x, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
";

#[test]
fn not_a_program() {
    let noise: Vec<u8> = (0..512u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let out = [
        complain("empty.mlir", ""),
        complain("blank.mlir", "\n  \n"),
        complain("noise.mlir", noise.clone()),
        complain("magic.mlirbc", *b"ML\xefX\x0dStableHLO_v1.0.0\0"),
        complain("zero.mlirbc", *b"ML\xefR"),
        complain("noise.mlirbc", [b"ML\xefR".as_slice(), &noise].concat()),
        complain("prose.txt", "This is a model. It is very good.\n"),
        complain("comment.mlir", "// nothing here\n"),
    ];
    insta::assert_snapshot!(out.concat());
}

#[test]
fn damaged_text() {
    let out = [
        complain("cut_in_op.mlir", &GOOD[..80]),
        complain("cut_in_type.mlir", &GOOD[..30]),
        complain("cut_in_body.mlir", &GOOD[..GOOD.len() - 3]),
        complain("module.mlir", format!("module @m {{\n{GOOD}")),
        complain("string.mlir", "module attributes {a = \"b} {\n}\n"),
        complain("after.mlir", format!("{GOOD}}}\n")),
    ];
    insta::assert_snapshot!(out.concat());
}

/// A program that is cut anywhere is one error, unless what is left is a program: a declaration is one.
#[test]
fn cut_anywhere() {
    for n in 0..GOOD.trim_end().len() {
        if let Err(d) = read(Source::new("cut.mlir", &GOOD[..n])) {
            assert_eq!(d.list.len(), 1, "cut at {n}\n{d}");
        }
    }
    // A larger one may have lost more than its end, such as functions that it calls.
    let whole = include_str!("data/forms.mlir");
    for n in 0..whole.trim_end().len() - 1 {
        let d = read(Source::new("cut.mlir", &whole.as_bytes()[..n])).expect_err("nothing less is a program");
        assert!(d.list.len() < 4, "cut at {n}\n{d}");
    }
    let p = read(Source::new("good.mlir", GOOD)).expect("reads");
    let artifact = zmlc_import::write_artifact(&p, (1, 20)).expect("is written");
    for n in 0..artifact.len() {
        let d = read(Source::new("cut.mlirbc", &artifact[..n])).expect_err("nothing less is a program");
        assert_eq!(d.list.len(), 1, "cut at {n}\n{d}");
    }
}

/// The aliases of locations stand behind the module, so a cut there takes many at once.
#[test]
fn cut_in_the_locations() {
    let whole = "module {
  func.func @main(%x: tensor<4xf32> loc(#loc1)) -> tensor<4xf32> {
    %0 = stablehlo.add %x, %x : tensor<4xf32> loc(#loc5)
    %1 = stablehlo.add %0, %x : tensor<4xf32> loc(#loc5)
    %2 = stablehlo.add %1, %x : tensor<4xf32> loc(#loc6)
    return %2 : tensor<4xf32> loc(#loc)
  } loc(#loc2)
} loc(#loc)
#loc = loc(unknown)
#loc1 = loc(\"x\")
#loc2 = loc(\"a.py\":1:2 to :3)
#loc3 = loc(\"f\"(#loc2))
#loc4 = loc(\"g\"(#loc2))
#loc5 = loc(callsite(#loc3 at #loc4))
#loc6 = loc(\"sum\"(#loc5))
";
    for n in 0..whole.trim_end().len() {
        if let Err(d) = read(Source::new("cut.mlir", &whole.as_bytes()[..n])) {
            assert_eq!(d.list.len(), 1, "cut at {n}\n{d}");
        }
    }
    let without = &whole[..whole.find("#loc3 =").expect("a line")];
    let said = complain("cut.mlir", without);
    assert!(said.contains("no alias `#loc5` in this file, nor 1 other of its locations"), "{said}");
}

#[test]
fn nesting_is_bounded() {
    let deep = |open: &str, close: &str| {
        let n = 100_000;
        format!(
            "func.func @main() {{\n  \"stablehlo.custom_call\"() {{a = {}1{}}} : () -> ()\n  return\n}}\n",
            open.repeat(n),
            close.repeat(n)
        )
    };
    let types = format!("func.func @main(%x: {}tensor<f32>) {{\n  return\n}}\n", "tuple<".repeat(100_000));
    let regions = format!("func.func @main() {{\n{}", "\"stablehlo.case\"(%i) ({\n".repeat(100_000));
    let locations = format!("{}loc({}unknown\n", &GOOD[..GOOD.len() - 1], "callsite(".repeat(100_000));
    let braces = "{".repeat(100_000);
    let out = [
        complain("arrays.mlir", deep("[", "]")),
        complain("dictionaries.mlir", deep("{a = ", "}")),
        complain("types.mlir", types),
        complain("locations.mlir", locations),
        complain("braces.mlir", braces),
    ];
    insta::assert_snapshot!(out.concat());
    // The value that each of these reads is not defined either: the first error is what matters.
    assert!(complain("regions.mlir", regions).contains("E0103"));
}

/// Each of a few lines doubles what it stands for: refused before memory is full.
#[test]
fn aliases_that_double_are_refused() {
    let lines = |first: &str, next: &dyn Fn(usize) -> String| {
        let rest: String = (1..60).map(|i| format!("{}\n", next(i))).collect();
        format!("{first}\n{rest}{GOOD}")
    };
    let attributes = lines("#a0 = 1", &|i| format!("#a{i} = [#a{}, #a{}]", i - 1, i - 1));
    let types = lines("!t0 = tensor<f32>", &|i| format!("!t{i} = tuple<!t{}, !t{}>", i - 1, i - 1));
    for (text, use_) in [(attributes, " attributes {a = #a59}"), (types, " attributes {a = !t59}")] {
        let text = text.replacen(" {\n", &format!("{use_} {{\n"), 1);
        let said = complain("doubling.mlir", text);
        assert!(said.contains("E0106") && said.contains("stand for more"), "{said}");
    }
}

#[test]
fn wrong_programs() {
    let body = |s: &str| {
        format!("func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{\n{s}  return %x : tensor<4xf32>\n}}\n")
    };
    let out = [
        complain("integer.mlir", body("  %c = stablehlo.constant dense<300> : tensor<i8>\n")),
        complain("int_for_float.mlir", body("  %c = stablehlo.constant dense<256> : tensor<f32>\n")),
        complain("count.mlir", body("  %c = stablehlo.constant dense<[1.0, 2.0]> : tensor<3xf32>\n")),
        complain("hex.mlir", body("  %c = stablehlo.constant dense<\"0x00000\"> : tensor<2xf32>\n")),
        complain("undefined.mlir", body("  %0 = stablehlo.add %x, %y_long : tensor<4xf32>\n")),
        complain("mismatch.mlir", body("  %0 = stablehlo.add %x, %x : tensor<5xf32>\n")),
        complain("redefined.mlir", body("  %x = stablehlo.negate %x : tensor<4xf32>\n")),
        complain("unknown.mlir", body("  %0 = stablehlo.subtact %x, %x : tensor<4xf32>\n")),
        complain("mhlo.mlir", body("  %0 = mhlo.add %x, %x : tensor<4xf32>\n")),
        complain("callee.mlir", body("  %0 = call @man(%x) : (tensor<4xf32>) -> tensor<4xf32>\n")),
        complain("duplicate.mlir", format!("{GOOD}{GOOD}")),
        complain("element.mlir", "func.func @main(%x: tensor<4xf33>) {\n  return\n}\n"),
        complain("resource.mlir", body("  %c = stablehlo.constant dense_resource<w> : tensor<4xf32>\n")),
        complain("missing.mlir", body("  %0 = \"stablehlo.transpose\"(%x) : (tensor<4xf32>) -> tensor<4xf32>\n")),
        complain(
            "shape.mlir",
            body("  %0 = stablehlo.broadcast_in_dim %x, dims = [0] : (tensor<4xf32>) -> tensor<5xf32>\n"),
        ),
        complain("result.mlir", body("  %0 = stablehlo.transpose %x, dims = [0] : (tensor<4xf32>) -> tensor<5xf32>\n")),
    ];
    insta::assert_snapshot!(out.concat());
}

#[test]
fn all_errors_of_a_file_in_one_run() {
    let text = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %x, %missing : tensor<4xf32>
  %1 = stablehlo.frobnicate %x : tensor<4xf32>
  %2 = stablehlo.add %1, %0 : tensor<4xf32>
  %3 = stablehlo.constant dense<999> : tensor<i8>
  return %2 : tensor<4xf32>
}
";
    insta::assert_snapshot!(complain("many.mlir", text));
}

/// Found by fuzzing: text kept as it stands, of which a printed program is not read again.
#[test]
fn types_of_no_dialect_and_control_characters() {
    let of = |ty: &str| complain("type.mlir", format!("func.func private @f({ty})\n"));
    assert!(of("tensoz<4xf32>").contains("no type `tensoz`"), "{}", of("tensoz<4xf32>"));
    for ty in ["!a.b<\x0e>", "!a.b<\"\x0e\">", "tensor<4xf32> {c.d = #a.b<\x0e>}"] {
        let padded = format!("{}\n{ty}", "// ".to_string() + &"long ".repeat(120));
        assert!(of(&padded).contains("control character"), "{}", of(&padded));
    }
}

/// Ten thousand faults: all are found, each name is compared with a bounded number of others, and a hundred are written.
#[test]
fn many_errors_are_counted_and_a_hundred_written() {
    let of = |line: &dyn Fn(usize) -> String| {
        let lines: String = (0..10_000).map(line).collect();
        format!("func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{\n{lines}  return %x : tensor<4xf32>\n}}\n")
    };
    let types = of(&|i| format!("  %v{i} = stablehlo.add %x, %x : tensor<5xf32>\n"));
    let names = of(&|i| format!("  %v{i} = stablehlo.add %x, %missing{i} : tensor<4xf32>\n"));
    let shapes = of(&|i| format!("  %v{i} = stablehlo.reshape %x : (tensor<4xf32>) -> tensor<5xf32>"));
    for (name, text) in [("types.mlir", types), ("names.mlir", names), ("shapes.mlir", shapes)] {
        let said = complain(name, text);
        assert_eq!(said.matches("error[").count(), 100, "{name}");
        assert!(
            said.ends_with("\nand 9900 errors more; `--message-format json` lists all\n\n10000 errors\n\n"),
            "{name}"
        );
    }
}

/// What cannot be read in one place hides nothing that is wrong in another, and is not blamed twice.
#[test]
fn errors_of_reading_do_not_hide_those_of_verifying() {
    let text = "func.func private @broken(%x: tensor<4xf33>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @broken(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = stablehlo.frobnicate %x : tensor<4xf32>
  %2 = stablehlo.add %1, %0 : tensor<4xf32>
  %3 = stablehlo.reshape %x : (tensor<4xf32>) -> tensor<5xf32>
  %4 = stablehlo.add %x, %x : tensor<5xf32>
  %5 = stablehlo.transpose %2, dims = [1] : (tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}
func.func private @other(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.reshape %x : (tensor<4xf32>) -> tensor<6xf32>
  return %x : tensor<4xf32>
}
";
    insta::assert_snapshot!(complain("places.mlir", text));
}

/// What a terminal would obey is shown, not sent.
#[test]
fn control_characters_are_escaped() {
    let text =
        GOOD.replace("stablehlo.add %x, %x : tensor", "call @\"a\\1b[31m\\0Ab\\07\"(%x) : (tensor<4xf32>) -> tensor");
    let said = complain("names\u{1b}[0m.mlir", text);
    assert!(said.contains("no function `@a\\u{1b}[31m\\nb\\u{7}`"), "{said}");
    assert!(said.contains("--> names\\u{1b}[0m.mlir:2:"), "{said}");
    assert!(!said.lines().skip(1).any(|l| l.contains(char::is_control)), "{said}");
}

/// Editors put a mark before the text, and comments may hold anything.
#[test]
fn marks_and_comments_are_skipped() {
    for before in ["\u{feff}", "\u{feff}// \u{1b}[0m\n", "// \u{1b}[31m\0 red \u{1b}[0m\n", "#a = 1 // \u{7} \" {\n"] {
        let text = format!("{before}{GOOD}");
        assert!(read(Source::new("marked.mlir", text.clone())).is_ok(), "{before:?}");
    }
    let said = complain("marked.mlir", format!("\u{feff}{}", GOOD.replace("4xf32>)", "4xf33>)")));
    assert!(said.contains("marked.mlir:1:30\n"), "{said}");
}

/// Found by fuzzing: the place of a fault lay before the text.
#[test]
fn a_byte_order_mark_and_nothing_else_is_an_empty_file() {
    for file in ["\u{feff}", "\u{feff}\n", "\u{feff} // nothing", "\u{feff}}"] {
        let errors = read(Source::new("mark", file)).expect_err("there is no program");
        assert_eq!(errors.list.len(), 1, "{errors}");
        assert!(errors.to_string().contains(" --> mark"), "{errors}");
    }
}
