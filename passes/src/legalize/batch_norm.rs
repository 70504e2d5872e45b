//! batch_norm_inference, _training and _grad by the specification's formulas; everything is computed in f32 or f64 and
//! rounded once.

use super::{
    lower::Cx,
    scalar::{Real, narrow, wide, widen},
    value::{Val, element},
};
use crate::ir::{B, V, result};
use zmlc_import::tree::DType;

struct Norm<'a, 'c> {
    b: &'a B<'c>,
    d: DType,
    shape: Vec<i64>,
    feature: usize,
    epsilon: f64,
}
impl<'a, 'c> Norm<'a, 'c> {
    fn new(cx: &'a Cx<'_, '_, 'c>, epsilon: f32, feature: i64) -> Self {
        Norm { b: &cx.b, d: cx.dtype(0), shape: cx.shape(0), feature: feature as usize, epsilon: epsilon.into() }
    }
    /// One element of the operand's shape from those of full tensors and of the vectors of a value for each feature. Inputs have
    /// type `d`, or are wide.
    fn full(&self, d: DType, full: &[V<'c>], vectors: &[V<'c>], f: impl Fn(&Real<'_, 'c>, &[V<'c>]) -> V<'c>) -> V<'c> {
        let own: Vec<usize> = (0..self.shape.len()).collect();
        let feature = [self.feature];
        let mut ins: Vec<(V, &[usize])> = full.iter().map(|v| (*v, &own[..])).collect();
        ins.extend(vectors.iter().map(|v| (*v, &feature[..])));
        self.map(d, &self.shape, &ins, f)
    }
    fn map(
        &self,
        d: DType,
        shape: &[i64],
        ins: &[(V<'c>, &[usize])],
        f: impl Fn(&Real<'_, 'c>, &[V<'c>]) -> V<'c>,
    ) -> V<'c> {
        self.b.map(shape, element(self.b, d), ins, |b, a| {
            let m = Real { b, t: element(b, wide(self.d)) };
            let scalars: Vec<V> = a[..ins.len()]
                .iter()
                .map(|v| if crate::ir::ValueLike::r#type(v) == m.t { *v } else { widen(b, self.d, *v) })
                .collect();
            let y = f(&m, &scalars);
            if d == wide(self.d) { y } else { narrow(b, d, y) }
        })
    }
    /// The sum of a wide tensor for each feature.
    fn sum(&self, x: V<'c>) -> V<'c> {
        let b = self.b;
        let dims: Vec<i64> = (0..self.shape.len() as i64).filter(|d| *d != self.feature as i64).collect();
        let init = b.fill(b.cfloat(element(b, wide(self.d)), 0.0), &[self.shape[self.feature]]);
        if dims.is_empty() {
            return x;
        }
        result(b.reduce(&[x], &[init], &dims, |b, a| vec![b.addf(a[1], a[0])]), 0)
    }
    fn count(&self) -> f64 {
        self.shape.iter().product::<i64>() as f64 / self.shape[self.feature] as f64
    }
    fn vector(&self, d: DType, ins: &[V<'c>], f: impl Fn(&Real<'_, 'c>, &[V<'c>]) -> V<'c>) -> V<'c> {
        let ins: Vec<(V, &[usize])> = ins.iter().map(|v| (*v, &[0][..])).collect();
        self.map(d, &[self.shape[self.feature]], &ins, f)
    }
    fn normalise(&self, x: V<'c>, scale: V<'c>, offset: V<'c>, mean: V<'c>, variance: V<'c>) -> V<'c> {
        self.full(self.d, &[x], &[scale, offset, mean, variance], |m, a| {
            let deviation = m.sqrt(m.plus(a[4], self.epsilon));
            m.add(m.mul(a[1], m.div(m.sub(a[0], a[3]), deviation)), a[2])
        })
    }
}

pub(super) fn inference<'c>(cx: &Cx<'_, '_, 'c>, epsilon: f32, feature: i64) -> Vec<Val<'c>> {
    let n = Norm::new(cx, epsilon, feature);
    let a: Vec<V> = cx.args().iter().map(Val::one).collect();
    vec![Val::One(n.normalise(a[0], a[1], a[2], a[3], a[4]))]
}
pub(super) fn training<'c>(cx: &Cx<'_, '_, 'c>, epsilon: f32, feature: i64) -> Vec<Val<'c>> {
    let n = Norm::new(cx, epsilon, feature);
    let a: Vec<V> = cx.args().iter().map(Val::one).collect();
    let w = wide(n.d);
    let average = |x: V<'c>| n.vector(w, &[n.sum(x)], |m, a| m.scale(a[0], 1.0 / n.count()));
    let mean = average(n.full(w, &[a[0]], &[], |_, a| a[0]));
    let variance = average(n.full(w, &[a[0]], &[mean], |m, a| {
        let centred = m.sub(a[0], a[1]);
        m.mul(centred, centred)
    }));
    let y = n.normalise(a[0], a[1], a[2], mean, variance);
    let out = |i: usize, v: V<'c>| n.vector(cx.out(i).dtype, &[v], |_, a| a[0]);
    vec![Val::One(y), Val::One(out(1, mean)), Val::One(out(2, variance))]
}
/// Operand, scale, mean, variance, grad_output.
pub(super) fn grad<'c>(cx: &Cx<'_, '_, 'c>, epsilon: f32, feature: i64) -> Vec<Val<'c>> {
    let n = Norm::new(cx, epsilon, feature);
    let a: Vec<V> = cx.args().iter().map(Val::one).collect();
    let (x, scale, mean, variance, g) = (a[0], a[1], a[2], a[3], a[4]);
    let w = wide(n.d);
    let sum = n.sum(n.full(w, &[g], &[], |_, a| a[0]));
    let dot = n.sum(n.full(w, &[g, x], &[mean], |m, a| m.mul(a[0], m.sub(a[1], a[2]))));
    let inverse = |m: &Real<'_, 'c>, v: V<'c>| m.div(m.c(1.0), m.sqrt(m.plus(v, n.epsilon)));
    let grad_operand = n.full(n.d, &[x, g], &[scale, mean, variance, sum, dot], |m, a| {
        let (x, g, scale, mean, variance, sum, dot) = (a[0], a[1], a[2], a[3], a[4], a[5], a[6]);
        let i = inverse(m, variance);
        let centred = m.mul(m.mul(m.sub(x, mean), dot), m.mul(i, i));
        let inner = m.sub(m.sub(m.scale(g, n.count()), sum), centred);
        m.mul(m.scale(m.mul(scale, i), 1.0 / n.count()), inner)
    });
    let grad_scale = n.vector(cx.out(1).dtype, &[dot, variance], |m, a| m.mul(a[0], inverse(m, a[1])));
    let grad_offset = n.vector(cx.out(2).dtype, &[sum], |_, a| a[0]);
    vec![Val::One(grad_operand), Val::One(grad_scale), Val::One(grad_offset)]
}
