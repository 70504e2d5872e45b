//! Prints the accuracy of every expansion as the tables of docs/numerics.md: `ulp STEP` looks at every STEPth f32,
//! `ulp f64 COUNT` at three times COUNT f64.

#[path = "../tests/support/ulp.rs"]
mod ulp;
#[path = "../tests/support/ulp64.rs"]
mod ulp64;
#[path = "../tests/support/wide.rs"]
mod wide;

use zmlc_passes::expand_math::{
    Function,
    machine::{Cpu, Cpu64},
};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |s: &String| s.parse::<u64>().unwrap_or_else(|_| panic!("{s} is no number"));
    println!("| op | max ulp | at | max ulp, fma not fused | at |\n|---|---|---|---|---|");
    for function in Function::ALL {
        let [fused, split] = [true, false].map(|fused| match &arguments[..] {
            [format, count] if format == "f64" => ulp64::sweep(*function, &Cpu64 { fused }, number(count)).to_string(),
            [step] => ulp::sweep(*function, &Cpu { fused, unit: false, short: false }, number(step)).to_string(),
            _ => panic!("ulp STEP, or ulp f64 COUNT"),
        });
        println!("| `{}` | {fused} | {split} |", function.op());
    }
}
