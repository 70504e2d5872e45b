//! Tests over programs in the two public forms.

use super::*;
use crate::tensors;

const MAIN: &str = r#"module {
  func.func public @main() -> (tensor<2xf32>) {
    %0:2 = call @inputs() : () -> (tensor<2xf32>, tensor<2xf32>)
    %1 = call @expected() : () -> tensor<2xf32>
    %2 = stablehlo.add %0#0, %0#1 : tensor<2xf32>
    stablehlo.custom_call @check.expect_close(%2, %1) {has_side_effect = true} : (tensor<2xf32>, tensor<2xf32>) -> ()
    return %2 : tensor<2xf32>
  }
  func.func private @inputs() -> (tensor<2xf32>, tensor<2xf32>) {
    %a = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %b = stablehlo.constant dense<[3.0, 4.0]> : tensor<2xf32>
    return %a, %b : tensor<2xf32>, tensor<2xf32>
  }
  func.func private @expected() -> (tensor<2xf32>) {
    %c = stablehlo.constant dense<[4.0, 6.0]> : tensor<2xf32>
    return %c : tensor<2xf32>
  }
}
"#;

const PARTS: &str = r#"func.func @abs_i8() {
  %x = stablehlo.constant dense<[-2, 0]> : tensor<2xi8>
  %y = stablehlo.abs %x : tensor<2xi8>
  check.expect_eq_const %y, dense<[2, 0]> : tensor<2xi8>
  func.return
}
// -----
func.func @broken( { check.expect_eq
"#;

fn outline(dir: &Path) -> String {
    let inputs: Vec<_> =
        tensors::read(&dir.join("inputs.safetensors")).unwrap().into_iter().map(|(k, t)| (k, t.bytes)).collect();
    let expected: Vec<_> =
        tensors::read(&dir.join("expected.safetensors")).unwrap().into_iter().map(|(k, t)| (k, t.bytes)).collect();
    let text = |name| fs::read_to_string(dir.join(name)).unwrap();
    format!("{}{}\n{inputs:?}\n{expected:?}", text("program.mlir"), text("meta.json"))
}

/// The cases of a folder or file, converted in this process.
fn all(path: &Path, out: &Path) -> Vec<Named> {
    let mut cases = vec![];
    for (stem, file) in programs(path, &out.join("archive")).unwrap() {
        let into = out.join(&stem);
        fs::create_dir_all(&into).unwrap();
        convert(&file, &stem, &into).unwrap();
        let index: Index = serde_json::from_slice(&fs::read(into.join("index.json")).unwrap()).unwrap();
        cases.extend(index.cases.into_iter().map(|n| (n.clone(), into.join(n))));
    }
    cases
}

#[test]
fn a_main_with_inputs_and_expected_values() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("add.mlir"), MAIN).unwrap();
    assert!(is_testdata(dir.path()));
    let cases = all(dir.path(), &dir.path().join("out"));
    assert_eq!(cases.iter().map(|c| c.0.as_str()).collect::<Vec<_>>(), ["add"]);
    insta::assert_snapshot!(outline(&cases[0].1), @r##"
        module {
          func.func public @main(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> tensor<2xf32> {
            %0 = stablehlo.add %arg0, %arg1 : tensor<2xf32>
            return %0 : tensor<2xf32>
          }
        }
        {"args":[{"dtype":"f32","key":"arg0","shape":[2]},{"dtype":"f32","key":"arg1","shape":[2]}],"dtype":"f32","op":"add","outputs":[{"check":{"kind":"close","least":0,"ulp":3},"dtype":"f32","key":"out0","shape":[2]}]}
        [("arg0", [0, 0, 128, 63, 0, 0, 0, 64]), ("arg1", [0, 0, 64, 64, 0, 0, 128, 64])]
        [("out0", [0, 0, 128, 64, 0, 0, 192, 64])]
        "##);
}

#[test]
fn functions_in_parts_of_a_file() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("abs.mlir"), PARTS).unwrap();
    let cases = all(&dir.path().join("abs.mlir"), &dir.path().join("out"));
    assert_eq!(cases.iter().map(|c| c.0.as_str()).collect::<Vec<_>>(), ["abs.0.abs_i8", "abs.1.main"]);
    insta::assert_snapshot!(outline(&cases[0].1), @r##"
        module {
          func.func public @main(%arg0: tensor<2xi8>) -> tensor<2xi8> {
            %0 = stablehlo.abs %arg0 : tensor<2xi8>
            return %0 : tensor<2xi8>
          }
        }
        {"args":[{"dtype":"i8","key":"arg0","shape":[2]}],"dtype":"i8","op":"abs","outputs":[{"check":{"kind":"eq"},"dtype":"i8","key":"out0","shape":[2]}]}
        [("arg0", [254, 0])]
        [("out0", [2, 0])]
        "##);
    assert!(fs::read_to_string(cases[1].1.join("program.mlir")).unwrap().contains("@broken"));
}

const PROBED: &str = r#"func.func @probe() {
  %0 = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %1 = stablehlo.add %0, %0 : tensor<2xi32>
  %2 = interpreter.probe %1, probe_id = "p/0" : tensor<2xi32>
  interpreter.print %2 : tensor<2xi32>
  check.expect_serialized_eq %2, probe_id = "p/0" : tensor<2xi32>
  func.return
}
// -----
func.func @main() {
  %0 = "interpreter.run_parallel"() {programs = [[@a]]} : () -> tensor<i32>
  check.expect_eq_const %0, dense<1> : tensor<i32>
  func.return
}
"#;

#[test]
fn the_interpreters_own_ops() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("probe.mlir"), PROBED).unwrap();
    let cases = all(&dir.path().join("probe.mlir"), &dir.path().join("out"));
    assert_eq!(cases.iter().map(|c| c.0.as_str()).collect::<Vec<_>>(), ["probe.0.probe", "probe.1.main"]);
    let shown = outline(&cases[0].1);
    assert!(!shown.contains("interpreter.") && shown.contains("[2, 0, 0, 0, 4, 0, 0, 0]"), "{shown}");
    assert!(fs::read_to_string(cases[1].1.join("meta.json")).unwrap().contains("several devices"));
}
