//! The PTX version of a module and the CUDA version that reads it.
//!
//! A profile asks LLVM for the lowest PTX version that its chip has, so that no instruction can need a newer one.

/// PTX version, CUDA version as `cuDriverGetVersion` counts: the table "PTX Release History" of NVIDIA's PTX ISA.
const RELEASES: [((u32, u32), u32); 20] = [
    ((7, 0), 11000),
    ((7, 1), 11010),
    ((7, 2), 11020),
    ((7, 3), 11030),
    ((7, 4), 11040),
    ((7, 5), 11050),
    ((7, 6), 11060),
    ((7, 7), 11070),
    ((7, 8), 11080),
    ((8, 0), 12000),
    ((8, 1), 12010),
    ((8, 2), 12020),
    ((8, 3), 12030),
    ((8, 4), 12040),
    ((8, 5), 12050),
    ((8, 6), 12070),
    ((8, 7), 12080),
    ((8, 8), 12090),
    ((9, 0), 13000),
    ((9, 1), 13010),
];

/// The least CUDA version whose driver compiles this PTX; none if it is no PTX or newer than the table.
pub fn least_cuda(ptx: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(ptx).ok()?;
    let version = text.lines().find_map(|l| l.strip_prefix(".version "))?.trim();
    let (major, minor) = version.split_once('.')?;
    let version = (major.parse().ok()?, minor.parse().ok()?);
    RELEASES.iter().find(|r| r.0 == version).map(|r| r.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_directive() {
        assert_eq!(least_cuda(b"//\n// Generated\n//\n\n.version 8.0\n.target sm_90a\n\0"), Some(12000));
        assert_eq!(least_cuda(b".version 8.6\n"), Some(12070));
        for text in [&b""[..], b".version 99.0\n", b".version 8\n", b".target sm_80\n", b"\x7fELF\xff"] {
            assert_eq!(least_cuda(text), None);
        }
        assert!(RELEASES.is_sorted());
    }
}
