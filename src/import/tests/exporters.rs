//! Text as exporters other than today's JAX write it: read, and read back from text and artifact.

use std::path::Path;
use zmlc_import::{PORTABLE_VERSION, Source, difference, print, read, verify, without_chlo, write_artifact};

#[test]
fn what_other_exporters_write_is_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/exporters");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).expect("readable") {
        let path = entry.expect("an entry").path();
        let load =
            |bytes: Vec<u8>| read(Source::new(path.display().to_string(), bytes)).unwrap_or_else(|e| panic!("{e}"));
        let p = load(std::fs::read(&path).expect("readable"));
        assert!(verify(&p).is_empty(), "{}: {:?}", path.display(), verify(&p));
        assert_eq!(difference(&p, &load(print(&p).into_bytes())), None, "{}", path.display());
        let p = without_chlo(&p).unwrap_or_else(|e| panic!("{e:?}"));
        let artifact = write_artifact(&p, PORTABLE_VERSION).unwrap_or_else(|e| panic!("{e:?}"));
        assert_eq!(difference(&p, &load(artifact)), None, "{}", path.display());
        seen += 1;
    }
    assert_eq!(seen, 5);
}
