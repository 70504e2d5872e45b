//! Artifacts of every format version, as they were written then: each still runs and gives the same.

use crate::common::*;
use std::path::PathBuf;
use zml_runtime::{Artifact, Error, Model, Session, WeightPlaces};

/// Of version 1: after four calls the sum of the first row is below 4, after seven above.
const BIG: [(usize, [u8; 2]); 2] = [(4, [0, 1]), (7, [1, 1])];

fn artifacts() -> Vec<PathBuf> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/artifacts");
    let mut all: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    all.retain(|p| p.extension().is_some_and(|e| e == "zml"));
    all.sort();
    all
}

/// tanh(x w), that of it again and so on, by plain arithmetic.
fn expected(x: &[f32], turns: usize) -> Vec<f64> {
    let w = |i: usize, j: usize| ((8 * i + j) % 7) as f64 / 8.0 - 3.0 / 8.0;
    let mut v: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
    for _ in 0..turns {
        let row = |r: usize, j: usize| (0..8).map(|k| v[8 * r + k] * w(k, j)).sum::<f64>().tanh();
        v = (0..16).map(|i| row(i / 8, i % 8)).collect();
    }
    v
}

#[test]
fn every_version_still_runs() {
    let all = artifacts();
    let versions: Vec<u8> = all.iter().map(|p| std::fs::read(p).unwrap()[8]).collect();
    assert_eq!(versions, (1..=zml_runtime::format::FORMAT_VERSION as u8).collect::<Vec<_>>(), "{all:?}");
    let x: Vec<f32> = (0..16).map(|i| (i as f32 - 8.0) / 4.0).collect();
    for (path, version) in all.iter().zip(versions) {
        let artifact = Artifact::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let Some(device) = device(&artifact) else { continue };
        let model = match Model::load(&artifact, &device, &WeightPlaces::only([])) {
            Ok(model) => model,
            Err(Error::Library(why)) => {
                skipped(&why);
                continue;
            }
            Err(e) => panic!("{}: {e}", path.display()),
        };
        let entry = &artifact.manifest.entries[0].id();
        let mut session = Session::new(&model).unwrap();
        session.write(entry, 0, &f32s(&x)).unwrap();
        for call in 1..=7 {
            session.call(entry).unwrap();
            let turns = if version == 1 { 3 } else { 1 };
            for (found, wanted) in read(&session, entry, 0).into_iter().zip(expected(&x, turns)) {
                assert!((f64::from(found) - wanted).abs() < 1e-5, "{}: {found} is not {wanted}", path.display());
            }
            if let Some((_, big)) = BIG.iter().find(|(n, _)| version == 1 && *n == call) {
                assert_eq!(session.read(entry, 1).unwrap(), big, "{} after {call} calls", path.display());
            }
        }
    }
}
