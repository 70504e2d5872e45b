//! Takes attributes out of an op one by one, in every form that versions of StableHLO have written them, and collects
//! what is wrong with them.

use crate::{
    diag::{Diagnostic, did_you_mean},
    raw::RawOp,
    tree::{Attr, Attrs, Op, OpKind, Span, Type, Value},
};

pub(super) struct Take<'v> {
    pub raw: RawOp,
    pub values: &'v [Value],
    pub errors: Vec<Diagnostic>,
}

impl<'v> Take<'v> {
    pub fn new(raw: RawOp, values: &'v [Value]) -> Self {
        Take { raw, values, errors: vec![] }
    }
    pub fn finish(self, kind: OpKind) -> Result<Op, Vec<Diagnostic>> {
        if !self.errors.is_empty() {
            return Err(self.errors);
        }
        let mut extra = self.raw.attrs;
        // Where a scan's inputs end, nothing else says.
        let segmented = self.raw.name == "chlo.scan";
        extra.retain(|(n, a)| !is_default(n, a) || (segmented && n.ends_with("SegmentSizes")));
        let between_hosts = matches!(self.raw.name.as_str(), "stablehlo.send" | "stablehlo.recv");
        extra.iter_mut().for_each(|(n, a)| normalise(n, a, between_hosts));
        extra.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(Op {
            kind,
            operands: self.raw.operands,
            results: self.raw.results,
            regions: self.raw.regions,
            extra,
            loc: self.raw.loc,
            span: self.raw.span,
            operand_spans: self.raw.operand_spans,
            attr_spans: self.raw.attr_spans,
        })
    }
    pub fn operand_rank(&self, i: usize) -> Option<usize> {
        super::rank(self.values, *self.raw.operands.get(i)?)
    }
    pub fn is_quantized(&self, i: usize) -> bool {
        let ty = self.raw.operands.get(i).map(|v| &self.values[v.0 as usize].ty);
        matches!(ty, Some(Type::Tensor(t)) if t.quant.is_some())
    }
    pub fn result_type(&self, i: usize) -> Option<&'v Type> {
        Some(&self.values[self.raw.results.get(i)?.0 as usize].ty)
    }
    fn span(&self, name: &str) -> Span {
        self.raw.attr_spans.iter().find(|(n, _)| n == name).map_or(self.raw.name_span, |(_, s)| *s)
    }
    pub fn error(&mut self, code: &'static str, name: &str, message: String, label: &str) {
        let hint = match example(&self.raw.name, name) {
            Some(e) => format!("`{name} = {e}`"),
            None => crate::verify::see(&self.raw.name),
        };
        let d = Diagnostic::error(code, self.span(name), message).label(label).hint(hint);
        self.errors.push(d.within(self.raw.span));
    }
    fn wrong(&mut self, name: &str, wanted: &str) {
        let m = format!("attribute `{name}` of `{}` is not {wanted}", self.raw.name);
        self.error("E0302", name, m, &format!("expected {wanted}"));
    }
    pub fn take(&mut self, name: &str) -> Option<Attr> {
        let i = self.raw.attrs.iter().position(|(n, _)| n == name)?;
        Some(self.raw.attrs.remove(i).1)
    }
    fn required(&mut self, name: &str) -> Option<Attr> {
        let a = self.take(name);
        if a.is_none() {
            let d = Diagnostic::error(
                "E0301",
                self.raw.name_span,
                format!("`{}` lacks its attribute `{name}`", self.raw.name),
            )
            .label(format!("`{name}` is required"));
            let given = self.raw.attrs.iter().map(|(n, _)| n.as_str());
            let d = match (did_you_mean(name, given), example(&self.raw.name, name)) {
                (Some(n), _) => d.hint(format!("is `{n}` meant for it?")),
                (None, Some(e)) => d.hint(format!("`{name} = {e}`")),
                (None, None) => d.hint(crate::verify::see(&self.raw.name)),
            };
            self.errors.push(d);
        }
        a
    }
    pub fn int(&mut self, name: &str) -> i64 {
        match self.required(name) {
            Some(a) => self.as_int(name, &a),
            None => 0,
        }
    }
    pub fn int_or(&mut self, name: &str, default: i64) -> i64 {
        match self.take(name) {
            Some(a) => self.as_int(name, &a),
            None => default,
        }
    }
    fn as_int(&mut self, name: &str, a: &Attr) -> i64 {
        match a {
            Attr::Int(v, _) if i64::try_from(*v).is_ok() => *v as i64,
            Attr::Dense(l) if l.elements() == 1 && l.to_i64s().is_some() => l.to_i64s().unwrap_or_default()[0],
            _ => {
                self.wrong(name, "an integer");
                0
            }
        }
    }
    /// A dimension number.
    pub fn dim(&mut self, name: &str) -> u64 {
        let v = self.int(name);
        self.not_negative(name, v)
    }
    fn not_negative(&mut self, name: &str, v: i64) -> u64 {
        u64::try_from(v).unwrap_or_else(|_| {
            let m = format!("attribute `{name}` of `{}` is negative: {v}", self.raw.name);
            self.error("E0401", name, m, "expected a number from 0");
            0
        })
    }
    pub fn bool_or(&mut self, name: &str, default: bool) -> bool {
        match self.take(name) {
            None => default,
            Some(a) => self.as_bool(name, &a),
        }
    }
    pub fn boolean(&mut self, name: &str) -> bool {
        match self.required(name) {
            None => false,
            Some(a) => self.as_bool(name, &a),
        }
    }
    fn as_bool(&mut self, name: &str, a: &Attr) -> bool {
        match a {
            Attr::Bool(b) => *b,
            Attr::Unit => true,
            _ => {
                self.wrong(name, "a boolean");
                false
            }
        }
    }
    pub fn f32(&mut self, name: &str) -> f32 {
        match self.required(name) {
            Some(Attr::Float(v, _)) => v as f32,
            None => 0.0,
            Some(_) => {
                self.wrong(name, "a float");
                0.0
            }
        }
    }
    pub fn string_or(&mut self, name: &str, default: Option<&str>) -> String {
        let a = match default {
            Some(d) => self.take(name).unwrap_or_else(|| Attr::Str(d.into())),
            None => match self.required(name) {
                Some(a) => a,
                None => return String::new(),
            },
        };
        match a {
            Attr::Str(s) | Attr::Symbol(s) => s,
            _ => {
                self.wrong(name, "a string");
                String::new()
            }
        }
    }
    /// The word of `#stablehlo<kind WORD>`; an old form is the string.
    pub fn word(&mut self, name: &str) -> Option<String> {
        let a = self.take(name)?;
        match a {
            Attr::Enum(_, _, w) | Attr::Str(w) => Some(w),
            _ => {
                self.wrong(name, "an enumerator, `#stablehlo<...>`");
                None
            }
        }
    }
    pub fn required_word(&mut self, name: &str, allowed: &[&str]) -> String {
        match self.required(name) {
            Some(Attr::Enum(_, _, w) | Attr::Str(w)) if allowed.contains(&w.as_str()) => w,
            Some(_) => {
                self.wrong(name, &format!("one of {}", allowed.join(", ")));
                String::new()
            }
            None => String::new(),
        }
    }
    pub fn ints(&mut self, name: &str) -> Vec<i64> {
        match self.required(name) {
            Some(a) => self.as_ints(name, &a),
            None => vec![],
        }
    }
    pub fn ints_or(&mut self, name: &str, default: impl FnOnce() -> Vec<i64>) -> Vec<i64> {
        match self.take(name) {
            Some(a) => self.as_ints(name, &a),
            None => default(),
        }
    }
    pub fn dims(&mut self, name: &str) -> Vec<u64> {
        let v = self.ints(name);
        v.into_iter().map(|v| self.not_negative(name, v)).collect()
    }
    fn as_ints(&mut self, name: &str, a: &Attr) -> Vec<i64> {
        match ints_of(a) {
            Some(v) => v,
            None => {
                self.wrong(name, "a list of integers");
                vec![]
            }
        }
    }
    /// `dense<[[low, high], ...]>`, absent for zeros.
    pub fn pairs_or(&mut self, name: &str, n: usize) -> Vec<(i64, i64)> {
        let Some(a) = self.take(name) else { return vec![(0, 0); n] };
        match &a {
            Attr::Dense(l) if l.ty.rank() == 2 && l.ty.dims[1] == Some(2) => match l.to_i64s() {
                Some(v) => v.chunks_exact(2).map(|p| (p[0], p[1])).collect(),
                None => {
                    self.wrong(name, "a list of pairs of integers");
                    vec![]
                }
            },
            Attr::Dense(l) if l.elements() == 0 => vec![],
            _ => {
                self.error(
                    "E0401",
                    name,
                    format!("attribute `{name}` of `{}` is not a list of pairs", self.raw.name),
                    "expected shape Nx2",
                );
                vec![]
            }
        }
    }
    /// Fields of `#stablehlo.name<...>`.
    pub fn fields(&mut self, name: &str, kind: &str) -> Fields {
        match self.required(name) {
            Some(Attr::Struct(_, k, fields)) if k == kind => {
                let fits = |v: &i128| (0..=i128::from(i64::MAX)).contains(v);
                let good = fields.iter().all(|(_, a)| match a {
                    Attr::Int(v, _) => fits(v),
                    Attr::Array(l) => l.iter().all(|a| matches!(a, Attr::Int(v, _) if fits(v))),
                    Attr::Dense(_) => ints_of(a).is_some_and(|v| v.iter().all(|v| *v >= 0)),
                    _ => true,
                });
                if !good {
                    let m = format!("attribute `{name}` of `{}` has numbers that no dimension has", self.raw.name);
                    self.error("E0401", name, m, "expected numbers from 0");
                    return Fields(vec![]);
                }
                Fields(fields)
            }
            Some(_) => {
                self.wrong(name, &format!("`#stablehlo.{kind}<...>`"));
                Fields(vec![])
            }
            None => Fields(vec![]),
        }
    }
    pub fn precision(&mut self) -> Vec<String> {
        let Some(a) = self.take("precision_config") else { return vec![] };
        let Attr::Array(list) = a else {
            self.wrong("precision_config", "a list");
            return vec![];
        };
        let words: Option<Vec<String>> = list
            .into_iter()
            .map(|a| match a {
                Attr::Enum(_, _, w) | Attr::Str(w) if matches!(w.as_str(), "DEFAULT" | "HIGH" | "HIGHEST") => Some(w),
                _ => None,
            })
            .collect();
        // Some versions write the default out.
        let words = words.map(|w| if w.len() <= 2 && w.iter().all(|w| w == "DEFAULT") { vec![] } else { w });
        words.unwrap_or_else(|| {
            self.wrong("precision_config", "a list of DEFAULT, HIGH, HIGHEST");
            vec![]
        })
    }
}

/// How an attribute may look in the generic form.
fn example(op: &str, name: &str) -> Option<&'static str> {
    Some(match name {
        "permutation" => "array<i64: 1, 0>",
        "dimensions"
        | "broadcast_dimensions"
        | "start_indices"
        | "edge_padding_low"
        | "edge_padding_high"
        | "interior_padding" => "array<i64: 0>",
        "limit_indices" | "slice_sizes" | "fft_length" => "array<i64: 4>",
        "strides" | "window_strides" | "window_dimensions" | "lhs_dilation" | "rhs_dilation" => "array<i64: 1>",
        "padding" => "dense<0> : tensor<1x2xi64>",
        "dimension" | "iota_dimension" | "feature_index" | "batch_group_count" | "feature_group_count" => "0 : i64",
        "index" => "0 : i32",
        "exponent_bits" => "5 : i32",
        "mantissa_bits" => "10 : i32",
        "epsilon" => "1.0e-3 : f32",
        "left_side" | "lower" | "unit_diagonal" | "is_stable" => "true",
        "value" => "dense<0.0> : tensor<4xf32>",
        "callee" | "decomposition" => "@name",
        "call_target_name" | "name" => "\"name\"",
        "comparison_direction" => "#stablehlo<comparison_direction EQ>",
        "compare_type" => "#stablehlo<comparison_type FLOAT>",
        "transpose_a" => "#stablehlo<transpose NO_TRANSPOSE>",
        "fft_type" => "#stablehlo<fft_type FFT>",
        "rng_algorithm" => "#stablehlo<rng_algorithm THREE_FRY>",
        "rng_distribution" => "#stablehlo<rng_distribution UNIFORM>",
        "precision_config" => "[#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]",
        "dot_dimension_numbers" => "#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>",
        "dimension_numbers" if op.contains("conv") => "#stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>",
        "dimension_numbers" => {
            "#stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>"
        }
        "scatter_dimension_numbers" => {
            "#stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>"
        }
        _ => return None,
    })
}

/// Fields of a structured attribute; missing lists are empty, as the printer leaves them out.
pub(super) struct Fields(pub Attrs);
impl Fields {
    pub fn get(&self, name: &str) -> Option<&Attr> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, a)| a)
    }
    pub fn dims(&self, name: &str) -> Vec<u64> {
        self.get(name).and_then(ints_of).unwrap_or_default().into_iter().map(|v| v as u64).collect()
    }
    pub fn int(&self, name: &str) -> i64 {
        match self.get(name) {
            Some(Attr::Int(v, _)) => *v as i64,
            _ => 0,
        }
    }
    pub fn boolean(&self, name: &str) -> bool {
        matches!(self.get(name), Some(Attr::Bool(true)))
    }
}

/// A list of integers in any of its forms.
pub(crate) fn ints_of(a: &Attr) -> Option<Vec<i64>> {
    match a {
        Attr::Ints(_, v) => Some(v.clone()),
        Attr::Dense(l) if l.ty.rank() <= 1 => l.to_i64s(),
        Attr::Array(list) => list
            .iter()
            .map(|a| match a {
                Attr::Int(v, _) => i64::try_from(*v).ok(),
                Attr::Bool(b) => Some(i64::from(*b)),
                _ => None,
            })
            .collect(),
        _ => None,
    }
}

/// One way of saying what versions say in several.
fn normalise(name: &str, a: &mut Attr, between_hosts: bool) {
    match (name, a) {
        ("result_accuracy", Attr::Struct(_, _, fields)) => fields.retain(|(_, a)| match a {
            Attr::Float(v, _) => *v != 0.0,
            Attr::Int(v, _) => *v != 0,
            _ => true,
        }),
        // The type of a collective's channel is always device to device; portable artifacts leave it out.
        ("channel_handle", Attr::Struct(_, _, fields)) if !between_hosts => {
            for (n, a) in fields {
                if n == "type" {
                    *a = Attr::Int(1, "i64".into());
                }
            }
        }
        _ => {}
    }
}

/// Attributes that say nothing: the defaults that some versions write out, and bookkeeping of MLIR.
fn is_default(name: &str, a: &Attr) -> bool {
    match (name, a) {
        ("operandSegmentSizes" | "operand_segment_sizes" | "resultSegmentSizes", _) => true,
        ("operand_layouts" | "result_layouts" | "output_operand_aliases" | "result_tilings", Attr::Array(l)) => {
            l.is_empty()
        }
        ("result_accuracy", Attr::Struct(_, _, fields)) => fields.iter().all(|(n, a)| match (n.as_str(), a) {
            ("mode", Attr::Enum(_, _, w)) => w == "DEFAULT",
            (_, Attr::Float(v, _)) => *v == 0.0,
            (_, Attr::Int(v, _)) => *v == 0,
            _ => false,
        }),
        _ => false,
    }
}
