//! Emits the dispatches of a fixture and runs one of them: inputs in the dispatch's order, results in its order.

use super::simulate::{Memory, Num, launch};
use melior::{Context, ir::Module};
use zmlc_passes::{
    context,
    emit::Emit,
    ir::*,
    pass::{self, Env, Run},
    spec::DeviceSpec,
};

pub fn floats(x: &[f64]) -> Vec<Num> {
    x.iter().map(|x| Num::Float(*x)).collect()
}
pub fn ints(x: &[i64]) -> Vec<Num> {
    x.iter().map(|x| Num::Int(*x)).collect()
}

pub fn close(got: &[Num], expected: &[f64], tolerance: f64) {
    assert_eq!(got.len(), expected.len());
    for (i, (x, y)) in got.iter().zip(expected).enumerate() {
        let x = x.float();
        assert!((x - y).abs() <= tolerance * y.abs().max(1.0), "element {i}: {x} instead of {y}");
    }
}
/// Numbers that look random, in -2 .. 2, exact in f32.
pub fn noise(n: usize) -> Vec<f64> {
    (0..n).map(|i| ((i * 7919 + 13) % 4001) as f64 / 1024.0 - 2.0).collect()
}

/// A small device: 16-byte vectors, two workgroups fill it.
pub fn spec() -> DeviceSpec {
    DeviceSpec::parse(
        r#"
        name = "test"
        covers = "no device"
        abi = "pointers"
        subgroup = 0
        max-block = 256
        max-grid = [65535, 65535, 65535]
        shared-bytes = 32768
        max-buffers = 32
        max-buffer-bytes = 0
        max-scalar-bytes = 128
        vector-bytes = 16
        parallel-blocks = 1
        arithmetic = ["f16", "f64", "i64", "bf16"]
        storage = ["f16", "f64", "i64", "bf16"]
        [requires]
        api = ""
        arch = ""
        features = []
        limits = []
        "#,
    )
    .expect("the profile parses")
}

pub struct Kernels {
    text: String,
    emitted: String,
}
impl Kernels {
    pub fn emit(text: &str) -> Self {
        Self::emit_for(text, &spec())
    }
    pub fn emit_for(text: &str, spec: &DeviceSpec) -> Self {
        let context = context::context();
        let mut module = context::parse(&context, text).expect("the fixture parses");
        context::verify(&context, &module).expect("the fixture is valid");
        pass::run(&context, &mut module, &[&Emit], Env { spec: Some(spec) }, Run::default()).expect("emits");
        Kernels { text: text.into(), emitted: context::print(&module) }
    }
    /// The kernels as text.
    pub fn text(fixture: &str) -> String {
        Self::emit(fixture).emitted
    }
    /// How many ops of this name a kernel has.
    pub fn count(&self, name: &str, op: &str) -> usize {
        let context = context::context();
        let module = context::parse(&context, &self.emitted).expect("the kernels parse");
        let kernel = find(body(&module), name).expect("the kernel");
        walk(kernel).into_iter().filter(|o| zmlc_passes::ir::name(*o) == op).count()
    }
    /// Runs kernel `name`. Every element of a result of its own must be written once, one in an argument's buffer at
    /// most once.
    pub fn run(&self, name: &str, inputs: &[Vec<Num>]) -> Vec<Vec<Num>> {
        let context = context::context();
        let dispatches = context::parse(&context, &self.text).expect("the fixture parses");
        let function = find(body(&dispatches), name).expect("the dispatch");
        let (alias, results) = signature(&context, &dispatches, name);
        let mut buffers = vec![];
        for (i, x) in inputs.iter().enumerate() {
            assert_eq!(x.len() as i64, elements(arg(block(function, 0), i).r#type()), "elements of argument {i}");
            if !alias.contains(&(i as i64)) {
                buffers.push(Memory::new(&format!("argument{i}"), x.iter().cloned().map(Some).collect()));
            }
        }
        let first = buffers.len();
        for (i, n) in results.iter().enumerate() {
            let data = match usize::try_from(alias.get(i).copied().unwrap_or(-1)) {
                Ok(a) => inputs[a].iter().cloned().map(Some).collect(),
                Err(_) => vec![None; *n],
            };
            buffers.push(Memory::new(&format!("result{i}"), data));
        }
        let module = context::parse(&context, &self.emitted).expect("the kernels parse");
        let kernel = find(body(&module), name).expect("the kernel");
        launch(kernel, &mut buffers).unwrap_or_else(|e| panic!("{name}: {e}\n{kernel}"));
        buffers[first..]
            .iter()
            .enumerate()
            .map(|(i, m)| {
                let own = alias.get(i).is_none_or(|a| *a < 0);
                for (at, n) in m.writes.iter().enumerate() {
                    assert!(*n == 1 || (*n == 0 && !own), "{name}: result{i}[{at}] is written {n} times\n{kernel}");
                }
                m.data.iter().map(|x| x.clone().expect("written")).collect()
            })
            .collect()
    }
}
fn signature<'c>(_: &'c Context, module: &Module<'c>, name: &str) -> (Vec<i64>, Vec<usize>) {
    let function = find(body(module), name).expect("the dispatch");
    let end = *ops(block(function, 0)).last().expect("a return");
    let results = operands(end).iter().map(|v| elements(v.r#type()) as usize).collect();
    (i64s_attr(function, "zml.alias").unwrap_or_default(), results)
}
