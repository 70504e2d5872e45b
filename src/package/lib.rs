//! From an artifact to what a fleet pulls: archives (`.tar.zst`) and OCI image layouts.
//!
//! Everything written here is the same for the same inputs, whatever the folder, user, umask or thread count, and
//! appears under its final name complete or not at all. This crate knows artifacts and files; it must not know the
//! compiler, and prints nothing.

mod archive;
mod base;
mod compose;
mod compress;
mod content;
mod dpkg;
mod elf;
mod error;
mod image;
mod layers;
mod layout;
mod registry;
mod runtime;
mod sbom;
mod stage;
mod tar;
mod tool;
mod untar;
pub mod vendor;
mod verify;

pub use archive::{ArchivePlan, ArchiveReport, archive};
pub use base::{BaseFiles, Search};
pub use compose::{ImageReport, LayerReport};
pub use compress::Compression;
pub use content::{Weights, artifact_name};
pub use error::{CODES, Fault, PackageError};
pub use image::{Base, ImagePlan, oci, oci_index};
pub use registry::{Credentials, PushReport, Reference, pull, push};
pub use tool::{ToolPlan, runtime_name, tool_archive, tool_image};
pub use verify::{LayoutSummary, check_archive, check_layout};

/// The image spec's name of the architecture that an executable is for: `amd64`, `arm64`.
pub fn architecture(executable: &std::path::Path) -> Result<&'static str, PackageError> {
    Ok(elf::read(executable)?.machine.oci())
}

/// The time that files in packages carry, in seconds since 1970: `SOURCE_DATE_EPOCH` (reproducible-builds.org), or 0.
pub fn source_date_epoch() -> Result<u64, PackageError> {
    match std::env::var("SOURCE_DATE_EPOCH") {
        Err(std::env::VarError::NotPresent) => Ok(0),
        Ok(s) if s.is_empty() => Ok(0),
        Ok(s) => match s.parse() {
            Ok(seconds) if seconds <= compose::LAST_SECOND => Ok(seconds),
            _ => Err(PackageError::Epoch(s)),
        },
        Err(std::env::VarError::NotUnicode(s)) => Err(PackageError::Epoch(s.to_string_lossy().into_owned())),
    }
}
