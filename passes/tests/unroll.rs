//! unroll: what becomes a straight line and what stays a loop, and that both compute what the interpreter does.

#[allow(dead_code)] // this test uses a part
mod support;

use melior::{Context, ir::Module};
use support::{plan, values};
use zmlc_import::{Source, interp, tree::Program};
use zmlc_passes::{
    context,
    evaluate::{self, Tensor},
    ir::{self, B, ValueLike},
    legalize,
    pass::{Env, Pass},
    simplify::Simplify,
    unroll::Unroll,
};

const ENV: Env = Env { spec: None };

fn program(text: &str) -> Program {
    zmlc_import::read(Source::new("unroll", text)).unwrap_or_else(|e| panic!("{e}\n{text}"))
}
/// Level 1 of a program after unroll.
fn unrolled<'c>(c: &'c Context, p: &Program) -> Module<'c> {
    let mut m = legalize::module(c, "test", "1");
    legalize::entry(&B::new(c, ir::body(&m)), p, "main", &plan(p, "main")).unwrap_or_else(|e| panic!("{}", e[0]));
    for pass in [&Simplify as &dyn Pass, &Unroll] {
        pass.run(c, &mut m, ENV).unwrap();
        context::verify(c, &m).unwrap();
        pass.verify(c, &m, ENV).unwrap();
    }
    m
}
fn loops(m: &Module) -> usize {
    ir::walk(ir::module_op(m)).into_iter().filter(|o| ir::name(*o) == "scf.while").count()
}
/// The number of loops that are left, after comparing results with the interpreter's.
fn loops_left(text: &str) -> usize {
    let (c, p) = (context::context(), program(text));
    let m = unrolled(&c, &p);
    let func = p.func("main").unwrap();
    let args: Vec<_> =
        func.body.args.iter().enumerate().map(|(i, a)| values::tensor(func.tensor(*a), i as u64, false)).collect();
    let want = interp::eval(&p, "main", args.clone()).unwrap();
    let top = ir::body(&m);
    let inputs = ir::args(ir::block(ir::find(top, "main").unwrap(), 0));
    let inputs = inputs.iter().zip(&args).map(|(v, t)| Tensor::from_bytes(v.r#type(), &t.bytes).unwrap()).collect();
    let found = evaluate::run(top, "main", inputs, &mut |_| Ok(())).unwrap_or_else(|e| panic!("{e}"));
    for (f, w) in found.iter().zip(&want) {
        let f = interp::Tensor::new(w.dtype, &w.shape, f.to_bytes()).unwrap();
        assert_eq!(values::difference(&f, w, 1e-5), None, "{text}");
    }
    loops(&m)
}
/// A loop whose counter of type `t` goes from `start` by `step` as long as it compares to `end`, and which doubles and adds.
fn counting(t: &str, start: i64, step: i64, compare: &str, end: i64) -> String {
    format!(
        "func.func @main(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<{t}>) {{
           %start = stablehlo.constant dense<{start}> : tensor<{t}>
           %r:2 = stablehlo.while(%i = %start, %y = %x) : tensor<{t}>, tensor<8xf32>
            cond {{
             %end = stablehlo.constant dense<{end}> : tensor<{t}>
             %more = stablehlo.compare {compare}, %i, %end : (tensor<{t}>, tensor<{t}>) -> tensor<i1>
             stablehlo.return %more : tensor<i1>
           }} do {{
             %double = stablehlo.add %y, %y : tensor<8xf32>
             %sum = stablehlo.add %double, %x : tensor<8xf32>
             %step = stablehlo.constant dense<{step}> : tensor<{t}>
             %next = stablehlo.add %i, %step : tensor<{t}>
             stablehlo.return %next, %sum : tensor<{t}>, tensor<8xf32>
           }}
           return %r#1, %r#0 : tensor<8xf32>, tensor<{t}>
         }}"
    )
}
/// `turns` turns of `ops` rounds of an elementwise op each, and in each turn, if `inner`, a loop that ends by its values.
fn nested(turns: i64, ops: usize, inner: bool) -> String {
    let chain: String = (0..ops)
        .map(|k| {
            let op = if k % 2 == 0 { "sine" } else { "cosine" };
            format!("%v{} = stablehlo.{op} %v{k} : tensor<f32>\n", k + 1)
        })
        .collect();
    let last = format!("%v{ops}");
    let halve = format!(
        "%h = stablehlo.while(%z = {last}) : tensor<f32>
          cond {{
           %limit = stablehlo.constant dense<0.1> : tensor<f32>
           %far = stablehlo.compare GT, %z, %limit : (tensor<f32>, tensor<f32>) -> tensor<i1>
           stablehlo.return %far : tensor<i1>
         }} do {{
           %half = stablehlo.constant dense<0.5> : tensor<f32>
           %less = stablehlo.multiply %z, %half : tensor<f32>
           stablehlo.return %less : tensor<f32>
         }}"
    );
    let (body, value) = if inner { (halve.as_str(), "%h") } else { ("", last.as_str()) };
    format!(
        "func.func @main(%x: tensor<f32>) -> tensor<f32> {{
           %start = stablehlo.constant dense<0> : tensor<i32>
           %r:2 = stablehlo.while(%i = %start, %v0 = %x) : tensor<i32>, tensor<f32>
            cond {{
             %end = stablehlo.constant dense<{turns}> : tensor<i32>
             %more = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
             stablehlo.return %more : tensor<i1>
           }} do {{
             {chain}{body}
             %step = stablehlo.constant dense<1> : tensor<i32>
             %next = stablehlo.add %i, %step : tensor<i32>
             stablehlo.return %next, {value} : tensor<i32>, tensor<f32>
           }}
           return %r#1 : tensor<f32>
         }}"
    )
}

#[test]
fn layers_are_written_out() {
    let path = format!("{}/../fixtures/unroll/layers.mlir", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(loops_left(&text), 0);
    let c = context::context();
    let after = context::print(&unrolled(&c, &program(&text)));
    insta::with_settings!({snapshot_path => "../../snapshots/unroll", prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!("layers", after);
    });
}

#[test]
fn counters_of_every_width_and_direction() {
    for t in ["i32", "i64"] {
        assert_eq!(loops_left(&counting(t, 0, 1, "LT", 5)), 0);
        assert_eq!(loops_left(&counting(t, 6, -2, "GE", 0)), 0);
        assert_eq!(loops_left(&counting(t, 3, 3, "NE", 12)), 0);
        assert_eq!(loops_left(&counting(t, 3, 1, "LE", 2)), 0, "no turn at all");
    }
    assert_eq!(loops_left(&counting("i64", 1 << 40, 1 << 41, "LT", 1 << 43)), 0);
}

#[test]
fn counters_at_the_end_of_their_range() {
    for (t, most) in [("i32", i64::from(i32::MAX)), ("i64", i64::MAX)] {
        let least = -most - 1;
        assert_eq!(loops_left(&counting(t, most - 3, 1, "LT", most)), 0);
        assert_eq!(loops_left(&counting(t, least + 3, -1, "GT", least)), 0);
        // The last turn's next value is none of the type: the comparison would go on from the other end.
        for text in [counting(t, most - 3, 2, "LT", most), counting(t, least + 2, -3, "GT", least)] {
            let c = context::context();
            assert_eq!(loops(&unrolled(&c, &program(&text))), 1, "{text}");
        }
    }
}

#[test]
fn long_lines_stay_loops() {
    assert_eq!(loops_left(&counting("i32", 0, 1, "LT", 256)), 0);
    assert_eq!(loops_left(&counting("i32", 0, 1, "LT", 257)), 1, "many turns");
    let c = context::context();
    assert_eq!(loops(&unrolled(&c, &program(&nested(32, 500, false)))), 0);
    assert_eq!(loops(&unrolled(&c, &program(&nested(32, 520, false)))), 1, "many ops");
}

/// The host decides between turns that hold loops however they are written.
#[test]
fn turns_that_hold_loops() {
    assert_eq!(loops_left(&nested(3, 10, true)), 3, "little code");
    assert_eq!(loops_left(&nested(3, 100, true)), 2, "an outer and an inner loop");
    assert_eq!(loops_left(&nested(3, 100, false)), 0);
}
