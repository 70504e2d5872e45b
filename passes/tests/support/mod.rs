//! Shared by the tests of legalize and simplify: reading fixtures, made-up arguments, comparing, running level 1 on the CPU.

pub mod run;
pub mod values;

use zmlc_import::{Source, tree::Program};
use zmlc_passes::legalize::{ArgumentPlan, EntryPlan, ResultPlan, Role};

/// A StableHLO program of `fixtures/legalize`.
pub fn fixture(name: &str) -> Program {
    let path = format!("{}/../fixtures/legalize/{name}.mlir", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    zmlc_import::read(Source::new(name, text)).unwrap_or_else(|e| panic!("{name}: {e:?}"))
}
/// Every argument an input `a0`, every result `r0`; the entry has the function's name.
pub fn plan(p: &Program, func: &str) -> EntryPlan {
    let f = p.func(func).unwrap();
    let argument = |i| ArgumentPlan { name: format!("a{i}"), role: Role::Input { donated: false } };
    let result = |i| ResultPlan { name: format!("r{i}"), state: None };
    EntryPlan {
        name: func.into(),
        dims: vec![],
        arguments: (0..f.body.args.len()).map(argument).collect(),
        results: (0..f.result_types.len()).map(result).collect(),
    }
}
