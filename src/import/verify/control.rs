//! Control flow, calls, composites, custom calls, tuples.

use super::{V, compatible};
use crate::{
    diag::Diagnostic,
    print,
    tree::{Block, DType, OpKind, Program, Span, Type},
};
use std::collections::HashMap;

/// Equal types, where a dynamic dimension may be any size.
fn fits(a: &Type, b: &Type) -> bool {
    match (a, b) {
        (Type::Tensor(x), Type::Tensor(y)) => x.dtype == y.dtype && x.quant == y.quant && compatible(&x.dims, &y.dims),
        (Type::Tuple(x), Type::Tuple(y)) => x.len() == y.len() && x.iter().zip(y).all(|(a, b)| fits(a, b)),
        _ => a == b,
    }
}
fn all_fit(a: &[&Type], b: &[&Type]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(x, y)| fits(x, y))
}
fn list(types: &[&Type]) -> String {
    let words: Vec<String> = types.iter().map(|t| print::ty(t)).collect();
    format!("({})", words.join(", "))
}

impl V<'_> {
    pub(super) fn control(&mut self) {
        let (inputs, results) = (self.types(&self.op.operands), self.types(&self.op.results));
        let here = self.here();
        match &self.op.kind {
            OpKind::While => {
                let (cond, body) = (&self.op.regions[0], &self.op.regions[1]);
                for (i, (r, tag)) in [(cond, "C1"), (body, "C2")].into_iter().enumerate() {
                    let args = self.types(&r.args);
                    let name = ["condition", "body"][i];
                    self.need(
                        all_fit(&args, &inputs),
                        here,
                        tag,
                        format!("the {name} takes {}", list(&args)),
                        format!("expected {}", list(&inputs)),
                    );
                }
                let pred = self.types(&cond.results);
                let is_pred =
                    matches!(pred[..], [Type::Tensor(t)] if t.dtype == DType::I1 && t.rank() == 0 && t.quant.is_none());
                self.need(
                    is_pred,
                    here,
                    "C1",
                    format!("the condition returns {}", list(&pred)),
                    "expected one tensor<i1>",
                );
                let next = self.types(&body.results);
                self.need(
                    all_fit(&next, &inputs),
                    here,
                    "C2",
                    format!("the body returns {}", list(&next)),
                    format!("expected {}", list(&inputs)),
                );
                self.need(
                    all_fit(&results, &inputs),
                    here,
                    "C3",
                    format!("results {}", list(&results)),
                    format!("expected {}", list(&inputs)),
                );
            }
            OpKind::If => {
                self.scalar(0, DType::I1, "I1");
                self.branches(("C1", "C2", "C3"));
            }
            OpKind::Case => {
                self.scalar(0, DType::I32, "I1");
                self.branches(("C2", "C3", "C4"));
            }
            OpKind::Call { callee } => {
                let span = self.attr_at("callee");
                // A callee that the file does not have was reported by its reader.
                if self.known.unsure.is_none() || self.known.funcs.contains_key(callee.as_str()) {
                    self.callee(callee, span, ("", "", ""));
                }
            }
            OpKind::Composite { name, decomposition, .. } => {
                let span = self.attr_at("name");
                let word = |w: &str| {
                    let mut b = w.bytes();
                    b.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
                        && b.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$'))
                };
                let later =
                    |w: &str| !w.is_empty() && w.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$'));
                let namespaced =
                    name.split_once('.').is_some_and(|(space, rest)| word(space) && rest.split('.').all(later));
                self.need(namespaced, span, "C1", format!("name \"{name}\""), "expected `namespace.name`");
                let span = self.attr_at("decomposition");
                self.callee(decomposition, span, ("C2", "C3", "C4"));
            }
            OpKind::CustomCall { api_version, backend_config, .. } => {
                use crate::tree::Attr;
                let span = self.attr_at("backend_config");
                let (ok, want) = match api_version {
                    4 => (matches!(backend_config, Attr::Dict(_)), "a dictionary"),
                    _ => (matches!(backend_config, Attr::Str(_)), "a string"),
                };
                self.need(
                    ok,
                    span,
                    "",
                    format!("backend_config of another kind than api_version {api_version} has"),
                    format!("expected {want}"),
                );
                self.layouts();
            }
            OpKind::Tuple => {
                let fits_parts =
                    matches!(results[..], [Type::Tuple(parts)] if all_fit(&parts.iter().collect::<Vec<_>>(), &inputs));
                self.need(
                    fits_parts,
                    here,
                    "C1",
                    format!("tuple of {} as {}", list(&inputs), list(&results)),
                    "the parts differ",
                );
            }
            OpKind::GetTupleElement { index } => {
                let Type::Tuple(parts) = inputs[0] else {
                    let span = self.at(0);
                    return self.fail(span, "I1", format!("operand {}", print::ty(inputs[0])), "expected a tuple");
                };
                let span = self.attr_at("index");
                if self.need(
                    (*index as usize) < parts.len(),
                    span,
                    "C1",
                    format!("index {index} of {} parts", parts.len()),
                    format!("expected a number below {}", parts.len()),
                ) {
                    let part = &parts[*index as usize];
                    self.need(
                        fits(part, results[0]),
                        here,
                        "C2",
                        format!("part {index} as {}", print::ty(results[0])),
                        format!("expected {}", print::ty(part)),
                    );
                }
            }
            OpKind::OptimizationBarrier => {
                self.per_axis();
                self.need(
                    all_fit(&inputs, &results),
                    here,
                    "C1",
                    format!("results {}", list(&results)),
                    format!("expected {}", list(&inputs)),
                );
            }
            _ => {}
        }
    }

    fn scalar(&mut self, i: usize, d: DType, tag: &str) {
        let t = self.f.ty(self.op.operands[i]);
        let ok = matches!(t, Type::Tensor(t) if t.dtype == d && t.rank() == 0 && t.quant.is_none());
        let span = self.at(i);
        self.need(ok, span, tag, format!("operand {}", print::ty(t)), format!("expected tensor<{d}>"));
    }

    /// Branches take nothing and return the results.
    fn branches(&mut self, tags: (&str, &str, &str)) {
        let here = self.here();
        let results = self.types(&self.op.results);
        let mut first: Option<Vec<&Type>> = None;
        for (i, r) in self.op.regions.iter().enumerate() {
            self.need(
                r.args.is_empty(),
                here,
                tags.0,
                format!("branch {i} takes {} arguments", r.args.len()),
                "expected none",
            );
            let given = self.types(&r.results);
            match &first {
                None => {
                    self.need(
                        all_fit(&given, &results),
                        here,
                        tags.2,
                        format!("branch 0 returns {}", list(&given)),
                        format!("expected {}", list(&results)),
                    );
                    first = Some(given);
                }
                Some(f) => {
                    let f = f.clone();
                    self.need(
                        all_fit(&given, &f),
                        here,
                        tags.1,
                        format!("branch {i} returns {}", list(&given)),
                        format!("expected {}", list(&f)),
                    );
                }
            }
        }
    }

    fn callee(&mut self, name: &str, span: Span, tags: (&str, &str, &str)) {
        let (inputs, results) = (self.types(&self.op.operands), self.types(&self.op.results));
        if self.known.unsure.is_some_and(|unsure| unsure(name)) {
            return;
        }
        let Some(f) = self.known.funcs.get(name).copied() else {
            return self.fail(span, tags.0, format!("no function `@{name}`"), "not defined in this program");
        };
        let args: Vec<&Type> = f.body.args.iter().map(|v| f.ty(*v)).collect();
        let gives: Vec<&Type> = f.result_types.iter().collect();
        self.need(
            all_fit(&inputs, &args),
            span,
            tags.1,
            format!("arguments {} for `@{name}`", list(&inputs)),
            format!("expected {}", list(&args)),
        );
        self.need(
            all_fit(&results, &gives),
            span,
            tags.2,
            format!("results {} of `@{name}`", list(&results)),
            format!("expected {}", list(&gives)),
        );
        if f.external {
            let d = Diagnostic::error("E0602", span, format!("function `@{name}` has no body"))
                .label("declared only")
                .hint("zmlc compiles whole programs; export one in which every function is defined");
            self.out.push(d);
        }
    }

    /// Layouts of a custom call: both or none, one for each value, permutations of its dimensions.
    fn layouts(&mut self) {
        use crate::tree::Attr;
        let lists = ["operand_layouts", "result_layouts"].map(|n| self.op.attr(n));
        let [operands, results] = lists;
        let (inputs, outputs) = (self.types(&self.op.operands), self.types(&self.op.results));
        let outputs: Vec<Type> = match outputs[..] {
            [Type::Tuple(parts)] => parts.clone(),
            _ => outputs.into_iter().cloned().collect(),
        };
        let inputs: Vec<Type> = inputs.into_iter().cloned().collect();
        if operands.is_some() != results.is_some() && !(inputs.is_empty() || outputs.is_empty()) {
            let here = self.here();
            return self.fail(here, "", "layouts of operands or of results alone", "expected both or none");
        }
        for (name, a, values) in [("operand_layouts", operands, inputs), ("result_layouts", results, outputs)] {
            let Some(Attr::Array(layouts)) = a else { continue };
            let span = self.attr_at(name);
            if !self.need(
                layouts.len() == values.len(),
                span,
                "",
                format!("{} layouts for {} values", layouts.len(), values.len()),
                format!("expected {}", values.len()),
            ) {
                continue;
            }
            for (i, (l, t)) in layouts.iter().zip(&values).enumerate() {
                let mut order = crate::build::ints_of(l).unwrap_or_default();
                order.sort_unstable();
                let ok = match t {
                    Type::Tensor(t) => order.iter().copied().eq(0..t.rank() as i64),
                    Type::Tuple(_) => false,
                    _ => order.is_empty(),
                };
                self.need(
                    ok,
                    span,
                    "",
                    format!("layout {i} does not fit {}", print::ty(t)),
                    "expected a permutation of its dimensions",
                );
            }
        }
        let alias = self.op.attr("output_operand_aliases");
        if let Some(Attr::Array(list)) = alias {
            let n = self.op.operands.len();
            for a in list {
                let Attr::Struct(_, _, fields) = a else { continue };
                let index = fields.iter().find(|(n, _)| n == "operand_index").map(|(_, a)| a);
                let span = self.attr_at("output_operand_aliases");
                let Some(Attr::Int(i, _)) = index else { continue };
                let ints = |name: &str| {
                    fields
                        .iter()
                        .find(|(n, _)| n == name)
                        .and_then(|(_, a)| crate::build::ints_of(a))
                        .unwrap_or_default()
                };
                if !self.need(
                    (0..n as i128).contains(i),
                    span,
                    "",
                    format!("operand_index = {i} of {n} operands"),
                    format!("expected a number below {n}"),
                ) {
                    continue;
                }
                let part = |mut t: Type, path: Vec<i64>| -> Option<Type> {
                    for p in path {
                        match t {
                            Type::Tuple(mut parts) if p >= 0 && (p as usize) < parts.len() => {
                                t = parts.swap_remove(p as usize);
                            }
                            _ => return None,
                        }
                    }
                    Some(t)
                };
                let from = part(self.f.ty(self.op.operands[*i as usize]).clone(), ints("operand_tuple_indices"));
                let path = ints("output_tuple_indices");
                let whole = match &self.op.results[..] {
                    [r] => self.f.ty(*r).clone(),
                    many => Type::Tuple(many.iter().map(|r| self.f.ty(*r).clone()).collect()),
                };
                let to = part(whole, path);
                let ok =
                    from.is_some() && to.is_some() && from.as_ref().zip(to.as_ref()).is_some_and(|(a, b)| fits(a, b));
                self.need(ok, span, "", "an alias between values of other types, or that do not exist", "here");
            }
        }
    }
}

/// Functions that call each other in a circle: nothing of the language's can end such calls.
pub(super) fn recursion(p: &Program, out: &mut Vec<Diagnostic>) {
    fn calls<'a>(b: &'a Block, list: &mut Vec<(&'a str, Span)>) {
        for op in &b.ops {
            match &op.kind {
                OpKind::Call { callee } => list.push((callee, op.span)),
                OpKind::Composite { decomposition, .. } => list.push((decomposition, op.span)),
                _ => {}
            }
            op.regions.iter().for_each(|r| calls(r, list));
        }
    }
    let index: HashMap<&str, usize> = p.funcs.iter().enumerate().map(|(i, f)| (f.name.as_str(), i)).collect();
    let edges: Vec<Vec<(usize, Span)>> = p
        .funcs
        .iter()
        .map(|f| {
            let mut list = vec![];
            calls(&f.body, &mut list);
            list.into_iter().filter_map(|(n, s)| Some((*index.get(n)?, s))).collect()
        })
        .collect();
    // 0 new, 1 on the path, 2 done; a stack of its own, as chains of calls may be long.
    let mut state = vec![0u8; p.funcs.len()];
    for root in 0..p.funcs.len() {
        let mut stack = vec![(root, 0usize)];
        while let Some((f, next)) = stack.pop() {
            if next == 0 {
                if state[f] != 0 {
                    continue;
                }
                state[f] = 1;
            }
            match edges[f].get(next) {
                Some((g, span)) => {
                    stack.push((f, next + 1));
                    if state[*g] == 1 {
                        let m = format!("`@{}` is called by itself, at the end of a chain of calls", p.funcs[*g].name);
                        let hint = "StableHLO has no recursion: repeat with `stablehlo.while`";
                        out.push(Diagnostic::error("E0401", *span, m).label("the circle closes here").hint(hint));
                    } else {
                        stack.push((*g, 0));
                    }
                }
                None => state[f] = 2,
            }
        }
    }
}
