//! From lowered modules to the artifact: the manifest is read back from the IR, so a build that resumes gives the same bytes.

use crate::{
    codes,
    failure::Failure,
    metadata::{self, WeightInfo},
    targets::Selected,
};
use melior::ir::Module;
use std::{
    collections::{BTreeMap, btree_map},
    io::Write,
    path::Path,
};
use zml_format::{
    BufferKind, Entry, Kernel, Manifest, Model, Native, Profile, Sources, State, Weight, WeightSource, Writer,
};
use zmlc_import::{diag::Diagnostic, tree::Span};
use zmlc_passes::{kernels, plan, spec::DeviceSpec, target::Binary};
use zmlc_target_cuda::{Ptxas, PtxasError};

/// One device profile, with blobs of its own.
pub struct Lowered {
    pub profile: Profile,
    pub model: Model,
    /// None in IR that knows nothing of files.
    pub sources: Option<Sources>,
    pub entries: Vec<Entry>,
    pub weights: Vec<WeightInfo>,
    pub states: Vec<State>,
    blobs: Vec<Vec<u8>>,
}

impl Lowered {
    /// The code of kernel `i`.
    pub fn code(&self, i: usize) -> &[u8] {
        &self.blobs[self.profile.kernels[i].blob]
    }

    /// Machine code beside the kernels, where the device profile is for one architecture.
    pub fn assemble(&mut self, ptxas: &Ptxas, spec: &DeviceSpec) -> Result<(), Failure> {
        let is_cuda = self.profile.target == "cuda";
        let native = is_cuda.then(|| zmlc_target_cuda::native(spec, &self.profile.requires, ptxas)).flatten();
        let Some((chip, requires)) = native else { return Ok(()) };
        let mut made: BTreeMap<usize, usize> = BTreeMap::new();
        for k in &self.profile.kernels {
            if let btree_map::Entry::Vacant(place) = made.entry(k.blob) {
                let cubin = ptxas.assemble(&self.blobs[k.blob], &chip).map_err(|e| ptxas_failure(&e))?;
                place.insert(blob(&mut self.blobs, &cubin));
            }
        }
        let blobs = self.profile.kernels.iter().map(|k| made[&k.blob]).collect();
        self.profile.native = Some(Native { producer: ptxas.to_string(), requires, blobs });
        Ok(())
    }
}

/// What is wrong with `--ptxas`, and what to do.
pub fn ptxas_failure(e: &PtxasError) -> Failure {
    let remedy = match e {
        PtxasError::Absent { .. } | PtxasError::Other { .. } => {
            "give the path of ptxas, which comes with the CUDA toolkit and in the PyPI package nvidia-cuda-nvcc, or build \
             without --ptxas: the driver then compiles the kernels when they are first loaded"
        }
        PtxasError::Refused { .. } => "give a newer ptxas, or build without --ptxas",
    };
    Diagnostic::error(codes::PTXAS, Span::NONE, e.to_string()).hint(remedy).into()
}

/// Reads everything that the artifact needs from a module after its last pass.
pub fn collect(module: &Module, binaries: &[Binary], selected: &Selected) -> Result<Lowered, Failure> {
    let missing = |what: &str| Failure::bug(format!("the lowered module has no {what}"));
    let infos = kernels::read(module).ok_or_else(|| missing("zml.kernels"))?;
    let requires = selected.target.requires(&selected.spec, binaries);
    let mut blobs = vec![];
    let mut kernels = vec![];
    for (info, binary) in infos.iter().zip(binaries) {
        if info.name != binary.kernel {
            return Err(Failure::bug(format!("kernel {} was serialised as {}", info.name, binary.kernel)));
        }
        kernels.push(Kernel {
            symbol: binary.symbol.clone(),
            blob: blob(&mut blobs, &binary.bytes),
            block: info.block,
            shared_bytes: binary.shared_bytes,
            buffers: info.buffers.clone(),
            addresses: info.addresses.clone(),
            scalar_bytes: info.scalar_bytes,
            label: info.label.clone(),
            overlaps: info.overlaps,
        });
    }
    if infos.len() != binaries.len() {
        return Err(Failure::bug(format!("{} kernels gave {} binaries", infos.len(), binaries.len())));
    }
    let index = |name: &str| infos.iter().position(|i| i.name == name);
    let programs = plan::extract(module, &index, &mut |bytes| blob(&mut blobs, &bytes))?;
    let (entries, programs) = programs.into_iter().unzip();
    Ok(Lowered {
        profile: Profile {
            target: selected.target.name().into(),
            name: selected.spec.name.clone(),
            requires,
            native: None,
            kernels,
            programs,
        },
        model: metadata::model(module).ok_or_else(|| missing("zml.model"))?,
        sources: metadata::sources(module),
        entries,
        weights: metadata::weights(module).ok_or_else(|| missing("zml.weights"))?,
        states: metadata::states(module).ok_or_else(|| missing("zml.states"))?,
        blobs,
    })
}
fn blob(blobs: &mut Vec<Vec<u8>>, bytes: &[u8]) -> usize {
    blobs.iter().position(|b| b == bytes).unwrap_or_else(|| {
        blobs.push(bytes.to_vec());
        blobs.len() - 1
    })
}

/// The bytes of the artifact. `data` gives the bytes of a weight that is embedded.
pub fn assemble(
    lowered: Vec<Lowered>,
    data: impl Fn(&WeightInfo) -> Result<Vec<u8>, Failure>,
) -> Result<Vec<u8>, Failure> {
    let mut writer = Writer::new();
    let first = lowered.first().ok_or_else(|| Failure::bug("a build without a profile"))?;
    let (model, entries, states) = (first.model.clone(), first.entries.clone(), first.states.clone());
    let sources = first.sources.clone();
    let mut weights = vec![];
    for w in &first.weights {
        let source = if w.embed {
            WeightSource::Embedded { blob: writer.blob(&data(w)?) }
        } else {
            WeightSource::External { file: w.file.clone(), key: w.key.clone() }
        };
        weights.push(Weight { tensor: w.tensor.clone(), sha256: w.sha256.clone(), source });
    }
    let mut profiles = vec![];
    for l in lowered {
        if l.entries != entries || l.states != states {
            return Err(Failure::bug(format!("profile {} has other entries than the first", l.profile.name)));
        }
        let at: Vec<usize> = l.blobs.iter().map(|b| writer.blob(b)).collect();
        let mut profile = l.profile;
        let code = profile.kernels.iter_mut().map(|k| &mut k.blob);
        code.chain(profile.native.iter_mut().flat_map(|n| &mut n.blobs)).for_each(|blob| *blob = at[*blob]);
        for b in profile.programs.iter_mut().flat_map(|p| &mut p.buffers) {
            if let BufferKind::Constant(c) = &mut b.kind {
                *c = at[*c];
            }
        }
        profiles.push(profile);
    }
    let producer = concat!("zmlc ", env!("CARGO_PKG_VERSION")).to_string();
    let manifest = Manifest { producer, model, sources, weights, state: states, entries, profiles, blobs: vec![] };
    Ok(writer.finish(manifest))
}

/// Writes a file under a temporary name beside it and renames: a killed run leaves nothing under the final name. Of a link
/// the file behind it is written; pipes and devices are written to as they are.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let failed = |e: std::io::Error| Failure::file(path, "write", &e);
    if path.metadata().is_ok_and(|m| !m.is_file() && !m.is_dir()) {
        return std::fs::OpenOptions::new().write(true).open(path).and_then(|mut f| f.write_all(bytes)).map_err(failed);
    }
    let path = &path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(failed)?;
    let mut file =
        tempfile::Builder::new().prefix(".zmlc-").permissions(permissions()).tempfile_in(folder).map_err(failed)?;
    file.write_all(bytes).map_err(failed)?;
    file.persist(path).map_err(|e| failed(e.error))?;
    Ok(())
}
/// What a plain create would give: the umask applies.
fn permissions() -> std::fs::Permissions {
    use std::os::unix::fs::PermissionsExt;
    std::fs::Permissions::from_mode(0o666)
}
