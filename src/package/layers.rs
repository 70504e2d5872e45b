//! What each layer of an image holds, in the order of how seldom it changes.

use crate::{
    Base, BaseFiles, ImagePlan,
    archive::file_name,
    content::Model,
    error::PackageError,
    sbom::Sbom,
    tar::{Content, Tree},
    vendor::Vendored,
};
use std::path::Path;

/// Drivers ask for the user's home folder.
const ACCOUNTS: [(&str, &str); 2] = [
    ("etc/passwd", "root:x:0:0:root:/root:/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\n"),
    ("etc/group", "root:x:0:\nnogroup:x:65534:\n"),
];

/// Loaded by the runtime, not named in its ELF.
const VULKAN_LOADER: &str = "libvulkan.so.1";
/// Named by NVIDIA's Vulkan driver, which the host mounts in without them.
const FOR_NVIDIA_VULKAN: [&str; 2] = ["libX11.so.6", "libXext.so.6"];

/// Our layers, those that change least first. On another image `/bin` and `/lib` may be links, so nothing goes there.
pub(crate) fn of(
    plan: &ImagePlan,
    model: &Model,
    on_image: bool,
    sbom: &mut Sbom,
    warnings: &mut Vec<String>,
) -> Result<Vec<(String, Tree)>, PackageError> {
    let mut layers = Vec::new();
    let mut from = |files: &BaseFiles| -> Result<Tree, PackageError> {
        let mut tree = Tree::default();
        for (inside, here) in files.files() {
            let content = Content::file(here)?;
            sbom.system(inside, here, files.owner(inside))?;
            if files.is_interpreter(inside) { tree.executable(inside, content)? } else { tree.file(inside, content)? }
        }
        Ok(tree)
    };
    if on_image && model.has_target("vulkan") {
        warnings.push(format!("the base image has to have {VULKAN_LOADER}, which zmlc does not add to an image"));
    }
    if let Base::Files(search) = &plan.base {
        let base = BaseFiles::for_executable(&plan.runtime, search)?;
        let mut tree = from(&base)?;
        for (path, text) in ACCOUNTS {
            tree.file(path, Content::Bytes(text.into()))?;
        }
        layers.push(("base".into(), tree));
        if model.has_target("vulkan") {
            let mut names = vec![VULKAN_LOADER];
            for name in FOR_NVIDIA_VULKAN {
                if base.has_library(name, search) {
                    names.push(name);
                } else {
                    warnings.push(format!(
                        "{name} is not on this machine: without it in the image NVIDIA's Vulkan driver does not load \
                         (Debian's packages are libx11-6 and libxext6)"
                    ));
                }
            }
            let loader = BaseFiles::libraries(&names, Path::new("zml-run"), &base, search)?;
            layers.push(("vulkan loader".into(), from(&loader)?));
        }
    }
    let mut runtime = Tree::default();
    let bin = if on_image { "usr/bin/zml-run" } else { "bin/zml-run" };
    runtime.executable(bin, Content::file(&plan.runtime)?)?;
    sbom.runtime(bin, &plan.runtime)?;
    for license in &plan.licenses {
        runtime.file(&format!("usr/share/doc/zml/{}", file_name(license)?), Content::file(license)?)?;
    }
    layers.push(("runtime".into(), runtime));
    for vendored in &plan.vendor {
        layers.push((format!("{} libraries", vendored.target), vendor(vendored, plan, on_image, sbom, warnings)?));
    }
    let mut kernels = Tree::default();
    let artifact = format!("model/{}", model.file_name);
    kernels.file(&artifact, Content::file(&model.path)?)?;
    sbom.model(&artifact, model)?;
    layers.push(("model".into(), kernels));
    let mut weights = Tree::default();
    for (name, path) in model.weights(&plan.weights)? {
        let inside = format!("model/{name}");
        sbom.weights(&inside, &path)?;
        weights.file(&inside, Content::file(path)?)?;
    }
    if !weights.is_empty() {
        layers.push(("weights".into(), weights));
    }
    Ok(layers)
}

/// A target's vendor libraries beside the runtime's folder, and what they need of the system.
fn vendor(
    vendored: &Vendored,
    plan: &ImagePlan,
    on_image: bool,
    sbom: &mut Sbom,
    warnings: &mut Vec<String>,
) -> Result<Tree, PackageError> {
    let mut tree = Tree::default();
    let lib = if on_image { "usr/lib" } else { "lib" };
    for file in &vendored.files {
        let path = format!("{lib}/{}", file.name);
        tree.file(&path, Content::file(&file.path)?)?;
        sbom.vendored(&path, file);
    }
    for (name, path) in &vendored.licences {
        tree.file(&format!("usr/share/doc/zml/{name}"), Content::file(path)?)?;
    }
    let names: Vec<&str> = vendored.system.iter().map(String::as_str).collect();
    match &plan.base {
        Base::Files(search) => {
            let base = BaseFiles::for_executable(&plan.runtime, search)?;
            let needed_by = format!("the {} libraries", vendored.target);
            let more = BaseFiles::libraries(&names, Path::new(&needed_by), &base, search)?;
            for (inside, here) in more.files() {
                tree.file(inside, Content::file(here)?)?;
                sbom.system(inside, here, more.owner(inside))?;
            }
        }
        Base::Layout(_) if names.is_empty() => {}
        Base::Layout(_) => warnings.push(format!("the base image has to have {}", names.join(", "))),
    }
    Ok(tree)
}
