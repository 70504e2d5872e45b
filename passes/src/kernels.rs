//! What the host must know of each kernel, kept as the module attribute `zml.kernels` because lowering to a target's
//! dialect leaves nothing of a `gpu.func` but its code. Recorded by the ABI passes, read when the artifact is written.

use crate::{
    ir::{
        B, BlockLike, O, V, args, array, attr, block, body, dict_get, elements, has_attr, i32s_attr, name, ops, read,
        rewrite::set_attr, str_attr,
    },
    pass::PassError,
};
use melior::ir::{Attribute, Module, TypeLike, ValueLike};
use zml_format::Access;

#[derive(Clone, Debug, PartialEq)]
pub struct KernelInfo {
    pub name: String,
    pub block: [u32; 3],
    pub buffers: Vec<Access>,
    /// Positions in `buffers` of those that are found by address.
    pub addresses: Vec<u32>,
    pub scalar_bytes: u32,
    pub label: String,
    /// It waits for earlier kernels itself, so it may start before they have ended.
    pub overlaps: bool,
}

/// On a `gpu.func` as emit leaves it: an index in it may exceed 31 bits, though its buffers are smaller.
pub const WIDE: &str = "zml.wide";

/// Whether an index in a `gpu.func` may exceed 31 bits.
pub fn is_wide(f: O) -> bool {
    let is_far = |v: V| v.r#type().is_mem_ref() && elements(v.r#type()) > i64::from(i32::MAX);
    has_attr(f, WIDE) || args(block(f, 0)).into_iter().any(is_far)
}

/// Reads the arguments and attributes of every `gpu.func` and writes them down. Buffers come before scalars.
pub fn record(b: &B, module: &Module) -> Result<(), PassError> {
    let mut list = vec![];
    for g in ops(body(module)).into_iter().filter(|g| name(*g) == "gpu.module") {
        for f in ops(block(g, 0)).into_iter().filter(|f| name(*f) == "gpu.func") {
            let symbol = str_attr(f, "sym_name").unwrap_or_default();
            let bug = |what: &str| PassError::Bug(format!("kernel {symbol}: {what}"));
            let size = i32s_attr(f, "known_block_size").ok_or_else(|| bug("no known_block_size"))?;
            let attrs = attr(f, "arg_attrs").map(array).unwrap_or_default();
            let entry = block(f, 0);
            let workgroup = read::int_attr(f, "workgroup_attributions").unwrap_or(0) as usize;
            let count = entry.argument_count() - workgroup;
            let (mut access, mut addresses, mut scalars) = (vec![], vec![], 0);
            for i in 0..count {
                if read::arg(entry, i).r#type().is_mem_ref() {
                    let given = |key| attrs.get(i).and_then(|a| dict_get(*a, key));
                    let a = given("zml.access").and_then(read::string);
                    access.push(b.str(&a.ok_or_else(|| bug("a buffer without zml.access"))?));
                    if given("zml.address").is_some() {
                        addresses.push(i as i64);
                    }
                    if scalars > 0 {
                        return Err(bug("a buffer after a scalar"));
                    }
                } else {
                    scalars += 4;
                }
            }
            let mut fields = vec![
                ("name", b.str(symbol)),
                ("block", b.i32s(&size)),
                ("access", b.array(&access)),
                ("scalar_bytes", b.i64_attr(scalars)),
                ("label", b.str(str_attr(f, "zml.label").unwrap_or(symbol))),
            ];
            if !addresses.is_empty() {
                fields.push(("addresses", b.i64s(&addresses)));
            }
            if has_attr(f, "zml.overlaps") {
                fields.push(("overlaps", b.unit()));
            }
            let d = b.dict(&fields);
            list.push(d);
        }
    }
    set_attr(read::module_op(module), "zml.kernels", b.array(&list));
    Ok(())
}

/// The kernels in module order; none if the attribute is missing or has another form.
pub fn read(module: &Module) -> Option<Vec<KernelInfo>> {
    array(attr(read::module_op(module), "zml.kernels")?).into_iter().map(info).collect()
}
fn info(a: Attribute) -> Option<KernelInfo> {
    let size = read::i32s(dict_get(a, "block")?)?;
    let access = |s: Attribute| {
        Some(match read::string(s)?.as_str() {
            "read" => Access::Read,
            "write" => Access::Write,
            "read_write" => Access::ReadWrite,
            _ => return None,
        })
    };
    Some(KernelInfo {
        name: read::string(dict_get(a, "name")?)?,
        block: [*size.first()? as u32, *size.get(1)? as u32, *size.get(2)? as u32],
        buffers: array(dict_get(a, "access")?).into_iter().map(access).collect::<Option<_>>()?,
        addresses: match dict_get(a, "addresses") {
            Some(list) => read::i64s(list)?.into_iter().map(|i| i as u32).collect(),
            None => vec![],
        },
        scalar_bytes: read::int(dict_get(a, "scalar_bytes")?)? as u32,
        label: read::string(dict_get(a, "label")?)?,
        overlaps: dict_get(a, "overlaps").is_some(),
    })
}
