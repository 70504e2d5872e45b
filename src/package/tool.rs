//! zmlc itself as it is shipped: an archive that runs where it is unpacked, and an image in which a pipeline builds,
//! packages and pushes models.
//!
//! The image holds, beside the programs, what `zmlc package` takes from the machine that packages (the C library, the
//! Vulkan loader) with dpkg's records of it, so that packages made in it say where their files come from.

use crate::{
    ArchiveReport, BaseFiles, Compression, ImageReport, Search,
    archive::{self, SBOM},
    compose::{self, Parts},
    dpkg, elf,
    error::{At, PackageError},
    layers::{self, ACCOUNTS},
    sbom::Sbom,
    tar::{Content, Tree},
};
use oci_spec::image::ConfigBuilder;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

#[derive(Clone, Debug)]
pub struct ToolPlan {
    /// `zmlc`, linked so that it needs the C library and nothing else.
    pub zmlc: PathBuf,
    /// `zml-run` for each machine that packages can be made for; the one for zmlc's own machine is `zml-run`, others have
    /// the machine in their name.
    pub runtimes: Vec<PathBuf>,
    pub version: String,
    /// A folder of licence texts.
    pub licenses: PathBuf,
    /// What zmlc is made of: name, version, licence, package URL.
    pub parts: Vec<[String; 4]>,
    /// A shell with the usual commands in one file, `busybox`, for the image: pipelines that run in it want one.
    pub shell: Option<PathBuf>,
    /// Seconds since 1970.
    pub mtime: u64,
}

/// `zmlc` and `zml-run`: path below `bin/`, and where it is.
fn programs(plan: &ToolPlan) -> Result<Vec<(String, &Path)>, PackageError> {
    let own = elf::read(&plan.zmlc)?.machine;
    let mut all = vec![("zmlc".to_string(), plan.zmlc.as_path())];
    for runtime in &plan.runtimes {
        all.push((runtime_name(elf::read(runtime)?.machine.oci(), own.oci()), runtime));
    }
    Ok(all)
}

/// What the runtime for an architecture (`amd64`, `arm64`) is called beside a zmlc for `own`.
pub fn runtime_name(architecture: &str, own: &str) -> String {
    if architecture == own { "zml-run".into() } else { format!("zml-run-{architecture}") }
}

fn licenses(plan: &ToolPlan, below: &str, tree: &mut Tree) -> Result<(), PackageError> {
    let mut open = vec![(plan.licenses.clone(), below.to_string())];
    while let Some((folder, inside)) = open.pop() {
        for entry in fs::read_dir(&folder).at("read", &folder)? {
            let path = entry.at("read", &folder)?.path();
            let inside = format!("{inside}/{}", archive::file_name(&path)?);
            if path.is_dir() { open.push((path, inside)) } else { tree.file(&inside, Content::file(path)?)? }
        }
    }
    Ok(())
}

fn parts(plan: &ToolPlan, sbom: &mut Sbom) {
    for [name, version, licence, purl] in &plan.parts {
        sbom.part(name, version, licence, purl);
    }
}

/// `bin/`, `LICENSES/` and an SBOM.
pub fn tool_archive(plan: &ToolPlan, out: &Path) -> Result<ArchiveReport, PackageError> {
    let (mut tree, mut sbom) = (Tree::default(), Sbom::default());
    for (name, here) in programs(plan)? {
        let path = format!("bin/{name}");
        tree.executable(&path, Content::file(here)?)?;
        sbom.program(&path, here)?;
    }
    licenses(plan, "LICENSES", &mut tree)?;
    parts(plan, &mut sbom);
    tree.file(SBOM, Content::Bytes(sbom.document("zmlc", &plan.version, plan.mtime)))?;
    archive::write(&tree, &Tree::default(), plan.mtime, out)
}

/// An image whose entrypoint is zmlc, as a layout; from this machine's files.
pub fn tool_image(plan: &ToolPlan, dir: &Path) -> Result<ImageReport, PackageError> {
    let search = Search::host();
    let machine = elf::read(&plan.zmlc)?.machine;
    let (mut sbom, mut warnings) = (Sbom::default(), vec![]);
    let own: Vec<&Path> = plan
        .runtimes
        .iter()
        .map(PathBuf::as_path)
        .filter(|r| elf::read(r).is_ok_and(|e| e.machine == machine))
        .collect();
    let mut base = BaseFiles::for_executable(&plan.zmlc, &search)?;
    for runtime in own {
        base.join(BaseFiles::for_executable(runtime, &search)?);
    }
    let loader = layers::vulkan_loader(&base, &search, &mut warnings)?;
    let mut below = layers::system(&base, &mut sbom)?;
    for (path, text) in ACCOUNTS {
        below.file(path, Content::Bytes(text.into()))?;
    }
    let mut packaging = layers::system(&loader, &mut sbom)?;
    for (path, text) in dpkg::records([&base, &loader].into_iter().flat_map(BaseFiles::owned)) {
        packaging.file(&path, Content::Bytes(text.into_bytes()))?;
    }
    let mut all = vec![("base".to_string(), below), ("vulkan loader".into(), packaging)];
    if let Some(shell) = &plan.shell {
        let mut tree = Tree::default();
        tree.executable("bin/busybox", Content::file(shell)?)?;
        tree.link("bin/sh", "busybox")?;
        let owners = dpkg::owners(&search.root, ["bin/busybox"].into_iter());
        let owner = owners.get("bin/busybox");
        sbom.system("bin/busybox", shell, owner)?;
        if let Some(copyright) = owner.and_then(|o| o.copyright.clone()) {
            tree.file("usr/share/doc/busybox/copyright", Content::file(copyright)?)?;
        }
        all.push(("shell".into(), tree));
    }
    let mut tool = Tree::default();
    for (name, here) in programs(plan)? {
        let path = format!("bin/{name}");
        tool.executable(&path, Content::file(here)?)?;
        sbom.program(&path, here)?;
    }
    licenses(plan, "usr/share/doc/zmlc", &mut tool)?;
    tool.directory("tmp")?;
    all.push(("zmlc".into(), tool));
    parts(plan, &mut sbom);
    let facts = BTreeMap::from([
        ("org.opencontainers.image.title".to_string(), "zmlc".to_string()),
        ("org.opencontainers.image.version".into(), plan.version.clone()),
        ("org.opencontainers.image.licenses".into(), "Apache-2.0".into()),
    ]);
    let config = ConfigBuilder::default()
        .env(vec!["PATH=/bin:/usr/bin".to_string()])
        .entrypoint(vec!["/bin/zmlc".to_string()])
        .working_dir("/workspace".to_string())
        .labels(facts.clone().into_iter().collect::<std::collections::HashMap<_, _>>())
        .build()
        .expect("complete");
    compose::layout(dir, |layout| {
        let parts = Parts {
            machine,
            below: None,
            layers: all,
            compression: Compression::Zstd,
            config,
            annotations: facts,
            sbom: sbom.document("zmlc", &plan.version, plan.mtime),
            mtime: plan.mtime,
            warnings,
        };
        let (mut descriptor, sbom, report) = compose::image(parts, layout)?;
        compose::name(&mut descriptor, Some(&plan.version));
        Ok((compose::index(vec![descriptor, sbom]), report))
    })
}
