//! What each layer of an image holds, in the order of how seldom it changes.

use crate::{
    Base, BaseFiles, ImagePlan, Search,
    archive::file_name,
    content::Model,
    error::PackageError,
    runtime::LICENCES,
    sbom::Sbom,
    tar::{Content, Tree},
    vendor::Vendored,
};
use std::path::Path;

/// Drivers ask for the user's home folder.
pub(crate) const ACCOUNTS: [(&str, &str); 2] = [
    ("etc/passwd", "root:x:0:0:root:/root:/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\n"),
    ("etc/group", "root:x:0:\nnogroup:x:65534:\n"),
];

/// Loaded by the runtime, not named in its ELF.
const VULKAN_LOADER: &str = "libvulkan.so.1";
/// Mesa's software device for Vulkan.
const LAVAPIPE: &str = "libvulkan_lvp.so";
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
    if on_image && model.has_target("vulkan") {
        warnings.push(format!("the base image has to have {VULKAN_LOADER}, which zmlc does not add to an image"));
    }
    if let Base::Files(search) = &plan.base {
        let base = BaseFiles::for_executable(&plan.runtime, search)?;
        let mut tree = system(&base, sbom)?;
        for (path, text) in ACCOUNTS {
            tree.file(path, Content::Bytes(text.into()))?;
        }
        layers.push(("base".into(), tree));
        if model.has_target("vulkan") {
            let loader = vulkan_loader(&base, search, warnings)?;
            layers.push(("vulkan loader".into(), system(&loader, sbom)?));
            if plan.software_vulkan {
                layers.push(("software vulkan".into(), software_vulkan(&base, &loader, search, sbom)?));
            }
        }
    }
    let mut runtime = Tree::default();
    let bin = if on_image { "usr/bin/zml-run" } else { "bin/zml-run" };
    runtime.executable(bin, Content::file(&plan.runtime)?)?;
    sbom.runtime(bin, &plan.runtime)?;
    for (name, text) in LICENCES {
        runtime.file(&format!("usr/share/doc/zml-run/{name}"), Content::Bytes(text.into()))?;
    }
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

/// Files of the system, each with the package that it comes from.
pub(crate) fn system(files: &BaseFiles, sbom: &mut Sbom) -> Result<Tree, PackageError> {
    let mut tree = Tree::default();
    for (inside, here) in files.files() {
        let content = Content::file(here)?;
        sbom.system(inside, here, files.owner(inside))?;
        if files.is_interpreter(inside) { tree.executable(inside, content)? } else { tree.file(inside, content)? }
    }
    Ok(tree)
}

/// The Vulkan loader, and what NVIDIA's driver wants beside it.
pub(crate) fn vulkan_loader(
    base: &BaseFiles,
    search: &Search,
    warnings: &mut Vec<String>,
) -> Result<BaseFiles, PackageError> {
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
    BaseFiles::libraries(&names, Path::new("zml-run"), &[base], search)
}

/// Mesa's Vulkan device on the processor, with the file by which the loader finds it.
fn software_vulkan(
    base: &BaseFiles,
    loader: &BaseFiles,
    search: &Search,
    sbom: &mut Sbom,
) -> Result<Tree, PackageError> {
    let driver = BaseFiles::libraries(&[LAVAPIPE], Path::new("--software-vulkan"), &[base, loader], search)?;
    let mut tree = system(&driver, sbom)?;
    let place = driver.files().map(|(inside, _)| inside).find(|p| p.ends_with(LAVAPIPE)).unwrap_or(LAVAPIPE);
    let icd = serde_json::json!({
        "file_format_version": "1.0.0", "ICD": { "library_path": format!("/{place}"), "api_version": "1.3.0" },
    });
    tree.file("usr/share/vulkan/icd.d/lavapipe.json", Content::Bytes(icd.to_string().into_bytes()))?;
    Ok(tree)
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
            let more = BaseFiles::libraries(&names, Path::new(&needed_by), &[&base], search)?;
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
