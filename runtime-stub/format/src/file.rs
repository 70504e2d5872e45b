//! The artifact as a file.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | magic `ZMLMODEL` |
//! | 8 | 4 | format version, little-endian: the least that has all that the file needs |
//! | 12 | 4 | zero |
//! | 16 | 8 | length of the manifest |
//! | 24 | 8 | length of the file |
//! | 32 | 32 | SHA-256 of everything from offset 64 |
//! | 64 | | manifest, JSON, UTF-8 |
//! | | | blobs, each at a multiple of 64, zeros between |

use crate::{BlobInfo, Manifest, Profile, Step};
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeMap,
    fmt,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

/// The newest version; older ones are read too. A file is written as the least version that has all it needs:
/// 1, 2 where an entry has `dims`, 3 where a program calls a library or counts a loop's turns, 4 where a kernel has
/// `addresses`, 5 where there are `sources`, a profile has `native`, one for ROCm an `api`, or a kernel `overlaps`.
pub const FORMAT_VERSION: u32 = 5;
const MAGIC: &[u8; 8] = b"ZMLMODEL";
const HEADER: usize = 64;
const ALIGN: usize = 64;

/// The first 64 bytes, as far as they are not constant.
struct Header {
    version: u32,
    manifest: u64,
    digest: [u8; 32],
}
impl Header {
    /// `bytes` starts with the header; `found` is the length of the whole file.
    fn read(bytes: &[u8], found: u64) -> Result<Self, ArtifactError> {
        use ArtifactError as E;
        let Some(h) = bytes.first_chunk::<HEADER>().filter(|h| &h[..8] == MAGIC) else {
            return Err(E::NotAnArtifact);
        };
        let u64_at = |i: usize| u64::from_le_bytes(std::array::from_fn(|k| h[i + k]));
        let version = u32::from_le_bytes(std::array::from_fn(|k| h[8 + k]));
        if !(1..=FORMAT_VERSION).contains(&version) {
            return Err(E::Version(version));
        }
        if h[12..16] != [0; 4] {
            return Err(E::Damaged("bytes 12 to 15 of the header are not zero"));
        }
        let stated = u64_at(24);
        if stated != found {
            return Err(E::Length { stated, found });
        }
        Ok(Header { version, manifest: u64_at(16), digest: std::array::from_fn(|k| h[32 + k]) })
    }
}

/// Collects blobs (equal ones once) and writes the file.
#[derive(Default)]
pub struct Writer {
    blobs: Vec<Vec<u8>>,
    seen: BTreeMap<[u8; 32], usize>,
}
impl Writer {
    pub fn new() -> Self {
        Self::default()
    }
    /// Index of a blob with these bytes.
    pub fn blob(&mut self, bytes: &[u8]) -> usize {
        let digest: [u8; 32] = Sha256::digest(bytes).into();
        *self.seen.entry(digest).or_insert_with(|| {
            self.blobs.push(bytes.to_vec());
            self.blobs.len() - 1
        })
    }
    /// The bytes of the file; `manifest.blobs` is replaced. Equal inputs give equal bytes.
    pub fn finish(self, mut manifest: Manifest) -> Vec<u8> {
        // Offsets stand in the manifest and depend on its length: write it with offsets from the first blob, then
        // grow the manifest area until it holds the final text.
        let relative: Vec<u64> = self
            .blobs
            .iter()
            .scan(0u64, |at, b| {
                let here = *at;
                *at += b.len().next_multiple_of(ALIGN) as u64;
                Some(here)
            })
            .collect();
        let mut start = HEADER;
        let text = loop {
            manifest.blobs = self
                .blobs
                .iter()
                .zip(&relative)
                .map(|(b, r)| BlobInfo {
                    offset: start as u64 + r,
                    bytes: b.len() as u64,
                    sha256: hex(&Sha256::digest(b)),
                })
                .collect();
            let text = serde_json::to_vec(&manifest).expect("the manifest has no map with other keys than strings");
            let need = (HEADER + text.len()).next_multiple_of(ALIGN);
            if need <= start {
                break text;
            }
            start = need;
        };
        let mut out = vec![0; start];
        out[HEADER..HEADER + text.len()].copy_from_slice(&text);
        for b in &self.blobs {
            out.resize(out.len().next_multiple_of(ALIGN), 0);
            out.extend_from_slice(b);
        }
        let total = out.len() as u64;
        let digest = Sha256::digest(&out[HEADER..]);
        out[..8].copy_from_slice(MAGIC);
        out[8..12].copy_from_slice(&version(&manifest).to_le_bytes());
        out[16..24].copy_from_slice(&(text.len() as u64).to_le_bytes());
        out[24..32].copy_from_slice(&total.to_le_bytes());
        out[32..64].copy_from_slice(&digest);
        out
    }
}

/// The least version to write a manifest as: its readers know all that it has.
fn version(m: &Manifest) -> u32 {
    // `overlaps` came without a version of its own: files of versions 1 to 4 may have it.
    let overlaps = m.profiles.iter().flat_map(|p| &p.kernels).any(|k| k.overlaps);
    if overlaps { FORMAT_VERSION } else { stated(m) }
}

/// The least version in which a manifest may have all that it has.
fn stated(m: &Manifest) -> u32 {
    let newest = |p: &Profile| p.native.is_some() || p.target == "rocm" && !p.requires.api.is_empty();
    if m.sources.is_some() || m.profiles.iter().any(newest) {
        5
    } else if m.profiles.iter().flat_map(|p| &p.kernels).any(|k| !k.addresses.is_empty()) {
        4
    } else if m.profiles.iter().flat_map(|p| &p.programs).any(|p| calls_library(&p.steps) || counts_turns(&p.steps)) {
        3
    } else if m.entries.iter().any(|e| !e.dims.is_empty()) {
        2
    } else {
        1
    }
}

fn counts_turns(steps: &[Step]) -> bool {
    steps.iter().any(|s| match s {
        Step::While { condition, body, turns, .. } => turns.is_some() || counts_turns(condition) || counts_turns(body),
        Step::If { then, otherwise, .. } => counts_turns(then) || counts_turns(otherwise),
        Step::Case { branches, .. } => branches.iter().any(|b| counts_turns(b)),
        _ => false,
    })
}

/// Whether a step anywhere in these calls a vendor's library.
pub fn calls_library(steps: &[Step]) -> bool {
    steps.iter().any(|s| match s {
        Step::Library(_) => true,
        Step::While { condition, body, .. } => calls_library(condition) || calls_library(body),
        Step::If { then, otherwise, .. } => calls_library(then) || calls_library(otherwise),
        Step::Case { branches, .. } => branches.iter().any(|b| calls_library(b)),
        Step::Dispatch(_) | Step::Barrier | Step::Copy { .. } | Step::Fill { .. } => false,
    })
}

fn hex(b: &[u8]) -> String {
    b.iter().map(|x| format!("{x:02x}")).collect()
}

/// An artifact read into memory and checked.
#[derive(Debug)]
pub struct Artifact {
    pub manifest: Manifest,
    bytes: Vec<u8>,
    path: Option<PathBuf>,
}
impl Artifact {
    /// Reads the file, once; its header is judged before the rest is read.
    pub fn open(path: &Path) -> Result<Self, ArtifactError> {
        use ArtifactError as E;
        let mut file = File::open(path).map_err(E::Io)?;
        let meta = file.metadata().map_err(E::Io)?;
        if meta.is_dir() {
            return Err(E::Folder);
        }
        if !meta.is_file() {
            return Err(E::NotAnArtifact);
        }
        let mut bytes = Vec::new();
        (&mut file).take(HEADER as u64).read_to_end(&mut bytes).map_err(E::Io)?;
        Header::read(&bytes, meta.len())?;
        bytes.reserve_exact((meta.len() - HEADER as u64) as usize);
        // No more than was there a moment ago: a file that grows is refused by its length.
        file.take(meta.len() - HEADER as u64 + 1).read_to_end(&mut bytes).map_err(E::Io)?;
        Ok(Artifact { path: Some(path.to_owned()), ..Self::from_bytes(bytes)? })
    }
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, ArtifactError> {
        use ArtifactError as E;
        let header = Header::read(&bytes, bytes.len() as u64)?;
        if Sha256::digest(&bytes[HEADER..])[..] != header.digest {
            return Err(E::Digest);
        }
        let total = bytes.len() as u64;
        let end = header.manifest.checked_add(HEADER as u64).filter(|e| *e <= total);
        let end = end.ok_or(E::Damaged("manifest length"))?;
        let manifest: Manifest =
            serde_json::from_slice(&bytes[HEADER..end as usize]).map_err(|e| E::Manifest(e.to_string()))?;
        for b in &manifest.blobs {
            if b.offset.checked_add(b.bytes).is_none_or(|e| e > total) {
                return Err(E::Damaged("blob out of the file"));
            }
        }
        if stated(&manifest) > header.version {
            let what = match stated(&manifest) {
                2 => "`dims`",
                3 => "library calls and no `turns`",
                4 => "`addresses`",
                _ => "`sources`, `native` and `api` of ROCm",
            };
            return Err(E::Manifest(format!("version {} has no {what}", header.version)));
        }
        manifest.check().map_err(E::Manifest)?;
        Ok(Artifact { manifest, bytes, path: None })
    }
    /// Where it was read from, if from a file: weights are looked for beside it.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }
    /// Bytes of the whole file.
    pub fn file_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }
    pub fn blob(&self, i: usize) -> &[u8] {
        let b = &self.manifest.blobs[i];
        &self.bytes[b.offset as usize..(b.offset + b.bytes) as usize]
    }
    /// SHA-256 of the content, lower-case hex.
    pub fn digest(&self) -> String {
        hex(&self.bytes[32..64])
    }
}

/// Why a file is not taken for an artifact. All are faults of the input.
#[derive(Debug)]
pub enum ArtifactError {
    Io(io::Error),
    Folder,
    NotAnArtifact,
    Version(u32),
    Length { stated: u64, found: u64 },
    Digest,
    Damaged(&'static str),
    Manifest(String),
}
impl fmt::Display for ArtifactError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        use ArtifactError as E;
        match self {
            E::Io(e) => write!(f, "cannot read the artifact: {e}"),
            E::Folder => write!(f, "this is a folder; give the .zml file in it"),
            E::NotAnArtifact => write!(f, "not a .zml artifact (no ZMLMODEL at its start)"),
            E::Version(v) => {
                write!(f, "artifact format version {v}; this program reads versions 1 to {FORMAT_VERSION}")?;
                if *v > FORMAT_VERSION {
                    write!(f, ": use a newer runtime, or build again with this zmlc")
                } else {
                    Ok(())
                }
            }
            E::Length { stated, found } => {
                write!(f, "damaged artifact: its header says {stated} bytes, the file has {found} (a broken download?)")
            }
            E::Digest => write!(f, "damaged artifact: its content does not match the SHA-256 in its header"),
            E::Damaged(what) => write!(f, "damaged artifact: {what}"),
            E::Manifest(e) => write!(f, "damaged artifact: the manifest is invalid: {e}"),
        }
    }
}
impl std::error::Error for ArtifactError {}
