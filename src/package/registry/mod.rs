//! Images to and from registries, over the OCI distribution spec.

mod client;
mod credentials;
mod pull;
mod push;
mod reference;

pub use credentials::Credentials;
pub use pull::pull;
pub use push::{PushReport, push};
pub use reference::Reference;
