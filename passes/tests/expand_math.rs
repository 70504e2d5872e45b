//! expand-math: before and after as a snapshot, one broken fixture for each invariant, and the accuracy of every expansion.

#[path = "support/ulp.rs"]
mod ulp;
#[path = "support/ulp64.rs"]
mod ulp64;
#[path = "support/wide.rs"]
mod wide;

use zmlc_passes::{
    context,
    expand_math::{
        ExpandMath, Function,
        machine::{Cpu, Cpu64},
        quotient::quotient,
    },
    pass::{Env, Pass, PassError},
};

const ENV: Env = Env { spec: None };

/// The expansion of a fixture as a snapshot of the same name.
fn snapshot(name: &str) {
    let c = context::context();
    let mut module = context::parse(&c, &fixture(name)).unwrap();
    let before = context::print(&module);
    ExpandMath.run(&c, &mut module, ENV).unwrap();
    context::verify(&c, &module).unwrap();
    ExpandMath.verify(&c, &module, ENV).unwrap();
    let after = context::print(&module);
    assert_eq!(context::print(&context::parse(&c, &after).unwrap()), after);
    insta::with_settings!({snapshot_path => "../../snapshots/expand_math", prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!(name, format!("// before\n{before}// after\n{after}"));
    });
}

fn fixture(name: &str) -> String {
    let path = format!("{}/../fixtures/expand_math/{name}.mlir", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

#[test]
fn before_and_after() {
    snapshot("exp");
}

/// Four divisions by one number in a group; that of a numerator that is made in between is not of it.
#[test]
fn divisions_by_one_number() {
    snapshot("quotients");
}

/// Where a / s is nearest to the middle between two numbers: for a divisor s of 24 bits a solves a 2^k = s m + c with an odd m
/// of 25 bits and a small c.
#[test]
fn quotients_by_a_reciprocal_are_rounded_once() {
    let m = Cpu { fused: true, unit: false, short: false };
    let mut tried = 0;
    let mut check = |a: i64, s: u32| {
        let (a, s) = (a as f32, s as f32);
        assert_eq!(quotient(&m, a, s, 1.0 / s), a / s, "{a} / {s}");
        tried += 1;
    };
    for s in ((1u32 << 23) + 1..1 << 24).step_by(2 * 17) {
        let inverse = (0..5).fold(s, |x, _| x.wrapping_mul(2u32.wrapping_sub(s.wrapping_mul(x))));
        for c in -5i64..=5 {
            for k in [24, 25] {
                let odd = (-c as u32).wrapping_mul(inverse) & ((1 << k) - 1);
                let product = i64::from(s) * i64::from(odd | 1 << 24) + c;
                let a = product >> k;
                if c != 0 && product == a << k && (1 << 23..1 << 24).contains(&a) {
                    check(a, s);
                }
            }
        }
    }
    assert!(tried > 500_000, "{tried}");
}

#[test]
fn what_is_left_is_found() {
    let c = context::context();
    for (name, op) in [("bad_left", "math.sin"), ("bad_half", "math.sqrt"), ("bad_rem", "arith.remf")] {
        let module = context::parse(&c, &fixture(name)).unwrap();
        match ExpandMath.verify(&c, &module, ENV) {
            Err(PassError::Bug(m)) => assert!(m.starts_with(&format!("{op} is left")), "{m}"),
            other => panic!("{name}: {other:?}"),
        }
    }
}

/// Most ulps that docs/numerics.md allows, with fma that rounds once and with fma that does not.
fn allowed(function: Function) -> [f64; 2] {
    match function {
        Function::Rem | Function::Round => [0.0, 0.0],
        Function::Exp | Function::Exp2 | Function::Log | Function::Erf => [1.0, 1.3],
        Function::Tanh | Function::Logistic => [2.5, 2.5],
        Function::Erfc => [4.5, 5.0],
        Function::Tan => [3.5, 4.0],
        Function::Sin | Function::Cos => [1.7, 2.5],
        _ => [2.0, 2.0],
    }
}

#[test]
fn every_expansion_is_as_accurate_as_stated() {
    for function in Function::ALL {
        let [most, split] = allowed(*function);
        let machines = [(true, false, most), (false, false, split), (true, true, most)];
        for (fused, unit, most) in machines {
            let worst = ulp::sweep(*function, &Cpu { fused, unit, short: false }, 50_021);
            assert!(worst.samples > 80_000);
            assert!(worst.ulp <= most, "{} with fused {fused}, unit {unit}: {worst}", function.op());
        }
    }
}

/// By a unit for 2^x, a result that is rounded to bf16 is the nearest one but where the true value is as near to two.
#[test]
fn tanh_for_bf16() {
    let m = Cpu { fused: true, unit: true, short: true };
    for bits in 0..=u16::MAX {
        let x = f32::from_bits(u32::from(bits) << 16);
        let (found, want) = (Function::Tanh.apply(&m, &[x]), f64::from(x).tanh());
        let close = (f64::from(found) - want).abs() <= want.abs() * 2f64.powi(-17);
        assert!(close || (found.is_nan() && x.is_nan()), "tanh {x} is {found}, not {want}");
        assert!(x.is_nan() || found.is_sign_negative() == x.is_sign_negative(), "tanh {x} is {found}");
    }
}

/// The same of f64.
fn allowed64(function: Function) -> [f64; 2] {
    match function {
        Function::Rem | Function::Round => [0.0, 0.0],
        Function::Erfc => [3.0, 3.5],
        _ => [2.0, 2.5],
    }
}

#[test]
fn every_f64_expansion_is_as_accurate_as_stated() {
    for function in Function::ALL {
        for (fused, most) in [true, false].into_iter().zip(allowed64(*function)) {
            let worst = ulp64::sweep(*function, &Cpu64 { fused }, 2_000);
            assert!(worst.samples > 6_000);
            assert!(worst.ulp <= most, "{} with fused {fused}: {worst}", function.op());
        }
    }
}

/// Computed with mpmath in 2000 bits: arguments for which f64 has too few digits of pi, some of them very near a multiple.
#[test]
fn angles_of_all_sizes() {
    let m = Cpu64 { fused: true };
    for (x, sin, cos) in ANGLES {
        assert_eq!(Function::Sin.apply(&m, &[x]), sin, "sin {x:e}");
        assert_eq!(Function::Cos.apply(&m, &[x]), cos, "cos {x:e}");
    }
}
const ANGLES: [(f64, f64, f64); 6] = [
    (1e+22, -0.8522008497671888, 0.523214785395139),
    (5.319372648326541e+255, 1.0, -4.687165924254628e-19),
    (1.0715086071862673e+301, -0.15920170308624243, 0.9872460775989135),
    (1.7976931348623157e+308, 0.004961954789184062, -0.9999876894265599),
    (10000000000000.5, 0.2054639184968876, 0.9786646914014546),
    (1.2345678901234568e+17, 0.4592114411816471, 0.8883269962620041),
];

/// Numbers that do not come from a library: Payne and Hanek's hard case is the f32 nearest to a multiple of pi/2.
#[test]
fn hand_picked_values() {
    let m = Cpu { fused: true, unit: false, short: false };
    let one = |f: Function, x: f32| f.apply(&m, &[x]);
    // 16367173 * 2^72 is within 1.6e-9 of a multiple of pi/2 (Muller, Elementary Functions, "worst cases for range reduction").
    let hard = 16_367_173.0 * 2f32.powi(72);
    assert!((one(Function::Cos, hard)).abs() < 2e-9 || one(Function::Sin, hard).abs() < 2e-9);
    assert_eq!(one(Function::Exp, 0.0), 1.0);
    assert_eq!(one(Function::Exp, 1.0), std::f32::consts::E);
    assert_eq!(one(Function::Exp2, -149.0), f32::from_bits(1));
    assert_eq!(one(Function::Log2, 8.0), 3.0);
    assert_eq!(one(Function::Cbrt, 27.0), 3.0);
    assert_eq!(one(Function::Round, 0.5), 1.0);
    assert_eq!(one(Function::Round, -2.5), -3.0);
    assert_eq!(one(Function::Round, 0.499_999_97), 0.0);
    assert_eq!(Function::Powf.apply(&m, &[-2.0, 3.0]), -8.0);
    assert_eq!(Function::Rem.apply(&m, &[-5.5, 2.0]), -1.5);
}
