//! Cuts a CUDA or ROCm library to the GPU architectures that it is to run on: code for others is taken out of its fat
//! binaries, addresses stay as they are, and the file loses the bytes, and symbols that only debuggers read. Host code is not touched.
//!
//! A GPU whose code was cut gets an error from the library, never other numbers. What is not understood is left as it
//! is. Whether a library's licence allows this is for the caller to ask.

mod arch;
mod bundle;
mod bytes;
mod cubin;
mod elf;
mod fatbin;

pub use arch::Arch;

use bytes::Ranges;
use elf::Elf;
use std::{
    fs, io,
    io::Write,
    path::{Path, PathBuf},
};

#[derive(Debug, thiserror::Error)]
pub enum TrimError {
    #[error("cannot {doing} {}: {source}", path.display())]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
    #[error("{}: {reason}", path.display())]
    NotElf { path: PathBuf, reason: String },
    #[error("`{0}` is not a GPU architecture; write it as sm_90 or gfx942")]
    Arch(String),
    #[error("no GPU architecture to keep")]
    NoArch,
    #[error("{}: nothing in it runs on {archs}", path.display())]
    NothingLeft { path: PathBuf, archs: String },
    #[error("{}: the library that was written differs where it must not ({what}); this is a bug in zml-trim", path.display())]
    SelfCheck { path: PathBuf, what: &'static str },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Of the file.
    pub bytes_before: u64,
    pub bytes_after: u64,
    /// Parts of fat binaries and single cubins.
    pub kept: u64,
    pub dropped: u64,
}

/// Sections that hold fat binaries: those that the linker makes, those for separate compilation, and cublasLt's own.
const FATBINS: [&str; 3] = [".nv_fatbin", "__nv_relfatbin", ".cask_resource"];
/// Where cublasLt keeps cubins as bare zstd frames.
const CUBINS: [&str; 1] = [".ldata"];

/// Where HIP's compiler puts code objects.
const BUNDLES: &str = ".hip_fatbin";

/// Writes `output`, complete or not at all. A library without GPU code loses its debug symbols alone.
pub fn trim(input: &Path, output: &Path, keep: &[Arch]) -> Result<Report, TrimError> {
    if keep.is_empty() {
        return Err(TrimError::NoArch);
    }
    let io = |doing, path: &Path| {
        let path = path.to_path_buf();
        move |source| TrimError::Io { doing, path, source }
    };
    let mut file = fs::read(input).map_err(io("read", input))?;
    let (trimmed, report) = trim_bytes(&mut file, keep).map_err(|e| e.at(input, keep))?;
    let folder = match output.parent() {
        Some(p) if p != Path::new("") => p,
        _ => Path::new("."),
    };
    fs::metadata(folder).map_err(io("write to", folder))?;
    let mut temporary = tempfile::NamedTempFile::new_in(folder).map_err(io("write beside", output))?;
    temporary.write_all(&trimmed).map_err(io("write", output))?;
    let permissions = fs::metadata(input).map_err(io("read", input))?.permissions();
    temporary.as_file().set_permissions(permissions).map_err(io("write", output))?;
    temporary.as_file().sync_all().map_err(io("write", output))?;
    temporary.persist(output).map_err(|e| io("write", output)(e.error))?;
    Ok(report)
}

enum Problem {
    NotElf(String),
    NothingLeft,
    SelfCheck(&'static str),
}
impl Problem {
    fn at(self, path: &Path, keep: &[Arch]) -> TrimError {
        let path = path.to_path_buf();
        match self {
            Problem::NotElf(reason) => TrimError::NotElf { path, reason },
            Problem::NothingLeft => {
                let archs = keep.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                TrimError::NothingLeft { path, archs }
            }
            Problem::SelfCheck(what) => TrimError::SelfCheck { path, what },
        }
    }
}

fn trim_bytes(file: &mut [u8], keep: &[Arch]) -> Result<(Vec<u8>, Report), Problem> {
    let elf = Elf::parse(file).map_err(Problem::NotElf)?;
    let mut report = Report { bytes_before: file.len() as u64, ..Report::default() };
    let mut zeros = Ranges::default();
    for section in &elf.sections {
        let range = section.offset..section.offset + section.size;
        if FATBINS.contains(&section.name.as_str()) {
            fatbin::trim(file, range, keep, &mut zeros, &mut report);
        } else if CUBINS.contains(&section.name.as_str()) {
            cubin::trim(file, range, keep, &mut zeros, &mut report);
        } else if section.name == BUNDLES {
            bundle::trim(file, range, keep, &mut zeros, &mut report);
        }
    }
    if report.dropped > 0 && report.kept == 0 {
        return Err(Problem::NothingLeft);
    }
    let out = elf.without(file, &zeros);
    elf::same_memory(file, &out).map_err(Problem::SelfCheck)?;
    report.bytes_after = out.len() as u64;
    Ok((out, report))
}
