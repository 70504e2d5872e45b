//! What no ELF file says of a library: which others it opens by name while it runs, which files it reads, and which
//! libraries are the host's. Names are compared without version: `libcudnn` is `libcudnn.so.9`.

/// A library that another opens at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Opened {
    pub(super) stem: &'static str,
    /// Without it some calls fail; else it goes in only if a source has it.
    pub(super) required: bool,
}
const fn must(stem: &'static str) -> Opened {
    Opened { stem, required: true }
}
const fn may(stem: &'static str) -> Opened {
    Opened { stem, required: false }
}

/// Opener and what it opens, from the names in the libraries and their makers' documentation.
const OPENS: &[(&str, &[Opened])] = &[
    // Only where a caller asks for a matmul that is compiled on the spot.
    ("libcublasLt", &[may("libnvrtc")]),
    (
        "libcudnn",
        &[
            must("libcudnn_graph"),
            must("libcudnn_ops"),
            must("libcudnn_cnn"),
            must("libcudnn_adv"),
            may("libcudnn_ext"),
        ],
    ),
    (
        "libcudnn_graph",
        &[
            must("libcudnn_heuristic"),
            must("libcudnn_engines_precompiled"),
            may("libcudnn_engines_runtime_compiled"),
            may("libcudnn_engines_tensor_ir"),
        ],
    ),
    ("libcudnn_engines_precompiled", &[must("libcublasLt"), may("libnvrtc")]),
    ("libcudnn_engines_runtime_compiled", &[may("libnvrtc")]),
    ("libcudnn_adv", &[must("libcublasLt")]),
    ("libnvrtc", &[must("libnvrtc-builtins")]),
    ("libnccl", &[may("libnccl-net")]),
    ("libhipblas", &[may("libhipblaslt")]),
    ("librocblas", &[may("libhipblaslt")]),
];

/// Folders beside a library that it reads its kernels from.
const DATA: &[(&str, &str)] = &[("libhipblaslt", "hipblaslt/library"), ("librocblas", "rocblas/library")];

/// What comes with a driver, which the host's container runtime mounts in; never in a package.
const DRIVER: &[&str] = &[
    "libcuda",
    "libcudadebugger",
    "libnvidia-*",
    "libnvcuvid",
    "libnvoptix",
    "libGLX_nvidia",
    "libEGL_nvidia",
    "libvulkan_*",
    "libdrm_amdgpu",
    "libhsakmt",
];
/// Network hardware's libraries, which work with the host's kernel and are opened only where they are there.
const HARDWARE: &[&str] = &["libibverbs", "librdmacm", "libmlx5", "libgdrapi", "libefa"];
/// The C and C++ runtimes: in an image they are the base layer's, elsewhere every system has them.
const SYSTEM: &[&str] = &[
    "ld-linux-*",
    "libc",
    "libm",
    "libdl",
    "libpthread",
    "librt",
    "libutil",
    "libresolv",
    "libgcc_s",
    "libstdc++",
    "libz",
];

/// Those of [`SYSTEM`] that a machine may lack on which the runtime starts.
const NOT_EVERYWHERE: &[&str] = &["libstdc++", "libz"];

pub(super) fn is_everywhere(name: &str) -> bool {
    !NOT_EVERYWHERE.contains(&stem(name))
}

/// Who brings a library that no source has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Host {
    Driver,
    System,
}

/// `libcudnn_ops.so.9` is `libcudnn_ops`.
pub(super) fn stem(name: &str) -> &str {
    name.find(".so").map_or(name, |at| &name[..at])
}

pub(super) fn opens(name: &str) -> &'static [Opened] {
    let stem = stem(name);
    OPENS.iter().find(|(n, _)| *n == stem).map_or(&[], |(_, o)| o)
}

pub(super) fn data(name: &str) -> Option<&'static str> {
    let stem = stem(name);
    DATA.iter().find(|(n, _)| *n == stem).map(|(_, d)| *d)
}

/// The part of a path that a known library reads it under: `hipblaslt/library/x.co`.
pub(super) fn data_path(path: &str) -> Option<&str> {
    DATA.iter().find_map(|(_, folder)| {
        let at = path.find(&format!("{folder}/"))?;
        (at == 0 || path[..at].ends_with('/')).then(|| &path[at..])
    })
}

pub(super) fn host(name: &str) -> Option<Host> {
    let stem = stem(name);
    let is =
        |list: &[&str]| list.iter().any(|n| n.strip_suffix('*').map_or(*n == stem, |start| stem.starts_with(start)));
    if is(DRIVER) || is(HARDWARE) {
        Some(Host::Driver)
    } else if is(SYSTEM) {
        Some(Host::System)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_version() {
        assert_eq!(stem("libcudnn_engines_precompiled.so.9"), "libcudnn_engines_precompiled");
        assert_eq!(opens("libcudnn.so.9").len(), 5);
        assert!(opens("libfoo.so").is_empty());
        assert_eq!(data_path("opt/rocm/lib/hipblaslt/library/a.co"), Some("hipblaslt/library/a.co"));
        assert_eq!((data_path("xhipblaslt/library/a.co"), data_path("lib/a.so")), (None, None));
        assert_eq!(data("libhipblaslt.so.0"), Some("hipblaslt/library"));
    }

    #[test]
    fn what_the_host_brings() {
        for n in ["libcuda.so.1", "libnvidia-ml.so.1", "libibverbs.so.1", "libvulkan_radeon.so"] {
            assert_eq!(host(n), Some(Host::Driver), "{n}");
        }
        for n in ["libc.so.6", "ld-linux-x86-64.so.2", "libstdc++.so.6"] {
            assert_eq!(host(n), Some(Host::System), "{n}");
        }
        for n in ["libcudart.so.12", "libcublas.so.12", "libvulkan.so.1", "libcufft.so.11"] {
            assert_eq!(host(n), None, "{n}");
        }
    }
}
