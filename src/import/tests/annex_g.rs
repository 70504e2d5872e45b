//! Functions of complex numbers at zeros, infinities and NaN against the tables of C's Annex G (ISO/IEC 9899, G.6), with their
//! symmetries; and where simple formulas lose digits.

use std::f64::consts::PI;
use zmlc_import::{
    Source,
    interp::{Tensor, eval},
    read,
    tree::DType,
};

/// Argument and value; of a part after `+-` the sign is open, as it is of NaN.
const TABLE: &str = "
    chlo.acos 0 0 = pi/2 -0
    chlo.acos -0 0 = pi/2 -0
    chlo.acos 0 nan = pi/2 nan
    chlo.acos 2 inf = pi/2 -inf
    chlo.acos 2 nan = nan nan
    chlo.acos -inf 2 = pi -inf
    chlo.acos inf 2 = 0 -inf
    chlo.acos -inf inf = 3pi/4 -inf
    chlo.acos inf inf = pi/4 -inf
    chlo.acos inf nan = nan +-inf
    chlo.acos nan 2 = nan nan
    chlo.acos nan inf = nan -inf
    chlo.acosh 0 0 = 0 pi/2
    chlo.acosh -0 0 = 0 pi/2
    chlo.acosh 2 inf = inf pi/2
    chlo.acosh 2 nan = nan nan
    chlo.acosh -inf 2 = inf pi
    chlo.acosh inf 2 = inf 0
    chlo.acosh -inf inf = inf 3pi/4
    chlo.acosh inf inf = inf pi/4
    chlo.acosh inf nan = inf nan
    chlo.acosh nan 2 = nan nan
    chlo.acosh nan inf = inf nan
    chlo.asinh 0 0 = 0 0
    chlo.asinh 2 inf = inf pi/2
    chlo.asinh 2 nan = nan nan
    chlo.asinh inf 2 = inf 0
    chlo.asinh inf inf = inf pi/4
    chlo.asinh inf nan = inf nan
    chlo.asinh nan 0 = nan 0
    chlo.asinh nan 2 = nan nan
    chlo.asinh nan inf = +-inf nan
    chlo.atanh 0 0 = 0 0
    chlo.atanh 0 nan = 0 nan
    chlo.atanh 1 0 = inf 0
    chlo.atanh 2 inf = 0 pi/2
    chlo.atanh 2 nan = nan nan
    chlo.atanh inf 2 = 0 pi/2
    chlo.atanh inf inf = 0 pi/2
    chlo.atanh inf nan = 0 nan
    chlo.atanh nan 2 = nan nan
    chlo.atanh nan inf = +-0 pi/2
    chlo.cosh 0 0 = 1 0
    chlo.cosh 0 inf = nan +-0
    chlo.cosh 0 nan = nan +-0
    chlo.cosh 2 inf = nan nan
    chlo.cosh 2 nan = nan nan
    chlo.cosh inf 0 = inf 0
    chlo.cosh inf 2 = -inf inf
    chlo.cosh inf inf = +-inf nan
    chlo.cosh inf nan = inf nan
    chlo.cosh nan 0 = nan +-0
    chlo.cosh nan 2 = nan nan
    chlo.sinh 0 0 = 0 0
    chlo.sinh 0 inf = +-0 nan
    chlo.sinh 0 nan = +-0 nan
    chlo.sinh 2 inf = nan nan
    chlo.sinh 2 nan = nan nan
    chlo.sinh inf 0 = inf 0
    chlo.sinh inf 2 = -inf inf
    chlo.sinh inf inf = +-inf nan
    chlo.sinh inf nan = +-inf nan
    chlo.sinh nan 0 = nan 0
    chlo.sinh nan 2 = nan nan
    stablehlo.tanh 0 0 = 0 0
    stablehlo.tanh 2 inf = nan nan
    stablehlo.tanh 2 nan = nan nan
    stablehlo.tanh inf 2 = 1 -0
    stablehlo.tanh inf inf = 1 +-0
    stablehlo.tanh inf nan = 1 +-0
    stablehlo.tanh nan 0 = nan 0
    stablehlo.tanh nan 2 = nan nan
    stablehlo.exponential 0 0 = 1 0
    stablehlo.exponential -0 0 = 1 0
    stablehlo.exponential 2 inf = nan nan
    stablehlo.exponential 2 nan = nan nan
    stablehlo.exponential inf 0 = inf 0
    stablehlo.exponential -inf 2 = -0 0
    stablehlo.exponential inf 2 = -inf inf
    stablehlo.exponential nan 0 = nan 0
    stablehlo.exponential nan 2 = nan nan
    stablehlo.log -0 0 = -inf pi
    stablehlo.log 0 0 = -inf 0
    stablehlo.log 2 inf = inf pi/2
    stablehlo.log 2 nan = nan nan
    stablehlo.log -inf 2 = inf pi
    stablehlo.log inf 2 = inf 0
    stablehlo.log -inf inf = inf 3pi/4
    stablehlo.log inf inf = inf pi/4
    stablehlo.log inf nan = inf nan
    stablehlo.log nan 2 = nan nan
    stablehlo.log nan inf = inf nan
    stablehlo.sqrt 0 0 = 0 0
    stablehlo.sqrt -0 0 = 0 0
    stablehlo.sqrt 2 inf = inf inf
    stablehlo.sqrt nan inf = inf inf
    stablehlo.sqrt 2 nan = nan nan
    stablehlo.sqrt -inf 2 = 0 inf
    stablehlo.sqrt inf 2 = inf 0
    stablehlo.sqrt -inf nan = nan +-inf
    stablehlo.sqrt inf nan = inf nan
    stablehlo.sqrt nan 2 = nan nan
";
/// The public test programs of StableHLO have an infinite angle make NaN of an exponential function of any size; Annex G has
/// zero and infinity where the real part is infinite.
const NOT_AS_ANNEX_G: &str = "
    stablehlo.exponential -inf inf = nan nan
    stablehlo.exponential -inf nan = nan nan
    stablehlo.exponential inf inf = nan nan
    stablehlo.exponential inf nan = nan nan
";
/// Beside cuts, near the unit circle and where squares leave the range.
const CLOSE: &str = "
    stablehlo.log 0.6 0.8 = 2.2204460492503132e-17 0.9272952180016122
    stablehlo.log_plus_one -0.4 0.8 = 2.2204460492503132e-17 0.9272952180016122
    stablehlo.log_plus_one 1e-300 1e-300 = 1e-300 1e-300
    chlo.asin 0.5 1e-200 = 0.5235987755982989 1.1547005383792516e-200
    chlo.asin 1 1e-200 = 1.5707963267948966 1e-100
    chlo.acos 2 1e-200 = 5.773502691896258e-201 -1.3169578969248166
    chlo.acosh 1e-200 2 = 1.4436354751788103 1.5707963267948966
    chlo.asinh 1e200 1e200 = 461.55673936964905 0.7853981633974483
    chlo.atanh 1 1e-200 = 230.60508288968455 0.7853981633974483
    chlo.sinh 711 1.5707963267948966 = 1.8592059201379052e+292 inf
    chlo.cosh -711 1.5707963267948966 = 1.8592059201379052e+292 -inf
";

fn apply(op: &str, z: (f64, f64)) -> (f64, f64) {
    let t = "tensor<complex<f64>>";
    let ty = if op.starts_with("chlo") { format!("{t} -> {t}") } else { t.into() };
    let text = format!("func.func @main(%z: {t}) -> {t} {{\n  %r = {op} %z : {ty}\n  return %r : {t}\n}}\n");
    let program = read(Source::new(op, text)).unwrap_or_else(|e| panic!("{e}"));
    let bytes = [z.0.to_le_bytes(), z.1.to_le_bytes()].concat();
    let found = eval(&program, "main", vec![Tensor::new(DType::C128, &[], bytes).unwrap()]).unwrap();
    let part = |i: usize| f64::from_le_bytes(found[0].bytes[8 * i..][..8].try_into().unwrap());
    (part(0), part(1))
}
fn number(text: &str) -> f64 {
    match text {
        "pi" => PI,
        "pi/2" => PI / 2.0,
        "pi/4" => PI / 4.0,
        "3pi/4" => 3.0 * PI / 4.0,
        text => text.parse().unwrap_or_else(|_| panic!("{text} is no number")),
    }
}
/// `flip` turns the sign that is expected.
fn is(found: f64, expected: &str, flip: bool, ulps: u64) -> bool {
    let open = expected.strip_prefix("+-");
    let e = number(open.unwrap_or(expected));
    let (found, e) = if open.is_some() { (found.abs(), e) } else { (found, if flip { -e } else { e }) };
    let sign = found.is_sign_negative() == e.is_sign_negative();
    (e.is_nan() && found.is_nan()) || sign && found.to_bits().abs_diff(e.to_bits()) <= ulps
}
fn hold(table: &str, ulps: u64) {
    let mut wrong = vec![];
    for line in table.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let w: Vec<&str> = line.split_whitespace().collect();
        let [op, re, im, "=", to_re, to_im] = w[..] else { panic!("{line}") };
        // The value of the conjugate is the conjugate.
        for flip in [false, true] {
            let y = if flip { -number(im) } else { number(im) };
            let found = apply(op, (number(re), y));
            if !is(found.0, to_re, false, ulps) || !is(found.1, to_im, flip, ulps) {
                wrong.push(format!("{line}, conjugate: {flip}: {found:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn special_values() {
    hold(TABLE, 1);
    hold(NOT_AS_ANNEX_G, 0);
}
#[test]
fn digits_are_kept() {
    hold(CLOSE, 4);
}
/// sin z = -i sinh(i z) and the like, also where values are special.
#[test]
fn trigonometric_by_hyperbolic_functions() {
    let values = [0.0, -0.0, 0.5, -2.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    let pairs = [
        ("stablehlo.sine", "chlo.sinh"),
        ("stablehlo.tan", "stablehlo.tanh"),
        ("chlo.asin", "chlo.asinh"),
        ("chlo.atan", "chlo.atanh"),
    ];
    for (f, g) in pairs {
        for re in values {
            for im in values {
                let (direct, w) = (apply(f, (re, im)), apply(g, (-im, re)));
                let turned = (w.1, -w.0);
                let same = |a: f64, b: f64| {
                    (a.is_nan() && b.is_nan()) || (a.abs() == b.abs() && (a == 0.0 || a == b)) || (a - b).abs() < 1e-15
                };
                assert!(same(direct.0, turned.0) && same(direct.1, turned.1), "{f} {re} {im}: {direct:?}, {turned:?}");
            }
        }
    }
}
