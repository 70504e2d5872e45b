//! Signatures of the regions that ops run on elements.

use super::{V, element, promotable};
use crate::{
    print,
    tree::{DType, TensorType, Type},
};

impl<'a> V<'a> {
    fn region_types(&self, i: usize) -> (Vec<&'a Type>, Vec<&'a Type>) {
        let r = &self.op.regions[i];
        (self.types(&r.args), self.types(&r.results))
    }

    /// A region that combines elements of the inputs, two of each: its element types, to which the inputs' promote.
    pub(super) fn reducer(&mut self, region: usize, inputs: &[&TensorType], tag: &str) -> Option<Vec<TensorType>> {
        let (args, results) = self.region_types(region);
        let here = self.here();
        let n = inputs.len();
        if !self.need(
            args.len() == 2 * n,
            here,
            tag,
            format!("the computation takes {} arguments", args.len()),
            format!("expected {}", 2 * n),
        ) {
            return None;
        }
        if !self.need(
            results.len() == n,
            here,
            tag,
            format!("the computation returns {} values", results.len()),
            format!("expected {n}"),
        ) {
            return None;
        }
        let mut out = vec![];
        for i in 0..n {
            let mut t = None;
            for ty in [args[i], args[n + i], results[i]] {
                let Type::Tensor(e) = ty else {
                    self.fail(here, tag, format!("the computation handles {}", print::ty(ty)), "expected tensors");
                    return None;
                };
                if !self.need(
                    e.rank() == 0,
                    here,
                    tag,
                    format!("the computation handles {}", print::tensor(e)),
                    "expected scalars",
                ) {
                    return None;
                }
                let first = t.get_or_insert(e);
                if !self.need(
                    *first == e,
                    here,
                    tag,
                    format!(
                        "the computation's arguments and results are {} and {}",
                        print::tensor(first),
                        print::tensor(e)
                    ),
                    "expected one type",
                ) {
                    return None;
                }
            }
            let e = t.expect("three types were looked at");
            if !self.need(
                promotable(inputs[i], e),
                here,
                tag,
                format!("the computation handles {} for elements of {}", print::tensor(e), element(inputs[i])),
                format!("expected {} or wider", element(inputs[i])),
            ) {
                return None;
            }
            out.push(e.clone());
        }
        Some(out)
    }

    /// A region that takes these scalars.
    pub(super) fn takes(&mut self, region: usize, want: &[&TensorType], tag: &str) -> bool {
        let (args, _) = self.region_types(region);
        let here = self.here();
        if !self.need(
            args.len() == want.len(),
            here,
            tag,
            format!("the computation takes {} arguments", args.len()),
            format!("expected {}", want.len()),
        ) {
            return false;
        }
        for (i, (a, w)) in args.iter().zip(want).enumerate() {
            let ok = matches!(a, Type::Tensor(t) if t.rank() == 0 && super::same_element(t, w));
            if !self.need(
                ok,
                here,
                tag,
                format!("argument {i} of the computation is {}", print::ty(a)),
                format!("expected tensor<{}>", element(w)),
            ) {
                return false;
            }
        }
        true
    }

    /// A region that returns one predicate.
    pub(super) fn gives_predicate(&mut self, region: usize, tag: &str) {
        let (_, results) = self.region_types(region);
        let here = self.here();
        let want = Type::Tensor(TensorType::new(DType::I1, &[]));
        self.need(
            results.len() == 1 && *results[0] == want,
            here,
            tag,
            "the computation does not return one predicate",
            "expected tensor<i1>",
        );
    }
}
