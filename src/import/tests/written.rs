//! What is written for other readers of StableHLO: text and artifacts that they take, with the same meaning.

use zmlc_import::{PORTABLE_VERSION, Source, difference, print, read, tree::Program, verify, write_artifact};

fn load(text: &str) -> Program {
    let p = read(Source::new("text", text)).unwrap_or_else(|e| panic!("{e}"));
    assert!(verify(&p).is_empty(), "{:?}", verify(&p));
    p
}
/// As text, and read back from an artifact.
fn written(p: &Program) -> String {
    let bytes = write_artifact(p, PORTABLE_VERSION).unwrap_or_else(|e| panic!("{e:?}"));
    let again = read(Source::new("artifact", bytes)).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(difference(p, &again), None);
    let text = print(p);
    assert_eq!(print(&again), text);
    text
}

const SHARDED: &str = r#"module @jit_f attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%a: tensor<4xf32> {jax.name = "a", sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> (tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
    %0 = stablehlo.negate %a {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} : tensor<4xf32>
    %1 = sdy.sharding_constraint %0 <@mesh, [{}]> : tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}"#;

/// A sharding without its mesh is an error to others.
#[test]
fn shardings_go_with_their_meshes() {
    let text = written(&load(SHARDED));
    assert!(!text.contains("sdy.") && text.contains("{jax.name = \"a\"}"), "{text}");
}

/// A call without results has no layouts of results, and says so.
#[test]
fn layouts_come_for_both_sides() {
    let call = |layouts: &str| {
        let call =
            format!("stablehlo.custom_call @f(%x) {{has_side_effect = true, {layouts}}} : (tensor<4xf32>) -> ()");
        written(&load(&format!("func.func @main(%x: tensor<4xf32>) {{\n  {call}\n  return\n}}")))
    };
    let text = call("operand_layouts = [dense<0> : tensor<1xindex>], result_layouts = []");
    assert!(text.contains("tensor<1xindex>], result_layouts = []}"), "{text}");
    assert!(!call("operand_layouts = [], result_layouts = []").contains("layouts"));
}

/// Its generic form, the one that is written, has the sizes of both sides.
#[test]
fn a_scan_says_what_it_carries() {
    let text = print(&load(
        "func.func @main(%x: tensor<3x2xf32>, %c: tensor<2xf32>) -> tensor<3x2xf32> {
  %0:2 = chlo.scan(%x) inits(%c) dimension=0 {
  ^bb0(%a: tensor<2xf32>, %b: tensor<2xf32>):
    %s = stablehlo.add %a, %b : tensor<2xf32>
    stablehlo.return %s, %s : tensor<2xf32>, tensor<2xf32>
  } : (tensor<3x2xf32>, tensor<2xf32>) -> (tensor<3x2xf32>, tensor<2xf32>)
  return %0 : tensor<3x2xf32>
}",
    ));
    let sizes = "operandSegmentSizes = array<i32: 1, 1>, resultSegmentSizes = array<i32: 1, 1>";
    assert!(text.contains(sizes), "{text}");
    assert_eq!(print(&load(&text)), text);
}

#[test]
fn attributes_of_a_module_are_kept() {
    let attrs = r#"{a.array = [], a.bool = true, a.dict = {x = 1.0 : f32, y = @f}, a.index = 3 : index, a.ints = array<i64: 1, 2>, a.negative = -2 : i8, a.type = tensor<4xf32>, a.unit, a.unsigned = 200 : ui8, a.word = "b"}"#;
    let text = SHARDED.replace("{mhlo.num_partitions = 2 : i32}", attrs);
    let p = load(&text);
    assert_eq!(p.attrs.len(), 10);
    written(&p);
}

/// Found by fuzzing: a program is the same as itself, whatever its attributes hold.
#[test]
fn attributes_that_are_no_numbers_are_themselves() {
    let text = "module attributes {a.b = 0x7FC00000 : f32} {
  func.func @main(%x: tensor<f32>) -> tensor<f32> attributes {c.d = 0x7FC00000 : f32} {
    %0 = stablehlo.negate %x {e.f = 0x7FC00000 : f32} : tensor<f32>
    return %0 : tensor<f32>
  }
}";
    let p = read(Source::new("text", text)).unwrap_or_else(|e| panic!("{e}"));
    let again = read(Source::new("written", write_artifact(&p, (1, 20)).expect("has a form"))).expect("is read");
    assert_eq!(difference(&p, &again), None);
    let other = text.replacen("0x7FC00000", "0x7F800000", 1);
    let other = read(Source::new("other", other.as_str())).unwrap_or_else(|e| panic!("{e}"));
    assert!(difference(&p, &other).is_some());
}

/// Found by fuzzing: VHLO has no symbols as attributes, artifacts hold their names as strings.
#[test]
fn symbols_are_strings_in_artifacts() {
    let text = "module attributes {a.b = [@s]} {
  func.func @main(%x: tensor<f32> {a.b = @s}) -> tensor<f32> attributes {c.d = {e = @s}} {
    %0 = stablehlo.custom_call @f(%x) {backend_config = {a = @s}, api_version = 4 : i32, e.f = @s} : (tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  }
}";
    let p = read(Source::new("text", text)).unwrap_or_else(|e| panic!("{e}"));
    let again = read(Source::new("written", write_artifact(&p, (1, 20)).expect("has a form"))).expect("is read");
    assert!(print(&again).contains(r#"{a.b = "s"}"#), "{}", print(&again));
    assert_eq!(difference(&p, &again), None);
    let other = text.replacen("a = @s", "a = @t", 1);
    let other = read(Source::new("other", other.as_str())).unwrap_or_else(|e| panic!("{e}"));
    assert!(difference(&again, &other).is_some());
}
