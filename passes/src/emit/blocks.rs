//! Loops that read a large argument across: its neighbours lie along another dimension than the result's. A thread then
//! takes a block of n x n elements, so that both what it reads and what it writes are vectors, without workgroup memory.
//!
//! Transposing `tensor<8192x8192xf32>` with vectors of 4: a thread reads 4 vectors, one for each of its 4 result columns,
//! and writes 4, one for each of its 4 rows. Of 32 neighbouring threads 8 are next to each other along the rows, where
//! the reads join to whole cache lines, and 4 along the columns, where the writes do; 16 along the columns, and then
//! [`GROUP`] of these along the rows, so that what is read and written at a time lies in few pages.

use super::{
    build::Em,
    index::Ix,
    kernel::{Dispatch, Frame},
    loops::cost,
    nest::Nest,
    output::{Item, write},
};
use crate::{ir::*, spec::DeviceSpec};

/// Neighbours along the rows that come one after the other.
const GROUP: i64 = 4;

#[derive(Debug, PartialEq)]
pub struct Blocks {
    /// Elements of a block along both dimensions.
    n: i64,
    /// Extents of the threads' numbers: other dimensions, then blocks along the result's rows and columns, coarse, in groups
    /// along the rows, and fine.
    extents: Vec<i64>,
    /// The dimension along which the argument's neighbours lie, and the result's last.
    across: usize,
    last: usize,
}

impl Blocks {
    pub fn threads(&self) -> i64 {
        self.extents.iter().product()
    }
    /// `None` where plain runs do as well.
    pub fn of(d: &Dispatch, items: &[Item], spec: &DeviceSpec) -> Option<Self> {
        /// Ops of one thread.
        const MOST_OPS: i64 = 1024;
        let shape = &items.first()?.shape;
        if items.iter().any(|i| i.shape != *shape || i.is_update()) {
            return None;
        }
        let last = (0..shape.len()).rev().find(|d| shape[*d] > 1)?;
        let across = d.ops.iter().filter_map(|op| Nest::of(*op)).find_map(|n| across(d, &n, shape, last))?;
        let types = d.results.iter().chain(&d.args).map(ValueLike::r#type).filter(|t| elements(*t) > 1);
        let mut n = i64::from(spec.vector_bytes) / types.map(elem_bytes).max()?;
        let total: i64 = shape.iter().product();
        let fits = |n: i64| {
            shape[last] % n == 0
                && shape[across] % n == 0
                && n * n * cost(d) <= MOST_OPS
                && total / (n * n) >= 64 * i64::from(spec.parallel_blocks)
        };
        while n > 1 && !fits(n) {
            n /= 2;
        }
        if n <= 1 {
            return None;
        }
        let fine = |extent: i64, most: i64| (0..).map(|k| most >> k).find(|f| (extent / n) % f == 0).unwrap_or(1);
        let (rows, columns) = (fine(shape[across], 8), fine(shape[last], 16));
        let group = (0..).map(|k| GROUP >> k).find(|g| (shape[across] / n / rows) % g == 0).unwrap_or(1);
        let mut extents: Vec<i64> = (0..shape.len()).filter(|d| *d != across && *d != last).map(|d| shape[d]).collect();
        extents.extend([shape[across] / n / rows / group, shape[last] / n / columns, group, columns, rows]);
        Some(Blocks { n, extents, across, last })
    }
    /// The block of thread `number`.
    pub fn write<'c>(
        &self,
        em: &mut Em<'c>,
        b: &B<'c>,
        d: &Dispatch<'c>,
        frame: &Frame<'c>,
        items: &[&Item<'c>],
        number: Ix,
    ) {
        let shape = &items[0].shape;
        let place = em.ix.delinear(number, &self.extents);
        let others = shape.len() - 2;
        let [row, column, group, fine_column, fine_row] = place[others..] else {
            unreachable!("five numbers say the block")
        };
        let mut index = vec![em.ix.constant(0); shape.len()];
        for (d, i) in (0..shape.len()).filter(|d| *d != self.across && *d != self.last).zip(&place[..others]) {
            index[d] = *i;
        }
        let first = |em: &mut Em<'c>, coarse: Ix, fine: Ix, extent: i64| {
            let at = em.ix.scale(coarse, extent);
            let at = em.ix.add(at, fine);
            em.ix.scale(at, self.n)
        };
        let row = em.ix.scale(row, self.extents[others + 2]);
        let row = em.ix.add(row, group);
        let row = first(em, row, fine_row, self.extents[others + 4]);
        let column = first(em, column, fine_column, self.extents[others + 3]);
        let lane = em.ix.lane(self.n);
        index[self.last] = em.ix.add(column, lane);
        em.vectors_across = Some(self.n);
        for i in 0..self.n {
            index[self.across] = em.ix.add_constant(row, i);
            let at = em.ix.linear(&index, shape);
            write(em, b, d, frame, items, at);
        }
        em.vectors_across = None;
    }
}

/// If `nest` makes elements at the result's own index and reads a large argument whose neighbours lie along another
/// dimension than `last`: that dimension.
fn across(d: &Dispatch, nest: &Nest, shape: &[i64], last: usize) -> Option<usize> {
    if !nest.is_parallel() || nest.bounds != shape {
        return None;
    }
    if !(0..shape.len()).all(|l| nest.output_dim(0, l) == Some(l)) {
        return None;
    }
    let total: i64 = shape.iter().product();
    nest.ins.iter().enumerate().find_map(|(i, v)| {
        if !d.args.iter().any(|a| key(*a) == key(*v)) || elements(v.r#type()) * 2 < total {
            return None;
        }
        let extents = crate::ir::shape(v.r#type());
        let inner = (0..extents.len()).rev().find(|d| extents[*d] > 1)?;
        let l = (0..shape.len()).find(|l| nest.input_dim(i, *l) == Some(inner))?;
        (l != last).then_some(l)
    })
}
