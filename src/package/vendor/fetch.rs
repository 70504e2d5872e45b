//! Gets the bytes of a source: wheels through pip, with whatever index the user has set up for it; files and folders
//! from where they are. `resolve` takes what there is now and says what it is; `locate` takes what the lock says or fails.

use super::{Cache, Lock, Locked, Source, cache, folder, unpack};
use crate::{
    elf::Machine,
    error::{At, PackageError},
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// What a machine's wheels may be called.
fn platforms(machine: Machine) -> impl Iterator<Item = String> {
    let machine = match machine {
        Machine::X86_64 => "x86_64",
        Machine::Aarch64 => "aarch64",
    };
    ["manylinux2014", "manylinux_2_17", "manylinux_2_24", "manylinux_2_27", "manylinux_2_28", "manylinux_2_34"]
        .map(|p| format!("{p}_{machine}"))
        .into_iter()
}

/// What a source is now. `folder`: that of model.toml.
pub fn resolve(from: &Source, folder: &Path, architecture: &str, cache: &Cache) -> Result<Locked, PackageError> {
    let path = match from {
        Source::Path(p) => folder.join(p),
        Source::Pypi { name, version } => download(name, version.as_deref(), architecture, cache)?,
    };
    let sha256 = digest(&path)?;
    let unpacked = unpack(&path, &sha256, cache)?;
    let file = path.canonicalize().at("read", &path)?;
    let file = crate::archive::file_name(&file)?.to_string();
    Ok(Locked { from: from.to_string(), name: unpacked.name, version: unpacked.version, file, sha256 })
}

/// The locked source's file or folder, fetched again if it has to be, with the digest that the lock says.
pub fn locate(
    from: &Source,
    lock: &Lock,
    folder: &Path,
    architecture: &str,
    cache: &Cache,
) -> Result<(PathBuf, Locked), PackageError> {
    let locked = lock.find(from).ok_or_else(|| PackageError::Unlocked(from.to_string()))?.clone();
    let path = match from {
        Source::Path(p) => folder.join(p),
        Source::Pypi { name, .. } => {
            let kept = cache.folder("wheels", &locked.sha256).join(&locked.file);
            if kept.is_file() { kept } else { download(name, Some(&locked.version), architecture, cache)? }
        }
    };
    let found = digest(&path)?;
    if found != locked.sha256 {
        return Err(PackageError::Digest { what: from.to_string(), expected: locked.sha256, found });
    }
    Ok((path, locked))
}

fn digest(path: &Path) -> Result<String, PackageError> {
    if path.is_dir() { folder::digest(path) } else { cache::sha256(path) }
}

/// Downloads a wheel into the cache, where its digest names its folder.
fn download(name: &str, version: Option<&str>, architecture: &str, cache: &Cache) -> Result<PathBuf, PackageError> {
    let asked = Source::Pypi { name: name.into(), version: version.map(String::from) };
    let failed = |reason: String| PackageError::Fetch { what: asked.to_string(), reason };
    let machine = Machine::named(architecture).ok_or_else(|| failed(format!("no wheels for {architecture}")))?;
    let folder = cache.prepared("wheels", "x")?;
    let folder = folder.parent().expect("it was just made");
    let scratch = tempfile::Builder::new().prefix(".download-").tempdir_in(folder).at("write", folder)?;
    let requirement = version.map_or_else(|| name.to_string(), |v| format!("{name}=={v}"));
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--disable-pip-version-check"]);
    pip.args(["--progress-bar", "off", "--no-cache-dir"]);
    for p in platforms(machine) {
        pip.args(["--platform", &p]);
    }
    pip.arg("--dest").arg(scratch.path()).arg("--").arg(&requirement);
    let out = pip.output().map_err(|e| failed(format!("python3 does not start: {e}")))?;
    if !out.status.success() {
        return Err(failed(format!("pip says: {}", gist(&String::from_utf8_lossy(&out.stderr)))));
    }
    let mut files: Vec<PathBuf> =
        fs::read_dir(scratch.path()).at("read", scratch.path())?.flatten().map(|e| e.path()).collect();
    let (Some(file), true) = (files.pop(), files.is_empty()) else {
        return Err(failed("pip did not leave one file".into()));
    };
    let name = crate::archive::file_name(&file)?;
    let target = folder.join(cache::sha256(&file)?);
    fs::create_dir_all(&target).at("write", &target)?;
    let target = target.join(name);
    fs::rename(&file, &target).at("write", &target)?;
    Ok(target)
}

/// The lines that pip marks as errors; of an exception it marks none that says what happened, which is its last line.
fn gist(stderr: &str) -> String {
    let marked: Vec<&str> = stderr.lines().filter(|l| l.starts_with("ERROR: ") && *l != "ERROR: Exception:").collect();
    match stderr.trim().lines().next_back() {
        Some(last) if marked.is_empty() => last.into(),
        _ => marked.join("; "),
    }
}

#[cfg(test)]
mod tests {
    use super::gist;

    #[test]
    fn what_pip_says() {
        assert_eq!(gist("WARNING: x\nERROR: no version\nERROR: no match\n"), "ERROR: no version; ERROR: no match");
        let trace =
            "ERROR: Exception:\nTraceback (most recent call last):\n  f()\nOSError: [Errno 28] No space left\n\n";
        assert_eq!(gist(trace), "OSError: [Errno 28] No space left");
        assert_eq!(gist(""), "");
    }
}
