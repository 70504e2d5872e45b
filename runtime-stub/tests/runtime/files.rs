//! Tensor files: what was written is read back for every element type, and damage is refused by name.

use std::path::Path;
use zml_runtime::{
    format::{DType, Tensor},
    tensor::{HostTensor, npy, random, safetensors, safetensors::SafeTensors},
};

fn expected(dtype: DType, shape: &[u64]) -> Tensor {
    Tensor { name: "t".into(), dtype, shape: shape.to_vec() }
}

#[test]
fn every_type_round_trips_in_both_formats() {
    let dir = tempfile::tempdir().unwrap();
    let (n, s) = (dir.path().join("t.npy"), dir.path().join("t.safetensors"));
    for dtype in DType::all() {
        for shape in [&[][..], &[5], &[2, 3], &[0, 4]] {
            let t = expected(dtype, shape);
            let value = random(&t, 3).unwrap();
            npy::write(&n, &value).unwrap();
            assert_eq!(npy::read(&n, &t).unwrap(), value);
            let header = std::fs::read(&n).unwrap();
            assert_eq!((header.len() - value.bytes.len()) % 64, 0);
            safetensors::write(&s, &[("t", &value)]).unwrap();
            assert_eq!(SafeTensors::open(&s).unwrap().read("t", &t).unwrap(), value);
            // Another type is refused unless its values are stored alike.
            let other = if dtype == DType::F32 { DType::I32 } else { DType::F32 };
            assert!(npy::read(&n, &expected(other, shape)).is_err());
            if dtype != DType::C64 {
                assert!(SafeTensors::open(&s).unwrap().read("t", &expected(other, shape)).is_err());
            }
        }
    }
}

/// Bytes as numpy 1.26 and safetensors 0.4 write them.
#[test]
fn files_of_other_programs_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let mut file = b"\x93NUMPY\x01\x00v\x00{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }".to_vec();
    file.resize(127, b' ');
    file.extend(b"\n\x01\x00\xff\xff");
    std::fs::write(&path, &file).unwrap();
    let t = expected(DType::I16, &[2]);
    assert_eq!(npy::read(&path, &t).unwrap().bytes, [1, 0, 255, 255]);

    let header = br#"{"__metadata__":{"format":"pt"},"t":{"dtype":"I16","shape":[2],"data_offsets":[0,4]}}   "#;
    let file = [&(header.len() as u64).to_le_bytes()[..], header, &[1, 0, 255, 255]].concat();
    std::fs::write(&path, file).unwrap();
    let f = SafeTensors::open(&path).unwrap();
    assert_eq!(f.names().collect::<Vec<_>>(), ["t"]);
    assert_eq!(f.read("t", &t).unwrap().bytes, [1, 0, 255, 255]);
}

fn open(path: &Path, header: &str, data: &[u8]) -> String {
    let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat();
    std::fs::write(path, file).unwrap();
    SafeTensors::open(path).expect_err(header).to_string()
}

#[test]
fn damaged_safetensors_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.safetensors");
    for (header, why) in [
        ("", "is not JSON"),
        ("[]", "is not JSON"),
        (r#"{"t":3}"#, "tensor `t`"),
        (r#"{"t":{"dtype":"F32","shape":[1],"data_offsets":[0,99]}}"#, "are not in the file"),
        (r#"{"t":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}"#, "are not in the file"),
        (r#"{"t":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}"#, "F32 [2] does not take 4 bytes"),
        (r#"{"t":{"dtype":"F32","shape":[9223372036854775807,9],"data_offsets":[0,4]}}"#, "does not take 4 bytes"),
        (r#"{"t":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}"#, "tensor `t`"),
    ] {
        let said = open(&path, header, &[0; 8]);
        assert!(said.contains(why), "{header}: {said}");
    }
    for (file, why) in [(&[1u8, 2][..], "shorter than 8 bytes"), (&[0xff; 9], "its header would have")] {
        std::fs::write(&path, file).unwrap();
        assert!(SafeTensors::open(&path).unwrap_err().to_string().contains(why));
    }
    assert!(SafeTensors::open(dir.path()).unwrap_err().to_string().contains("no regular file"));
}

#[test]
fn damaged_npy_is_refused_wherever_it_is_cut() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.npy");
    let t = expected(DType::F32, &[4]);
    npy::write(&path, &random(&t, 1).unwrap()).unwrap();
    let whole = std::fs::read(&path).unwrap();
    for n in 0..whole.len() {
        std::fs::write(&path, &whole[..n]).unwrap();
        assert!(npy::read(&path, &t).is_err(), "{n}");
    }
    std::fs::write(&path, [&whole[..], &[0]].concat()).unwrap();
    assert!(npy::read(&path, &t).unwrap_err().to_string().contains("should have 16 bytes"));
    let fortran = String::from_utf8_lossy(&whole[10..]).replace("False, ", "True,  ");
    std::fs::write(&path, [&whole[..10], fortran.as_bytes()].concat()).unwrap();
    assert!(npy::read(&path, &t).unwrap_err().to_string().contains("Fortran order"));
}

#[test]
fn a_failed_write_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let value = HostTensor { dtype: DType::U8, shape: vec![1], bytes: vec![1] };
    std::fs::create_dir(dir.path().join("t.npy")).unwrap();
    let why = npy::write(&dir.path().join("t.npy"), &value).unwrap_err().to_string();
    assert!(why.starts_with("cannot write "), "{why}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}
