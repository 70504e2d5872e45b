//! NVIDIA's assembler: from PTX to the machine code of one chip, a cubin. It is the user's, found where the user says.

use std::{
    fmt,
    path::{Path, PathBuf},
    process::{Command, Output},
};
use zml_format::Requires;
use zmlc_passes::spec::DeviceSpec;

/// A ptxas that runs and has said which it is.
pub struct Ptxas {
    path: PathBuf,
    /// `13.0.88`
    version: String,
    /// Of the CUDA toolkit that it is of.
    major: u32,
}

#[derive(Debug)]
pub enum PtxasError {
    /// There is no such program, or it cannot be started.
    Absent { path: PathBuf, why: std::io::Error },
    /// It is another program.
    Other { path: PathBuf, said: String },
    /// It does not take the PTX.
    Refused { ptxas: String, chip: String, said: String },
}
impl fmt::Display for PtxasError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            PtxasError::Absent { path, why } => write!(f, "ptxas at {} cannot be run: {why}", path.display()),
            PtxasError::Other { path, said } => {
                write!(f, "{} is no ptxas: to --version it says `{said}`", path.display())
            }
            PtxasError::Refused { ptxas, chip, said } => write!(f, "{ptxas} makes no cubin for {chip}: {said}"),
        }
    }
}

impl fmt::Display for Ptxas {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "ptxas {}", self.version)
    }
}

/// Chip and requirements of a profile's cubin; none for a profile of several architectures.
pub fn native(spec: &DeviceSpec, requires: &Requires, ptxas: &Ptxas) -> Option<(String, Requires)> {
    if requires.arch.ends_with('+') {
        return None;
    }
    let least = ptxas.least_cuda().max(requires.api.parse().unwrap_or(0));
    let requires = Requires { api: least.to_string(), arch: requires.arch.clone(), ..Requires::default() };
    Some((spec.options.get("chip")?.clone(), requires))
}

impl Ptxas {
    /// Asks the program at `path`, or the one of that name in `PATH`, for its version.
    pub fn open(path: &Path) -> Result<Self, PtxasError> {
        // It is started in another folder.
        let named = path.components().count() == 1;
        let absolute = if named { path.to_owned() } else { std::path::absolute(path).unwrap_or(path.to_owned()) };
        let asked = Command::new(&absolute).arg("--version").output();
        let output = asked.map_err(|why| PtxasError::Absent { path: path.to_owned(), why })?;
        let said = said(&output);
        let found = version(&said).filter(|_| output.status.success());
        let (version, major) = found.ok_or_else(|| {
            let first = said.lines().next().unwrap_or_default().chars().take(100).collect();
            PtxasError::Other { path: path.to_owned(), said: first }
        })?;
        Ok(Ptxas { path: absolute, version, major })
    }

    /// The least CUDA version whose driver loads its cubins: the first of its major version, by NVIDIA's minor version
    /// compatibility.
    pub fn least_cuda(&self) -> u32 {
        self.major * 1000
    }

    /// The cubin of a module of PTX, which may end in a zero. Equal PTX gives equal bytes.
    pub fn assemble(&self, ptx: &[u8], chip: &str) -> Result<Vec<u8>, PtxasError> {
        let refused =
            |said: String| PtxasError::Refused { ptxas: self.to_string(), chip: chip.into(), said: one_line(&said) };
        let work = || -> std::io::Result<Result<Vec<u8>, String>> {
            let folder = tempfile::tempdir()?;
            // Names without folders: cubins may hold the command line.
            std::fs::write(folder.path().join("kernels.ptx"), ptx.strip_suffix(&[0]).unwrap_or(ptx))?;
            let mut command = Command::new(&self.path);
            command.current_dir(&folder).arg(format!("-arch={chip}")).args(["kernels.ptx", "-o", "kernels.cubin"]);
            let output = command.output()?;
            if !output.status.success() {
                return Ok(Err(said(&output)));
            }
            std::fs::read(folder.path().join("kernels.cubin")).map(Ok)
        };
        let cubin = work().map_err(|e| refused(e.to_string()))?.map_err(refused)?;
        if !cubin.starts_with(b"\x7fELF") {
            return Err(refused("what it wrote is no ELF file".into()));
        }
        Ok(cubin)
    }
}

/// `EM_CUDA`, the machine of an ELF file.
const MACHINE: [u8; 2] = 190u16.to_le_bytes();

/// Whether bytes are a cubin with a kernel of this name, as far as that shows without a device.
pub fn inspect(cubin: &[u8], kernel: &str) -> Result<(), String> {
    if !cubin.starts_with(b"\x7fELF") || cubin.get(18..20) != Some(&MACHINE[..]) {
        return Err("its machine code is no cubin".into());
    }
    let section = format!(".text.{kernel}\0");
    let has = cubin.windows(section.len()).any(|w| w == section.as_bytes());
    if has { Ok(()) } else { Err("its cubin has no kernel of this name".into()) }
}

fn one_line(said: &str) -> String {
    said.trim().lines().collect::<Vec<_>>().join("; ")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stderr[..], &output.stdout].concat()).into_owned()
}

/// `13.0.88` and 13 of `Cuda compilation tools, release 13.0, V13.0.88`.
fn version(said: &str) -> Option<(String, u32)> {
    if !said.starts_with("ptxas:") {
        return None;
    }
    let (_, rest) = said.split_once("release ")?;
    let (_, version) = rest.split_once(", V")?;
    let version: String = version.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    let major = version.split('.').next()?.parse().ok()?;
    Some((version, major))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read() {
        let said =
            "ptxas: NVIDIA (R) Ptx optimizing assembler\nCuda compilation tools, release 12.8, V12.8.93\nBuild x\n";
        assert_eq!(version(said), Some(("12.8.93".into(), 12)));
        for other in ["", "ptxas: hello", "nvcc: release 12.8, V12.8.93", "ptxas: release 12.8, V"] {
            assert_eq!(version(other), None, "{other}");
        }
    }
}
