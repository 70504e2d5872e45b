//! gather and where scatter's updates go, as the specification's sections "gather" and "scatter" compute indices.

use super::{
    R, Tensor,
    tensor::{Numbers, dot_index, each_index, strides},
};
use crate::tree::{GatherDims, ScatterDims};

/// The index vector at a position of the batch dimensions.
struct Indices<'a> {
    values: Vec<i128>,
    steps: Vec<usize>,
    vector_dim: usize,
    tensor: &'a Tensor,
}
impl<'a> Indices<'a> {
    fn new(t: &'a Tensor, vector_dim: usize) -> Self {
        let Numbers::Int(values) = t.numbers() else { panic!("verified indices are not integers") };
        Indices { values, steps: strides(&t.dims()), vector_dim, tensor: t }
    }
    /// Component `k`, where `batch` is the index into the dimensions other than the vector's.
    fn component(&self, batch: &[usize], k: usize) -> i128 {
        let mut full: Vec<usize> = batch.to_vec();
        if self.vector_dim < self.tensor.shape.len() {
            full.insert(self.vector_dim, k);
        }
        self.values[dot_index(&full, &self.steps)]
    }
    /// Sizes of the dimensions other than the vector's.
    fn batch_shape(&self) -> Vec<u64> {
        let mut s = self.tensor.shape.clone();
        if self.vector_dim < s.len() {
            s.remove(self.vector_dim);
        }
        s
    }
    /// Position of a batching dimension of the indices among the batch dimensions.
    fn batch_position(&self, dim: u64) -> usize {
        dim as usize - usize::from(dim as usize > self.vector_dim)
    }
}

pub(super) fn gather(x: &Tensor, indices: &Tensor, d: &GatherDims, sizes: &[i64]) -> R<Tensor> {
    let ind = Indices::new(indices, d.index_vector_dim as usize);
    let dropped =
        |k: usize| d.collapsed_slice_dims.contains(&(k as u64)) || d.operand_batching_dims.contains(&(k as u64));
    let kept: Vec<usize> = (0..x.shape.len()).filter(|k| !dropped(*k)).collect();
    let batch = ind.batch_shape();
    let rank = batch.len() + d.offset_dims.len();
    let (mut b, mut o) = (batch.iter(), kept.iter());
    let mut shape = vec![];
    for k in 0..rank {
        shape.push(if d.offset_dims.contains(&(k as u64)) {
            sizes[*o.next().expect("one for each offset dimension")] as u64
        } else {
            *b.next().expect("one for each batch dimension")
        });
    }
    let steps = strides(&x.dims());
    let dims: Vec<usize> = shape.iter().map(|s| *s as usize).collect();
    let mut places = vec![];
    each_index(&dims, |i| {
        let is_offset = |k: &usize| d.offset_dims.contains(&(*k as u64));
        let at: Vec<usize> = (0..rank).filter(|k| !is_offset(k)).map(|k| i[k]).collect();
        let mut full = vec![0usize; x.shape.len()];
        for (k, dim) in d.start_index_map.iter().enumerate() {
            let dim = *dim as usize;
            let most = x.shape[dim] as i128 - i128::from(sizes[dim]);
            full[dim] = ind.component(&at, k).clamp(0, most) as usize;
        }
        for (dim, from) in d.operand_batching_dims.iter().zip(&d.start_indices_batching_dims) {
            full[*dim as usize] = at[ind.batch_position(*from)];
        }
        for (dim, k) in kept.iter().zip(&d.offset_dims) {
            full[*dim] += i[*k as usize];
        }
        places.push(dot_index(&full, &steps));
    });
    Ok(super::shape::elements_at(x, shape, &places))
}

/// For each element of the updates, in order, the place in the input that it goes to, or none if that is outside.
pub(super) fn scatter_places(input: &[u64], indices: &Tensor, updates: &[u64], d: &ScatterDims) -> Vec<Option<usize>> {
    let ind = Indices::new(indices, d.index_vector_dim as usize);
    let sizes: Vec<usize> = input.iter().map(|s| *s as usize).collect();
    let steps = strides(&sizes);
    let inserted =
        |k: usize| d.inserted_window_dims.contains(&(k as u64)) || d.input_batching_dims.contains(&(k as u64));
    let window: Vec<usize> = (0..input.len()).filter(|k| !inserted(*k)).collect();
    let dims: Vec<usize> = updates.iter().map(|s| *s as usize).collect();
    let mut places = vec![];
    each_index(&dims, |i| {
        let at: Vec<usize> =
            (0..dims.len()).filter(|k| !d.update_window_dims.contains(&(*k as u64))).map(|k| i[k]).collect();
        let mut full = vec![0i128; input.len()];
        for (k, dim) in d.scatter_dims_to_operand_dims.iter().enumerate() {
            full[*dim as usize] = ind.component(&at, k);
        }
        for (dim, from) in d.input_batching_dims.iter().zip(&d.scatter_indices_batching_dims) {
            full[*dim as usize] = at[ind.batch_position(*from)] as i128;
        }
        for (dim, k) in window.iter().zip(&d.update_window_dims) {
            full[*dim] += i[*k as usize] as i128;
        }
        let inside = full.iter().zip(&sizes).all(|(i, n)| *i >= 0 && *i < *n as i128);
        places.push(inside.then(|| full.iter().zip(&steps).map(|(i, s)| *i as usize * s).sum()));
    });
    places
}
