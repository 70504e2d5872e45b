//! What to do about errors of form that say nothing more particular themselves.

use crate::diag::Diagnostic;

pub(super) fn of(e: &Diagnostic) -> Option<&'static str> {
    let says = |s: &str| e.message.contains(s);
    Some(match e.code {
        "E0101" if says("behind the return") => "a region ends with its return; take out what follows, or the return",
        "E0101" if says("in the return") => "`return %x : tensor<4xf32>`, with a type for each value",
        "E0101" if says("`#`") => "comments start with `//`",
        "E0101" if says("`@`") => "names of functions start with `@`",
        "E0101" if says("the function's signature") => "`func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { ... }`",
        "E0101" if says("in the dense constant, found `...`") => {
            "write out every element, or one alone for all of them"
        }
        "E0101" if says("in the dense constant, found `nan`") || says("found `inf`") => {
            "write the bits: `0x7FC00000` is NaN of f32, `0x7F800000` infinity"
        }
        "E0101" if says("in the dense constant") => {
            "`dense<[1.0, 2.0]> : tensor<2xf32>`, or `dense<0.0>` for all elements"
        }
        "E0101" if says("the location") => {
            "`loc(unknown)`, `loc(\"file.py\":3:7)` or `loc(#loc1)`; locations may be left out"
        }
        "E0101" if says("the alias") => "`#name = attribute` or `!name = type`; comments start with `//`",
        "E0101" if says("the array") => "`array<i64: 0, 1>`",
        "E0101" if says("in the attributes") || says("an attribute in") => {
            "attributes are written `{name = value, ...}`"
        }
        "E0101" if says("the module") => {
            "text starts with `module` or `func.func`; JAX writes it by `jax.jit(f).lower(x).as_text()`"
        }
        "E0101" if says("type") => "types are written `tensor<4x8xf32>`",
        "E0101" if says("in the op") => "`%0 = stablehlo.add %x, %y : tensor<4xf32>`",
        "E0101" if says("the end of the line") => "an op ends with its types; is a part of the line missing?",
        "E0101" => {
            "the text around this is not as MLIR prints it; `zmlc convert FILE -o OUT.mlir` shows how programs are written"
        }
        "E0102" => "a truncated copy? compare the file's size with the original's",
        "E0104" => "choose a wider type",
        "E0105" => "the type behind `:` says how many elements there are",
        "E0204" => "count the types behind `:` against the operands and results",
        "E0203" => "take out one of them",
        "E0302" => "attributes are written as the specification's examples are, https://openxla.org/stablehlo/spec",
        _ => return None,
    })
}
