//! What kernels compute on a device, against values worked out here.

use crate::support::{build, build_without, fixture, pack, run, spec, unpack, with_subgroups, zeros};
use half::{bf16, f16};
use zmlc_passes::spec::DeviceSpec;

/// One thread an element: `body` makes `%y` from `%x` (and `%z`, a second input of the same type).
fn pointwise(n: usize, from: &str, to: &str, body: &str) -> String {
    format!(
        r#"gpu.module @k {{
  gpu.func @k(%a: memref<{n}x{from}> {{zml.access = "read"}}, %b: memref<{n}x{from}> {{zml.access = "read"}}, %r: memref<{n}x{to}> {{zml.access = "write"}}) kernel
      attributes {{known_block_size = array<i32: {n}, 1, 1>, zml.grid = array<i32: 1, 1, 1>}} {{
    %i = gpu.thread_id x
    %x = memref.load %a[%i] : memref<{n}x{from}>
    %z = memref.load %b[%i] : memref<{n}x{from}>
    {body}
    memref.store %y, %r[%i] : memref<{n}x{to}>
    gpu.return
  }}
}}"#
    )
}
fn compute(from: &str, to: &str, body: &str, a: Vec<u8>, b: Vec<u8>, n: usize, out: usize) -> Option<Vec<u8>> {
    compute_by(&spec(), from, to, body, [a, b], n, out)
}
fn compute_by(
    spec: &DeviceSpec,
    from: &str,
    to: &str,
    body: &str,
    [a, b]: [Vec<u8>; 2],
    n: usize,
    out: usize,
) -> Option<Vec<u8>> {
    let built = build(&pointwise(n, from, to, body), spec).unwrap_or_else(|e| panic!("{body}: {e}"));
    Some(run(&built, 0, &[a, b, vec![0; n * out]], &[])?.swap_remove(2))
}
/// `body` on f32 pairs.
fn floats(body: &str, pairs: &[(f32, f32)]) -> Option<Vec<f32>> {
    let (a, b): (Vec<f32>, Vec<f32>) = pairs.iter().copied().unzip();
    compute("f32", "f32", body, pack(&a), pack(&b), pairs.len(), 4).map(|r| unpack(&r))
}
fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn vectors_of_each_width_and_words() {
    for (ty, bytes) in [("i8", 1), ("i16", 2), ("f16", 2), ("bf16", 2), ("i32", 4), ("f32", 4), ("i64", 8), ("f64", 8)]
    {
        for lanes in [2usize, 4, 8, 16] {
            if lanes * bytes > 32 {
                continue;
            }
            // Each thread moves its elements in reverse order.
            let n = lanes * 8;
            let mask: Vec<String> = (0..lanes).rev().map(|i| i.to_string()).collect();
            let align = lanes * bytes;
            let text = format!(
                r#"gpu.module @k {{
  gpu.func @k(%a: memref<{n}x{ty}> {{zml.access = "read"}}, %r: memref<{n}x{ty}> {{zml.access = "write"}}) kernel
      attributes {{known_block_size = array<i32: 8, 1, 1>, zml.grid = array<i32: 1, 1, 1>}} {{
    %t = gpu.thread_id x
    %c = arith.constant {lanes} : index
    %i = arith.muli %t, %c : index
    %x = vector.load %a[%i] {{alignment = {align}}} : memref<{n}x{ty}>, vector<{lanes}x{ty}>
    %y = vector.shuffle %x, %x [{}] : vector<{lanes}x{ty}>, vector<{lanes}x{ty}>
    vector.store %y, %r[%i] {{alignment = {align}}} : memref<{n}x{ty}>, vector<{lanes}x{ty}>
    gpu.return
  }}
}}"#,
                mask.join(", ")
            );
            let built = build(&text, &spec()).unwrap_or_else(|e| panic!("{lanes} x {ty}: {e}"));
            // No NaN among them: 16-bit floats may pass through f32.
            let input: Vec<u8> = (0..n * bytes).map(|i| (i * 7 % 120) as u8).collect();
            let expected: Vec<u8> = input
                .chunks(lanes * bytes)
                .flat_map(|thread| thread.chunks(bytes).rev().flatten().copied().collect::<Vec<_>>())
                .collect();
            let Some(got) = run(&built, 0, &[input, vec![0; n * bytes]], &[]) else { return };
            assert_eq!(got[1], expected, "{lanes} x {ty}");
            let word = lanes * bytes;
            if bytes < 4 && word >= 4 {
                assert!(!built.text(0).contains("OpCapability StorageBuffer"), "{}", built.text(0));
            }
        }
    }
}

#[test]
fn maximum_and_minimum_are_those_of_ieee_754() {
    let nan = f32::NAN;
    let pairs =
        [(1.0, 2.0), (2.0, 1.0), (-0.0, 0.0), (0.0, -0.0), (-0.0, -0.0), (nan, 1.0), (1.0, nan), (f32::INFINITY, 3.0)];
    let max = [2.0, 2.0, 0.0, 0.0, -0.0, nan, nan, f32::INFINITY];
    let min = [1.0, 1.0, -0.0, -0.0, -0.0, nan, nan, 3.0];
    for (op, expected) in [("maximumf", max), ("minimumf", min)] {
        let Some(got) = floats(&format!("%y = arith.{op} %x, %z : f32"), &pairs) else { return };
        for (i, (g, e)) in got.iter().zip(expected).enumerate() {
            assert!(g.to_bits() == e.to_bits() || (g.is_nan() && e.is_nan()), "{op} {:?} gives {g}", pairs[i]);
        }
    }
    // Against constants, which take a shorter way.
    for (op, c, x, expected) in [
        ("maximumf", 0.0f32, [-1.0f32, -0.0, 0.0, nan], [0.0f32, 0.0, 0.0, nan]),
        ("maximumf", -0.0, [-1.0, -0.0, 0.0, nan], [-0.0, -0.0, 0.0, nan]),
        ("minimumf", 0.0, [1.0, -0.0, 0.0, nan], [0.0, -0.0, 0.0, nan]),
        ("minimumf", -0.0, [1.0, -0.0, 0.0, nan], [-0.0, -0.0, -0.0, nan]),
    ] {
        let body = format!("%c = arith.constant {c:?} : f32\n%y = arith.{op} %x, %c : f32");
        let Some(got) = floats(&body, &x.map(|x| (x, 0.0))) else { return };
        for ((x, g), e) in x.iter().zip(got).zip(expected) {
            assert!(g.to_bits() == e.to_bits() || (g.is_nan() && e.is_nan()), "{op} {x} {c:?} gives {g}");
        }
    }
}

#[test]
fn a_constant_zero_counts_as_any_number() {
    let tests = [0.0, -0.0, 2.0, -2.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    type Binary = fn(f64, f64) -> f64;
    let ops: [(&str, Binary); 4] =
        [("addf", |x, y| x + y), ("subf", |x, y| x - y), ("mulf", |x, y| x * y), ("divf", |x, y| x / y)];
    for ty in ["f16", "bf16", "f32", "f64"] {
        let (from, bytes): (fn(f64) -> Vec<u8>, usize) = match ty {
            "f16" => (|x| f16::from_f64(x).to_le_bytes().to_vec(), 2),
            "bf16" => (|x| bf16::from_f64(x).to_le_bytes().to_vec(), 2),
            "f32" => (|x| (x as f32).to_le_bytes().to_vec(), 4),
            _ => (|x| x.to_le_bytes().to_vec(), 8),
        };
        for (op, f) in ops {
            for (zero, first) in [(0.0, true), (0.0, false), (-0.0, true), (-0.0, false)] {
                let operands = if first { "%c, %x" } else { "%x, %c" };
                let body = format!("%c = arith.constant {zero:?} : {ty}\n%y = arith.{op} {operands} : {ty}");
                let input: Vec<u8> = tests.iter().copied().flat_map(from).collect();
                let n = tests.len();
                let Some(got) = compute(ty, ty, &body, input.clone(), input, n, bytes) else { return };
                for (x, got) in tests.iter().zip(got.chunks(bytes)) {
                    let expected = if first { f(zero, *x) } else { f(*x, zero) };
                    let is_nan = |bits: &[u8]| match ty {
                        "f16" => f16::from_le_bytes(bits.try_into().unwrap()).is_nan(),
                        "bf16" => bf16::from_le_bytes(bits.try_into().unwrap()).is_nan(),
                        "f32" => f32::from_le_bytes(bits.try_into().unwrap()).is_nan(),
                        _ => f64::from_le_bytes(bits.try_into().unwrap()).is_nan(),
                    };
                    let same = if expected.is_nan() { is_nan(got) } else { got == from(expected) };
                    assert!(same, "{op} of {operands} with {zero:?} and {x:?} in {ty} gives {got:?}");
                }
            }
        }
    }
}

#[test]
fn products_and_sums_are_not_contracted() {
    // a * a - 1 with a = 1 + 2^-12: rounded twice it is 2^-11, fused 2^-11 + 2^-24.
    let a = 1.0 + 2f32.powi(-12);
    let body = "%m = arith.mulf %x, %x : f32\n%y = arith.subf %m, %z : f32";
    let Some(got) = floats(body, &[(a, 1.0); 8]) else { return };
    assert_eq!(got, [2f32.powi(-11); 8]);
}

/// f32 values around every rounding decision: ties, next to ties, the ends of the range, NaN.
fn interesting() -> Vec<f32> {
    let mut found = vec![0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, 65504.0, 65519.9, 65520.0];
    for top in
        [0x3f80_0000u32, 0x3f81_0000, 0x4248_0000, 0x7f7f_0000, 0xbf81_0000, 0x3880_0000, 0x3380_0000, 0x387f_c000]
    {
        for low in [0u32, 1, 0x7fff, 0x8000, 0x8001, 0xffff, 0x0fff, 0x1000, 0x1001, 0x2fff, 0x3000, 0x3001] {
            found.push(f32::from_bits(top | low));
        }
    }
    found.truncate(105);
    found
}

#[test]
fn bf16_rounds_to_nearest_even() {
    let x = interesting();
    let Some(got) = compute("f32", "bf16", "%y = arith.truncf %x : f32 to bf16", pack(&x), pack(&x), x.len(), 2) else {
        return;
    };
    let expected: Vec<bf16> = x.iter().map(|v| bf16::from_f32(*v)).collect();
    for ((x, g), e) in x.iter().zip(unpack::<bf16>(&got)).zip(expected) {
        assert_eq!(g.to_bits(), e.to_bits(), "{x} ({:#x})", x.to_bits());
    }
    // NaN stays one, whatever its payload.
    let nan = [f32::from_bits(0x7f80_0001), f32::from_bits(0xffff_ffff), f32::NAN];
    let Some(got) = compute("f32", "bf16", "%y = arith.truncf %x : f32 to bf16", pack(&nan), pack(&nan), 3, 2) else {
        return;
    };
    assert!(unpack::<bf16>(&got).iter().all(|v| v.is_nan()));
}

#[test]
fn bf16_arithmetic_rounds_once_an_operation() {
    let a: Vec<bf16> = (0..64).map(|i| bf16::from_f32(1.0 + i as f32 / 128.0)).collect();
    let b: Vec<bf16> = (0..64).map(|i| bf16::from_f32(3.0 - i as f32 / 64.0)).collect();
    let body = "%m = arith.mulf %x, %z : bf16\n%y = arith.addf %m, %x : bf16";
    let Some(got) = compute("bf16", "bf16", body, pack(&a), pack(&b), 64, 2) else { return };
    let round = |x: f32| bf16::from_f32(x).to_f32();
    for (i, g) in unpack::<bf16>(&got).into_iter().enumerate() {
        let (x, z) = (a[i].to_f32(), b[i].to_f32());
        assert_eq!(g.to_f32(), round(round(x * z) + x), "{x} {z}");
    }
    let Some(got) = compute("bf16", "i16", "%y = arith.bitcast %x : bf16 to i16", pack(&a), pack(&b), 64, 2) else {
        return;
    };
    assert_eq!(got, pack(&a));
}

/// What a device makes of NaN and of zeros is used where its profile says so: no case of its own for NaN where arithmetic is
/// rounded, nor for zeros in a maximum.
#[test]
fn what_a_profile_says_of_nan_and_zeros() {
    let mut spec = spec();
    spec.options.extend(["one-nan", "orders-zeros"].map(|o| (o.to_string(), "true".to_string())));
    let special = [1.0, -1.0, 1.0078125, 3.0, -257.0, 0.0, f32::MAX, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e-20];
    let pairs = special.iter().flat_map(|a| special.map(|b| (bf16::from_f32(*a), bf16::from_f32(b))));
    let (a, b): (Vec<bf16>, Vec<bf16>) = pairs.unzip();
    let n = a.len();
    type Binary = fn(f32, f32) -> f32;
    let nan_wins: Binary = |x, y| if x.is_nan() || y.is_nan() { f32::NAN } else { x.max(y) };
    let ops: [(&str, Binary); 4] =
        [("addf", |x, y| x + y), ("subf", |x, y| x - y), ("mulf", |x, y| x * y), ("maximumf", nan_wins)];
    for (op, f) in ops {
        let body = format!("%y = arith.{op} %x, %z : bf16");
        let inputs = [pack(&a), pack(&b)];
        let Some(got) = compute_by(&spec, "bf16", "bf16", &body, inputs, n, 2) else { return };
        for (i, got) in unpack::<bf16>(&got).into_iter().enumerate() {
            let want = bf16::from_f32(f(a[i].to_f32(), b[i].to_f32()));
            assert!(got == want || (got.is_nan() && want.is_nan()), "{op} {} {} is {got}, not {want}", a[i], b[i]);
        }
    }
    let cases = |spec: &DeviceSpec| {
        let text = pointwise(8, "bf16", "bf16", "%m = arith.mulf %x, %z : bf16\n%y = arith.maximumf %m, %z : bf16");
        build(&text, spec).expect("builds").text(0).matches("OpSelect").count()
    };
    assert_eq!((cases(&spec), cases(&self::spec())), (1, 4));
}

#[test]
fn wide_types_round_to_bf16_once() {
    // 1 + 2^-8 is half way between bf16's 1 and 1 + 2^-7; a little more or less must decide, however little.
    let tie = 1.0 + 2f64.powi(-8);
    let doubles = [tie, tie + 2f64.powi(-40), tie - 2f64.powi(-40), -tie - 2f64.powi(-40), 1e300, f64::NAN, 0.1, -0.0];
    let expected = [1.0, 1.0 + 2f32.powi(-7), 1.0, -1.0 - 2f32.powi(-7), f32::INFINITY, f32::NAN];
    let Some(got) = compute("f64", "bf16", "%y = arith.truncf %x : f64 to bf16", pack(&doubles), pack(&doubles), 8, 2)
    else {
        return;
    };
    for (g, e) in unpack::<bf16>(&got).iter().zip(expected) {
        assert!(g.to_f32() == e || (g.is_nan() && e.is_nan()), "{g} for {e}");
    }
    let integers =
        [(1i64 << 40) + (1 << 32) + 1, (1 << 40) + (1 << 32), i64::MIN, i64::MAX, -257, 0, 1 << 62, 1234567890123];
    let want: Vec<f32> = integers.iter().map(|i| nearest(*i)).collect();
    let Some(got) =
        compute("i64", "bf16", "%y = arith.sitofp %x : i64 to bf16", pack(&integers), pack(&integers), 8, 2)
    else {
        return;
    };
    assert_eq!(unpack::<bf16>(&got).iter().map(|v| v.to_f32()).collect::<Vec<_>>(), want);
    let words = [0x0101_0000i32 | 1, 0x0101_0000, i32::MIN, i32::MAX, -257, 0, 1 << 24, 16_842_753];
    let want: Vec<f32> = words.iter().map(|i| nearest(i64::from(*i))).collect();
    let Some(got) = compute("i32", "bf16", "%y = arith.sitofp %x : i32 to bf16", pack(&words), pack(&words), 8, 2)
    else {
        return;
    };
    assert_eq!(unpack::<bf16>(&got).iter().map(|v| v.to_f32()).collect::<Vec<_>>(), want);
}
/// The bf16 nearest to an integer, ties to even, by whole numbers.
fn nearest(i: i64) -> f32 {
    let m = i.unsigned_abs();
    let shift = (64 - m.leading_zeros()).saturating_sub(8);
    let (q, rest, half) = (m >> shift, m & ((1 << shift) - 1), (1u64 << shift) >> 1);
    let up = rest > half || (rest == half && half > 0 && q & 1 == 1);
    let value = (q + u64::from(up)) as f32 * 2f32.powi(shift as i32);
    if i < 0 { -value } else { value }
}

#[test]
fn f16_rounds_to_nearest_even() {
    let x = interesting();
    let Some(got) = compute("f32", "f16", "%y = arith.truncf %x : f32 to f16", pack(&x), pack(&x), x.len(), 2) else {
        return;
    };
    for (x, g) in x.iter().zip(unpack::<f16>(&got)) {
        assert_eq!(g.to_bits(), f16::from_f32(*x).to_bits(), "{x} ({:#x}) gives {g}", x.to_bits());
    }
}

#[test]
fn comparisons_with_nan() {
    let pairs = [(1.0, 2.0), (2.0, 1.0), (1.0, 1.0), (f32::NAN, 1.0), (1.0, f32::NAN), (f32::NAN, f32::NAN)];
    for (predicate, expected) in [
        ("oeq", [0, 0, 1, 0, 0, 0]),
        ("une", [1, 1, 0, 1, 1, 1]),
        ("one", [1, 1, 0, 0, 0, 0]),
        ("ueq", [0, 0, 1, 1, 1, 1]),
        ("olt", [1, 0, 0, 0, 0, 0]),
        ("ult", [1, 0, 0, 1, 1, 1]),
        ("oge", [0, 1, 1, 0, 0, 0]),
        ("uge", [0, 1, 1, 1, 1, 1]),
        ("ord", [1, 1, 1, 0, 0, 0]),
        ("uno", [0, 0, 0, 1, 1, 1]),
    ] {
        // The second byte is the negation: a driver must not turn it into the opposite comparison.
        let body = format!(
            "%p = arith.cmpf {predicate}, %x, %z : f32
    %t = arith.constant true
    %n = arith.xori %p, %t : i1
    %b0 = arith.extui %p : i1 to i16
    %b1 = arith.extui %n : i1 to i16
    %eight = arith.constant 8 : i16
    %up = arith.shli %b1, %eight : i16
    %y = arith.ori %b0, %up : i16"
        );
        let (a, b): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
        let Some(got) = compute("f32", "i16", &body, pack(&a), pack(&b), 6, 2) else { return };
        let want: Vec<u8> = expected.into_iter().flat_map(|e: u8| [e, 1 - e]).collect();
        assert_eq!(got, want, "{predicate}");
    }
}

#[test]
fn classification_and_rounding() {
    let x = [0.5f32, -0.5, 1.5, 2.5, -2.5, f32::NAN, f32::INFINITY, -7.75];
    let pairs = x.map(|v| (v, 0.0));
    let Some(got) = floats("%y = math.trunc %x : f32", &pairs) else { return };
    assert_eq!(bits(&got[..5]), bits(&[0.0, -0.0, 1.0, 2.0, -2.0]));
    assert_eq!(got[6..], [f32::INFINITY, -7.0]);
    let Some(got) = floats("%y = math.roundeven %x : f32", &pairs) else { return };
    assert_eq!(bits(&got[..5]), bits(&[0.0, -0.0, 2.0, 2.0, -2.0]));
    let Some(got) = floats("%y = math.round %x : f32", &pairs) else { return };
    assert_eq!(bits(&got[..5]), bits(&[1.0, -1.0, 2.0, 3.0, -3.0]));
    for (op, expected) in [
        ("isnan", [0, 0, 0, 0, 0, 1, 0, 0]),
        ("isinf", [0, 0, 0, 0, 0, 0, 1, 0]),
        ("isfinite", [1, 1, 1, 1, 1, 0, 0, 1]),
    ] {
        let body = format!("%p = math.{op} %x : f32\n%y = arith.extui %p : i1 to i8");
        let Some(got) = compute("f32", "i8", &body, pack(&x), pack(&x), 8, 1) else { return };
        assert_eq!(got, expected, "{op}");
    }
}

#[test]
fn integers_of_each_width() {
    macro_rules! check {
        ($t:ident $u:ident $name:literal) => {
            let a: [$t; 8] = [0, 1, -1, 7, -7, $t::MIN, $t::MAX, 40];
            let b: [$t; 8] = [3, 2, 5, -3, 3, 7, -1, -6];
            let cases: [(&str, fn($t, $t) -> $t); 15] = [
                ("%y = arith.remsi %x, %z", |x, z| x.wrapping_rem(z)),
                ("%y = arith.divsi %x, %z", |x, z| x.wrapping_div(z)),
                ("%y = arith.remui %x, %z", |x, z| (x as $u % z as $u) as $t),
                ("%y = arith.divui %x, %z", |x, z| (x as $u / z as $u) as $t),
                ("%y = arith.minsi %x, %z", |x, z| x.min(z)),
                ("%y = arith.maxsi %x, %z", |x, z| x.max(z)),
                ("%y = arith.minui %x, %z", |x, z| (x as $u).min(z as $u) as $t),
                ("%y = arith.maxui %x, %z", |x, z| (x as $u).max(z as $u) as $t),
                ("%y = arith.muli %x, %z", |x, z| x.wrapping_mul(z)),
                ("%y = math.ctlz %x", |x, _| x.leading_zeros() as $t),
                ("%y = math.cttz %x", |x, _| x.trailing_zeros() as $t),
                ("%y = math.ctpop %x", |x, _| x.count_ones() as $t),
                ("%y = math.absi %x", |x, _| x.wrapping_abs()),
                ("%c = arith.constant 3 : TYPE\n%y = arith.shrsi %x, %c", |x, _| x >> 3),
                ("%c = arith.constant -1 : TYPE\n%y = arith.xori %x, %c", |x, _| !x),
            ];
            for (body, expected) in cases {
                let body = format!("{body} : {}", $name).replace("TYPE", $name);
                let Some(got) = compute($name, $name, &body, pack(&a), pack(&b), 8, size_of::<$t>()) else { return };
                let want: Vec<$t> = a.iter().zip(b).map(|(x, z)| expected(*x, z)).collect();
                assert_eq!(unpack::<$t>(&got), want, "{body}");
            }
        };
    }
    check!(i8 u8 "i8");
    check!(i16 u16 "i16");
    check!(i32 u32 "i32");
    check!(i64 u64 "i64");
}

/// Written out, as an estimate and corrections: quotients of every size, and divisors beside powers of two.
#[test]
fn long_division() {
    let mut state = 1u64;
    let mut number = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (bits, kind) = (state >> 58, state >> 56 & 3);
        let near = (1u64 << bits).wrapping_add(state >> 40 & 7).wrapping_sub(3);
        let any = (state ^ state << 31) >> bits;
        if kind == 0 { near } else { any }.max(1)
    };
    let (a, b): (Vec<u64>, Vec<u64>) = (0..1000).map(|_| (number(), number())).unzip();
    type Division = fn(u64, u64) -> u64;
    let cases: [(&str, Division); 4] = [
        ("divui", |x, z| x / z),
        ("remui", |x, z| x % z),
        ("divsi", |x, z| (x as i64).wrapping_div(z as i64) as u64),
        ("remsi", |x, z| (x as i64).wrapping_rem(z as i64) as u64),
    ];
    for (op, expected) in cases {
        let body = format!("%y = arith.{op} %x, %z : i64");
        let Some(got) = compute("i64", "i64", &body, pack(&a), pack(&b), 1000, 8) else { return };
        let want: Vec<u64> = a.iter().zip(&b).map(|(x, z)| expected(*x, *z)).collect();
        assert_eq!(unpack::<u64>(&got), want, "{op}");
    }
}

#[test]
fn predicates_are_bytes() {
    let text = fixture("widen_predicates/mask.mlir");
    let built = build(&text, &spec()).expect("builds");
    // Rows of 8: element (r, c) is seen and c <= r.
    let seen: Vec<u8> = (0..64).map(|i| u8::from(i % 3 != 0)).collect();
    let expected: Vec<u8> = (0..64).map(|i| u8::from(i % 3 != 0 && i % 8 <= i / 8)).collect();
    let Some(got) = run(&built, 0, &[seen.clone(), zeros::<u8>(64)], &[]) else { return };
    assert_eq!(got[1], expected);
    // Without the pass the vectors are packed bits: the same kernel gives other values.
    let packed = build_without(&text, &spec(), &["widen-predicates"]).expect("builds, silently wrong");
    let got = run(&packed, 0, &[seen, zeros::<u8>(64)], &[]).expect("the device that ran the other");
    assert_ne!(got[1], expected);

    let x: Vec<f32> = (0..13).map(|i| i as f32 + 1.0).collect();
    let mask: Vec<u8> = (0..13).map(|i| i % 2).collect();
    let got = run(&built, 1, &[mask, pack(&x), zeros::<f32>(13)], &[]).expect("the same device");
    let expected: Vec<f32> = (0..13).map(|i| if i % 2 == 1 { i as f32 + 1.0 } else { 0.0 }).collect();
    assert_eq!(unpack::<f32>(&got[2]), expected);
}

#[test]
fn workgroup_memory_and_barriers() {
    let built = build(&fixture("widen_predicates/workgroup.mlir"), &spec()).expect("builds");
    for one in [None, Some(63), Some(0), Some(17)] {
        let x: Vec<u8> = (0..64).map(|i| u8::from(Some(i) == one)).collect();
        let Some(got) = run(&built, 0, &[x, vec![9]], &[]) else { return };
        assert_eq!(got[1], [u8::from(one.is_some())]);
    }
    let built = build(&fixture("kernels/row_sum.mlir"), &spec()).expect("builds");
    let x: Vec<f32> = (0..1000).map(|i| (i % 17) as f32).collect();
    let expected: Vec<f32> = x.chunks(200).map(|r| r.iter().sum()).collect();
    let Some(got) = run(&built, 0, &[pack(&x), zeros::<f32>(5)], &[]) else { return };
    assert_eq!(unpack::<f32>(&got[1]), expected);

    let built = build(&fixture("kernels/matmul.mlir"), &spec()).expect("builds");
    let a: Vec<f32> = (0..1280).map(|i| (i % 7) as f32 - 3.0).collect();
    let b: Vec<f32> = (0..1280).map(|i| (i % 5) as f32 - 2.0).collect();
    let expected: Vec<f32> =
        (0..1024).map(|i| (0..40).map(|k| a[i / 32 * 40 + k] * b[k * 32 + i % 32]).sum()).collect();
    let Some(got) = run(&built, 0, &[pack(&a), pack(&b), zeros::<f32>(1024)], &[]) else { return };
    assert_eq!(unpack::<f32>(&got[2]), expected);
}

#[test]
fn scalars_are_push_constants() {
    let built = build(&fixture("assign_descriptors/bind.mlir"), &spec()).expect("builds");
    let x: Vec<f32> = (0..64).map(|i| i as f32).collect();
    let s = vec![2.0f32; 64];
    // From element 10 up to 20.
    let Some(got) = run(&built, 0, &[pack(&x), pack(&s), zeros::<f32>(64)], &[10, 20]) else { return };
    let y: Vec<f32> = unpack(&got[2]);
    assert_eq!(y[10..20], [20.0, 22.0, 24.0, 26.0, 28.0, 30.0, 32.0, 34.0, 36.0, 38.0]);
    let s: Vec<f32> = unpack(&got[1]);
    assert_eq!((s[9], s[10], s[19], s[20]), (2.0, 20.0, 38.0, 2.0));
    assert!(built.text(0).contains("PushConstant"));
}

#[test]
fn structured_control_flow() {
    let built = build(&fixture("spirv/control.mlir"), &spec()).expect("builds");
    let x: Vec<i32> = vec![0, 1, 2, 3, 6, 7, 27, -1];
    let Some(got) = run(&built, 0, &[pack(&x), zeros::<i32>(8), zeros::<i32>(8)], &[]) else { return };
    // Steps of Collatz down to 1, at most 200, and 0 for what is not positive.
    assert_eq!(unpack::<i32>(&got[1]), [0, 0, 1, 7, 8, 16, 111, 0]);
    // 10, 20 or 30 for 0, 2 and the rest; doubled for odd x.
    assert_eq!(unpack::<i32>(&got[2]), [10, 60, 20, 60, 30, 60, 60, 60]);
}

#[test]
fn shuffles_of_each_width() {
    let built = build(&fixture("spirv/shuffle.mlir"), &with_subgroups(8)).expect("builds");
    let b: Vec<i8> = (0..8).map(|i| i * 11 - 40).collect();
    let w: Vec<i64> = (0..8).map(|i| (i << 40) - i).collect();
    let f: Vec<bf16> = (0..8).map(|i| bf16::from_f32(i as f32 * 1.5)).collect();
    let inputs = [pack(&b), pack(&w), pack(&f), zeros::<i8>(8), zeros::<i64>(8), zeros::<bf16>(8)];
    let Some(got) = run(&built, 0, &inputs, &[]) else { return };
    let swap = |i: usize| i ^ 1;
    assert_eq!(unpack::<i8>(&got[3]), (0..8).map(|i| b[swap(i)]).collect::<Vec<_>>());
    assert_eq!(unpack::<i64>(&got[4]), (0..8).map(|i| w[swap(i)]).collect::<Vec<_>>());
    assert_eq!(unpack::<bf16>(&got[5]), (0..8).map(|i| f[swap(i)]).collect::<Vec<_>>());
}

/// A loop's results after zero rounds are its initial values: MLIR's lowering leaves them undefined.
#[test]
fn loops_of_zero_rounds_keep_their_initial_values() {
    let text = r#"gpu.module @k {
  gpu.func @k(%a: memref<8xf32> {zml.access = "read"}, %r: memref<8xf32> {zml.access = "write"}) kernel
      attributes {known_block_size = array<i32: 8, 1, 1>, zml.grid = array<i32: 1, 1, 1>} {
    %t = gpu.thread_id x
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %x = memref.load %a[%t] : memref<8xf32>
    %ten = arith.constant 10.0 : f32
    %y:2 = scf.for %i = %t to %c4 step %c1 iter_args(%p = %x, %q = %ten) -> (f32, f32) {
      %s = arith.addf %p, %p : f32
      scf.yield %s, %s : f32, f32
    }
    %z = arith.addf %y#0, %y#1 : f32
    memref.store %z, %r[%t] : memref<8xf32>
    gpu.return
  }
}"#;
    let built = build(text, &spec()).unwrap_or_else(|e| panic!("{e}"));
    let input: Vec<f32> = (1..=8).map(|i| i as f32).collect();
    let Some(got) = run(&built, 0, &[pack(&input), vec![0; 32]], &[]) else { return };
    // Threads 0 to 3 double 4, 3, 2, 1 times; the others add 10.
    let want = [32.0, 32.0, 24.0, 16.0, 15.0, 16.0, 17.0, 18.0f32];
    assert_eq!(unpack::<f32>(&got[1]), want);
}

#[test]
fn atomics() {
    let built = build(&fixture("spirv/atomics.mlir"), &spec()).expect("builds");
    // 64 threads in 4 bins: counts, and the largest of each.
    let x: Vec<i32> = (0..64).map(|i| (i * 37) % 64 - 20).collect();
    let Some(got) = run(&built, 0, &[pack(&x), pack(&[100i32, 0, 0, 0]), pack(&[i32::MIN; 4])], &[]) else { return };
    assert_eq!(unpack::<i32>(&got[1]), [116, 16, 16, 16]);
    let largest = |bin: usize| x.iter().skip(bin).step_by(4).copied().max().expect("16");
    assert_eq!(unpack::<i32>(&got[2]), [largest(0), largest(1), largest(2), largest(3)]);
}

/// Comparisons of widened integers with constants: Mesa 22.3 gets those of a 64-bit conversion wrong.
#[test]
fn widened_integers_compare() {
    let values = [-5i32, -1, 0, 1, 9, 10, i32::MIN, i32::MAX];
    for (op, signed) in [("extsi", true), ("extui", false)] {
        let text = format!(
            r#"gpu.module @k {{
  gpu.func @k(%a: memref<8xi32> {{zml.access = "read"}}, %r: memref<8xi32> {{zml.access = "write"}}) kernel
      attributes {{known_block_size = array<i32: 8, 1, 1>, zml.grid = array<i32: 1, 1, 1>}} {{
    %t = gpu.thread_id x
    %x = memref.load %a[%t] : memref<8xi32>
    %w = arith.{op} %x : i32 to i64
    %zero = arith.constant 0 : i64
    %n = arith.constant 9 : i64
    %p = arith.cmpi sge, %w, %zero : i64
    %q = arith.cmpi sle, %w, %n : i64
    %b = arith.andi %p, %q : i1
    %y = arith.extui %b : i1 to i32
    memref.store %y, %r[%t] : memref<8xi32>
    gpu.return
  }}
}}"#
        );
        let built = build(&text, &spec()).unwrap_or_else(|e| panic!("{op}: {e}"));
        let Some(got) = run(&built, 0, &[pack(&values), vec![0; 32]], &[]) else { return };
        let within =
            |x: i32| if signed { (0..=9).contains(&i64::from(x)) } else { (0..=9).contains(&i64::from(x as u32)) };
        let want: Vec<i32> = values.iter().map(|x| i32::from(within(*x))).collect();
        assert_eq!(unpack::<i32>(&got[1]), want, "{op}");
    }
}
