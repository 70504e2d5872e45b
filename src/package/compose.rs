//! One image in a layout: layers, config, manifest (image-spec 1.1), and an SBOM that refers to it. What the layers hold
//! and what runs is decided elsewhere.

use crate::{
    Compression,
    archive::STORE_FROM,
    elf::Machine,
    error::PackageError,
    layout::{Image, Layer, LayoutReader, LayoutWriter, digest, platform},
    sbom,
    stage::{self, Folder},
    tar::Tree,
};
use oci_spec::image::{
    Config, Descriptor, History, HistoryBuilder, ImageConfiguration, ImageConfigurationBuilder, ImageIndex,
    ImageIndexBuilder, ImageManifestBuilder, MediaType, RootFsBuilder,
};
use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

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

/// Everything that an image is made of.
pub(crate) struct Parts<'a> {
    pub(crate) machine: Machine,
    /// The image that the layers lie on.
    pub(crate) below: Option<&'a (LayoutReader, Image)>,
    /// Title and content, those that change least first.
    pub(crate) layers: Vec<(String, Tree)>,
    pub(crate) compression: Compression,
    /// What runs in it.
    pub(crate) config: Config,
    /// Of the manifest.
    pub(crate) annotations: BTreeMap<String, String>,
    /// CycloneDX.
    pub(crate) sbom: Vec<u8>,
    /// Seconds since 1970, for every entry and the image.
    pub(crate) mtime: u64,
    pub(crate) warnings: Vec<String>,
}

const CREATED: &str = "org.opencontainers.image.created";
const BASE_DIGEST: &str = "org.opencontainers.image.base.digest";
/// On a descriptor: the digest that the registry it was fetched from has the image under.
pub(crate) const PULLED: &str = "io.github.zmlc.pulled";
const REF_NAME: &str = "org.opencontainers.image.ref.name";
const LAYER: &str = "io.github.zmlc.layer";

/// Writes a folder as a layout, in one step at the end; a layout that is there already is replaced.
pub(crate) fn layout<T>(
    dir: &Path,
    fill: impl FnOnce(&LayoutWriter) -> Result<(ImageIndex, T), PackageError>,
) -> Result<T, PackageError> {
    let folder = Folder::beside(dir)?;
    let writer = LayoutWriter::create(folder.path())?;
    let (index, value) = fill(&writer)?;
    writer.index(&index)?;
    folder.publish(|old| stage::is_empty(old) || LayoutReader::open(old).is_ok())?;
    Ok(value)
}

/// Gives an image or index of a layout its name, `latest`.
pub(crate) fn name(descriptor: &mut Descriptor, reference: Option<&str>) {
    let annotations = reference.map(|r| HashMap::from([(REF_NAME.to_string(), r.to_string())]));
    descriptor.set_annotations(annotations);
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
pub(crate) fn image(
    parts: Parts,
    layout: &LayoutWriter,
) -> Result<(Descriptor, Descriptor, ImageReport), PackageError> {
    let mut reports = Vec::new();
    let mut descriptors = Vec::new();
    if let Some((reader, base)) = parts.below {
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
    let base = parts.below.map(|(_, image)| image);
    let mut diff_ids = base.map(|b| b.config.rootfs().diff_ids().clone()).unwrap_or_default();
    let mut history = base.map(history).unwrap_or_default();
    for (title, tree) in parts.layers {
        let large = title == "weights" && tree.bytes() >= STORE_FROM;
        let compression = if large { Compression::None } else { parts.compression };
        let Layer { mut descriptor, diff_id, unpacked } = layout.layer(&tree, parts.mtime, compression)?;
        descriptor.set_annotations(Some(HashMap::from([(LAYER.to_string(), title.clone())])));
        reports.push(LayerReport {
            title: title.clone(),
            digest: descriptor.digest().to_string(),
            bytes: descriptor.size(),
            unpacked,
        });
        history.push(
            HistoryBuilder::default()
                .created(rfc3339(parts.mtime))
                .created_by(format!("zmlc package: {title}"))
                .build()
                .expect("complete"),
        );
        descriptors.push(descriptor);
        diff_ids.push(format!("sha256:{diff_id}"));
    }
    let config: ImageConfiguration = ImageConfigurationBuilder::default()
        .created(rfc3339(parts.mtime))
        .architecture(oci_spec::image::Arch::from(parts.machine.oci()))
        .os(oci_spec::image::Os::Linux)
        .config(parts.config)
        .rootfs(RootFsBuilder::default().typ("layers").diff_ids(diff_ids).build().expect("complete"))
        .history(history)
        .build()
        .expect("complete");
    let config = layout.json(MediaType::ImageConfig, config)?;
    let mut annotations = BTreeMap::from([(CREATED.to_string(), rfc3339(parts.mtime))]);
    if let Some(base) = base {
        let pulled = base.descriptor.annotations().as_ref().and_then(|a| a.get(PULLED).cloned());
        annotations.insert(BASE_DIGEST.into(), pulled.unwrap_or_else(|| base.descriptor.digest().to_string()));
    }
    annotations.extend(parts.annotations);
    let manifest = ImageManifestBuilder::default()
        .schema_version(2u32)
        .media_type(MediaType::ImageManifest)
        .config(config)
        .layers(descriptors)
        .annotations(annotations.into_iter().collect::<HashMap<_, _>>())
        .build()
        .expect("complete");
    let mut descriptor = layout.json(MediaType::ImageManifest, manifest)?;
    let sbom = attach_sbom(layout, &descriptor, &parts.sbom, parts.mtime)?;
    descriptor.set_platform(Some(platform(parts.machine.oci())));
    let report = ImageReport {
        digest: descriptor.digest().to_string(),
        platform: format!("linux/{}", parts.machine.oci()),
        layers: reports,
        warnings: parts.warnings,
    };
    Ok((descriptor, sbom, report))
}

/// What an image says of its layers' history: where it says nothing, an entry without words for each layer, since an image
/// has one for every layer or none at all.
fn history(image: &Image) -> Vec<History> {
    match image.config.history() {
        Some(entries) if !entries.is_empty() => entries.clone(),
        _ => image.manifest.layers().iter().map(|_| History::default()).collect(),
    }
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

/// The last one that RFC 3339 can write, at the end of the year 9999.
pub(crate) const LAST_SECOND: u64 = 253_402_300_799;

/// `1970-01-01T00:00:00Z`, by the civil calendar; up to [`LAST_SECOND`].
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
    use super::{LAST_SECOND, rfc3339};

    /// `date -u -d @N +%FT%TZ`
    #[test]
    fn times() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(rfc3339(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(rfc3339(1_735_689_599), "2024-12-31T23:59:59Z");
        assert_eq!(rfc3339(4_107_542_400), "2100-03-01T00:00:00Z");
        assert_eq!(rfc3339(LAST_SECOND), "9999-12-31T23:59:59Z");
    }
}
