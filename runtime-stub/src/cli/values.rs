//! From `--input` and `--output` to tensors and files.

use super::args::split;
use crate::{
    choose::{built_for, by_shapes},
    error::{Error, Result},
    model::find_tensor,
    session::Session,
    tensor::{HostTensor, npy, random, safetensors, safetensors::SafeTensors},
};
use std::path::Path;
use zml_format::{Entry, Tensor, sizes};

/// What a file name says of its format.
enum Format {
    Npy,
    SafeTensors,
}
fn format(path: &Path) -> Result<Format> {
    match path.extension().and_then(|e| e.to_str()) {
        Some("npy") => Ok(Format::Npy),
        Some("safetensors") => Ok(Format::SafeTensors),
        _ => Err(Error::Input(format!("{} is neither .npy nor .safetensors by its name", path.display()))),
    }
}

fn halves<'a>(option: &str, argument: &'a str, tensors: &[&'a Tensor]) -> Result<(&'a str, &'a str)> {
    split(argument, tensors.iter().map(|t| t.name.as_str()))
        .ok_or_else(|| Error::Input(format!("{option} {argument} has no `=`: give NAME=FILE or INDEX=FILE")))
}

/// The one among specialisations whose inputs have the shapes of the files that `arguments` name.
pub fn choose<'a>(entries: &[&'a Entry], arguments: &[String]) -> Result<&'a Entry> {
    let first = entries[0];
    if first.dims.is_empty() {
        return Ok(first);
    }
    let tensors: Vec<&Tensor> = first.inputs().map(|(_, t)| t).collect();
    let mut given: Vec<(usize, Vec<u64>)> = vec![];
    for argument in arguments {
        let (which, from) = halves("--input", argument, &tensors)?;
        if seed(from)?.is_some() {
            continue;
        }
        let path = Path::new(from);
        if which != "all" || tensors.iter().any(|t| t.name == "all") {
            let i = find_tensor("input", tensors.iter().copied(), which)?;
            given.push((i, shape(path, tensors[i])?));
        } else if matches!(format(path)?, Format::SafeTensors) {
            let file = SafeTensors::open(path)?;
            let shapes = tensors.iter().enumerate().filter_map(|(i, t)| Some((i, file.shape(&t.name, t.dtype)?)));
            given.extend(shapes);
        }
    }
    if given.is_empty() && entries.len() > 1 {
        return Err(Error::Input(format!(
            "entry `{}` {}: choose with --dims {}",
            first.name,
            built_for(entries),
            sizes(&first.dims)
        )));
    }
    by_shapes(entries, &given)
}

/// The shape of the tensor that [`one`] reads.
fn shape(path: &Path, t: &Tensor) -> Result<Vec<u64>> {
    match format(path)? {
        Format::Npy => npy::shape(path),
        Format::SafeTensors => {
            let file = SafeTensors::open(path)?;
            let key = key(&file, t);
            file.shape(key, t.dtype).ok_or_else(|| file.absent(key))
        }
    }
}

/// One value for each input of the entry, from arguments `WHICH=FILE`.
pub fn inputs(entry: &Entry, arguments: &[String]) -> Result<Vec<HostTensor>> {
    let missing = |(i, (v, (_, t))): (usize, (Option<HostTensor>, (usize, &Tensor)))| {
        v.ok_or_else(|| Error::Input(format!("input {i} `{}` is not given", t.name)))
    };
    given(entry, arguments)?.into_iter().zip(entry.inputs()).enumerate().map(missing).collect()
}

/// As [`inputs`], with what is not given made up.
pub fn inputs_or_random(entry: &Entry, arguments: &[String]) -> Result<Vec<HostTensor>> {
    let all = given(entry, arguments)?.into_iter().zip(entry.inputs()).enumerate();
    all.map(|(i, (v, (_, t)))| v.map_or_else(|| random(t, 1 + i as u64), Ok)).collect()
}

fn given(entry: &Entry, arguments: &[String]) -> Result<Vec<Option<HostTensor>>> {
    let tensors: Vec<&Tensor> = entry.inputs().map(|(_, t)| t).collect();
    let mut values: Vec<Option<HostTensor>> = vec![None; tensors.len()];
    for argument in arguments {
        let (which, from) = halves("--input", argument, &tensors)?;
        if which == "all" && !tensors.iter().any(|t| t.name == "all") {
            every(from, &tensors, &mut values)?;
            continue;
        }
        let i = find_tensor("input", tensors.iter().copied(), which)?;
        let value = match seed(from)? {
            Some(seed) => random(tensors[i], seed)?,
            None => one(Path::new(from), tensors[i])?,
        };
        if values[i].replace(value).is_some() {
            return Err(Error::Input(format!("input {i} `{}` is given twice", tensors[i].name)));
        }
    }
    Ok(values)
}

/// `random:SEED`
fn seed(from: &str) -> Result<Option<u64>> {
    let Some(seed) = from.strip_prefix("random:") else { return Ok(None) };
    seed.parse().map(Some).map_err(|_| Error::Input(format!("`{from}`: the seed is no number from 0 to 2^64 - 1")))
}

/// `all=...` fills what is not given otherwise.
fn every(from: &str, tensors: &[&Tensor], values: &mut [Option<HostTensor>]) -> Result<()> {
    let open = values.iter_mut().zip(tensors).enumerate().filter(|(_, (v, _))| v.is_none());
    if let Some(seed) = seed(from)? {
        // Inputs of one type still differ.
        for (i, (v, t)) in open {
            *v = Some(random(t, seed.wrapping_add(i as u64))?);
        }
        return Ok(());
    }
    let path = Path::new(from);
    if matches!(format(path)?, Format::Npy) {
        return Err(Error::Input(format!("{from} has one tensor; give all=FILE.safetensors or all=random:SEED")));
    }
    let file = SafeTensors::open(path)?;
    for (_, (v, t)) in open {
        *v = Some(file.read(&t.name, t)?);
    }
    Ok(())
}

fn one(path: &Path, t: &Tensor) -> Result<HostTensor> {
    match format(path)? {
        Format::Npy => npy::read(path, t),
        Format::SafeTensors => {
            let file = SafeTensors::open(path)?;
            file.read(key(&file, t), t)
        }
    }
}

/// The tensor of the input's name, or the only one.
fn key<'a>(file: &'a SafeTensors, t: &'a Tensor) -> &'a str {
    let mut names = file.names();
    let only = names.next().filter(|_| names.next().is_none());
    if file.entry(&t.name).is_some() { &t.name } else { only.unwrap_or(&t.name) }
}

/// Where outputs go; checked before anything runs.
pub struct Outputs<'a> {
    entry: &'a Entry,
    /// A file and the outputs in it.
    files: Vec<(&'a Path, Vec<usize>)>,
}

impl<'a> Outputs<'a> {
    pub fn new(entry: &'a Entry, arguments: &'a [String]) -> Result<Self> {
        let tensors: Vec<&Tensor> = entry.outputs().map(|(_, t)| t).collect();
        let mut files: Vec<(&Path, Vec<usize>)> = vec![];
        for argument in arguments {
            let (which, to) = halves("--output", argument, &tensors)?;
            let path = Path::new(to);
            let is_npy = matches!(format(path)?, Format::Npy);
            let all = which == "all" && !tensors.iter().any(|t| t.name == "all");
            let which = if all {
                (0..tensors.len()).collect()
            } else {
                vec![find_tensor("output", tensors.iter().copied(), which)?]
            };
            let known = files.iter_mut().find(|f| f.0 == path);
            if is_npy && (which.len() != 1 || known.is_some()) {
                return Err(Error::Input(format!("{to} holds one output; give a .safetensors file for several")));
            }
            match known {
                Some((_, outputs)) => outputs.extend(which),
                None => files.push((path, which)),
            }
        }
        Ok(Outputs { entry, files })
    }

    pub fn write(&self, session: &Session) -> Result<()> {
        let tensors: Vec<&Tensor> = self.entry.outputs().map(|(_, t)| t).collect();
        for (path, outputs) in &self.files {
            let value = |i: &usize| {
                let bytes = session.read(&self.entry.id(), *i)?.to_vec();
                Ok((
                    tensors[*i].name.as_str(),
                    HostTensor { dtype: tensors[*i].dtype, shape: tensors[*i].shape.clone(), bytes },
                ))
            };
            let values: Vec<(&str, HostTensor)> = outputs.iter().map(value).collect::<Result<_>>()?;
            match (format(path)?, &values[..]) {
                (Format::Npy, [(_, only)]) => npy::write(path, only)?,
                _ => safetensors::write(path, &values.iter().map(|(n, t)| (*n, t)).collect::<Vec<_>>())?,
            }
        }
        Ok(())
    }
}
