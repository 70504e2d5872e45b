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
//! Entries share weights and state, and sessions share nothing but the model. A language model with a `prefill` and a
//! `decode` entry over one cache, for two conversations on one device, each call at most a second:
//!
//! ```no_run
//! use std::{path::Path, time::Duration};
//! use zml_runtime::{Artifact, Device, DeviceRequest, Error, Model, Session, WeightPlaces};
//!
//! /// The likeliest token of the last call.
//! fn likeliest(session: &Session, entry: &str) -> Result<u32, Error> {
//!     let logits = session.read(entry, 0)?.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b));
//!     Ok(logits.enumerate().max_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(i, _)| i as u32))
//! }
//!
//! /// The first tokens of the answer to a prompt of 64 tokens.
//! fn answer(model: &Model, prompt: [u32; 64], tokens: u32) -> Result<Vec<u32>, Error> {
//!     let mut session = Session::new(model)?;
//!     session.set_deadline(Some(Duration::from_secs(1)));
//!     let prompt: Vec<u8> = prompt.iter().flat_map(|t| t.to_le_bytes()).collect();
//!     session.write("prefill", 0, &prompt)?;
//!     session.write("prefill", 1, &64u32.to_le_bytes())?;
//!     session.call("prefill")?;
//!     let mut out = vec![likeliest(&session, "prefill")?];
//!     for position in 64..63 + tokens {
//!         session.write("decode", 0, &out[out.len() - 1].to_le_bytes())?;
//!         session.write("decode", 1, &position.to_le_bytes())?;
//!         session.call("decode")?;
//!         out.push(likeliest(&session, "decode")?);
//!     }
//!     Ok(out)
//! }
//!
//! fn main() -> Result<(), Error> {
//!     let artifact = Artifact::open(Path::new("smollm2_bf16.zml"))?;
//!     let device = Device::open(DeviceRequest::Auto, &artifact)?;
//!     let model = Model::load(&artifact, &device, &WeightPlaces::of(&artifact, None))?;
//!     let other = std::thread::spawn({
//!         let model = model.clone();
//!         move || answer(&model, [2; 64], 8)
//!     });
//!     println!("{:?}", answer(&model, [1; 64], 8)?);
//!     println!("{:?}", other.join().expect("no panic")?);
//!     Ok(())
//! }
//! ```
//!
//! `examples/chat` is a whole program of this kind. After an error of the device its session is of no further use; a new
//! one is, after [`Error::DeviceLost`] on a device that is opened again. [`Session::timed`] measures each kernel.
//!
//! State (a KV cache) stays on the device between calls and between entries; [`Session::reset`] sets it to zeros.
//! Drivers are opened at run time: nothing of them is needed to build or start a program that uses this crate.

mod cache;
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
mod spans;
pub mod tensor;
mod timing;
mod weights;

pub use cache::use_cache;
pub use choose::{by_shapes, find_entry, specialisations};
pub use counters::Counters;
pub use device::{Backend, Device, DeviceInfo, DeviceKind, DeviceRequest};
pub use error::{Error, Result};
pub use libraries::use_libraries;
pub use model::{Model, find_tensor};
pub use session::Session;
pub use spans::Span;
pub use timing::{StepTime, Work};
pub use weights::WeightPlaces;
pub use zml_format::{self as format, Artifact, ArtifactError};
