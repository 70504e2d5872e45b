//! Real programs through legalize, simplify, fuse and plan: the host program of each as a snapshot, with its counts, and
//! what must hold of them.

use crate::common::{snapshot, spec};
use melior::ir::Module;
use zmlc_import::Source;
use zmlc_passes::{
    context,
    fuse::Fuse,
    ir::{self, B},
    legalize::{self, ArgumentPlan, EntryPlan, ResultPlan, Role},
    pass::{self, Env, Pass, Run},
    plan::Plan,
    simplify::Simplify,
    split::Split,
};

/// The text after plan of a program of the corpus; `donated` are the arguments that are given away.
fn planned(name: &str, donated: &[usize]) -> String {
    let path = format!("{}/../fixtures/corpus/{name}/program.mlir", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let p = zmlc_import::read(Source::new(name, text)).unwrap_or_else(|e| panic!("{name}: {e:?}"));
    let p = zmlc_import::prepare(p, "main", None).unwrap_or_else(|e| panic!("{name}: {e:?}"));
    let f = p.func("main").expect("an entry");
    let argument = |i| ArgumentPlan { name: format!("a{i}"), role: Role::Input { donated: donated.contains(&i) } };
    let result = |i| ResultPlan { name: format!("r{i}"), state: None };
    let plan = EntryPlan {
        name: "main".into(),
        dims: vec![],
        arguments: (0..f.body.args.len()).map(argument).collect(),
        results: (0..f.result_types.len()).map(result).collect(),
    };
    let c = context::context();
    let mut m: Module = legalize::module(&c, name, "1");
    legalize::entry(&B::new(&c, ir::body(&m)), &p, "main", &plan).unwrap_or_else(|e| panic!("{}", e[0]));
    let spec = spec(32);
    let passes: [&dyn Pass; 4] = [&Simplify, &Split, &Fuse, &Plan];
    pass::run(&c, &mut m, &passes, Env { spec: Some(&spec) }, Run::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
    context::print(&m)
}

/// Counts, one line for each kernel, and the steps.
fn summary(text: &str) -> String {
    let mut kernels = vec![];
    for l in text.lines().filter(|l| l.contains("func.func private")) {
        let field = |key: &str| l.split(key).nth(1).and_then(|r| r.split('"').nth(1)).unwrap_or_default().to_string();
        let symbol = l.split('@').nth(1).and_then(|r| r.split('(').next()).unwrap_or_default();
        kernels.push(format!("{symbol}: {}; {}", field("zml.hero"), field("zml.why")));
    }
    let steps: Vec<&str> = text
        .lines()
        .skip_while(|l| !l.contains("zml.program"))
        .skip(1)
        .take_while(|l| !l.contains("zml.results"))
        .filter(|l| !l.contains("zml.buffer"))
        .map(|l| l.split(" offsets").next().unwrap_or(l).trim_end())
        .collect();
    let count = |what: &str| steps.iter().filter(|l| l.trim_start().starts_with(what)).count();
    let arena = text.split("arena = ").nth(1).and_then(|l| l.split(' ').next()).unwrap_or_default();
    format!(
        "kernels {}, dispatches {}, barriers {}, copies {}, arena {arena}\n{}\n{}\n",
        kernels.len(),
        count("zml.dispatch"),
        count("zml.barrier"),
        count("zml.copy"),
        kernels.join("\n"),
        steps.join("\n")
    )
}

#[test]
fn corpus_programs() {
    let programs: [(&str, &[usize]); 7] = [
        ("causal_attention", &[]),
        ("predicates", &[]),
        ("mnist_mlp_b1", &[]),
        ("mnist_cnn_b1", &[]),
        ("mnist_cnn_b8", &[]),
        ("tinyllama_f32_decode", &[21, 22]),
        ("tinyllama_f32_prefill", &[21, 22]),
    ];
    for (name, donated) in programs {
        snapshot("models", name, &summary(&planned(name, donated)));
    }
}

/// Both caches of both layers are written where they are.
#[test]
fn decode_copies_no_cache() {
    let text = planned("tinyllama_f32_decode", &[21, 22]);
    assert_eq!(text.matches("zml.copy").count(), 0, "{}", summary(&text));
    let again = planned("tinyllama_f32_decode", &[]);
    assert!(again.matches("zml.copy").count() > 0, "caches that are not donated are copied");
}
