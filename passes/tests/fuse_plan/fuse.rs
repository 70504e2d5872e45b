//! Snapshots of fuse over its fixtures, and modules that its verifier must refuse.

use crate::common::{fixtures, run, snapshot, spec};
use zmlc_passes::{context, fuse::Fuse, pass::Pass};

#[test]
fn fixtures_fuse() {
    for (name, text) in fixtures("fuse") {
        let after = run(&text, &[&Fuse], &spec(if name == "wide_concat" { 8 } else { 32 })).expect(&name);
        snapshot("fuse", &name, &after);
    }
}

#[test]
fn the_verifier_names_what_is_wrong() {
    for (name, text) in fixtures("fuse/bad") {
        let c = context::context();
        let module = context::parse(&c, &text).expect(&name);
        context::verify(&c, &module).expect(&name);
        let spec = spec(4);
        let env = zmlc_passes::pass::Env { spec: Some(&spec) };
        let error = Fuse.verify(&c, &module, env).expect_err(&name).to_string();
        let expected = text.lines().next().and_then(|l| l.strip_prefix("// ")).expect("an expected error");
        assert!(error.contains(expected), "{name}: {error}");
    }
}
