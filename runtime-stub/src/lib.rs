//! Runs `.zml` artifacts on Vulkan, CUDA and ROCm.
//!
//! [`Artifact`] is the file; [`Device::open`] picks a device that it can run on; [`Model::load`] puts its kernels and
//! weights there; a [`Session`] has the state, inputs and outputs of one conversation, and calls entries.
//!
//! ```no_run
//! use std::path::Path;
//! use zml_runtime::{Artifact, Device, DeviceRequest, Model, Session, WeightPlaces};
//!
//! fn main() -> Result<(), zml_runtime::Error> {
//!     let artifact = Artifact::open(Path::new("mnist.zml"))?;
//!     let device = Device::open(DeviceRequest::Auto, &artifact)?;
//!     eprintln!("device: {device}");
//!     for line in device.passed_over() {
//!         eprintln!("  {line}");
//!     }
//!     let model = Model::load(&artifact, &device, &WeightPlaces::of(&artifact, None))?;
//!     drop(artifact);
//!
//!     let entry = model.entry(None)?;
//!     for (i, (_, tensor)) in entry.inputs().enumerate() {
//!         println!("input {i}: {} {} {:?}", tensor.name, tensor.dtype, tensor.shape);
//!     }
//!     let mut session = Session::new(&model)?;
//!     let pixels = [0.0f32; 784];
//!     let bytes: Vec<u8> = pixels.iter().flat_map(|x| x.to_le_bytes()).collect();
//!     session.write(&entry.id(), 0, &bytes)?;
//!     session.call(&entry.id())?;
//!     let scores: Vec<f32> = session.read(&entry.id(), 0)?.as_chunks().0.iter().map(|x| f32::from_le_bytes(*x)).collect();
//!     println!("{scores:?}, {} submits", session.counters().submits);
//!     Ok(())
//! }
//! ```
//!
//! An entry of a program with dynamic dimensions has a specialisation for each choice of sizes that was built:
//! [`Model::choose`] gives the one for the shapes at hand, and a session takes its [`id`](format::Entry::id).
//!
//! State (a KV cache) stays on the device between calls and between entries; [`Session::reset`] sets it to zeros.
//! Drivers are opened at run time: nothing of them is needed to build or start a program that uses this crate.

mod choose;
pub mod cli;
mod counters;
mod device;
mod drivers;
mod error;
mod libraries;
mod memory;
mod model;
mod moves;
mod session;
pub mod tensor;
mod timing;
mod weights;

pub use choose::{by_shapes, find_entry, specialisations};
pub use counters::Counters;
pub use device::{Backend, Device, DeviceInfo, DeviceKind, DeviceRequest};
pub use error::{Error, Result};
pub use libraries::use_libraries;
pub use model::{Model, find_tensor};
pub use session::Session;
pub use timing::{StepTime, Work};
pub use weights::WeightPlaces;
pub use zml_format::{self as format, Artifact, ArtifactError};
