//! What the tests of passes share: fixtures, a device profile, snapshots in the repository's folder.

use std::path::PathBuf;
use zmlc_passes::{
    context,
    pass::{self, Env, Pass, PassError, Run},
    spec::DeviceSpec,
};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}
/// Name and text of every fixture in a folder, by name.
pub fn fixtures(folder: &str) -> Vec<(String, String)> {
    let mut found: Vec<_> = std::fs::read_dir(root().join("fixtures").join(folder))
        .expect(folder)
        .map(|f| f.expect(folder).path())
        .filter(|p| p.extension().is_some_and(|e| e == "mlir"))
        .map(|p| {
            (p.file_stem().expect("a name").to_string_lossy().into_owned(), std::fs::read_to_string(&p).expect(folder))
        })
        .collect();
    found.sort();
    assert!(!found.is_empty(), "no fixtures in {folder}");
    found
}
/// A profile with this many buffers a kernel.
pub fn spec(max_buffers: u32) -> DeviceSpec {
    let mut spec = DeviceSpec::parse(include_str!("spec.toml")).expect("the profile parses");
    spec.max_buffers = max_buffers;
    spec
}
/// The module's text after `passes`, each verified; the text must parse again.
pub fn run(text: &str, passes: &[&dyn Pass], spec: &DeviceSpec) -> Result<String, PassError> {
    let c = context::context();
    let mut module = context::parse(&c, text)?;
    pass::run(&c, &mut module, passes, Env { spec: Some(spec) }, Run::default())?;
    let after = context::print(&module);
    let again = context::parse(&c, &after)?;
    assert_eq!(context::print(&again), after, "the text resumes");
    Ok(after)
}
pub fn snapshot(folder: &str, name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(root().join("snapshots").join(folder));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}
