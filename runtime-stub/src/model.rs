//! A model on a device: kernels loaded, weights and constants uploaded, once for all sessions.

use crate::{
    choose::{by_shapes, find_entry, specialisations},
    counters::Tally,
    device::Device,
    drivers::{KernelSet, Region},
    error::{Error, Result},
    memory::Owned,
    spans::{Span, Spans},
    weights::{self, WeightPlaces},
};
use std::{collections::BTreeMap, fmt, sync::Arc};
use zml_format::{Artifact, BufferKind, Entry, Manifest, Profile, Tensor, WeightSource};

/// Cheap to clone: clones share everything.
#[derive(Clone)]
pub struct Model(pub(crate) Arc<Loaded>);

pub(crate) struct Loaded {
    pub device: Device,
    pub manifest: Manifest,
    /// [`Entry::id`] of each entry.
    pub ids: Vec<String>,
    pub kernels: KernelSet,
    /// One for each of `Manifest::weights`.
    pub weights: Vec<Region>,
    /// By index into `Manifest::blobs`.
    pub constants: BTreeMap<usize, Region>,
    spans: Spans,
    _memory: Owned,
}

impl Model {
    /// Uploads what `artifact` has for the profile of `device`. Afterwards the artifact is no longer needed.
    ///
    /// [`Error::Weights`] names each place where absent weights were looked for.
    pub fn load(artifact: &Artifact, device: &Device, places: &WeightPlaces) -> Result<Model> {
        let mut manifest = artifact.manifest.clone();
        let Some(profile) = manifest.profiles.get_mut(device.profile()) else {
            return Err(Error::Input("the device was opened for another artifact".into()));
        };
        if device.native().is_some() {
            check_native(profile, artifact, device)?;
            profile.use_native();
        }
        let profile = &*profile;
        let (driver, spans) = (&device.driver, Spans::default());
        let mut memory = Owned::new(driver);
        let tally = Tally::default();
        let sizes: Vec<u64> = manifest.weights.iter().map(|w| w.tensor.bytes()).collect();
        let weights = spans.time("allocate", || memory.pack(&sizes, "weights", &tally))?;
        let used = profile.programs.iter().flat_map(|p| &p.buffers).filter_map(|b| match b.kind {
            BufferKind::Constant(blob) => Some((blob, Region::EMPTY)),
            _ => None,
        });
        let mut constants: BTreeMap<usize, Region> = used.collect();
        let sizes: Vec<u64> = constants.keys().map(|b| manifest.blobs[*b].bytes).collect();
        let regions = memory.pack(&sizes, "constants", &tally)?;
        constants.values_mut().zip(regions).for_each(|(at, region)| *at = region);

        let upload = || {
            spans.time("upload weights", || weights::upload(artifact, places, driver, &weights))?;
            let each = |(blob, at): (&usize, &Region)| driver.upload(*at, artifact.blob(*blob));
            spans.time("upload constants", || constants.iter().try_for_each(each))
        };
        let load = || {
            let loaded = spans.time("load kernels", || driver.clone().load(profile, artifact, &device.cache));
            loaded.map_err(|e| if device.native().is_some() { refused(e, device) } else { e })
        };
        let outside = manifest.weights.iter().any(|w| matches!(w.source, WeightSource::External { .. }));
        let kernels = if outside || weights::is_large(artifact) {
            // That takes as long as compiling kernels, or longer.
            let (uploaded, kernels) = std::thread::scope(|s| {
                let kernels = s.spawn(load);
                (upload(), kernels.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            });
            if let (Err(_), Ok(kernels)) = (&uploaded, &kernels) {
                driver.unload(*kernels);
            }
            uploaded.and(kernels)?
        } else {
            upload()?;
            load()?
        };
        let ids = manifest.entries.iter().map(Entry::id).collect();
        Ok(Model(Arc::new(Loaded {
            device: device.clone(),
            manifest,
            ids,
            kernels,
            weights,
            constants,
            spans,
            _memory: memory,
        })))
    }

    pub fn manifest(&self) -> &Manifest {
        &self.0.manifest
    }
    pub fn device(&self) -> &Device {
        &self.0.device
    }
    /// What loading it took. Kernels of a Vulkan device may be compiled still: what waits for them is their program.
    pub fn spans(&self) -> Vec<Span> {
        self.0.spans.all()
    }
    /// The entry `name`, or `main[batch=8]` of a dynamic one; without a name the only one.
    pub fn entry(&self, name: Option<&str>) -> Result<&Entry> {
        find_entry(&self.0.manifest, name)
    }
    /// The specialisation of an entry whose inputs have exactly these shapes, one for each input. [`Session`](crate::Session)
    /// takes its [`Entry::id`].
    pub fn choose(&self, name: Option<&str>, shapes: &[&[u64]]) -> Result<&Entry> {
        let entries = specialisations(&self.0.manifest, name)?;
        let (has, given) = (entries[0].inputs().count(), shapes.len());
        if has != given {
            return Err(Error::Input(format!(
                "entry `{}` has {has} inputs; {given} shapes were given",
                entries[0].name
            )));
        }
        by_shapes(&entries, &shapes.iter().map(|s| s.to_vec()).enumerate().collect::<Vec<_>>())
    }
}
impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Model({} on {})", self.0.manifest.model.name, self.0.device)
    }
}

impl Loaded {
    pub fn profile(&self) -> &Profile {
        &self.manifest.profiles[self.device.profile()]
    }
}
impl Drop for Loaded {
    fn drop(&mut self) {
        self.device.driver.unload(self.kernels);
    }
}

/// Machine code is an ELF file: a driver would take anything else for text to compile.
fn check_native(profile: &Profile, artifact: &Artifact, device: &Device) -> Result<()> {
    let mut blobs = profile.native.iter().flat_map(|n| &n.blobs);
    if blobs.all(|b| artifact.blob(*b).starts_with(b"\x7fELF")) {
        Ok(())
    } else {
        Err(bad_native(device, "it is no ELF file".into()))
    }
}

/// A driver that does not take the machine code. That the device fails otherwise stays what it is.
fn refused(e: Error, device: &Device) -> Error {
    match e {
        Error::Driver { call, code, log, .. } => {
            let log = log.trim();
            let said = if log.is_empty() { String::new() } else { format!(" ({log})") };
            bad_native(device, format!("{call} failed: {code}{said}"))
        }
        other => other,
    }
}

fn bad_native(device: &Device, why: String) -> Error {
    let producer = device.native().unwrap_or_default().to_owned();
    Error::NativeCode { device: device.info().to_string(), producer, why }
}

/// Index of the one among `tensors` that has this name, or of the number itself.
pub fn find_tensor<'a>(
    what: &str,
    tensors: impl Iterator<Item = &'a Tensor> + Clone,
    name_or_index: &str,
) -> Result<usize> {
    let count = tensors.clone().count();
    let named = tensors.clone().position(|t| t.name == name_or_index);
    let found = named.or_else(|| name_or_index.parse().ok().filter(|i| *i < count));
    found.ok_or_else(|| {
        let all: Vec<_> = tensors.enumerate().map(|(i, t)| format!("{i} `{}`", t.name)).collect();
        let all = if all.is_empty() { "there are none".into() } else { format!("there are: {}", all.join(", ")) };
        Error::Input(format!("no {what} `{name_or_index}`; {all}"))
    })
}
