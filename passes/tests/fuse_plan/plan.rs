//! Snapshots of plan over its fixtures and those of fuse, with counts; programs that its verifier must refuse.

use crate::common::{fixtures, run, snapshot, spec};
use zmlc_passes::{
    context,
    fuse::Fuse,
    pass::{Env, Pass},
    plan::Plan,
};

/// The program without the dispatch functions, after a line of counts.
fn program(after: &str) -> String {
    let lines: Vec<&str> = after
        .lines()
        .skip_while(|l| !l.contains("zml.program"))
        .take_while(|l| !l.contains("func.func private"))
        .collect();
    let count = |what: &str| lines.iter().filter(|l| l.trim_start().starts_with(what)).count();
    let arena = lines[0].split("arena = ").nth(1).and_then(|l| l.split(' ').next()).expect("arena bytes");
    format!(
        "dispatches {}, barriers {}, copies {}, arena {arena}\n{}\n",
        count("zml.dispatch"),
        count("zml.barrier"),
        count("zml.copy"),
        lines.join("\n")
    )
}

#[test]
fn fixtures_plan() {
    for (name, text) in fixtures("plan") {
        let after = run(&text, &[&Plan], &spec(32)).expect(&name);
        snapshot("plan", &name, &program(&after));
    }
}

#[test]
fn fused_fixtures_plan() {
    for (name, text) in fixtures("fuse") {
        let after = run(&text, &[&Fuse, &Plan], &spec(if name == "wide_concat" { 8 } else { 32 })).expect(&name);
        snapshot("plan", &format!("fused_{name}"), &program(&after));
    }
}

#[test]
fn the_verifier_names_what_is_wrong() {
    for (name, text) in fixtures("plan/bad") {
        let c = context::context();
        let module = context::parse(&c, &text).expect(&name);
        context::verify(&c, &module).expect(&name);
        let spec = spec(32);
        let error = Plan.verify(&c, &module, Env { spec: Some(&spec) }).expect_err(&name).to_string();
        let expected = text.lines().next().and_then(|l| l.strip_prefix("// ")).expect("an expected error");
        assert!(error.contains(expected), "{name}: {error}");
    }
}
