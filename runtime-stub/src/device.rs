//! Which device runs an artifact: what the caller asked for, what the artifact can serve, and what the machine has.
//!
//! A named device is used or an error; only `auto` goes from one to the next, and says why each did not serve.

use crate::{
    cache::Cache,
    drivers::{self, Driver, Platform, Unavailable},
    error::{Error, Result},
    spans::{Span, Spans},
};
use std::{fmt, str::FromStr, sync::Arc};
use zml_format::{Artifact, Profile, Requires};

/// An API that reaches devices, named as in `Profile::target` and `--device`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Backend {
    Cuda,
    Rocm,
    Vulkan,
}
impl Backend {
    /// In the order of preference of `auto`.
    pub const ALL: [Backend; 3] = [Backend::Cuda, Backend::Rocm, Backend::Vulkan];

    pub fn name(self) -> &'static str {
        match self {
            Backend::Cuda => "cuda",
            Backend::Rocm => "rocm",
            Backend::Vulkan => "vulkan",
        }
    }
    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|b| b.name() == name)
    }
}
impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// `auto`, or a backend with or without the number of a device: `vulkan`, `cuda:1`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceRequest {
    /// The best device: CUDA, then ROCm, then a GPU through Vulkan, then a CPU through Vulkan.
    #[default]
    Auto,
    /// The best device of one API, or its device of this number (as `zml-run doctor` counts).
    Named(Backend, Option<usize>),
}
impl FromStr for DeviceRequest {
    type Err = Error;
    fn from_str(s: &str) -> Result<Self> {
        let wrong = || Error::Input(format!("no device `{s}`: give auto, vulkan[:N], cuda[:N] or rocm[:N]"));
        if s == "auto" {
            return Ok(DeviceRequest::Auto);
        }
        let (name, index) = match s.split_once(':') {
            Some((name, n)) => (name, Some(n.parse().map_err(|_| wrong())?)),
            None => (s, None),
        };
        Ok(DeviceRequest::Named(Backend::named(name).ok_or_else(wrong)?, index))
    }
}
impl fmt::Display for DeviceRequest {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            DeviceRequest::Auto => f.write_str("auto"),
            DeviceRequest::Named(b, None) => write!(f, "{b}"),
            DeviceRequest::Named(b, Some(i)) => write!(f, "{b}:{i}"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceKind {
    DiscreteGpu,
    IntegratedGpu,
    VirtualGpu,
    Other,
    /// A CPU behind a GPU's API.
    Software,
}
impl DeviceKind {
    pub fn name(self) -> &'static str {
        match self {
            DeviceKind::DiscreteGpu => "GPU",
            DeviceKind::IntegratedGpu => "integrated GPU",
            DeviceKind::VirtualGpu => "virtual GPU",
            DeviceKind::Other => "other",
            DeviceKind::Software => "software",
        }
    }
}

/// What a driver says of a device.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    pub backend: Backend,
    /// Among the devices of its backend.
    pub index: usize,
    pub name: String,
    pub kind: DeviceKind,
    /// `sm_90`, `gfx942`; for Vulkan the API version.
    pub arch: String,
    pub driver: String,
    /// Of the device's own memory, in bytes.
    pub memory: u64,
    /// Bytes a second that its memory can move at most, where the driver says.
    pub bandwidth: Option<u64>,
}
impl fmt::Display for DeviceInfo {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}:{} {} ({})", self.backend, self.index, self.name, self.kind.name())
    }
}

/// An opened device and the profile of the artifact that suits it.
#[derive(Clone)]
pub struct Device {
    pub(crate) driver: Arc<dyn Driver>,
    info: DeviceInfo,
    profile: usize,
    profile_name: String,
    /// What made the profile's machine code, if the device takes that.
    native: Option<String>,
    passed_over: Vec<String>,
    pub(crate) cache: Arc<Cache>,
    spans: Arc<Spans>,
}

impl Device {
    /// The device that `request` and the artifact's profiles allow.
    ///
    /// [`Error::NoDevice`] has a line for each backend of the artifact that was asked for, with cause and remedy.
    pub fn open(request: DeviceRequest, artifact: &Artifact) -> Result<Device> {
        let profiles = &artifact.manifest.profiles;
        let offered: Vec<Backend> =
            Backend::ALL.into_iter().filter(|b| profiles.iter().any(|p| p.target == b.name())).collect();
        let model = &artifact.manifest.model.name;
        let (asked, index) = match request {
            DeviceRequest::Auto => (offered.clone(), None),
            DeviceRequest::Named(b, index) if offered.contains(&b) => (vec![b], index),
            DeviceRequest::Named(b, _) => {
                let others = list(offered.iter().map(|b| b.name()));
                return Err(Error::NoDevice(format!(
                    "`{model}` was not built for {b}, only for {others}: build it again with --target {b}, or name another device"
                )));
            }
        };
        if asked.is_empty() {
            let targets = list(profiles.iter().map(|p| p.target.as_str()));
            return Err(Error::NoDevice(format!(
                "`{model}` was built for {targets}, which is no device of this runtime"
            )));
        }
        let mut reasons = vec![];
        let mut opened = None;
        let spans = Arc::<Spans>::default();
        for (at, backend) in asked.iter().enumerate() {
            match serve(*backend, index, profiles, &spans) {
                Ok(found) => {
                    reasons.extend(found.native_left.iter().cloned());
                    reasons.extend(asked[at + 1..].iter().map(|b| format!("{b}: not needed, {backend} comes first")));
                    opened = Some(found);
                    break;
                }
                Err(why) => reasons.push(format!("{backend}: {}; {}", why.cause, why.remedy)),
            }
        }
        let Some(Chosen { opened: driver, device: info, profile, native_left }) = opened else {
            return Err(Error::NoDevice(format!("no device can run `{model}`\n  {}", reasons.join("\n  "))));
        };
        let profile_name = profiles[profile].name.clone();
        let native = profiles[profile].native.as_ref().filter(|_| native_left.is_none()).map(|n| n.producer.clone());
        let cache = Arc::new(Cache::of_user());
        Ok(Device { driver, info, profile, profile_name, native, passed_over: reasons, cache, spans })
    }

    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }
    /// Index into the manifest's profiles.
    pub fn profile(&self) -> usize {
        self.profile
    }
    /// What made the machine code of the profile that the device loads: `ptxas 13.0.88`. None where the device's driver
    /// compiles the kernels itself.
    pub fn native(&self) -> Option<&str> {
        self.native.as_deref()
    }
    /// One line for each other backend of the artifact: why it did not serve; and one for machine code that this device
    /// does not load.
    pub fn passed_over(&self) -> &[String] {
        &self.passed_over
    }
    /// What opening it took.
    pub fn spans(&self) -> Vec<Span> {
        self.spans.all()
    }
    /// Lines of what happened, since the last time, that is neither an error nor what everybody wants to know: contents
    /// of the cache that were ignored, and why.
    pub fn take_notes(&self) -> Vec<String> {
        self.cache.take_notes()
    }
}
impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}, profile {}", self.info, self.profile_name)?;
        self.native.iter().try_for_each(|by| write!(f, ", machine code by {by}"))
    }
}
impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Device({self})")
    }
}

/// A device and the name of the profile that it would run.
pub(crate) type Offer = Result<(DeviceInfo, String), Unavailable>;

/// For each backend of an artifact the device and the profile that would serve, or why none does. Opens no device.
pub(crate) fn survey(profiles: &[Profile]) -> Vec<(Backend, Offer)> {
    let offered = Backend::ALL.into_iter().filter(|b| profiles.iter().any(|p| p.target == b.name()));
    let look = |backend| {
        let found = choose(backend, None, profiles, &Spans::default(), |_, _, _| Ok(()))?;
        Ok((found.device, profiles[found.profile].name.clone()))
    };
    offered.map(|b| (b, look(b))).collect()
}

fn serve(
    backend: Backend,
    index: Option<usize>,
    profiles: &[Profile],
    spans: &Spans,
) -> Result<Chosen<Arc<dyn Driver>>, Unavailable> {
    let open = |platform: &dyn Platform, i, requires: &_| spans.time("open the device", || platform.open(i, requires));
    choose(backend, index, profiles, spans, open)
}

/// A device, what opening it gave, and the profile that it runs.
struct Chosen<T> {
    opened: T,
    device: DeviceInfo,
    profile: usize,
    /// Why the device does not load the profile's machine code, if there is some.
    native_left: Option<String>,
}

/// The first device of a backend, GPUs before software, with the first profile that it satisfies.
fn choose<T>(
    backend: Backend,
    index: Option<usize>,
    profiles: &[Profile],
    spans: &Spans,
    open: impl Fn(&dyn Platform, usize, &Requires) -> Result<T>,
) -> Result<Chosen<T>, Unavailable> {
    let platform = drivers::platform(backend, spans)?;
    let devices = platform.devices();
    let mut order: Vec<usize> = match index {
        Some(i) if i < devices.len() => vec![i],
        Some(i) => {
            let all = list(devices.iter().map(ToString::to_string));
            let remedy = format!("name one of them, or --device {backend} for the best");
            return Err(Unavailable { cause: format!("there is no device {i}, only {all}"), remedy });
        }
        None => (0..devices.len()).collect(),
    };
    order.sort_by_key(|i| devices[*i].kind);
    let (mut reasons, mut remedy) = (vec![], String::new());
    for i in order {
        match fit(&*platform, i, profiles, &open) {
            Ok((opened, profile)) => {
                let native_left = native_left(&*platform, i, &profiles[profile]);
                return Ok(Chosen { opened, device: devices[i].clone(), profile, native_left });
            }
            Err(why) => {
                reasons.push(why.cause);
                remedy = why.remedy;
            }
        }
    }
    Err(Unavailable { cause: reasons.join("; "), remedy })
}

/// A line of why a device that runs a profile does not load its machine code.
fn native_left(platform: &dyn Platform, i: usize, profile: &Profile) -> Option<String> {
    let native = profile.native.as_ref()?;
    let unmet = platform.unmet(i, &native.requires);
    let line = |why: &str| {
        format!("machine code by {}: {why}; the driver compiles the kernels of the profile instead", native.producer)
    };
    (!unmet.is_empty()).then(|| line(&unmet.join(", ")))
}

fn fit<T>(
    platform: &dyn Platform,
    i: usize,
    profiles: &[Profile],
    open: impl Fn(&dyn Platform, usize, &Requires) -> Result<T>,
) -> Result<(T, usize), Unavailable> {
    let device = &platform.devices()[i];
    let target = device.backend.name();
    let mut reasons = vec![];
    for (p, profile) in profiles.iter().enumerate().filter(|(_, p)| p.target == target) {
        let unmet = platform.unmet(i, &profile.requires);
        if !unmet.is_empty() {
            reasons.push(format!("profile {}: {}", profile.name, unmet.join(", ")));
            continue;
        }
        return match open(platform, i, &profile.requires) {
            Ok(opened) => Ok((opened, p)),
            Err(e) => {
                let remedy = "see that no other program fills or blocks the device, and what its driver logs".into();
                Err(Unavailable { cause: e.to_string(), remedy })
            }
        };
    }
    let cause = format!("{device} cannot: {}", reasons.join("; "));
    // An old driver is cured by a new one, another chip by another build.
    let remedy = match device.backend {
        Backend::Cuda if reasons.iter().any(|r| r.contains("its driver")) => "update the NVIDIA driver".into(),
        Backend::Rocm if reasons.iter().any(|r| r.contains("its driver")) => "update ROCm".into(),
        Backend::Vulkan => {
            "use a newer driver, or build for a profile that asks for less (`zmlc targets vulkan`)".into()
        }
        b => format!("build for {} as well (`zmlc targets {b}`)", device.arch),
    };
    Err(Unavailable { cause, remedy })
}

fn list<S: AsRef<str>>(names: impl Iterator<Item = S>) -> String {
    let mut seen: Vec<S> = vec![];
    for n in names {
        if !seen.iter().any(|s| s.as_ref() == n.as_ref()) {
            seen.push(n);
        }
    }
    if seen.is_empty() { "none".into() } else { seen.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_as_they_are_printed() {
        for s in ["auto", "vulkan", "vulkan:0", "cuda:12", "rocm"] {
            assert_eq!(s.parse::<DeviceRequest>().unwrap().to_string(), s);
        }
        for s in ["", "cpu", "cuda:", "cuda:-1", "vulkan:x", "AUTO"] {
            let why = s.parse::<DeviceRequest>().unwrap_err().to_string();
            assert_eq!(why, format!("no device `{s}`: give auto, vulkan[:N], cuda[:N] or rocm[:N]"));
        }
    }
}
