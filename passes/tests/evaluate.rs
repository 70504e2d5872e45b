//! The evaluator of level 1 against the interpreter of StableHLO: every family's fixture, as legalize leaves it, after
//! simplify, after fuse with every call seen, and where sort and scatter are expanded.

#[allow(dead_code)] // this test uses a part
mod support;

use melior::ir::Module;
use support::{fixture, plan, values};
use zmlc_import::interp;
use zmlc_passes::{
    context,
    evaluate::{self, Called, Tensor},
    expand_special::ExpandSpecial,
    fuse::Fuse,
    ir::{self, B, ValueLike},
    legalize,
    pass::{Env, Pass},
    simplify::Simplify,
    spec::DeviceSpec,
};

/// f32 against the interpreter's f64.
const TOLERANCE: f64 = 2e-5;

/// The results of the module's only entry as the interpreter has its own, and how many calls were seen.
fn run(m: &Module, entry: &str, args: &[interp::Tensor], like: &[interp::Tensor]) -> (Vec<interp::Tensor>, usize) {
    let top = ir::body(m);
    let inputs = ir::args(ir::block(ir::find(top, entry).unwrap(), 0));
    let inputs = inputs.iter().zip(args).map(|(v, t)| Tensor::from_bytes(v.r#type(), &t.bytes).unwrap()).collect();
    let mut calls = 0;
    let mut watch = |c: &Called| {
        assert_eq!(ir::args(ir::block(c.function, 0)).len(), c.inputs.len());
        calls += 1;
        Ok(())
    };
    let found = evaluate::run(top, entry, inputs, &mut watch).unwrap_or_else(|e| panic!("{e}"));
    let as_like = |(f, l): (Tensor, &interp::Tensor)| interp::Tensor::new(l.dtype, &l.shape, f.to_bytes()).unwrap();
    (found.into_iter().zip(like).map(as_like).collect(), calls)
}

#[test]
fn every_family_and_stage() {
    let folder = format!("{}/../fixtures/legalize", env!("CARGO_MANIFEST_DIR"));
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .filter(|n| n != "interface" && n != "unsupported")
        .collect();
    names.sort();
    let spec = DeviceSpec::parse(include_str!("fuse_plan/spec.toml")).unwrap();
    let (mut wrong, mut called) = (vec![], 0);
    for name in &names {
        let p = fixture(name);
        let f = p.main().unwrap().name.clone();
        let func = p.func(&f).unwrap();
        let args: Vec<_> =
            func.body.args.iter().enumerate().map(|(i, a)| values::tensor(func.tensor(*a), i as u64, false)).collect();
        let want = interp::eval(&p, &f, args.clone()).unwrap();
        let c = context::context();
        let mut m = legalize::module(&c, "test", "1");
        legalize::entry(&B::new(&c, ir::body(&m)), &p, &f, &plan(&p, &f)).unwrap_or_else(|e| panic!("{}", e[0]));
        let stages: [Option<&dyn Pass>; 4] = [None, Some(&Simplify), Some(&ExpandSpecial), Some(&Fuse)];
        for stage in stages {
            if let Some(pass) = stage {
                pass.run(&c, &mut m, Env { spec: Some(&spec) }).unwrap();
            }
            let (got, calls) = run(&m, &f, &args, &want);
            called += calls;
            for (i, (g, w)) in got.iter().zip(&want).enumerate() {
                if let Some(d) = values::difference(g, w, TOLERANCE) {
                    wrong.push(format!("{name} after {}: result {i} {d}", stage.map_or("legalize", |s| s.name())));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(called >= names.len(), "dispatches are seen");
}
