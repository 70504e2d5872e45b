//! Reductions, contractions, control flow and what else has a region.

use super::{
    MOST, Maker,
    floats::{either, product, rounded, sum},
    ints::compare_type,
};
use crate::graph::{Num, Ty, Value};
use zml_format::DType;

impl Maker {
    /// The combiner, its neutral element, and the numbers of `count` values combined.
    fn combiner(&mut self, d: DType, n: Num, count: usize) -> Option<(&'static str, String, Num)> {
        if d == DType::I1 {
            let (op, init) = self.r.pick(&[("and", "true"), ("or", "false"), ("xor", "false")]);
            return Some((op, init.into(), n));
        }
        let float = |x: &str| if d.is_float() { format!("{x}.0") } else { x.into() };
        let op = self.r.pick(&["add", "add", "maximum", "minimum"]);
        if op == "add" {
            let times = count as f64;
            let total = Num { low: times * n.low.min(0.0), high: times * n.high.max(0.0), error: times * n.error, ..n };
            // Partial sums are rounded, in whichever order.
            let whole = rounded(d, total)?;
            let error = if whole.error > 0.0 { whole.error * (1.0 + times.sqrt()) } else { 0.0 };
            return Some((op, float("0"), if d.is_float() { Num { error, ..whole } } else { n }));
        }
        let init = match (d.is_float(), op) {
            (true, "maximum") => "-8.0".into(),
            (true, _) => "8.0".into(),
            _ => float("1"),
        };
        let outer = Num { low: n.low.min(-8.0), high: n.high.max(8.0), step: n.step.min(1.0), ..n };
        Some((op, init, if d.is_float() { outer } else { n }))
    }

    pub(super) fn reduction(&mut self, a: Value) {
        let ty = self.ty(a);
        if ty.shape.is_empty() {
            return;
        }
        if self.r.one_in(3) {
            return self.dot(a);
        }
        let mut dims: Vec<usize> = (0..ty.shape.len()).filter(|_| self.r.one_in(2)).collect();
        if dims.is_empty() {
            dims.push(self.r.below(ty.shape.len()));
        }
        let count = dims.iter().map(|d| ty.shape[*d]).product();
        let Some((op, init, n)) = self.combiner(ty.dtype, self.num(a), count) else { return };
        let scalar = Ty::new(ty.dtype, &[]);
        let i = self.constant(&scalar, &init, Num::INT);
        let kept = (0..ty.shape.len()).filter(|d| !dims.contains(d)).map(|d| ty.shape[d]).collect();
        let to = Ty { shape: kept, ..ty.clone() };
        let text = format!(
            "stablehlo.reduce($0 init: $1) applies stablehlo.{op} across dimensions = {dims:?} : ({}, {}) -> {}",
            ty.text(),
            scalar.text(),
            to.text()
        );
        self.push(to, n, text, &[a, i]);
    }

    fn dot(&mut self, a: Value) {
        let ty = self.ty(a);
        if ty.dtype == DType::I1 || ty.dtype.bits() < 8 {
            return;
        }
        let k = self.r.below(ty.shape.len());
        let batch: Vec<usize> = if ty.shape.len() > 2 && k != 0 && self.r.one_in(2) { vec![0] } else { vec![] };
        let n = self.r.pick(&[1, 2, 3, 5, 8, 17]);
        let mut other: Vec<usize> = batch.iter().map(|d| ty.shape[*d]).collect();
        let at = other.len();
        let k_first = self.r.one_in(2);
        other.extend(if k_first { [ty.shape[k], n] } else { [n, ty.shape[k]] });
        let other = Ty { shape: other, ..ty.clone() };
        let b = self.like(&other);
        let (x, y) = (self.num(a), self.num(b));
        let one = product(x, y);
        let times = ty.shape[k] as f64;
        let total =
            Num { low: times * one.low.min(0.0), high: times * one.high.max(0.0), error: times * one.error, ..one };
        let Some(mut num) = rounded(ty.dtype, total) else { return };
        if !ty.dtype.is_float() {
            num = Num::INT;
        } else if num.error > 0.0 {
            num.error *= 1.0 + times.sqrt();
        }
        let mut shape: Vec<usize> = batch.iter().map(|d| ty.shape[*d]).collect();
        shape.extend((0..ty.shape.len()).filter(|d| *d != k && !batch.contains(d)).map(|d| ty.shape[d]));
        shape.push(n);
        let to = Ty { shape, ..ty.clone() };
        if to.elements() > MOST {
            return;
        }
        let batching = if batch.is_empty() { String::new() } else { "batching_dims = [0] x [0], ".into() };
        let right = if k_first { at } else { at + 1 };
        let text = format!(
            "stablehlo.dot_general $0, $1, {batching}contracting_dims = [{k}] x [{right}] : ({}, {}) -> {}",
            ty.text(),
            other.text(),
            to.text()
        );
        self.push(to, num, text, &[a, b]);
    }

    pub(super) fn special(&mut self, a: Value) {
        match self.r.below(7) {
            0 => self.while_loop(a),
            1 => self.branch(a),
            2 => self.sort(a),
            3 => self.scatter(a),
            4 => self.scan(a),
            5 => self.position_of_most(a),
            _ => self.clamp(a),
        }
    }
    /// A few turns of adding, or'ing or shuffling a carried value.
    fn while_loop(&mut self, a: Value) {
        let (ty, n) = (self.ty(a), self.num(a));
        let turns = self.r.below(5);
        let b = self.like(&ty);
        let step = self.num(b);
        let grown = (0..turns).fold(n, |n, _| sum(n, step));
        let num = either(n, grown);
        let (op, num) = match ty.dtype {
            DType::I1 => ("xor", Some(n)),
            d if d.is_float() => ("add", rounded(d, num)),
            _ => ("add", Some(n)),
        };
        let Some(num) = num else { return };
        let num = Num { error: num.error * (1 + turns) as f64, ..num };
        let counter = Ty::new(DType::I32, &[]);
        let zero = self.constant(&counter, "0", Num::INT);
        let t = ty.text();
        let text = format!(
            "stablehlo.while(%@i = $0, %@x = $1) : tensor<i32>, {t}
    cond {{
      %@c = stablehlo.constant dense<{turns}> : tensor<i32>
      %@p = stablehlo.compare LT, %@i, %@c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %@p : tensor<i1>
    }} do {{
      %@o = stablehlo.constant dense<1> : tensor<i32>
      %@n = stablehlo.add %@i, %@o : tensor<i32>
      %@y = stablehlo.{op} %@x, $2 : {t}
      stablehlo.return %@n, %@y : tensor<i32>, {t}
    }}"
        );
        self.push_second(ty, num, &text, &[zero, a, b]);
    }
    /// The second of two results.
    fn push_second(&mut self, ty: Ty, num: Num, text: &str, operands: &[Value]) -> Value {
        self.push(ty, num, format!("#2 {text}"), operands)
    }
    fn branch(&mut self, a: Value) {
        let ty = self.ty(a);
        let b = self.like(&ty);
        let (x, y, t) = (self.num(a), self.num(b), ty.text());
        let op = if ty.dtype == DType::I1 { "and" } else { "maximum" };
        let num = either(x, y);
        if self.r.one_in(2) {
            let p = self.like(&Ty::new(DType::I1, &[]));
            let text = format!(
                "\"stablehlo.if\"($0) ({{
      stablehlo.return $1 : {t}
    }}, {{
      %@y = stablehlo.{op} $1, $2 : {t}
      stablehlo.return %@y : {t}
    }}) : (tensor<i1>) -> {t}"
            );
            self.push(ty, num, text, &[p, a, b]);
        } else {
            let i = self.like(&Ty::new(DType::I32, &[]));
            let text = format!(
                "\"stablehlo.case\"($0) ({{
      stablehlo.return $1 : {t}
    }}, {{
      stablehlo.return $2 : {t}
    }}, {{
      %@y = stablehlo.{op} $1, $2 : {t}
      stablehlo.return %@y : {t}
    }}) : (tensor<i32>) -> {t}"
            );
            self.push(ty, num, text, &[i, a, b]);
        }
    }
    fn sort(&mut self, a: Value) {
        let (ty, n) = (self.ty(a), self.num(a));
        if ty.shape.is_empty() || n.error > 0.0 {
            return;
        }
        let dim = self.r.below(ty.shape.len());
        let direction = self.r.pick(&["LT", "GT"]);
        let (e, kind, t) = (Ty::new(ty.dtype, &[]).text(), compare_type(ty.dtype), ty.text());
        let text = format!(
            "\"stablehlo.sort\"($0) <{{dimension = {dim} : i64, is_stable = true}}> ({{
    ^bb0(%@a: {e}, %@b: {e}):
      %@p = stablehlo.compare {direction}, %@a, %@b, {kind} : ({e}, {e}) -> tensor<i1>
      stablehlo.return %@p : tensor<i1>
    }}) : ({t}) -> {t}"
        );
        self.push(ty, n, text, &[a]);
    }
    /// Adds rows at indices of which some lie outside.
    fn scatter(&mut self, a: Value) {
        let (ty, n) = (self.ty(a), self.num(a));
        if ty.shape.is_empty() {
            return;
        }
        let rows = self.r.pick(&[1, 3, 6]);
        let index = Ty::new(self.r.pick(&[DType::I32, DType::I64]), &[rows, 1]);
        let i = self.like(&index);
        let mut shape = ty.shape.clone();
        shape[0] = rows;
        let update = Ty { shape, ..ty.clone() };
        if update.elements() > MOST {
            return;
        }
        let u = self.like(&update);
        let own = self.num(u);
        let total = (0..rows).fold(n, |t, _| either(t, sum(t, own)));
        let (op, num) = match ty.dtype {
            DType::I1 => ("or", Some(n)),
            d if d.is_float() => ("add", rounded(d, total)),
            _ => ("add", Some(n)),
        };
        // What is rounded depends on the order of the updates.
        let Some(num) = num.filter(|n| n.error == 0.0) else { return };
        let window: Vec<usize> = (1..ty.shape.len()).collect();
        let (e, t) = (Ty::new(ty.dtype, &[]).text(), ty.text());
        let text = format!(
            "\"stablehlo.scatter\"($0, $1, $2) <{{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = {window:?}, inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = false, unique_indices = false}}> ({{
    ^bb0(%@a: {e}, %@b: {e}):
      %@s = stablehlo.{op} %@a, %@b : {e}
      stablehlo.return %@s : {e}
    }}) : ({t}, {}, {}) -> {t}",
            index.text(), update.text()
        );
        self.push(ty, num, text, &[a, i, u]);
    }
    /// Running totals along the last dimension.
    fn scan(&mut self, a: Value) {
        let ty = self.ty(a);
        let Some(last) = ty.shape.last().copied().filter(|n| *n <= 17) else { return };
        let Some((op, init, n)) = self.combiner(ty.dtype, self.num(a), last) else { return };
        let scalar = Ty::new(ty.dtype, &[]);
        let i = self.constant(&scalar, &init, Num::INT);
        let rank = ty.shape.len();
        let mut window = vec!["1".to_string(); rank];
        window[rank - 1] = last.to_string();
        let mut padding = vec!["[0, 0]".to_string(); rank];
        padding[rank - 1] = format!("[{}, 0]", last - 1);
        let (e, t) = (scalar.text(), ty.text());
        let text = format!(
            "\"stablehlo.reduce_window\"($0, $1) <{{window_dimensions = array<i64: {}>, padding = dense<[{}]> : tensor<{rank}x2xi64>}}> ({{
    ^bb0(%@a: {e}, %@b: {e}):
      %@s = stablehlo.{op} %@a, %@b : {e}
      stablehlo.return %@s : {e}
    }}) : ({t}, {e}) -> {t}",
            window.join(", "), padding.join(", ")
        );
        self.push(ty, n, text, &[a, i]);
    }
    /// Where the largest element of each row is: two inputs reduced together.
    fn position_of_most(&mut self, a: Value) {
        let (ty, n) = (self.ty(a), self.num(a));
        if ty.shape.is_empty() || n.error > 0.0 {
            return;
        }
        let d = self.r.below(ty.shape.len());
        let places = Ty { dtype: DType::I32, ..ty.clone() };
        let iota = self.push(places.clone(), Num::INT, format!("stablehlo.iota dim = {d} : {}", places.text()), &[]);
        let (scalar, place) = (Ty::new(ty.dtype, &[]), Ty::new(DType::I32, &[]));
        let least = match ty.dtype {
            DType::I1 => "false".to_string(),
            d if d.is_float() => "-1.0e3".into(),
            d if d.is_signed_int() => (i64::MIN >> (64 - d.bits())).to_string(),
            _ => "0".into(),
        };
        let first = self.constant(&scalar, &least, Num::INT);
        let zero = self.constant(&place, "0", Num::INT);
        let kept: Vec<usize> = (0..ty.shape.len()).filter(|x| *x != d).map(|x| ty.shape[x]).collect();
        let (value, index) = (Ty { shape: kept.clone(), ..ty.clone() }, Ty::new(DType::I32, &kept));
        let (e, kind) = (scalar.text(), compare_type(ty.dtype));
        let text = format!(
            "\"stablehlo.reduce\"($0, $1, $2, $3) <{{dimensions = array<i64: {d}>}}> ({{
    ^bb0(%@a: {e}, %@i: tensor<i32>, %@b: {e}, %@j: tensor<i32>):
      %@g = stablehlo.compare GT, %@a, %@b, {kind} : ({e}, {e}) -> tensor<i1>
      %@q = stablehlo.compare EQ, %@a, %@b, {kind} : ({e}, {e}) -> tensor<i1>
      %@l = stablehlo.compare LT, %@i, %@j, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %@t = stablehlo.and %@q, %@l : tensor<i1>
      %@w = stablehlo.or %@g, %@t : tensor<i1>
      %@x = stablehlo.select %@w, %@a, %@b : tensor<i1>, {e}
      %@y = stablehlo.select %@w, %@i, %@j : tensor<i1>, tensor<i32>
      stablehlo.return %@x, %@y : {e}, tensor<i32>
    }}) : ({}, {}, {e}, tensor<i32>) -> ({}, {})",
            ty.text(),
            places.text(),
            value.text(),
            index.text()
        );
        self.push_second(index, Num::INT, &text, &[a, iota, first, zero]);
    }
    fn clamp(&mut self, a: Value) {
        let ty = self.ty(a);
        let (low, high) = (self.like(&ty), self.like(&ty));
        let n = either(either(self.num(a), self.num(low)), self.num(high));
        let t = ty.text();
        self.push(ty, n, format!("stablehlo.clamp $0, $1, $2 : {t}"), &[low, a, high]);
    }
}
