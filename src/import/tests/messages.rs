//! What is said of faults that people and exporters make: one message for each fault, where it is and what to do.

use std::fmt::Write as _;
use zmlc_import::{Diagnostics, Source, read, verify};

fn complain(name: &str, bytes: impl Into<Vec<u8>>) -> Diagnostics {
    let source = Source::new(name, bytes);
    match read(&source) {
        Err(d) => d,
        Ok(p) => Diagnostics::from(verify(&p)).locate(&source),
    }
}
/// A line in a function of `%x: tensor<4xf32>`, `%y: tensor<2x3xf32>` and `%i: tensor<4xi32>`.
fn line(s: &str) -> String {
    format!(
        "func.func @main(%x: tensor<4xf32>, %y: tensor<2x3xf32>, %i: tensor<4xi32>) -> tensor<4xf32> {{\n  {s}\n  \
         return %x : tensor<4xf32>\n}}\n"
    )
}

/// Lines that stand in a function.
const LINES: &[(&str, &str)] = &[
    ("an undefined value", "%0 = stablehlo.add %x, %z : tensor<4xf32>"),
    (
        "a value used before it is defined",
        "%0 = stablehlo.negate %late : tensor<4xf32>\n  %late = stablehlo.negate %x : tensor<4xf32>",
    ),
    (
        "a misspelled value",
        "%scale = stablehlo.negate %x : tensor<4xf32>\n  %1 = stablehlo.negate %scal : tensor<4xf32>",
    ),
    (
        "an undefined value used often",
        "%0 = stablehlo.add %z, %z : tensor<4xf32>\n  %1 = stablehlo.add %z, %0 : tensor<4xf32>",
    ),
    (
        "a value of a region that ended",
        "%c = stablehlo.constant dense<0.0> : tensor<f32>\n  %0 = \"stablehlo.reduce\"(%x, %c) ({\n  ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n    %sum = stablehlo.add %a, %b : tensor<f32>\n    stablehlo.return %sum : tensor<f32>\n  }) {dimensions = array<i64: 0>} : (tensor<4xf32>, tensor<f32>) -> tensor<f32>\n  %2 = stablehlo.negate %sum : tensor<f32>",
    ),
    (
        "a result too far",
        "%0:2 = stablehlo.optimization_barrier %x, %x : tensor<4xf32>, tensor<4xf32>\n  %1 = stablehlo.negate %0#2 : tensor<4xf32>",
    ),
    ("a value defined twice", "%x = stablehlo.negate %x : tensor<4xf32>"),
    ("a type that differs from the definition's", "%0 = stablehlo.add %x, %x : tensor<5xf32>"),
    ("an undefined function", "%0 = call @mian(%x) : (tensor<4xf32>) -> tensor<4xf32>"),
    ("an unknown op", "%0 = stablehlo.subtact %x, %x : tensor<4xf32>"),
    ("an op of no likeness", "%0 = stablehlo.frobnicate %x : tensor<4xf32>"),
    ("a generic op of no likeness", "%0 = \"stablehlo.frobnicate\"(%x) : (tensor<4xf32>) -> tensor<4xf32>"),
    ("an op without its dialect", "%0 = add %x, %x : tensor<4xf32>"),
    ("an op of mhlo", "%0 = mhlo.add %x, %x : tensor<4xf32>"),
    ("an op of mhlo, generic", "%0 = \"mhlo.add\"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>"),
    ("an op of arith", "%0 = arith.addf %x, %x : tensor<4xf32>"),
    ("an op of a dialect that nobody knows", "%0 = mine.add %x : tensor<4xf32>"),
    (
        "an op with an operand too many",
        "%0 = \"stablehlo.negate\"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>",
    ),
    ("an op with a type too few", "%0 = \"stablehlo.add\"(%x, %x) : (tensor<4xf32>) -> tensor<4xf32>"),
    (
        "an op without a region",
        "%0 = \"stablehlo.reduce\"(%x, %x) {dimensions = array<i64: 0>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>",
    ),
    ("names for other results than there are", "%0, %1 = stablehlo.negate %x : tensor<4xf32>"),
    ("a missing attribute", "%0 = \"stablehlo.transpose\"(%y) : (tensor<2x3xf32>) -> tensor<3x2xf32>"),
    (
        "a missing attribute of a dot",
        "%0 = \"stablehlo.dot_general\"(%y, %y) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>",
    ),
    (
        "a missing attribute of a compare",
        "%0 = \"stablehlo.compare\"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>",
    ),
    ("a missing attribute of an iota", "%0 = \"stablehlo.iota\"() : () -> tensor<4xi32>"),
    (
        "an attribute of another kind",
        "%0 = \"stablehlo.transpose\"(%y) {permutation = \"yes\"} : (tensor<2x3xf32>) -> tensor<3x2xf32>",
    ),
    (
        "a misspelled attribute",
        "%0 = \"stablehlo.transpose\"(%y) {permutations = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>",
    ),
    ("an attribute given twice", "%0 = stablehlo.negate %x {a = 1, a = 2} : tensor<4xf32>"),
    ("a name twice in a dictionary", "%0 = stablehlo.negate %x {a = {b = 1, c, b = 2}} : tensor<4xf32>"),
    (
        "a direction of no comparison",
        "%0 = stablehlo.compare LESS, %x, %x, FLOAT : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>",
    ),
    (
        "a word for a precision",
        "%0 = stablehlo.dot_general %y, %y, contracting_dims = [1] x [1], precision = [BEST, BEST] : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>",
    ),
    ("an undefined alias", "%0 = stablehlo.negate %x {a = #alias} : tensor<4xf32>"),
    ("an undefined type alias", "%0 = stablehlo.negate %x : !t"),
    ("an undefined location", "%0 = stablehlo.negate %x : tensor<4xf32> loc(#loc7)"),
    ("an unknown element type", "%0 = stablehlo.negate %x : tensor<4xfloat>"),
    ("an element type of numpy", "%0 = stablehlo.convert %x : (tensor<4xf32>) -> tensor<4xfloat32>"),
    ("an unknown type", "%0 = stablehlo.negate %x : tensoor<4xf32>"),
    ("a type as XLA writes it", "%0 = stablehlo.negate %x : f32[4]"),
    ("a type of another dialect", "%0 = stablehlo.negate %x : !torch.tensor"),
    ("a StableHLO type that there is not", "%0 = stablehlo.negate %x : !stablehlo.tensor"),
    ("an unranked tensor", "%0 = stablehlo.negate %x : tensor<*xf32>"),
    ("a negative size", "%0 = stablehlo.negate %x : tensor<-4xf32>"),
    ("a tensor without an element type", "%0 = stablehlo.negate %x : tensor<4>"),
    ("a size too large", "%0 = stablehlo.negate %x : tensor<99999999999999999999xf32>"),
    ("an encoding", "%0 = stablehlo.negate %x : tensor<4xf32, #sparse>"),
    ("complex of integers", "%0 = stablehlo.convert %x : (tensor<4xf32>) -> tensor<4xcomplex<i32>>"),
    ("too few elements", "%0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<3xf32>"),
    ("too many elements", "%0 = stablehlo.constant dense<[1, 2, 3]> : tensor<2xi32>"),
    ("no elements", "%0 = stablehlo.constant dense<> : tensor<2xi32>"),
    ("a list for a scalar", "%0 = stablehlo.constant dense<[1]> : tensor<i32>"),
    ("a row too short", "%0 = stablehlo.constant dense<[[1, 2], [3]]> : tensor<2x2xi32>"),
    ("an integer too large", "%0 = stablehlo.constant dense<300> : tensor<i8>"),
    ("a negative unsigned integer", "%0 = stablehlo.constant dense<-1> : tensor<ui8>"),
    ("minus zero for an integer", "%0 = stablehlo.constant dense<-0> : tensor<2xi32>"),
    ("an integer for a float", "%0 = stablehlo.constant dense<1> : tensor<f32>"),
    ("a float for an integer", "%0 = stablehlo.constant dense<1.5> : tensor<i32>"),
    ("a boolean for an integer", "%0 = stablehlo.constant dense<true> : tensor<i32>"),
    ("nan as a word", "%0 = stablehlo.constant dense<nan> : tensor<f32>"),
    ("bits too many", "%0 = stablehlo.constant dense<0x7FC000000> : tensor<f32>"),
    ("half a byte of hex", "%0 = stablehlo.constant dense<\"0x00000\"> : tensor<2xf32>"),
    ("what is not hex", "%0 = stablehlo.constant dense<\"0xzz\"> : tensor<i8>"),
    ("a constant that is no dense", "%0 = stablehlo.constant 1.0 : f32"),
    ("a constant without a type", "%0 = stablehlo.constant dense<1.0>"),
    ("a constant of a dynamic shape", "%0 = stablehlo.constant dense<1.0> : tensor<?xf32>"),
    ("a constant left out", "%0 = stablehlo.constant dense<__elided__> : tensor<4xf32>"),
    ("a resource left out", "%0 = stablehlo.constant dense_resource<__elided__> : tensor<4xf32>"),
    ("a resource that is not there", "%0 = stablehlo.constant dense_resource<weights> : tensor<4xf32>"),
    ("a constant shortened by dots", "%0 = stablehlo.constant dense<[1.0, ...]> : tensor<4xf32>"),
    (
        "operands of different shapes",
        "%0 = \"stablehlo.add\"(%x, %y) : (tensor<4xf32>, tensor<2x3xf32>) -> tensor<4xf32>",
    ),
    (
        "operands of different element types",
        "%0 = \"stablehlo.add\"(%x, %i) : (tensor<4xf32>, tensor<4xi32>) -> tensor<4xf32>",
    ),
    ("a result of another shape", "%0 = stablehlo.transpose %y, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<2x3xf32>"),
    ("a reshape of another size", "%0 = stablehlo.reshape %y : (tensor<2x3xf32>) -> tensor<7xf32>"),
    (
        "a broadcast that does not fit",
        "%0 = stablehlo.broadcast_in_dim %x, dims = [0] : (tensor<4xf32>) -> tensor<5xf32>",
    ),
    (
        "a dot of sizes that differ",
        "%0 = stablehlo.dot_general %y, %y, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>",
    ),
    ("a permutation that is none", "%0 = stablehlo.transpose %y, dims = [0, 0] : (tensor<2x3xf32>) -> tensor<2x2xf32>"),
    (
        "a dimension too many",
        "%0 = stablehlo.concatenate %x, %x, dim = 1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>",
    ),
    ("a slice too long", "%0 = stablehlo.slice %x [0:5] : (tensor<4xf32>) -> tensor<5xf32>"),
    (
        "a select by integers",
        "%0 = \"stablehlo.select\"(%i, %x, %x) : (tensor<4xi32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>",
    ),
    ("a bitwise op of floats", "%0 = stablehlo.and %x, %x : tensor<4xf32>"),
    ("a missing comma", "%0 = stablehlo.add %x %x : tensor<4xf32>"),
    ("a missing type", "%0 = stablehlo.add %x, %x"),
    ("a missing equals sign", "%0 stablehlo.add %x, %x : tensor<4xf32>"),
    ("a string that is not closed", "%0 = stablehlo.negate %x {a = \"b} : tensor<4xf32>"),
    ("a comment of C", "/* a comment\n  of two lines */\n  %0 = stablehlo.negate %x : tensor<4xf32>"),
    ("a comment of C behind an op", "%0 = stablehlo.negate /* why */ %x : tensor<4xf32>"),
    ("a comment of Python", "# a comment\n  %0 = stablehlo.negate %x : tensor<4xf32>"),
    ("a word that ends in nothing", "then"),
    ("a second return", "return %x : tensor<4xf32>"),
    (
        "an unclosed bracket",
        "%0 = \"stablehlo.transpose\"(%y) {permutation = array<i64: 1, 0} : (tensor<2x3xf32>) -> tensor<3x2xf32>",
    ),
    ("a location without its bracket", "%0 = stablehlo.negate %x : tensor<4xf32> loc unknown"),
    ("a control character", "%0 = stablehlo.negate %x \u{1b}[31m: tensor<4xf32>"),
    ("a name of control characters", "%0 = call @\"a\\1b[31m\\0Ab\"(%x) : (tensor<4xf32>) -> tensor<4xf32>"),
];

/// Whole files.
const FILES: &[(&str, &str)] = &[
    ("a function without a return", "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n}\n"),
    (
        "a region without a return",
        "func.func @main(%x: tensor<4xf32>, %c: tensor<f32>) -> tensor<f32> {\n  %0 = \"stablehlo.reduce\"(%x, %c) ({\n  ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n    %1 = stablehlo.add %a, %b : tensor<f32>\n  }) {dimensions = array<i64: 0>} : (tensor<4xf32>, tensor<f32>) -> tensor<f32>\n  return %0 : tensor<f32>\n}\n",
    ),
    (
        "a return of another type",
        "func.func @main(%x: tensor<4xf32>) -> tensor<5xf32> {\n  return %x : tensor<4xf32>\n}\n",
    ),
    (
        "a return that gives a value another type",
        "func.func @main(%x: tensor<4xf32>) -> tensor<5xf32> {\n  return %x : tensor<5xf32>\n}\n",
    ),
    (
        "a return of too few",
        "func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {\n  return %x : tensor<4xf32>\n}\n",
    ),
    ("a return of too many", "func.func @main(%x: tensor<4xf32>) {\n  return %x : tensor<4xf32>\n}\n"),
    ("a return of nothing", "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  return\n}\n"),
    ("a return without its types", "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  return %x\n}\n"),
    (
        "a signature that is wrong",
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf33> {\n  return %x : tensor<4xf32>\n}\n",
    ),
    (
        "a function without its at",
        "func.func main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  return %x : tensor<4xf32>\n}\n",
    ),
    ("an argument without a type", "func.func @main(%x) -> tensor<4xf32> {\n  return %x : tensor<4xf32>\n}\n"),
    ("a function defined twice", "func.func @main() {\n  return\n}\nfunc.func @main() {\n  return\n}\n"),
    ("an op outside of a function", "%0 = stablehlo.constant dense<1> : tensor<i32>\n"),
    ("a brace too many", "func.func @main() {\n  return\n}\n}\n"),
    ("a module that is not closed", "module @m {\nfunc.func @main() {\n  return\n}\n"),
    ("a function that is not closed", "func.func @main() {\n  return\n"),
    ("a module in a module", "module {\nmodule {\nfunc.func @main() {\n  return\n}\n}\n}\n"),
    ("two modules", "module {\nfunc.func @main() {\n  return\n}\n}\nmodule {\n}\n"),
    ("a module of nothing", "module {\n}\n"),
    ("a module's attributes", "module attributes {a = } {\nfunc.func @main() {\n  return\n}\n}\n"),
    ("a function of another dialect", "module {\n  llvm.func @main() {\n    llvm.return\n  }\n}\n"),
    ("a function of ml_program", "ml_program.func @main() {\n  return\n}\n"),
    ("a comment that is not closed", "func.func @main() {\n  /* a comment\n  of several lines\n  return\n}\n"),
    ("an alias without a name", "= label\nfunc.func @main() {\n  return\n}\n"),
    ("a label", "entry:\nfunc.func @main() {\n  return\n}\n"),
    ("a location without a name", "# = loc(unknown)\nfunc.func @main() {\n  return\n}\n"),
    ("an alias without a value", "#loc =\nfunc.func @main() {\n  return\n}\n"),
    ("an alias of itself", "#a = [#a]\nfunc.func @main() attributes {a = #a} {\n  return\n}\n"),
    ("nothing", ""),
    ("blanks", "\n  \n"),
    ("a comment alone", "// nothing here\n"),
    (
        "HLO text",
        "HloModule jit_f, entry_computation_layout={(f32[4]{0})->f32[4]{0}}\n\nENTRY main.3 {\n  Arg_0.1 = f32[4]{0} parameter(0)\n  ROOT add.2 = f32[4]{0} add(Arg_0.1, Arg_0.1)\n}\n",
    ),
    ("a jaxpr", "{ lambda ; a:f32[4]. let b:f32[4] = add a a in (b,) }\n"),
    ("Python", "import jax\nimport jax.numpy as jnp\n\ndef f(x):\n    return x + x\n"),
    ("Python that starts with a comment", "# a model\nfrom jax import numpy as jnp\n"),
    ("JSON", "{\n  \"model\": \"resnet\",\n  \"layers\": [1, 2]\n}\n"),
    ("a text protobuf", "name: \"jit_f\"\nentry_computation_name: \"main.3\"\ncomputations {\n  name: \"main.3\"\n}\n"),
    ("model.toml", "[model]\nname = \"m\"\nversion = \"1\"\n\n[[entry]]\nname = \"main\"\n"),
    ("LLVM IR", "; ModuleID = 'm'\nsource_filename = \"m\"\n\ndefine void @f() {\n  ret void\n}\n"),
    ("a web page", "<!DOCTYPE html>\n<html><body>404: Not Found</body></html>\n"),
    (
        "a pointer of Git LFS",
        "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n",
    ),
    ("a graph of torch.fx", "graph():\n    %x : [num_users=1] = placeholder[target=x]\n    return relu\n"),
    (
        "an exported program of PyTorch as text",
        "ExportedProgram:\n    class GraphModule(torch.nn.Module):\n        def forward(self, x):\n",
    ),
    ("prose", "This is a model. It is very good.\n"),
    (
        "a memref",
        "func.func @main(%x: memref<4xf32>) -> memref<4xf32> {\n  %0 = stablehlo.negate %x : memref<4xf32>\n  return %0 : memref<4xf32>\n}\n",
    ),
];

#[test]
fn each_fault_is_one_message_with_a_hint() {
    let lines = LINES.iter().map(|(name, text)| (*name, line(text)));
    let all: Vec<(&str, String)> = lines.chain(FILES.iter().map(|(n, t)| (*n, (*t).to_string()))).collect();
    let (mut out, mut wrong) = (String::new(), String::new());
    for (name, text) in &all {
        let found = complain(name, text.as_str());
        let fine = match &found.list[..] {
            [d] => d.hint.is_some() && (d.position.is_some() || text.trim().is_empty()),
            _ => false,
        };
        if !fine {
            let _ = writeln!(wrong, "--- {name}\n{found}");
        }
        let _ = writeln!(out, "--- {name}\n{found}");
    }
    if std::env::var_os("SHOW").is_some() {
        println!("{out}");
    }
    assert!(wrong.is_empty(), "{wrong}");
    insta::assert_snapshot!(out);
}

#[test]
fn what_is_expected_is_named() {
    for (text, expected) in [
        ("%0 = stabelhlo.add %x, %x : tensor<4xf32>", "did you mean `stablehlo.add`?"),
        ("func.cal @f() : () -> ()", "`func.call`"),
        (
            "%0 = stablehlo.add %x, %x : tensor<4xf32>\n  %1 = stablehlo.negate %0#1 : tensor<4xf32>",
            "`%0` is one value",
        ),
        (
            "%0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>",
            "expected numbers below 1",
        ),
        (
            "%0 = stablehlo.broadcast_in_dim %x, dims = [0, 1] : (tensor<4xf32>) -> tensor<4x4xf32>",
            "^^^^^^ expected 1 number\n",
        ),
    ] {
        let said = complain("line.mlir", line(text)).to_string();
        assert!(said.contains(expected), "{said}");
    }
}
