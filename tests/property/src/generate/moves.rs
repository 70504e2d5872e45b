//! Ops that move elements.

use super::{MOST, Maker, floats::either};
use crate::graph::{Num, Ty, Value};
use zml_format::DType;

fn list<T: ToString>(x: &[T]) -> String {
    format!("[{}]", x.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
}

impl Maker {
    pub(super) fn movement(&mut self, a: Value) {
        let (ty, n) = (self.ty(a), self.num(a));
        let rank = ty.shape.len();
        let t = ty.text();
        // The result's type is `$r`.
        let (shape, n, text, operands): (Vec<usize>, Num, String, Vec<Value>) = match self.r.below(9) {
            0 => {
                let mut order: Vec<usize> = (0..rank).collect();
                for i in (1..rank).rev() {
                    let j = self.r.below(i + 1);
                    order.swap(i, j);
                }
                let shape = order.iter().map(|d| ty.shape[*d]).collect();
                (shape, n, format!("stablehlo.transpose $0, dims = {} : ({t}) -> $r", list(&order)), vec![a])
            }
            1 => {
                let mut shape = self.factors(ty.elements());
                if self.r.one_in(3) {
                    shape.insert(0, 1);
                }
                (shape, n, format!("stablehlo.reshape $0 : ({t}) -> $r"), vec![a])
            }
            2 if rank < 4 => {
                let at = self.r.below(rank + 1);
                let extent = self.r.pick(&[1, 2, 3, 5, 9]);
                let mut shape = ty.shape.clone();
                shape.insert(at, extent);
                let dims: Vec<usize> = (0..=rank).filter(|d| *d != at).collect();
                (shape, n, format!("stablehlo.broadcast_in_dim $0, dims = {} : ({t}) -> $r", list(&dims)), vec![a])
            }
            3 => {
                let (mut shape, mut parts) = (vec![], vec![]);
                for extent in &ty.shape {
                    let from = self.r.below(*extent);
                    let to = from + 1 + self.r.below(extent - from);
                    let step = self.r.pick(&[1, 1, 2, 3]);
                    shape.push((to - from).div_ceil(step));
                    parts.push(format!("{from}:{to}:{step}"));
                }
                (shape, n, format!("stablehlo.slice $0 {} : ({t}) -> $r", list(&parts)), vec![a])
            }
            4 => {
                let dims: Vec<usize> = (0..rank).filter(|_| self.r.one_in(2)).collect();
                (ty.shape.clone(), n, format!("stablehlo.reverse $0, dims = {} : $r", list(&dims)), vec![a])
            }
            5 if rank > 0 => {
                let d = self.r.below(rank);
                let mut other = ty.clone();
                other.shape[d] = self.r.pick(&[1, 2, 3, 5]);
                let b = self.like(&other);
                let mut shape = ty.shape.clone();
                shape[d] += other.shape[d];
                let n = either(n, self.num(b));
                let text = format!("stablehlo.concatenate $0, $1, dim = {d} : ({t}, {}) -> $r", other.text());
                (shape, n, text, vec![a, b])
            }
            6 => return self.pad(a),
            7 if rank > 0 => return self.dynamic_slice(a),
            _ if rank > 0 && ty.shape[0] < 64 => return self.gather(a),
            _ => return,
        };
        let to = Ty { shape, ..ty };
        if to.elements() <= MOST && to.shape.len() <= 5 {
            let text = text.replace("$r", &to.text());
            self.push(to, n, text, &operands);
        }
    }
    /// A shape of as many elements.
    fn factors(&mut self, mut n: usize) -> Vec<usize> {
        let mut shape = vec![];
        for p in [13, 7, 5, 3, 2] {
            while n.is_multiple_of(p) && n > 1 {
                n /= p;
                let room = shape.len() < 3 && !self.r.one_in(2);
                match shape.last_mut() {
                    Some(last) if !room => *last *= p,
                    _ => shape.push(p),
                }
            }
        }
        if n > 1 || shape.is_empty() {
            shape.push(n);
        }
        shape
    }
    fn pad(&mut self, a: Value) {
        let ty = self.ty(a);
        let scalar = Ty::new(ty.dtype, &[]);
        let p = self.like(&scalar);
        let (mut low, mut high, mut interior, mut shape) = (vec![], vec![], vec![], vec![]);
        for extent in &ty.shape {
            let i = self.r.pick(&[0, 0, 1, 2]);
            let l = self.r.below(4) as i64 - 1;
            let h = self.r.below(4) as i64 - 1;
            let inner = (extent + extent.saturating_sub(1) * i) as i64;
            let whole = inner + l + h;
            if whole < 1 {
                return;
            }
            low.push(l);
            high.push(h);
            interior.push(i);
            shape.push(whole as usize);
        }
        let to = Ty { shape, ..ty.clone() };
        if to.elements() > MOST {
            return;
        }
        let n = either(self.num(a), self.num(p));
        let text = format!(
            "stablehlo.pad $0, $1, low = {}, high = {}, interior = {} : ({}, {}) -> {}",
            list(&low),
            list(&high),
            list(&interior),
            ty.text(),
            scalar.text(),
            to.text()
        );
        self.push(to, n, text, &[a, p]);
    }
    /// Reads or writes a window at a position that the program computes.
    fn dynamic_slice(&mut self, a: Value) {
        let ty = self.ty(a);
        let index = Ty::new(self.r.pick(&[DType::I32, DType::I32, DType::U8, DType::I64]), &[]);
        let starts: Vec<Value> = ty.shape.iter().map(|_| self.like(&index)).collect();
        let sizes: Vec<usize> = ty.shape.iter().map(|e| 1 + self.r.below(*e)).collect();
        let names = |from: usize| (0..starts.len()).map(|i| format!("${}", from + i)).collect::<Vec<_>>().join(", ");
        let types = vec![index.text(); starts.len()].join(", ");
        let part = Ty { shape: sizes.clone(), ..ty.clone() };
        let (t, p) = (ty.text(), part.text());
        if self.r.one_in(2) {
            let text =
                format!("stablehlo.dynamic_slice $0, {}, sizes = {} : ({t}, {types}) -> {p}", names(1), list(&sizes));
            let operands: Vec<Value> = [a].into_iter().chain(starts).collect();
            let n = self.num(a);
            self.push(part, n, text, &operands);
        } else {
            let u = self.like(&part);
            let text = format!("stablehlo.dynamic_update_slice $0, $1, {} : ({t}, {p}, {types}) -> {t}", names(2));
            let operands: Vec<Value> = [a, u].into_iter().chain(starts).collect();
            let n = either(self.num(a), self.num(u));
            self.push(ty, n, text, &operands);
        }
    }
    /// Rows by an index that may lie outside.
    fn gather(&mut self, a: Value) {
        let ty = self.ty(a);
        let rows = self.r.pick(&[1, 3, 5, 8]);
        let index = Ty::new(self.r.pick(&[DType::I32, DType::I64, DType::U8]), &[rows, 1]);
        let i = self.like(&index);
        let mut sizes = ty.shape.clone();
        sizes[0] = 1;
        let mut shape = vec![rows];
        shape.extend(&ty.shape[1..]);
        let offsets: Vec<usize> = (1..ty.shape.len()).collect();
        let to = Ty { shape, ..ty.clone() };
        if to.elements() > MOST {
            return;
        }
        let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
        let text = format!(
            "\"stablehlo.gather\"($0, $1) <{{dimension_numbers = #stablehlo.gather<offset_dims = {}, collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: {}>, indices_are_sorted = false}}> : ({}, {}) -> {}",
            list(&offsets),
            sizes.join(", "),
            ty.text(),
            index.text(),
            to.text()
        );
        let n = self.num(a);
        self.push(to, n, text, &[a, i]);
    }
}
