//! Runs the MNIST artifact on the best device of this machine: draws a few digits with the predicted and the true label,
//! then on all of them the accuracy, and how often the class is the one that plain arithmetic in f64 gives.
//!
//! ```sh
//! cargo run --release --example mnist -- NAME.zml DIGITS.safetensors [DEVICE]
//! ```

use std::{path::Path, process::ExitCode};
use zml_runtime::{Artifact, Device, DeviceRequest, Model, Session, WeightPlaces, format::WeightSource};

const SIDE: usize = 28;
const PIXELS: usize = SIDE * SIDE;
const CLASSES: usize = 10;
/// Digits of one call.
const BATCH: usize = 8;
const ENTRY: &str = "b8";
const DRAWN: usize = 4;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (artifact, digits, device) = match &arguments[..] {
        [a, d] => (a, d, "auto"),
        [a, d, device] => (a, d, device.as_str()),
        _ => {
            eprintln!("usage: mnist NAME.zml DIGITS.safetensors [DEVICE]");
            return ExitCode::from(2);
        }
    };
    match run(Path::new(artifact), Path::new(digits), device) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}

fn run(artifact: &Path, digits: &Path, device: &str) -> Result<(), Box<dyn std::error::Error>> {
    let artifact = Artifact::open(artifact)?;
    let device = Device::open(device.parse::<DeviceRequest>()?, &artifact)?;
    println!("device: {device}");
    for line in device.passed_over() {
        println!("  {line}");
    }
    let model = Model::load(&artifact, &device, &WeightPlaces::of(&artifact, None))?;
    let mut session = Session::new(&model)?;

    let file = std::fs::read(digits)?;
    let tensors = safetensors::SafeTensors::deserialize(&file)?;
    let images = tensors.tensor("images")?.data().to_vec();
    let labels: Vec<i32> =
        tensors.tensor("labels")?.data().as_chunks().0.iter().map(|b| i32::from_le_bytes(*b)).collect();

    let mut predicted = vec![];
    for batch in images.chunks(BATCH * PIXELS * 4) {
        let mut input = batch.to_vec();
        input.resize(BATCH * PIXELS * 4, 0);
        session.write(ENTRY, 0, &input)?;
        session.call(ENTRY)?;
        let scores: Vec<f32> = session.read(ENTRY, 0)?.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        predicted.extend(scores.chunks(CLASSES).take(batch.len() / (PIXELS * 4)).map(argmax::<f32>));
    }
    draw(&images, &predicted, &labels);
    let right = predicted.iter().zip(&labels).filter(|(p, l)| **p == **l as usize).count();
    println!("accuracy: {right} of {} digits, {:.1} %", labels.len(), 100.0 * right as f64 / labels.len() as f64);
    let plain = reference(&artifact, &images);
    let same = predicted.iter().zip(&plain).filter(|(p, q)| p == q).count();
    println!("the class that plain f64 arithmetic gives: {same} of {}", plain.len());
    Ok(())
}

/// The classes by the network's formula in f64, with the weights of the artifact: relu(x w1 + b1) w2 + b2.
fn reference(artifact: &Artifact, images: &[u8]) -> Vec<usize> {
    let floats = |b: &[u8]| -> Vec<f64> { b.as_chunks().0.iter().map(|x| f64::from(f32::from_le_bytes(*x))).collect() };
    let weight = |name: &str| {
        let found = artifact.manifest.weights.iter().find(|w| w.tensor.name == name).expect("a weight of the model");
        let WeightSource::Embedded { blob } = found.source else { panic!("the weights are small and embedded") };
        floats(artifact.blob(blob))
    };
    let (w1, b1, w2, b2) = (weight("w1"), weight("b1"), weight("w2"), weight("b2"));
    let layer = |x: &[f64], w: &[f64], b: &[f64]| -> Vec<f64> {
        (0..b.len()).map(|j| b[j] + (0..x.len()).map(|i| x[i] * w[i * b.len() + j]).sum::<f64>()).collect()
    };
    floats(images)
        .chunks(PIXELS)
        .map(|x| {
            let hidden: Vec<f64> = layer(x, &w1, &b1).into_iter().map(|h| h.max(0.0)).collect();
            argmax(&layer(&hidden, &w2, &b2))
        })
        .collect()
}

fn argmax<T: PartialOrd>(scores: &[T]) -> usize {
    (0..scores.len()).fold(0, |best, i| if scores[i] > scores[best] { i } else { best })
}

/// The first digits side by side, two rows of pixels a line.
fn draw(images: &[u8], predicted: &[usize], labels: &[i32]) {
    let pixel = |digit: usize, y: usize, x: usize| {
        let at = (digit * PIXELS + y * SIDE + x) * 4;
        f32::from_le_bytes(images[at..at + 4].try_into().expect("4 bytes")) > 0.4
    };
    for y in (0..SIDE).step_by(2) {
        let row = |d: usize| -> String {
            (0..SIDE)
                .map(|x| match (pixel(d, y, x), pixel(d, y + 1, x)) {
                    (true, true) => '█',
                    (true, false) => '▀',
                    (false, true) => '▄',
                    (false, false) => ' ',
                })
                .collect()
        };
        println!("{}", (0..DRAWN).map(row).collect::<Vec<_>>().join("  "));
    }
    let caption = |d: usize| format!("{:<SIDE$}", format!("predicted {}, label {}", predicted[d], labels[d]));
    println!("{}", (0..DRAWN).map(caption).collect::<Vec<_>>().join("  "));
}
