//! OCI image layouts as folders (image-spec, `image-layout.md`): writing blobs under their digests, and reading them
//! back without trusting a size, a digest or a name.

use crate::{
    compress::{Compression, Encoder, Hashed, hex},
    error::{At, PackageError},
    tar::Tree,
};
use oci_spec::image::{
    Descriptor, ImageConfiguration, ImageIndex, ImageManifest, MediaType, OciLayoutBuilder, Platform, Sha256Digest,
};
use sha2::{Digest, Sha256};
use std::{
    fs::{self, File, Permissions},
    io::{self, BufWriter, Read, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    str::FromStr,
};

/// The distribution spec lets registries refuse larger manifests; nothing legitimate comes near.
const MAX_JSON: u64 = 4 << 20;
/// An index may hold indexes; nobody nests deeper.
const MAX_DEPTH: usize = 4;

/// JSON with sorted keys: oci-spec keeps labels and annotations in hash maps.
pub(crate) fn canonical(value: impl serde::Serialize) -> Vec<u8> {
    fn sorted(v: serde_json::Value) -> serde_json::Value {
        match v {
            serde_json::Value::Object(m) => {
                let mut pairs: Vec<_> = m.into_iter().map(|(k, v)| (k, sorted(v))).collect();
                pairs.sort_by(|a, b| a.0.cmp(&b.0));
                pairs.into_iter().collect()
            }
            serde_json::Value::Array(a) => a.into_iter().map(sorted).collect(),
            other => other,
        }
    }
    let value = serde_json::to_value(value).expect("OCI types have string keys");
    serde_json::to_vec(&sorted(value)).expect("a JSON value")
}

pub(crate) fn digest(hex: &str) -> Sha256Digest {
    Sha256Digest::from_str(hex).expect("SHA-256 in hex")
}

/// A layer as written: its descriptor, and the digest of its tar before compression.
pub(crate) struct Layer {
    pub(crate) descriptor: Descriptor,
    pub(crate) diff_id: String,
    pub(crate) unpacked: u64,
}

/// Writes blobs into a folder that becomes a layout.
pub(crate) struct LayoutWriter<'a>(pub(crate) &'a Path);
impl LayoutWriter<'_> {
    pub(crate) fn create(dir: &Path) -> Result<LayoutWriter<'_>, PackageError> {
        fs::create_dir_all(blobs(dir)).at("write", dir)?;
        let marker = OciLayoutBuilder::default().image_layout_version("1.0.0").build().expect("complete");
        let path = dir.join("oci-layout");
        fs::write(&path, canonical(marker)).at("write", path)?;
        Ok(LayoutWriter(dir))
    }

    pub(crate) fn json(&self, kind: MediaType, value: impl serde::Serialize) -> Result<Descriptor, PackageError> {
        let bytes = canonical(value);
        let name = self.raw(&bytes)?;
        Ok(Descriptor::new(kind, bytes.len() as u64, digest(&name)))
    }

    pub(crate) fn layer(&self, tree: &Tree, mtime: u64, compression: Compression) -> Result<Layer, PackageError> {
        let folder = blobs(self.0);
        let temporary = temporary(&folder)?;
        let file = BufWriter::with_capacity(1 << 20, temporary.as_file().try_clone().at("write", &folder)?);
        let encoder = Encoder::new(compression, Hashed::new(file)).at("write", &folder)?;
        let mut tar = Hashed::new(encoder);
        tree.write(mtime, &mut tar, self.0)?;
        let (encoder, diff_id, _) = tar.finish();
        let mut hashed = encoder.finish().at("write", &folder)?;
        hashed.flush().at("write", &folder)?;
        let (_, name, bytes) = hashed.finish();
        self.keep(temporary, &name)?;
        let kind = match compression {
            Compression::Zstd => MediaType::ImageLayerZstd,
            Compression::Gzip => MediaType::ImageLayerGzip,
            Compression::None => MediaType::ImageLayer,
        };
        Ok(Layer { descriptor: Descriptor::new(kind, bytes, digest(&name)), diff_id, unpacked: tree.bytes() })
    }

    /// Copies a blob from another layout.
    pub(crate) fn copy(&self, from: &LayoutReader, blob: &Descriptor) -> Result<(), PackageError> {
        let mut reader = from.open_blob(blob)?;
        self.fill(blob, |out| io::copy(&mut reader, out).map(drop).at("copy a blob of", &from.dir))
    }

    /// Stores what `write` writes; refused if it is not what the descriptor says.
    pub(crate) fn fill(
        &self,
        blob: &Descriptor,
        write: impl FnOnce(&mut dyn Write) -> Result<(), PackageError>,
    ) -> Result<(), PackageError> {
        let expected = sha256_of(blob, self.0)?;
        let folder = blobs(self.0);
        let temporary = temporary(&folder)?;
        let mut out = Hashed::new(BufWriter::new(temporary.as_file().try_clone().at("write", &folder)?));
        write(&mut out)?;
        out.flush().at("write", &folder)?;
        let (_, found, bytes) = out.finish();
        if found != expected || bytes != blob.size() {
            let reason = format!("blob {expected} of {} bytes arrived as {found} of {bytes}", blob.size());
            return Err(PackageError::Layout { path: self.0.into(), reason });
        }
        self.keep(temporary, expected)
    }

    /// Stores bytes and returns their SHA-256 in hex.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Result<String, PackageError> {
        let name = hex(&Sha256::digest(bytes));
        let path = blobs(self.0).join(&name);
        fs::write(&path, bytes).at("write", path)?;
        Ok(name)
    }

    fn keep(&self, temporary: tempfile::NamedTempFile, name: &str) -> Result<(), PackageError> {
        let path = blobs(self.0).join(name);
        temporary.as_file().sync_all().at("write", &path)?;
        temporary.persist(&path).map_err(|e| e.error).at("write", path)?;
        Ok(())
    }

    pub(crate) fn index(&self, index: &ImageIndex) -> Result<(), PackageError> {
        let path = self.0.join("index.json");
        fs::write(&path, canonical(index)).at("write", path)
    }
}

/// A blob that has no name yet, with the rights that the umask leaves.
fn temporary(folder: &Path) -> Result<tempfile::NamedTempFile, PackageError> {
    tempfile::Builder::new().permissions(Permissions::from_mode(0o666)).tempfile_in(folder).at("write", folder)
}

fn blobs(dir: &Path) -> PathBuf {
    dir.join("blobs/sha256")
}

fn sha256_of<'a>(d: &'a Descriptor, dir: &Path) -> Result<&'a str, PackageError> {
    d.as_digest_sha256().ok_or_else(|| PackageError::Layout {
        path: dir.into(),
        reason: format!("digest {}: only sha256 is supported", d.digest()),
    })
}

/// One image of a layout.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) descriptor: Descriptor,
    pub(crate) manifest: ImageManifest,
    pub(crate) config: ImageConfiguration,
}
impl Image {
    /// `linux/amd64`
    pub(crate) fn platform(&self) -> String {
        format!("{}/{}", self.config.os(), self.config.architecture())
    }
}

#[derive(Debug)]
pub(crate) struct LayoutReader {
    dir: PathBuf,
    pub(crate) index: ImageIndex,
}
impl LayoutReader {
    pub(crate) fn open(dir: &Path) -> Result<Self, PackageError> {
        let reader = |index| LayoutReader { dir: dir.into(), index };
        let bad = |reason: String| PackageError::Layout { path: dir.into(), reason };
        if dir.exists() && !dir.join("oci-layout").is_file() {
            return Err(bad("it has no file `oci-layout`".into()));
        }
        let small = |name: &str| -> Result<serde_json::Value, PackageError> {
            let path = dir.join(name);
            let mut bytes = Vec::new();
            File::open(&path).at("read", &path)?.take(MAX_JSON + 1).read_to_end(&mut bytes).at("read", &path)?;
            if bytes.len() as u64 > MAX_JSON {
                return Err(PackageError::Layout { path: path.clone(), reason: "longer than 4 MiB".into() });
            }
            serde_json::from_slice(&bytes).map_err(|e| PackageError::Layout { path, reason: e.to_string() })
        };
        let version = small("oci-layout")?;
        match version["imageLayoutVersion"].as_str() {
            Some("1.0.0") => {}
            other => return Err(bad(format!("layout version {}, not 1.0.0", other.unwrap_or("unknown")))),
        }
        let index: ImageIndex = serde_json::from_value(small("index.json")?).map_err(|e| bad(e.to_string()))?;
        Ok(reader(index))
    }

    pub(crate) fn bad(&self, reason: impl Into<String>) -> PackageError {
        PackageError::Layout { path: self.dir.clone(), reason: reason.into() }
    }

    pub(crate) fn open_blob(&self, d: &Descriptor) -> Result<BlobReader<'_>, PackageError> {
        let expected = sha256_of(d, &self.dir)?.into();
        Ok(BlobReader { layout: self, expected, file: self.blob_file(d)?.take(d.size()), hash: Sha256::new() })
    }

    /// The file of a blob, of the size that the descriptor says; its digest is not checked.
    pub(crate) fn blob_file(&self, d: &Descriptor) -> Result<File, PackageError> {
        let name = sha256_of(d, &self.dir)?;
        let path = blobs(&self.dir).join(name);
        let meta = match fs::symlink_metadata(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(self.bad(format!("blob {name} is not in it"))),
            meta => meta.at("read", &path)?,
        };
        if !meta.is_file() || meta.len() != d.size() {
            return Err(self.bad(format!("blob {name} is not a file of {} bytes", d.size())));
        }
        File::open(&path).at("read", path)
    }

    pub(crate) fn json<T: serde::de::DeserializeOwned>(&self, d: &Descriptor) -> Result<T, PackageError> {
        if d.size() > MAX_JSON {
            return Err(self.bad(format!("{} is longer than 4 MiB", d.digest())));
        }
        let mut blob = self.open_blob(d)?;
        let mut bytes = Vec::new();
        blob.read_to_end(&mut bytes).at("read", &self.dir)?;
        blob.finish()?;
        serde_json::from_slice(&bytes).map_err(|e| self.bad(format!("{}: {e}", d.digest())))
    }

    /// All images, those of nested indexes included, in order.
    pub(crate) fn images(&self) -> Result<Vec<Image>, PackageError> {
        let mut images = Vec::new();
        self.collect(&self.index, &mut images, 0)?;
        Ok(images)
    }
    /// Manifests at the top of the layout that are no images: SBOMs and the like.
    pub(crate) fn artifacts(&self) -> Result<Vec<ImageManifest>, PackageError> {
        let manifests = self.index.manifests().iter().filter(|d| *d.media_type() == MediaType::ImageManifest);
        let all: Result<Vec<ImageManifest>, _> = manifests.map(|d| self.json(d)).collect();
        Ok(all?.into_iter().filter(|m| *m.config().media_type() != MediaType::ImageConfig).collect())
    }

    fn collect(&self, index: &ImageIndex, into: &mut Vec<Image>, depth: usize) -> Result<(), PackageError> {
        if index.schema_version() != 2 {
            return Err(self.bad(format!("index schema version {}, not 2", index.schema_version())));
        }
        if depth > MAX_DEPTH {
            return Err(self.bad("indexes nested too deeply"));
        }
        for d in index.manifests() {
            match d.media_type() {
                MediaType::ImageIndex => self.collect(&self.json(d)?, into, depth + 1)?,
                MediaType::ImageManifest => {
                    let manifest: ImageManifest = self.json(d)?;
                    if *manifest.config().media_type() != MediaType::ImageConfig {
                        continue;
                    }
                    let config = self.json(manifest.config())?;
                    into.push(Image { descriptor: d.clone(), manifest, config });
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Reads a blob and compares its digest at the end.
pub(crate) struct BlobReader<'a> {
    layout: &'a LayoutReader,
    expected: String,
    file: io::Take<File>,
    hash: Sha256,
}
impl BlobReader<'_> {
    /// Reads what is left and checks the digest.
    pub(crate) fn finish(mut self) -> Result<(), PackageError> {
        io::copy(&mut self, &mut io::sink()).at("read", &self.layout.dir)?;
        if hex(&self.hash.finalize()) == self.expected {
            Ok(())
        } else {
            Err(PackageError::Layout {
                path: self.layout.dir.clone(),
                reason: format!("blob {} has another digest than its name", self.expected),
            })
        }
    }
}
impl Read for BlobReader<'_> {
    fn read(&mut self, b: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read(b)?;
        self.hash.update(&b[..n]);
        Ok(n)
    }
}

/// The platform entry of an index.
pub(crate) fn platform(architecture: &str) -> Platform {
    oci_spec::image::PlatformBuilder::default()
        .os(oci_spec::image::Os::Linux)
        .architecture(oci_spec::image::Arch::from(architecture))
        .build()
        .expect("complete")
}
