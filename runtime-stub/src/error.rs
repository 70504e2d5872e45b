//! Everything that can go wrong between a `.zml` file and its results, told apart by whose matter it is.
//!
//! Messages name the cause and, where there is one, the remedy. They never suggest that another device was used instead.

use zml_format::ArtifactError;

/// `Result` of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The artifact cannot be read, or is damaged.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    /// The caller's: a name that does not exist, a tensor of the wrong shape, a file that is no tensor file.
    #[error("{0}")]
    Input(String),
    /// A weight that the artifact keeps outside is absent or not the one that it was built with.
    #[error("{0}")]
    Weights(String),
    /// No device satisfies the request: one line for each backend of the artifact that was asked for.
    #[error("{0}")]
    NoDevice(String),
    /// The device that was chosen cannot do what the program asks.
    #[error("{device} cannot run this: {why}")]
    Unsupported { device: String, why: String },
    #[error("{device} is out of memory: {bytes} bytes for {what}")]
    OutOfMemory { device: String, what: String, bytes: u64 },
    /// The device stopped working, by a fault of a kernel or by itself. Nothing on it can be used any more.
    #[error("{device} was lost in {call}: {code}; the device or its driver failed, or a kernel ran too long")]
    DeviceLost { device: String, call: &'static str, code: String },
    /// A call took longer than the session allows. The device may still be at it.
    #[error("{device} did not finish within the deadline")]
    Deadline { device: String },
    /// The driver does not take the machine code of the artifact, which it should by what the artifact says of it.
    #[error(
        "{device} does not load the machine code that the artifact has from {producer}: {why}; update the driver, or \
         build again without --ptxas or with an older ptxas"
    )]
    NativeCode { device: String, producer: String, why: String },
    /// A vendor library that the package should hold is absent or does not serve.
    #[error("{0}")]
    Library(String),
    /// A call into a driver failed.
    #[error("{device}: {call} failed: {code}{}", detail(.log))]
    Driver { device: String, call: &'static str, code: String, log: String },
    /// A fault of this program or of the compiler that wrote the artifact.
    #[error("bug in zmlc: {0}")]
    Bug(String),
}

fn detail(log: &str) -> String {
    let log = log.trim();
    if log.is_empty() { String::new() } else { format!("\n{log}") }
}

impl Error {
    /// What a command that ends with this error returns: 1 if input or machine are to blame, 101 if zmlc is.
    pub fn exit_code(&self) -> u8 {
        if matches!(self, Error::Bug(_)) { 101 } else { 1 }
    }
    /// A stable word for programs that read messages.
    pub fn code(&self) -> &'static str {
        match self {
            Error::Artifact(_) => "artifact",
            Error::Input(_) => "input",
            Error::Weights(_) => "weights",
            Error::NoDevice(_) => "no-device",
            Error::Unsupported { .. } => "unsupported",
            Error::OutOfMemory { .. } => "out-of-memory",
            Error::DeviceLost { .. } => "device-lost",
            Error::Deadline { .. } => "deadline",
            Error::NativeCode { .. } => "native-code",
            Error::Library(_) => "library",
            Error::Driver { .. } => "driver",
            Error::Bug(_) => "bug",
        }
    }
}
