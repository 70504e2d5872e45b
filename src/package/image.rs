//! OCI images: layers in the order of how seldom they change, a config that runs the model, manifest and index
//! (image-spec 1.1).

use crate::{
    Compression, Search, Weights,
    archive::STORE_FROM,
    content::Model,
    elf::{self, Machine},
    error::PackageError,
    layers,
    layout::{Image, Layer, LayoutReader, LayoutWriter, digest, platform},
    sbom::{self, Sbom},
    stage::{self, Folder},
    vendor::Vendored,
};
use oci_spec::image::{
    ConfigBuilder, Descriptor, History, HistoryBuilder, ImageConfiguration, ImageConfigurationBuilder, ImageIndex,
    ImageIndexBuilder, ImageManifestBuilder, MediaType, RootFsBuilder,
};
use std::{
    collections::{BTreeMap, HashMap},
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerReport {
    /// `base`, `vulkan loader`, `runtime`, `cuda libraries`, `model`, `weights`; those of another image are `from base image`.
    pub title: String,
    /// `sha256:...`
    pub digest: String,
    /// As stored.
    pub bytes: u64,
    /// Of the files in it; 0 for layers of another image.
    pub unpacked: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageReport {
    /// Of the manifest, `sha256:...`.
    pub digest: String,
    /// `linux/amd64`
    pub platform: String,
    pub layers: Vec<LayerReport>,
    /// What some hosts will miss in it.
    pub warnings: Vec<String>,
}

const TITLE: &str = "org.opencontainers.image.title";
const VERSION: &str = "org.opencontainers.image.version";
const CREATED: &str = "org.opencontainers.image.created";
const BASE_DIGEST: &str = "org.opencontainers.image.base.digest";
const REF_NAME: &str = "org.opencontainers.image.ref.name";
const ARTIFACT: &str = "io.github.zmlc.artifact";
const LAYER: &str = "io.github.zmlc.layer";

/// Writes a layout with one image. A layout that is there already is replaced, in one step at the end.
pub fn oci(plan: &ImagePlan, dir: &Path) -> Result<ImageReport, PackageError> {
    let folder = Folder::beside(dir)?;
    let layout = LayoutWriter::create(folder.path())?;
    let (mut descriptor, sbom, report) = image(plan, &layout)?;
    name(&mut descriptor, plan);
    layout.index(&index(vec![descriptor, sbom]))?;
    publish(folder)?;
    Ok(report)
}

/// Writes a layout with one index over an image for each platform; the first plan's reference names it.
pub fn oci_index(plans: &[ImagePlan], dir: &Path) -> Result<Vec<ImageReport>, PackageError> {
    let first = plans.first().ok_or(PackageError::NoImage)?;
    let folder = Folder::beside(dir)?;
    let layout = LayoutWriter::create(folder.path())?;
    let mut descriptors = Vec::new();
    let mut sboms = Vec::new();
    let mut reports: Vec<ImageReport> = Vec::new();
    for plan in plans {
        let (descriptor, sbom, report) = image(plan, &layout)?;
        sboms.push(sbom);
        if reports.iter().any(|r| r.platform == report.platform) {
            return Err(PackageError::Twice(report.platform));
        }
        descriptors.push(descriptor);
        reports.push(report);
    }
    let mut descriptor = layout.json(MediaType::ImageIndex, index(descriptors))?;
    name(&mut descriptor, first);
    sboms.insert(0, descriptor);
    layout.index(&index(sboms))?;
    publish(folder)?;
    Ok(reports)
}

fn publish(folder: Folder) -> Result<(), PackageError> {
    folder.publish(|old| stage::is_empty(old) || LayoutReader::open(old).is_ok())
}

fn name(descriptor: &mut Descriptor, plan: &ImagePlan) {
    if let Some(reference) = &plan.reference {
        let annotations = HashMap::from([(REF_NAME.to_string(), reference.clone())]);
        descriptor.set_annotations(Some(annotations));
    }
}

pub(crate) fn index(manifests: Vec<Descriptor>) -> ImageIndex {
    ImageIndexBuilder::default()
        .schema_version(2u32)
        .media_type(MediaType::ImageIndex)
        .manifests(manifests)
        .build()
        .expect("complete")
}

/// Writes blobs and manifest of one image, and its SBOM as an artifact that refers to it.
fn image(plan: &ImagePlan, layout: &LayoutWriter) -> Result<(Descriptor, Descriptor, ImageReport), PackageError> {
    let model = Model::open(&plan.artifact)?;
    let machine = elf::read(&plan.runtime)?.machine;
    let below = match &plan.base {
        Base::Files(_) => None,
        Base::Layout(dir) => Some(base_image(dir, machine)?),
    };
    let mut reports = Vec::new();
    let mut descriptors = Vec::new();
    if let Some((reader, base)) = &below {
        for d in base.manifest.layers() {
            layout.copy(reader, d)?;
            reports.push(LayerReport {
                title: "from base image".into(),
                digest: d.digest().to_string(),
                bytes: d.size(),
                unpacked: 0,
            });
            descriptors.push(d.clone());
        }
    }
    let mut diff_ids = Vec::new();
    let mut history = Vec::new();
    let mut sbom = Sbom::default();
    let mut warnings = Vec::new();
    for (title, tree) in layers::of(plan, &model, below.is_some(), &mut sbom, &mut warnings)? {
        let large = title == "weights" && tree.bytes() >= STORE_FROM;
        let compression = if large { Compression::None } else { plan.compression };
        let Layer { mut descriptor, diff_id, unpacked } = layout.layer(&tree, plan.mtime, compression)?;
        descriptor.set_annotations(Some(HashMap::from([(LAYER.to_string(), title.clone())])));
        reports.push(LayerReport {
            title: title.clone(),
            digest: descriptor.digest().to_string(),
            bytes: descriptor.size(),
            unpacked,
        });
        history.push(
            HistoryBuilder::default()
                .created(rfc3339(plan.mtime))
                .created_by(format!("zmlc package: {title}"))
                .build()
                .expect("complete"),
        );
        descriptors.push(descriptor);
        diff_ids.push(format!("sha256:{diff_id}"));
    }
    let base = below.as_ref().map(|(_, image)| image);
    let config = layout.json(MediaType::ImageConfig, config(plan, &model, machine, base, diff_ids, history))?;
    let mut annotations = facts(&model);
    annotations.insert(CREATED.into(), rfc3339(plan.mtime));
    if let Some(base) = base {
        annotations.insert(BASE_DIGEST.into(), base.descriptor.digest().to_string());
    }
    annotations.extend(plan.annotations.clone());
    let manifest = ImageManifestBuilder::default()
        .schema_version(2u32)
        .media_type(MediaType::ImageManifest)
        .config(config)
        .layers(descriptors)
        .annotations(annotations.into_iter().collect::<HashMap<_, _>>())
        .build()
        .expect("complete");
    let mut descriptor = layout.json(MediaType::ImageManifest, manifest)?;
    let sbom = attach_sbom(layout, &descriptor, &sbom.document(&model, plan.mtime), plan.mtime)?;
    descriptor.set_platform(Some(platform(machine.oci())));
    let report = ImageReport {
        digest: descriptor.digest().to_string(),
        platform: format!("linux/{}", machine.oci()),
        layers: reports,
        warnings,
    };
    Ok((descriptor, sbom, report))
}

/// An artifact manifest (image-spec, "Guidelines for Artifact Usage") whose subject is the image.
fn attach_sbom(
    layout: &LayoutWriter,
    subject: &Descriptor,
    document: &[u8],
    mtime: u64,
) -> Result<Descriptor, PackageError> {
    let kind = MediaType::Other(sbom::MEDIA_TYPE.into());
    let empty = layout.json(MediaType::EmptyJSON, serde_json::json!({}))?;
    let digest = digest(&layout.raw(document)?);
    let manifest = ImageManifestBuilder::default()
        .schema_version(2u32)
        .media_type(MediaType::ImageManifest)
        .artifact_type(kind.clone())
        .config(empty)
        .layers(vec![Descriptor::new(kind.clone(), document.len() as u64, digest)])
        .subject(subject.clone())
        .annotations(HashMap::from([(CREATED.to_string(), rfc3339(mtime))]))
        .build()
        .expect("complete");
    let mut descriptor = layout.json(MediaType::ImageManifest, manifest)?;
    descriptor.set_artifact_type(Some(kind));
    Ok(descriptor)
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

fn config(
    plan: &ImagePlan,
    model: &Model,
    machine: Machine,
    base: Option<&Image>,
    diff_ids: Vec<String>,
    history: Vec<History>,
) -> ImageConfiguration {
    let old = base.and_then(|b| b.config.config().as_ref());
    let mut env = old.and_then(|c| c.env().clone()).unwrap_or_else(|| vec!["PATH=/bin:/usr/bin".into()]);
    if let Some(capabilities) = driver_capabilities(model) {
        env.push("NVIDIA_VISIBLE_DEVICES=all".into());
        env.push(format!("NVIDIA_DRIVER_CAPABILITIES={capabilities}"));
    }
    let mut labels: BTreeMap<_, _> = old.and_then(|c| c.labels().clone()).unwrap_or_default().into_iter().collect();
    labels.extend(facts(model));
    labels.extend(plan.labels.clone());
    let run = if base.is_some() { "/usr/bin/zml-run" } else { "/bin/zml-run" };
    let mut all_ids = base.map(|b| b.config.rootfs().diff_ids().clone()).unwrap_or_default();
    all_ids.extend(diff_ids);
    let mut all_history = base.and_then(|b| b.config.history().clone()).unwrap_or_default();
    all_history.extend(history);
    let mut inner = ConfigBuilder::default()
        .env(env)
        .entrypoint(vec![run.to_string(), format!("/model/{}", model.file_name)])
        .labels(labels.into_iter().collect::<HashMap<_, _>>());
    if let Some(user) = old.and_then(|c| c.user().clone()) {
        inner = inner.user(user);
    }
    ImageConfigurationBuilder::default()
        .created(rfc3339(plan.mtime))
        .architecture(oci_spec::image::Arch::from(machine.oci()))
        .os(oci_spec::image::Os::Linux)
        .config(inner.build().expect("complete"))
        .rootfs(RootFsBuilder::default().typ("layers").diff_ids(all_ids).build().expect("complete"))
        .history(all_history)
        .build()
        .expect("complete")
}

/// What NVIDIA's container toolkit is to mount: `graphics` brings the Vulkan driver.
fn driver_capabilities(model: &Model) -> Option<&'static str> {
    match (model.has_target("cuda"), model.has_target("vulkan")) {
        (_, true) => Some("compute,utility,graphics"),
        (true, false) => Some("compute,utility"),
        (false, false) => None,
    }
}

/// `1970-01-01T00:00:00Z`, by the civil calendar.
pub(crate) fn rfc3339(seconds: u64) -> String {
    let (mut days, rest) = (seconds / 86_400, seconds % 86_400);
    let leap = |y: u64| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
    let mut year = 1970;
    while days >= if leap(year) { 366 } else { 365 } {
        days -= if leap(year) { 366 } else { 365 };
        year += 1;
    }
    let months = [31, if leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= months[month] {
        days -= months[month];
        month += 1;
    }
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z", month + 1, days + 1)
}

#[cfg(test)]
mod tests {
    use super::rfc3339;

    /// `date -u -d @N +%FT%TZ`
    #[test]
    fn times() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(rfc3339(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(rfc3339(1_735_689_599), "2024-12-31T23:59:59Z");
        assert_eq!(rfc3339(4_107_542_400), "2100-03-01T00:00:00Z");
    }
}
