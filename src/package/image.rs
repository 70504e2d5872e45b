//! OCI images of a model: layers in the order of how seldom they change, a config that runs the model, and an index where
//! there are several platforms.

use crate::{
    Compression, ImageReport, Search, Weights,
    compose::{self, Parts},
    content::Model,
    elf::{self, Machine},
    error::PackageError,
    layers,
    layout::{Image, LayoutReader, LayoutWriter},
    sbom::Sbom,
    vendor::Vendored,
};
use oci_spec::image::{Config, Descriptor, MediaType};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// What the layers lie on.
#[derive(Clone, Debug)]
pub enum Base {
    /// The C library and certificates of this machine or of another root folder, as a layer of their own.
    Files(Search),
    /// An image in an OCI layout, its blobs unchanged. It must have a glibc.
    Layout(PathBuf),
}

#[derive(Clone, Debug)]
pub struct ImagePlan {
    /// `zml-run`; its ELF machine decides the platform.
    pub runtime: PathBuf,
    /// `NAME.zml`
    pub artifact: PathBuf,
    pub weights: Weights,
    /// A layer for each.
    pub vendor: Vec<Vendored>,
    pub base: Base,
    /// A layer with Mesa's software device, so that the image runs where there is no GPU. On files of our own alone.
    pub software_vulkan: bool,
    pub compression: Compression,
    /// `latest`: the layout's `org.opencontainers.image.ref.name`.
    pub reference: Option<String>,
    /// In the config, besides title, version and the artifact's digest.
    pub labels: BTreeMap<String, String>,
    /// Of the manifest, besides the same.
    pub annotations: BTreeMap<String, String>,
    /// Licence texts: go to `/usr/share/doc/zml/` under their file names.
    pub licenses: Vec<PathBuf>,
    /// Seconds since 1970, for every entry and the image; see [`crate::source_date_epoch`].
    pub mtime: u64,
}

const TITLE: &str = "org.opencontainers.image.title";
const VERSION: &str = "org.opencontainers.image.version";
const ARTIFACT: &str = "io.github.zmlc.artifact";

/// Writes a layout with one image. A layout that is there already is replaced, in one step at the end.
pub fn oci(plan: &ImagePlan, dir: &Path) -> Result<ImageReport, PackageError> {
    compose::layout(dir, |layout| {
        let (mut descriptor, sbom, report) = image(plan, layout)?;
        compose::name(&mut descriptor, plan.reference.as_deref());
        Ok((compose::index(vec![descriptor, sbom]), report))
    })
}

/// Writes a layout with one index over an image for each platform; the first plan's reference names it.
pub fn oci_index(plans: &[ImagePlan], dir: &Path) -> Result<Vec<ImageReport>, PackageError> {
    let first = plans.first().ok_or(PackageError::NoImage)?;
    compose::layout(dir, |layout| {
        let mut descriptors = Vec::new();
        let mut all = Vec::new();
        let mut reports: Vec<ImageReport> = Vec::new();
        for plan in plans {
            let (descriptor, sbom, report) = image(plan, layout)?;
            if reports.iter().any(|r| r.platform == report.platform) {
                return Err(PackageError::Twice(report.platform));
            }
            descriptors.push(descriptor);
            all.push(sbom);
            reports.push(report);
        }
        let mut descriptor = layout.json(MediaType::ImageIndex, compose::index(descriptors))?;
        compose::name(&mut descriptor, first.reference.as_deref());
        all.insert(0, descriptor);
        Ok((compose::index(all), reports))
    })
}

/// Writes the image of one plan.
fn image(plan: &ImagePlan, layout: &LayoutWriter) -> Result<(Descriptor, Descriptor, ImageReport), PackageError> {
    let model = Model::open(&plan.artifact)?;
    let machine = elf::read(&plan.runtime)?.machine;
    let below = match &plan.base {
        Base::Files(_) => None,
        Base::Layout(dir) => Some(base_image(dir, machine)?),
    };
    let (mut sbom, mut warnings) = (Sbom::default(), Vec::new());
    let layers = layers::of(plan, &model, below.is_some(), &mut sbom, &mut warnings)?;
    let mut annotations = facts(&model);
    annotations.extend(plan.annotations.clone());
    let parts = Parts {
        machine,
        below: below.as_ref(),
        layers,
        compression: plan.compression,
        config: config(plan, &model, below.as_ref().map(|(_, image)| image)),
        annotations,
        sbom: model.sbom(sbom, plan.mtime),
        mtime: plan.mtime,
        warnings,
    };
    compose::image(parts, layout)
}

fn base_image(dir: &Path, machine: Machine) -> Result<(LayoutReader, Image), PackageError> {
    crate::check_layout(dir)?;
    let reader = LayoutReader::open(dir)?;
    let wanted = format!("linux/{}", machine.oci());
    let images = reader.images()?;
    let found = images.iter().map(Image::platform).collect::<Vec<_>>().join(", ");
    match images.into_iter().find(|i| i.platform() == wanted) {
        Some(image) => Ok((reader, image)),
        None => Err(PackageError::NoPlatform { path: dir.into(), wanted, found }),
    }
}

/// Title, version, artifact: the same as labels and as annotations.
fn facts(model: &Model) -> BTreeMap<String, String> {
    let m = &model.artifact.manifest.model;
    let mut facts = BTreeMap::from([
        (TITLE.to_string(), m.name.clone()),
        (ARTIFACT.to_string(), format!("sha256:{}", model.artifact.digest())),
    ]);
    if !m.version.is_empty() {
        facts.insert(VERSION.into(), m.version.clone());
    }
    facts
}

/// What the base says of users, ports, volumes and the working directory stays; what runs is ours.
fn config(plan: &ImagePlan, model: &Model, base: Option<&Image>) -> Config {
    let mut config = base.and_then(|b| b.config.config().clone()).unwrap_or_default();
    let mut env = config.env().clone().unwrap_or_else(|| vec!["PATH=/bin:/usr/bin".into()]);
    if let Some(capabilities) = driver_capabilities(model) {
        for (name, value) in [("NVIDIA_VISIBLE_DEVICES", "all"), ("NVIDIA_DRIVER_CAPABILITIES", capabilities)] {
            env.retain(|e| e.split_once('=').is_none_or(|(n, _)| n != name));
            env.push(format!("{name}={value}"));
        }
    }
    let mut labels = config.labels().clone().unwrap_or_default();
    labels.extend(facts(model));
    labels.extend(plan.labels.clone());
    let run = if base.is_some() { "/usr/bin/zml-run" } else { "/bin/zml-run" };
    config.set_env(Some(env));
    config.set_entrypoint(Some(vec![run.to_string(), format!("/model/{}", model.file_name)]));
    // The base's would be arguments of ours.
    config.set_cmd(None);
    config.set_labels(Some(labels));
    config
}

/// What NVIDIA's container toolkit is to mount: `graphics` brings the Vulkan driver.
fn driver_capabilities(model: &Model) -> Option<&'static str> {
    match (model.has_target("cuda"), model.has_target("vulkan")) {
        (_, true) => Some("compute,utility,graphics"),
        (true, false) => Some("compute,utility"),
        (false, false) => None,
    }
}
