//! From the module after all passes to the artifact's entries and programs. It must not change what plan decided.

use super::entry::{dict_int, dict_string};
use crate::{ir::*, pass::PassError};
use melior::ir::{Attribute, Module};
use std::collections::HashMap;
use zml_format::{
    Argument, Buffer, BufferKind, DType, Dim, Dispatch, Entry, EntryResult, Gemm, Matrix, Program, Slice, Step, Tensor,
};

/// Entry and program of every `zml.program`, in module order. `kernel` gives the index of a kernel by its symbol; `blob`
/// takes the bytes of a constant (little-endian, row-major, predicates a byte each) and gives its index.
///
/// Errors are bugs: a program that plan and emit did not finish.
pub fn extract(
    module: &Module,
    kernel: &dyn Fn(&str) -> Option<usize>,
    blob: &mut dyn FnMut(Vec<u8>) -> usize,
) -> Result<Vec<(Entry, Program)>, PassError> {
    let programs = ops(body(module)).into_iter().filter(|o| name(*o) == "zml.program");
    programs.map(|p| one(p, kernel, blob).map_err(PassError::Bug)).collect()
}

fn one(
    p: O,
    kernel: &dyn Fn(&str) -> Option<usize>,
    blob: &mut dyn FnMut(Vec<u8>) -> usize,
) -> Result<(Entry, Program), String> {
    let list = |name: &str| attr(p, name).map(array).unwrap_or_default();
    let entry = Entry {
        name: str_attr(p, "zml.entry").or(str_attr(p, "sym_name")).unwrap_or_default().into(),
        dims: list("zml.dims").into_iter().map(dim).collect::<Option<_>>().ok_or("a dimension without name or size")?,
        arguments: list("arguments").into_iter().map(argument).collect::<Result<_, _>>()?,
        results: list("results").into_iter().map(result_of).collect::<Result<_, _>>()?,
    };
    let mut x = Extractor { kernel, numbers: HashMap::new() };
    let mut program = Program {
        arena_bytes: int_attr(p, "arena_bytes").unwrap_or(0) as u64,
        buffers: vec![],
        results: vec![],
        steps: vec![],
    };
    let body = block(p, 0);
    for op in ops(body).into_iter().filter(|o| name(*o) == "zml.buffer") {
        let index = int_attr(op, "index").unwrap_or(0) as u64;
        let kind = match str_attr(op, "kind").unwrap_or_default() {
            "argument" => BufferKind::Argument(index as usize),
            "result" => BufferKind::Result(index as usize),
            "arena" => BufferKind::Arena(index),
            "constant" => {
                let value = attr(op, "value").ok_or("a constant buffer without a value")?;
                BufferKind::Constant(blob(dense_bytes(value).ok_or("a constant that is no dense data")?))
            }
            other => return Err(format!("a buffer of kind {other}")),
        };
        x.numbers.insert(key(result(op, 0)), program.buffers.len());
        program.buffers.push(Buffer { kind, bytes: int_attr(op, "bytes").unwrap_or(0) as u64 });
    }
    program.steps = x.steps(body)?;
    let end = ops(body).pop().filter(|o| name(*o) == "zml.results").ok_or("a program without zml.results")?;
    program.results = operands(end).into_iter().map(|v| x.buffer(v)).collect::<Result<_, _>>()?;
    Ok((entry, program))
}

fn dim(d: Attribute) -> Option<Dim> {
    Some(Dim { name: dict_string(d, "name")?, size: dict_int(d, "size")? as u64 })
}
fn tensor(d: Attribute) -> Result<Tensor, String> {
    let dtype: DType = dict_string(d, "dtype").ok_or("a boundary without a dtype")?.parse()?;
    let shape = dict_get(d, "shape").and_then(i64s).ok_or("a boundary without a shape")?;
    let name = dict_string(d, "name").ok_or("a boundary without a name")?;
    Ok(Tensor { name, dtype, shape: shape.into_iter().map(|n| n as u64).collect() })
}
fn argument(d: Attribute) -> Result<Argument, String> {
    let index = || dict_int(d, "index").map(|i| i as usize).ok_or("an argument without an index");
    match dict_string(d, "role").as_deref() {
        Some("weight") => Ok(Argument::Weight { weight: index()? }),
        Some("state") => Ok(Argument::State { state: index()? }),
        Some("input") => Ok(Argument::Input { tensor: tensor(d)?, donated: dict_get(d, "donated").is_some() }),
        role => Err(format!("an argument with role {role:?}")),
    }
}
fn result_of(d: Attribute) -> Result<EntryResult, String> {
    Ok(EntryResult { tensor: tensor(d)?, state: dict_int(d, "state").map(|s| s as usize) })
}

struct Extractor<'k> {
    kernel: &'k dyn Fn(&str) -> Option<usize>,
    numbers: HashMap<usize, usize>,
}
impl Extractor<'_> {
    fn buffer(&self, v: V) -> Result<usize, String> {
        self.numbers.get(&key(v)).copied().ok_or_else(|| "an unknown buffer".into())
    }
    fn slice(&self, v: V, offset: i64, bytes: i64) -> Result<Slice, String> {
        Ok(Slice { buffer: self.buffer(v)?, offset: offset as u64, bytes: bytes as u64 })
    }
    fn steps(&self, b: Blk) -> Result<Vec<Step>, String> {
        let mut steps = vec![];
        for op in ops(b) {
            let int = |name: &str| int_attr(op, name).ok_or_else(|| format!("{} without {name}", crate::ir::name(op)));
            steps.push(match name(op) {
                "zml.dispatch" => self.dispatch(op)?,
                "zml.barrier" => Step::Barrier,
                "zml.library_call" => Step::Library(self.gemm(op)?),
                "zml.copy" => Step::Copy {
                    from: self.slice(operand(op, 0), int("from_offset")?, int("bytes")?)?,
                    to: self.slice(operand(op, 1), int("to_offset")?, int("bytes")?)?,
                },
                "zml.fill" => Step::Fill {
                    to: self.slice(operand(op, 0), int("offset")?, int("bytes")?)?,
                    byte: int("byte")? as u8,
                },
                "zml.while" => Step::While {
                    condition: self.steps(block(op, 0))?,
                    predicate: self.slice(operand(op, 0), int("offset")?, 1)?,
                    body: self.steps(block(op, 1))?,
                    turns: int_attr(op, "turns").and_then(|n| u64::try_from(n).ok()),
                },
                "zml.if" => Step::If {
                    predicate: self.slice(operand(op, 0), int("offset")?, 1)?,
                    then: self.steps(block(op, 0))?,
                    otherwise: self.steps(block(op, 1))?,
                },
                "zml.case" => Step::Case {
                    index: self.slice(operand(op, 0), int("offset")?, 4)?,
                    branches: (0..op.region_count()).map(|r| self.steps(block(op, r))).collect::<Result<_, _>>()?,
                },
                "zml.buffer" | "zml.results" => continue,
                other => return Err(format!("{other} in a program")),
            });
        }
        Ok(steps)
    }
    fn gemm(&self, op: O) -> Result<Gemm, String> {
        let list = |name: &str, n: usize| {
            let found = i64s_attr(op, name).filter(|l| l.len() == n);
            found.ok_or_else(|| format!("a library call without {name}"))
        };
        let (extents, strides, sizes) = (list("extents", 4)?, list("strides", 9)?, list("sizes", 4)?);
        let dtypes = attr(op, "dtypes").map(array).filter(|d| d.len() == 3).ok_or("a library call without dtypes")?;
        let slice = |i: usize| self.slice(operand(op, i), 0, sizes[i]);
        let matrix = |i: usize| -> Result<Matrix, String> {
            let dtype: DType = string(dtypes[i]).ok_or("a dtype that is no string")?.parse()?;
            Ok(Matrix { slice: slice(i)?, dtype, strides: [0, 1, 2].map(|s| strides[3 * i + s] as u64) })
        };
        let [batch, m, n, k] = [0, 1, 2, 3].map(|i| extents[i] as u64);
        Ok(Gemm {
            batch,
            m,
            n,
            k,
            tf32: has_attr(op, "tf32"),
            a: matrix(0)?,
            b: matrix(1)?,
            to: matrix(2)?,
            workspace: slice(3)?,
        })
    }
    fn dispatch(&self, op: O) -> Result<Step, String> {
        let name = symbol_attr(op, "kernel").unwrap_or_default();
        let kernel = (self.kernel)(name).ok_or_else(|| format!("there is no kernel {name}"))?;
        let grid =
            i32s_attr(op, "grid").filter(|g| g.len() == 3).ok_or_else(|| format!("dispatch of {name} has no grid"))?;
        let (offsets, sizes) =
            (i64s_attr(op, "offsets").unwrap_or_default(), i64s_attr(op, "sizes").unwrap_or_default());
        let buffers = operands(op).into_iter().zip(offsets.into_iter().zip(sizes));
        Ok(Step::Dispatch(Dispatch {
            kernel,
            grid: [grid[0] as u32, grid[1] as u32, grid[2] as u32],
            buffers: buffers.map(|(v, (o, s))| self.slice(v, o, s)).collect::<Result<_, _>>()?,
            scalars: i32s_attr(op, "scalars").unwrap_or_default().into_iter().map(|x| x as u32).collect(),
        }))
    }
}
