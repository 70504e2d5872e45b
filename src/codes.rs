//! The stable codes of what the driver itself reports, and those of all crates: E01 to E07 the front end's, E08 to E11
//! and E13 the driver's, E12 packaging's.

pub const ENTRY: &str = "E0805";
pub const TARGET_CANNOT: &str = "E0811";
pub const IR: &str = "E0821";
pub const MODEL: &str = "E0901";
pub const MODEL_ENTRY: &str = "E0902";
pub const TARGET_LIST: &str = "E0903";
pub const FILE: &str = "E0904";
pub const DIMS: &str = "E0905";
pub const PTXAS: &str = "E0906";
pub const WEIGHTS: &str = "E1001";
pub const ARTIFACT: &str = "E1101";
pub const REBUILD: &str = "E1102";
pub const RUNTIME: &str = "E1301";
pub const BISECT: &str = "E1302";

/// Code and explanation: the text behind `zmlc explain`.
pub const CODES: &[(&str, &str)] = &[
    (
        "E0801",
        "The program uses an op that zmlc does not compile. Nothing was built: zmlc never leaves a part of a program out.",
    ),
    ("E0802", "The program uses an op with an element type that zmlc does not compile it for."),
    ("E0803", "The program has a dynamic shape where zmlc needs a static one."),
    ("E0804", "The program uses a form of an op that zmlc does not compile."),
    ("E0805", "The entry's interface is not one that zmlc compiles."),
    (
        TARGET_CANNOT,
        "The target lacks a capability that the program needs, and a narrower type would change results. Build for another target or change the program.",
    ),
    (IR, "The IR given with --from does not parse, or is not what the named pass leaves behind."),
    (MODEL, "model.toml is not valid: a key is unknown or missing, or a value has the wrong type."),
    (MODEL_ENTRY, "model.toml names something that the program does not have: a function, argument or result."),
    (TARGET_LIST, "--target names a target or profile that does not exist. `zmlc targets` lists them."),
    (FILE, "A file cannot be read or written."),
    (
        DIMS,
        "The program has dynamic dimensions, and model.toml does not say for which sizes to build it, or says so in a way that does not fit. Each combination of the sizes under [entry.dims] becomes a specialisation; the shapes of the inputs choose among them when the model runs.",
    ),
    (
        PTXAS,
        "--ptxas names no program that assembles PTX, or it refused the kernels. With --ptxas a CUDA profile of one architecture carries a cubin beside its PTX, so that the driver has nothing to compile; without it the driver compiles the PTX when a model is first loaded, and the runtime keeps the result.",
    ),
    (WEIGHTS, "A weights file lacks a tensor, or has it with another element type or shape than the program."),
    (ARTIFACT, "The .zml file is not an artifact that this version reads, or it is damaged."),
    (
        REBUILD,
        "The artifact is not what its model.toml gives when it is built again: a program, the weights, model.toml or zmlc are others.",
    ),
    (
        RUNTIME,
        "The runtime cannot do what a command needs of it: no device serves, or an input is not what the entry takes.",
    ),
    (
        BISECT,
        "`zmlc bisect` found the kernel, pass or host program that computes other values than the program says. That is a bug in zmlc, in a driver, or in the artifact's bytes: report it with the program.",
    ),
];

/// Code and explanation of every error and warning of every crate.
pub fn all() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    zmlc_import::diag::CODES.iter().chain(CODES).chain(zmlc_package::CODES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeSet, path::Path};

    #[test]
    fn a_code_means_one_thing() {
        let mut seen = BTreeSet::new();
        for (code, text) in all() {
            assert!(seen.insert(*code), "{code} is explained twice");
            assert!(text.ends_with(['.', '?']) && text.len() > 20, "{code}: {text}");
        }
    }

    /// Codes that stand in a file of Rust, in quotes.
    fn codes_in(file: &Path, found: &mut BTreeSet<String>) {
        let text = std::fs::read_to_string(file).expect("readable");
        for (at, _) in text.match_indices(['E', 'W']).filter(|(at, _)| text[..*at].ends_with('"')) {
            let code: String = text[at..].chars().take_while(|c| *c != '"').collect();
            if code.len() == 5 && code[1..].bytes().all(|b| b.is_ascii_digit()) {
                found.insert(code);
            }
        }
    }
    fn walk(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).expect("readable").map(|e| e.expect("readable").path()) {
            if entry.is_dir() && entry.file_name().is_some_and(|n| n != "target") {
                walk(&entry, found);
            } else if entry.extension().is_some_and(|e| e == "rs") {
                codes_in(&entry, found);
            }
        }
    }

    #[test]
    fn every_code_that_is_used_is_explained() {
        let mut used = BTreeSet::new();
        for folder in ["src", "passes", "targets", "runtime-stub"] {
            walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut used);
        }
        let explained: BTreeSet<String> = all().map(|(c, _)| (*c).to_string()).collect();
        let unknown: Vec<_> = used.difference(&explained).collect();
        assert!(unknown.is_empty(), "no explanation of {unknown:?}");
        assert!(used.len() > 60, "{} codes found", used.len());
    }
}
