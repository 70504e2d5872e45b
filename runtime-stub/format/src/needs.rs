//! The least driver of a profile in the terms that people know it by.

use crate::{Profile, Requires};

/// Least CUDA version of a driver branch of NVIDIA's: the table of the PTX ISA's release history.
const BRANCHES: [(u32, u32); 21] = [
    (11000, 450),
    (11010, 455),
    (11020, 460),
    (11030, 465),
    (11040, 470),
    (11050, 495),
    (11060, 510),
    (11070, 515),
    (11080, 520),
    (12000, 525),
    (12010, 530),
    (12020, 535),
    (12030, 545),
    (12040, 550),
    (12050, 555),
    (12060, 560),
    (12070, 565),
    (12080, 570),
    (12090, 575),
    (13000, 580),
    (13010, 590),
];

/// The oldest branch of NVIDIA's driver that has a CUDA version, as `cuDriverGetVersion` counts; none for versions that are
/// newer than this table.
pub fn nvidia_driver(cuda: u32) -> Option<u32> {
    BRANCHES.iter().find(|(version, _)| *version >= cuda).map(|(_, branch)| *branch)
}

/// `CUDA 12.8` of 12080, with the driver's branch where it is known: `CUDA 12.8 (NVIDIA driver 570)`.
pub fn cuda_version(cuda: u32) -> String {
    let version = format!("CUDA {}.{}", cuda / 1000, cuda % 1000 / 10);
    match nvidia_driver(cuda) {
        Some(branch) => format!("{version} (NVIDIA driver {branch})"),
        None => version,
    }
}

impl Requires {
    /// The least driver, for people; empty where the file does not say.
    pub fn driver(&self, target: &str) -> String {
        match (target, self.api.parse()) {
            (_, _) if self.api.is_empty() => String::new(),
            ("cuda", Ok(version)) => cuda_version(version),
            ("rocm", _) => format!("code objects of version {}", self.api),
            ("vulkan", _) => format!("Vulkan {}", self.api),
            _ => self.api.clone(),
        }
    }
}

impl Profile {
    /// Takes the machine code in place of the portable form.
    pub fn use_native(&mut self) {
        if let Some(native) = self.native.take() {
            self.kernels.iter_mut().zip(native.blobs).for_each(|(k, blob)| k.blob = blob);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_by_the_names_of_their_makers() {
        let needs = |target: &str, api: &str| Requires { api: api.into(), ..Requires::default() }.driver(target);
        assert_eq!(needs("cuda", "12000"), "CUDA 12.0 (NVIDIA driver 525)");
        assert_eq!(needs("cuda", "12085"), "CUDA 12.8 (NVIDIA driver 575)");
        assert_eq!(needs("cuda", "99090"), "CUDA 99.9");
        assert_eq!(needs("rocm", "5"), "code objects of version 5");
        assert_eq!(needs("vulkan", "1.3"), "Vulkan 1.3");
        assert_eq!((needs("rocm", ""), needs("null", "x")), (String::new(), "x".into()));
        assert!(BRANCHES.is_sorted());
    }
}
