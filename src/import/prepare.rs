//! From a verified program to the one that is compiled: known calls resolved, shapes static, quantized arithmetic
//! spelled out, constants folded. A program that is too large with its calls inlined is refused first.

use crate::{
    diag::{Diagnostic, Severity},
    fold::fold,
    inlined::too_large,
    known,
    sink::sink,
    specialise::{dynamic_dims, is_dynamic_call, specialise},
    spell,
    tree::{Block, Func, OpKind, Program, Type},
    verify::verify,
};

/// What `legalize` takes, for the entry `func`. `shapes` are those of its arguments; `None` where its types say them.
pub fn prepare(mut p: Program, func: &str, shapes: Option<&[Vec<u64>]>) -> Result<Program, Vec<Diagnostic>> {
    let errors = known::resolve_calls(&mut p);
    if !errors.is_empty() {
        return Err(errors);
    }
    if let Some(d) = too_large(&p, func) {
        return Err(vec![d]);
    }
    if let Some(f) = p.func(func)
        && (shapes.is_some() || p.funcs.iter().any(|f| is_dynamic(f, &f.body)))
    {
        let own: Vec<Vec<u64>> = match shapes {
            Some(s) => s.to_vec(),
            None => static_shapes(&p, f)?,
        };
        p = specialise(&p, func, &own)?;
        // Calls that had to wait for shapes.
        let errors = known::resolve_calls(&mut p);
        if !errors.is_empty() {
            return Err(errors);
        }
        // Sizes that the program holds equal without saying so disagree only now.
        let errors: Vec<Diagnostic> = verify(&p).into_iter().filter(|d| d.severity == Severity::Error).collect();
        if !errors.is_empty() {
            return Err(errors);
        }
    }
    let errors = spell::spell_out(&mut p);
    if !errors.is_empty() {
        return Err(errors);
    }
    fold(&mut p);
    sink(&mut p);
    Ok(p)
}

/// Whether a function has dynamic types, or ops whose shapes are operands.
fn is_dynamic(f: &Func, b: &Block) -> bool {
    let open = |t: &Type| matches!(t, Type::Tensor(t) if !t.is_static());
    f.values.iter().any(|v| open(&v.ty))
        || b.ops.iter().any(|op| {
            let shaped = matches!(
                op.kind,
                OpKind::DynamicReshape
                    | OpKind::DynamicIota { .. }
                    | OpKind::DynamicBroadcastInDim { .. }
                    | OpKind::RealDynamicSlice
                    | OpKind::DynamicPad
                    | OpKind::DynamicGather { .. }
                    | OpKind::DynamicConv(_)
                    | OpKind::GetDimensionSize { .. }
                    | OpKind::SetDimensionSize { .. }
            );
            let asserts = matches!(&op.kind, OpKind::CustomCall { target, .. } if target == "shape_assertion" || is_dynamic_call(target));
            shaped || asserts || op.regions.iter().any(|r| is_dynamic(f, r))
        })
}

fn static_shapes(p: &Program, f: &Func) -> Result<Vec<Vec<u64>>, Vec<Diagnostic>> {
    let open = dynamic_dims(p, &f.name);
    if open.is_empty() {
        let shape = |v: &crate::tree::ValueId| match f.ty(*v) {
            Type::Tensor(t) => t.shape().unwrap_or_default(),
            _ => vec![],
        };
        return Ok(f.body.args.iter().map(shape).collect());
    }
    let errors = open.iter().map(|d| {
        let v = &f.values[f.body.args[d.argument].0 as usize];
        let name = d.name.as_ref().map_or(String::new(), |n| format!(", `{n}` in the exporter's words,"));
        let argument = v.loc.name().map_or_else(|| d.argument.to_string(), |n| format!("`{n}`"));
        Diagnostic::error("E0701", v.span, format!("dimension {} of argument {argument}{name} has no size", d.dim))
            .label("dynamic")
            .hint("name its sizes under `[entry.dims]` in model.toml, or export the model with that size")
    });
    Err(errors.collect())
}
