//! Checks packages. An OCI image layout against the rules of the image spec: versions, media types, sizes, digests, one
//! diff id for each layer, layers that decompress to their diff ids and hold no path that leaves the root. An archive
//! against its own SBOM.
//!
//! It trusts no number that it reads and unpacks nothing.

use crate::{
    archive::SBOM,
    compress::hex,
    error::{At, PackageError},
    layout::{BlobReader, Image, LayoutReader},
    sbom,
    untar::{Entry, Kind, walk},
};
use oci_spec::image::MediaType;
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read, Seek},
    path::Path,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutSummary {
    /// Digest of the manifest, platform, number of layers, bytes of all layers as stored.
    pub images: Vec<(String, String, usize, u64)>,
}

/// Reads every blob.
pub fn check_layout(dir: &Path) -> Result<LayoutSummary, PackageError> {
    let layout = LayoutReader::open(dir)?;
    let images = layout.images()?;
    if images.is_empty() {
        return Err(layout.bad("no image in it"));
    }
    for image in &images {
        check_image(&layout, image)?;
    }
    for artifact in layout.artifacts()? {
        for d in artifact.layers().iter().chain([artifact.config()]) {
            layout.open_blob(d)?.finish()?;
        }
    }
    let images = images
        .iter()
        .map(|i| {
            let layers = i.manifest.layers();
            let bytes = layers.iter().map(oci_spec::image::Descriptor::size).sum();
            (i.descriptor.digest().to_string(), i.platform(), layers.len(), bytes)
        })
        .collect();
    Ok(LayoutSummary { images })
}

fn check_image(layout: &LayoutReader, image: &Image) -> Result<(), PackageError> {
    let digest = image.descriptor.digest();
    let bad = |reason: String| layout.bad(format!("image {digest}: {reason}"));
    if image.manifest.schema_version() != 2 {
        return Err(bad(format!("schema version {}, not 2", image.manifest.schema_version())));
    }
    if image.manifest.media_type().as_ref().is_some_and(|m| *m != MediaType::ImageManifest) {
        return Err(bad("a manifest with another media type".into()));
    }
    let rootfs = image.config.rootfs();
    if rootfs.typ() != "layers" {
        return Err(bad(format!("rootfs type `{}`, not `layers`", rootfs.typ())));
    }
    let (layers, ids) = (image.manifest.layers(), rootfs.diff_ids());
    if layers.len() != ids.len() {
        return Err(bad(format!("{} layers and {} diff ids", layers.len(), ids.len())));
    }
    if let Some(history) = image.config.history().as_ref().filter(|h| !h.is_empty()) {
        let filled = history.iter().filter(|h| !h.empty_layer().unwrap_or(false)).count();
        if filled != layers.len() {
            return Err(bad(format!("{} layers and {filled} history entries with layers", layers.len())));
        }
    }
    for (layer, id) in layers.iter().zip(ids) {
        let at = |reason: String| bad(format!("layer {}: {reason}", layer.digest()));
        let mut blob = layout.open_blob(layer)?;
        let ignore = &mut |_: &Entry, _: &mut dyn Read| Ok(());
        let found = match layer.media_type() {
            MediaType::ImageLayer => walk(&mut blob, ignore),
            MediaType::ImageLayerGzip => walk(flate2::read::MultiGzDecoder::new(&mut blob), ignore),
            MediaType::ImageLayerZstd => decode_zstd(&mut blob),
            other => Err(format!("media type `{other}` is not a layer that can be checked")),
        }
        .map_err(at)?;
        blob.finish()?;
        if format!("sha256:{found}") != *id {
            return Err(at(format!("unpacks to sha256:{found}, the config says {id}")));
        }
    }
    Ok(())
}

fn decode_zstd(blob: &mut BlobReader) -> Result<String, String> {
    let mut decoder = zstd::Decoder::new(blob).map_err(|e| e.to_string())?;
    // 128 MiB: what other readers accept without being asked.
    decoder.window_log_max(27).map_err(|e| e.to_string())?;
    walk(decoder, &mut |_, _| Ok(()))
}

/// How a frame of zstd starts (RFC 8878).
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// An SBOM longer than this is refused.
const MAX_SBOM: u64 = 16 << 20;

/// Path and SHA-256 of every file in an archive of ours, each as the SBOM in it says. Only licence texts and the SBOM
/// itself are not in that.
pub fn check_archive(path: &Path) -> Result<Vec<(String, String)>, PackageError> {
    let bad = |reason: String| PackageError::Archive { path: path.into(), reason };
    let mut file = File::open(path).at("read", path)?;
    let mut start = Vec::new();
    (&mut file).take(ZSTD.len() as u64).read_to_end(&mut start).at("read", path)?;
    if start != ZSTD {
        return Err(bad("neither an artifact, NAME.zml, nor an archive, NAME.tar.zst".into()));
    }
    file.rewind().at("read", path)?;
    let mut decoder = zstd::Decoder::new(file).at("read", path)?;
    decoder.window_log_max(27).at("read", path)?;
    let mut files = BTreeMap::new();
    let mut document = Vec::new();
    walk(decoder, &mut |entry, content| {
        match entry.kind {
            Kind::Directory => return Ok(()),
            Kind::Other => return Err(format!("`{}` is neither a file nor a folder", entry.name)),
            Kind::File => {}
        }
        if entry.name.starts_with('/') {
            return Err(format!("`{}` leaves the folder", entry.name));
        }
        let mut hash = Sha256::new();
        if entry.name == SBOM {
            content.take(MAX_SBOM).read_to_end(&mut document).map_err(|e| e.to_string())?;
            hash.update(&document);
        }
        io::copy(content, &mut hash).map_err(|e| e.to_string())?;
        match files.insert(entry.name.clone(), hex(&hash.finalize())) {
            None => Ok(()),
            Some(_) => Err(format!("`{}` is in it twice", entry.name)),
        }
    })
    .map_err(bad)?;
    if !files.contains_key(SBOM) {
        return Err(bad(format!("it has no {SBOM}")));
    }
    let stated = sbom::digests(&document).map_err(|e| bad(format!("{SBOM}: {e}")))?;
    for (name, digest) in &stated {
        match files.get(name) {
            None => return Err(bad(format!("`{name}` is in the SBOM and not in the archive"))),
            Some(found) if found != digest => {
                return Err(bad(format!("`{name}` has SHA-256 {found}, the SBOM says {digest}")));
            }
            Some(_) => {}
        }
    }
    let unlisted = |n: &&String| *n != SBOM && !n.starts_with("LICENSES/") && !stated.contains_key(*n);
    if let Some(name) = files.keys().find(unlisted) {
        return Err(bad(format!("`{name}` is not in the SBOM")));
    }
    Ok(files.into_iter().collect())
}
