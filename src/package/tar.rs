//! Tar archives whose bytes depend on nothing but names and contents: ustar headers, sorted, owner 0:0, modes 0755 and
//! 0644, one time for all. Names that ustar cannot hold and files of 8 GiB and more get a pax header (POSIX.1-2017,
//! `pax`, "ustar Interchange Format").
//!
//! It writes what it is given and never looks at a file's own mode, owner or time.

use crate::error::{At, PackageError};
use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

const BLOCK: usize = 512;
/// Largest size that 11 octal digits hold.
const USTAR_SIZE: u64 = 0o777_7777_7777;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Bytes(Vec<u8>),
    /// A file and its length when the plan was made.
    File(PathBuf, u64),
}
impl Content {
    pub(crate) fn file(path: impl Into<PathBuf>) -> Result<Self, PackageError> {
        let path = path.into();
        let meta = std::fs::metadata(&path).at("read", &path)?;
        if !meta.is_file() {
            return Err(io::Error::other("not a file")).at("read", path);
        }
        Ok(Content::File(path, meta.len()))
    }
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Content::Bytes(b) => b.len() as u64,
            Content::File(_, n) => *n,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    Directory,
    File {
        content: Content,
        executable: bool,
    },
    /// A symbolic link and what it names.
    Link(String),
}

/// The entries of one archive or layer. Parent folders are added by themselves.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree(BTreeMap<String, Node>);

impl Tree {
    pub(crate) fn directory(&mut self, path: &str) -> Result<(), PackageError> {
        self.insert(path, Node::Directory)
    }
    pub(crate) fn file(&mut self, path: &str, content: Content) -> Result<(), PackageError> {
        self.insert(path, Node::File { content, executable: false })
    }
    pub(crate) fn executable(&mut self, path: &str, content: Content) -> Result<(), PackageError> {
        self.insert(path, Node::File { content, executable: true })
    }
    /// A symbolic link, at most 100 bytes long, to a file in the same folder.
    pub(crate) fn link(&mut self, path: &str, to: &str) -> Result<(), PackageError> {
        check_path(to)?;
        if to.contains('/') || to.len() > 100 {
            return Err(PackageError::Path { path: to.into(), reason: "a link names a file in its own folder" });
        }
        self.insert(path, Node::Link(to.into()))
    }
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Sum of the files' sizes.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.values().map(|n| if let Node::File { content, .. } = n { content.bytes() } else { 0 }).sum()
    }
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(_, n)| **n != Node::Directory).map(|(p, _)| p.as_str())
    }

    /// A file whose parent folders another tree of the same archive has.
    pub(crate) fn file_alone(&mut self, path: &str, content: Content) -> Result<(), PackageError> {
        check_path(path)?;
        self.put(path, Node::File { content, executable: false })
    }

    fn insert(&mut self, path: &str, node: Node) -> Result<(), PackageError> {
        check_path(path)?;
        for (i, _) in path.match_indices('/') {
            match self.0.entry(path[..i].into()).or_insert(Node::Directory) {
                Node::Directory => {}
                _ => return Err(PackageError::Twice(path[..i].into())),
            }
        }
        self.put(path, node)
    }

    fn put(&mut self, path: &str, node: Node) -> Result<(), PackageError> {
        match self.0.insert(path.into(), node) {
            Some(old) if old != self.0[path] => Err(PackageError::Twice(path.into())),
            _ => Ok(()),
        }
    }

    /// The whole archive with its two closing blocks. Errors name the output `named`.
    pub(crate) fn write(&self, mtime: u64, out: &mut impl Write, named: &Path) -> Result<(), PackageError> {
        self.write_entries(mtime, out, named)?;
        finish(out, named)
    }

    /// The entries alone, so that another tree's can follow before [`finish`].
    pub(crate) fn write_entries(&self, mtime: u64, out: &mut impl Write, named: &Path) -> Result<(), PackageError> {
        for (path, node) in &self.0 {
            let header = match node {
                Node::Directory => headers(&format!("{path}/"), b'5', 0o755, 0, mtime, ""),
                Node::File { content, executable } => {
                    headers(path, b'0', if *executable { 0o755 } else { 0o644 }, content.bytes(), mtime, "")
                }
                Node::Link(to) => headers(path, b'2', 0o777, 0, mtime, to),
            };
            out.write_all(&header).at("write", named)?;
            if let Node::File { content, .. } = node {
                copy(content, out, named)?;
                let size = content.bytes();
                let padding = (size.next_multiple_of(BLOCK as u64) - size) as usize;
                out.write_all(&[0; BLOCK][..padding]).at("write", named)?;
            }
        }
        Ok(())
    }
}

/// The two zero blocks that end an archive.
pub(crate) fn finish(out: &mut impl Write, named: &Path) -> Result<(), PackageError> {
    out.write_all(&[0; 2 * BLOCK]).at("write", named)
}

/// Refuses what would leave the folder it is unpacked in, or what no tool unpacks alike.
fn check_path(path: &str) -> Result<(), PackageError> {
    let bad = |reason| Err(PackageError::Path { path: path.escape_debug().to_string(), reason });
    if path.is_empty() || path.starts_with('/') {
        return bad("it must be relative");
    }
    if path.chars().any(char::is_control) {
        return bad("it has control characters");
    }
    if path.split('/').any(|c| c.is_empty() || c == "." || c == "..") {
        return bad("it has an empty part, `.` or `..`");
    }
    Ok(())
}

fn copy(content: &Content, out: &mut impl Write, named: &Path) -> Result<(), PackageError> {
    let (path, bytes) = match content {
        Content::Bytes(b) => return out.write_all(b).at("write", named),
        Content::File(path, bytes) => (path, *bytes),
    };
    let mut file = File::open(path).at("read", path)?;
    let mut buffer = vec![0; 1 << 20];
    let mut found = 0u64;
    loop {
        let n = file.read(&mut buffer).at("read", path)?;
        found += n as u64;
        if n == 0 || found > bytes {
            break;
        }
        out.write_all(&buffer[..n]).at("write", named)?;
    }
    if found == bytes { Ok(()) } else { Err(PackageError::Changed { path: path.clone(), expected: bytes, found }) }
}

/// The header of one entry, behind a pax header where ustar does not suffice. `link`: what a link names.
fn headers(name: &str, kind: u8, mode: u32, size: u64, mtime: u64, link: &str) -> Vec<u8> {
    let mut records = String::new();
    let split = split_name(name);
    if split.is_none() {
        records.push_str(&pax_record("path", name));
    }
    if size > USTAR_SIZE {
        records.push_str(&pax_record("size", &size.to_string()));
    }
    let mut out = Vec::new();
    if !records.is_empty() {
        out.extend(ustar(("", "pax"), b'x', 0o644, records.len() as u64, mtime, ""));
        out.extend(records.as_bytes());
        out.resize(out.len().next_multiple_of(BLOCK), 0);
    }
    // Readers take what the pax header says; the fields below need only be well-formed then.
    let split = split.unwrap_or_else(|| ("", &name[..name.floor_char_boundary(100)]));
    out.extend(ustar(split, kind, mode, if size > USTAR_SIZE { 0 } else { size }, mtime, link));
    out
}

/// `LENGTH KEY=VALUE\n`, the length counting itself.
fn pax_record(key: &str, value: &str) -> String {
    let rest = key.len() + value.len() + 3;
    let mut length = rest;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    format!("{length} {key}={value}\n")
}

/// Prefix and name as ustar wants them: at most 155 and 100 bytes, cut at a `/`.
fn split_name(name: &str) -> Option<(&str, &str)> {
    if name.len() <= 100 {
        return Some(("", name));
    }
    name.match_indices('/')
        .map(|(i, _)| (&name[..i], &name[i + 1..]))
        .find(|(prefix, rest)| prefix.len() <= 155 && rest.len() <= 100 && !rest.is_empty())
}

fn ustar((prefix, name): (&str, &str), kind: u8, mode: u32, size: u64, mtime: u64, link: &str) -> [u8; BLOCK] {
    let mut h = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| h[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, name.as_bytes());
    put(100, format!("{mode:07o}").as_bytes());
    put(108, b"0000000");
    put(116, b"0000000");
    put(124, format!("{size:011o}").as_bytes());
    put(136, format!("{:011o}", mtime.min(USTAR_SIZE)).as_bytes());
    put(148, b"        ");
    put(156, &[kind]);
    put(157, link.as_bytes());
    put(257, b"ustar\x0000");
    put(329, b"0000000");
    put(337, b"0000000");
    put(345, prefix.as_bytes());
    let sum: u32 = h.iter().map(|b| u32::from(*b)).sum();
    h[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    h
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(tree: &Tree) -> Vec<u8> {
        let mut out = Vec::new();
        tree.write(7, &mut out, Path::new("out")).unwrap();
        out
    }

    #[test]
    fn another_reader_finds_the_same_entries() {
        let long = format!("a/{}/{}", "d".repeat(120), "f".repeat(140));
        let middle = format!("{}/{}", "p".repeat(90), "n".repeat(90));
        let mut tree = Tree::default();
        tree.executable("bin/run", Content::Bytes(vec![1; 513])).unwrap();
        tree.file(&long, Content::Bytes(b"long".to_vec())).unwrap();
        tree.file(&middle, Content::Bytes(b"middle".to_vec())).unwrap();
        tree.directory("empty").unwrap();
        tree.link("bin/go", "run").unwrap();
        assert_eq!(tree.link("bin/out", "../out").unwrap_err().code(), "E1207");
        let bytes = written(&tree);
        assert_eq!(bytes.len() % BLOCK, 0);
        let mut archive = tar::Archive::new(&bytes[..]);
        let mut seen = BTreeMap::new();
        for e in archive.entries().unwrap() {
            let mut e = e.unwrap();
            let h = e.header();
            assert_eq!((h.uid().unwrap(), h.gid().unwrap(), h.mtime().unwrap()), (0, 0, 7));
            let (kind, mode) = (h.entry_type(), h.mode().unwrap());
            let link = e.link_name().unwrap().map(|l| l.display().to_string());
            assert_eq!(link, (kind == tar::EntryType::Symlink).then(|| "run".into()));
            let path = e.path().unwrap().display().to_string();
            let mut body = Vec::new();
            e.read_to_end(&mut body).unwrap();
            seen.insert(path.trim_end_matches('/').to_string(), (kind, mode, body));
        }
        assert_eq!(seen["bin/run"], (tar::EntryType::Regular, 0o755, vec![1; 513]));
        assert_eq!(seen[&long], (tar::EntryType::Regular, 0o644, b"long".to_vec()));
        assert_eq!(seen[&middle].2, b"middle");
        assert_eq!(seen["bin/go"], (tar::EntryType::Symlink, 0o777, vec![]));
        assert_eq!((seen["empty"].0, seen["bin"].0), (tar::EntryType::Directory, tar::EntryType::Directory));
    }

    #[test]
    fn order_of_insertion_does_not_matter() {
        let (mut a, mut b) = (Tree::default(), Tree::default());
        a.file("x", Content::Bytes(vec![1])).unwrap();
        a.file("w/y", Content::Bytes(vec![2])).unwrap();
        b.file("w/y", Content::Bytes(vec![2])).unwrap();
        b.file("x", Content::Bytes(vec![1])).unwrap();
        assert_eq!(written(&a), written(&b));
    }

    #[test]
    fn paths_that_leave_the_folder_are_refused() {
        for bad in ["", "/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a/.", "new\nline"] {
            let e = Tree::default().file(bad, Content::Bytes(vec![])).unwrap_err();
            assert_eq!(e.code(), "E1207", "{bad:?}");
        }
    }

    #[test]
    fn two_contents_for_one_name_are_refused() {
        let mut t = Tree::default();
        t.file("a", Content::Bytes(vec![1])).unwrap();
        t.file("a", Content::Bytes(vec![1])).unwrap();
        assert_eq!(t.file("a", Content::Bytes(vec![2])).unwrap_err().code(), "E1208");
        assert_eq!(t.file("a/b", Content::Bytes(vec![2])).unwrap_err().code(), "E1208");
    }

    #[test]
    fn eight_gibibytes_get_a_pax_size() {
        let h = headers("big", b'0', 0o644, 1 << 33, 0, "");
        assert_eq!(h.len(), 3 * BLOCK);
        assert!(h[BLOCK..].starts_with(b"19 size=8589934592\n"));
        assert_eq!(headers("small", b'0', 0o644, (1 << 33) - 1, 0, "").len(), BLOCK);
    }

    #[test]
    fn a_file_that_grew_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, b"1234").unwrap();
        let mut t = Tree::default();
        t.file("f", Content::file(&path).unwrap()).unwrap();
        std::fs::write(&path, b"12345").unwrap();
        let e = t.write(0, &mut Vec::new(), Path::new("out")).unwrap_err();
        assert_eq!(e.code(), "E1209");
    }
}
