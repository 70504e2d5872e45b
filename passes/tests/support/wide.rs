//! Functions in double-double arithmetic (about 106 bits), by series and Newton's method from the host's f64 value: the
//! true values that f64 expansions are measured against. Slow, plain, and independent of the expansions.

use std::ops::{Add, Div, Mul, Neg, Sub};

/// The sum of a number and a rest below its last place.
#[derive(Clone, Copy, Debug)]
pub struct Wide(pub f64, pub f64);

fn sum(a: f64, b: f64) -> Wide {
    let s = a + b;
    let t = s - a;
    Wide(s, (a - (s - t)) + (b - t))
}
impl From<f64> for Wide {
    fn from(x: f64) -> Wide {
        Wide(x, 0.0)
    }
}
impl Add for Wide {
    type Output = Wide;
    fn add(self, o: Wide) -> Wide {
        let (s, t) = (sum(self.0, o.0), sum(self.1, o.1));
        let s = sum(s.0, s.1 + t.0);
        sum(s.0, s.1 + t.1)
    }
}
impl Neg for Wide {
    type Output = Wide;
    fn neg(self) -> Wide {
        Wide(-self.0, -self.1)
    }
}
impl Sub for Wide {
    type Output = Wide;
    fn sub(self, o: Wide) -> Wide {
        self + -o
    }
}
impl Mul for Wide {
    type Output = Wide;
    fn mul(self, o: Wide) -> Wide {
        let p = self.0 * o.0;
        sum(p, self.0.mul_add(o.0, -p) + (self.0 * o.1 + self.1 * o.0))
    }
}
impl Div for Wide {
    type Output = Wide;
    fn div(self, o: Wide) -> Wide {
        let q = Wide(self.0 / o.0, 0.0);
        let q = q + Wide((self - q * o).0 / o.0, 0.0);
        q + Wide((self - q * o).0 / o.0, 0.0)
    }
}
impl Wide {
    /// Times a power of two.
    pub fn scaled(self, by: f64) -> Wide {
        Wide(self.0 * by, self.1 * by)
    }
    pub fn sqrt(self) -> Wide {
        let y = Wide(self.0.sqrt(), 0.0);
        if self.0 == 0.0 { self } else { (y + self / y).scaled(0.5) }
    }
}

pub const LN_2: Wide = Wide(std::f64::consts::LN_2, 2.3190468138462996e-17);
pub const PI: Wide = Wide(std::f64::consts::PI, 1.2246467991473532e-16);
/// What pi/2 lacks as a `Wide`.
const FRAC_PI_2_REST: Wide = Wide(-1.4973849048591698e-33, 5.562271104316826e-50);

/// The sum of terms, each from the one before, until they no longer count.
fn series(first: Wide, next: impl Fn(Wide, f64) -> Wide) -> Wide {
    let (mut term, mut sum, mut n) = (first, first, 0.0);
    while term.0.abs() > sum.0.abs() * 1e-34 {
        n += 1.0;
        term = next(term, n);
        sum = sum + term;
    }
    sum
}
/// 2^k and e^r - 1 for x = k ln 2 + r.
fn exp_parts(x: Wide) -> (f64, Wide) {
    let k = (x.0 / LN_2.0).round();
    let r = x - LN_2 * k.into() - Wide(5.707708438416212e-34 * k, 0.0);
    (k, if r.0 == 0.0 { r } else { series(r, |t, n| t * r / (n + 1.0).into()) })
}
/// e^x as a number and a power of two.
pub fn exp(x: Wide) -> (Wide, i32) {
    let (k, r) = exp_parts(x);
    (r + 1.0.into(), k as i32)
}
pub fn expm1(x: Wide) -> Wide {
    let (k, r) = exp_parts(x);
    let s = 2f64.powi(k as i32);
    if k == 0.0 { r } else { r.scaled(s) + Wide(s, 0.0) - 1.0.into() }
}
pub fn log(x: Wide) -> Wide {
    if (x.0 - 1.0).abs() < 0.1 {
        return log1p(x - 1.0.into());
    }
    // Denormal numbers have no room for a rest below them.
    if x.0 < 1e-280 {
        return log(x.scaled(2f64.powi(200))) - LN_2 * 200.0.into();
    }
    let y = Wide(x.0.ln(), 0.0);
    let (e, k) = exp(-y);
    let half = 2f64.powi(k / 2);
    let off = e.scaled(half) * x.scaled(2f64.powi(k - k / 2)) - 1.0.into();
    // log(1 + off) of a tiny off.
    y + off - off * off.scaled(0.5)
}
pub fn log1p(x: Wide) -> Wide {
    if x.0.abs() >= 0.1 {
        return log(x + 1.0.into());
    }
    if x.0 == 0.0 {
        return x;
    }
    let s = x / (x + 2.0.into());
    let z = s * s;
    let mut power = s;
    let mut sum = s;
    let mut n = 1.0;
    while power.0.abs() > sum.0.abs() * 1e-34 {
        n += 2.0;
        power = power * z;
        sum = sum + power / n.into();
    }
    sum.scaled(2.0)
}
/// q modulo 4, sine and cosine of what is left by multiples of pi/2, of |x| below 2^40.
fn quarter(x: Wide) -> (i64, Wide, Wide) {
    let q = (x.0 / PI.scaled(0.5).0).round();
    // The product with each part of pi/2 is a `Wide` of its own, so that what cancels is exact.
    let mut r = x;
    for part in [PI.0 / 2.0, PI.1 / 2.0, FRAC_PI_2_REST.0, FRAC_PI_2_REST.1] {
        let p = q * part;
        r = r - Wide(p, q.mul_add(part, -p));
    }
    if r.0 == 0.0 {
        return (q as i64 & 3, r, 1.0.into());
    }
    let z = -(r * r);
    let sin = series(r, |t, n| t * z / (2.0 * n * (2.0 * n + 1.0)).into());
    let cos = series(1.0.into(), |t, n| t * z / (2.0 * n * (2.0 * n - 1.0)).into());
    (q as i64 & 3, sin, cos)
}
pub fn sin_cos(x: Wide) -> (Wide, Wide) {
    let (q, s, c) = quarter(x);
    match q {
        0 => (s, c),
        1 => (c, -s),
        2 => (-s, -c),
        _ => (-c, s),
    }
}
/// The angle of (x, y), by one step of Newton's method.
pub fn atan2(y: Wide, x: Wide) -> Wide {
    // The smaller over the larger loses nothing to overflow.
    let (a, b) = (Wide(y.0.abs(), y.1 * y.0.signum()), Wide(x.0.abs(), x.1 * x.0.signum()));
    let flat = a.0 <= b.0;
    let q = if flat { a / b } else { b / a };
    let guess = Wide(q.0.atan(), 0.0);
    let angle = if q.0 < 1e-30 {
        q
    } else {
        let (s, c) = sin_cos(guess);
        guess + (q * c - s) / (c + q * s)
    };
    let angle = if flat { angle } else { PI.scaled(0.5) - angle };
    let angle = if x.0.is_sign_negative() { PI - angle } else { angle };
    if y.0.is_sign_negative() { -angle } else { angle }
}
pub fn cbrt(x: Wide) -> Wide {
    let y = Wide(x.0.cbrt(), 0.0);
    y - (y * y * y - x) / (y * y * 3.0.into())
}
/// Abramowitz and Stegun 7.1.6, and 7.1.14 from the back.
pub fn erf(x: f64) -> Wide {
    let w = Wide::from(x);
    if x.abs() > 3.0 {
        let rest = Wide::from(1.0) - erfc(x.abs());
        return if x < 0.0 { -rest } else { rest };
    }
    let z = (w * w).scaled(2.0);
    let sum = series(w, |t, n| t * z / (2.0 * n + 1.0).into());
    let (e, k) = exp(-(w * w));
    sum.scaled(2.0) * e.scaled(2f64.powi(k)) / PI.sqrt()
}
pub fn erfc(x: f64) -> Wide {
    if x < 2.0 {
        return Wide::from(1.0) - erf(x);
    }
    let (value, k) = erfc_parts(x);
    value.scaled(2f64.powi(k / 2)).scaled(2f64.powi(k - k / 2))
}
/// erfc of a number from 2 on, as a number and a power of two.
pub fn erfc_parts(x: f64) -> (Wide, i32) {
    let w = Wide::from(x);
    let depth = (60.0 + 1600.0 / (x * x)) as u32;
    let fraction = (1..=depth).rev().fold(w, |f, k| w + Wide::from(f64::from(k) / 2.0) / f);
    let (e, k) = exp(-(w * w));
    (e / (fraction * PI.sqrt()), k)
}
