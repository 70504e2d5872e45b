//! What HIP's compiler puts into a library's `.hip_fatbin`: bundles of code objects, one for each architecture, of which
//! the runtime takes the one whose name fits the GPU (clang's documentation, "Offload Bundler").
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 24 | magic `__CLANG_OFFLOAD_BUNDLE__` |
//! | 24 | 8 | number of entries |
//! | 32 | | entries: offset of the code object from the bundle's start, its length, length of the name, name |
//!
//! An entry that goes leaves the table, and its code object becomes zeros; the others stay where they are. Bundles that
//! are compressed as a whole (`CCOB`) are left alone.

use crate::{
    Arch, Report,
    bytes::{Ranges, u64_at, usize_at},
};
use std::ops::Range;

const MAGIC: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";
const TABLE: usize = MAGIC.len() + 8;

struct Entry {
    /// In the table.
    bytes: Vec<u8>,
    /// In the file.
    code: Range<usize>,
    arch: Option<Arch>,
}

pub(crate) fn trim(file: &mut [u8], range: Range<usize>, keep: &[Arch], zeros: &mut Ranges, report: &mut Report) {
    let mut at = range.start;
    while at + TABLE <= range.end {
        match entries(&file[..range.end], at) {
            Some((entries, table_end)) => {
                let end = entries.iter().map(|e| e.code.end).max().unwrap_or(0).max(table_end);
                rewrite(file, at, &entries, table_end, keep, zeros, report);
                at = end.next_multiple_of(8);
            }
            None => at += 8,
        }
    }
}

/// The entries of a bundle that starts here, if one does and all of it lies in the section; and the end of its table.
fn entries(section: &[u8], start: usize) -> Option<(Vec<Entry>, usize)> {
    if !section.get(start..)?.starts_with(MAGIC) {
        return None;
    }
    let (mut all, mut at) = (Vec::new(), start + TABLE);
    for _ in 0..u64_at(section, start + MAGIC.len())? {
        let code = start.checked_add(usize_at(section, at)?)?;
        let end = code.checked_add(usize_at(section, at + 8)?).filter(|end| *end <= section.len())?;
        let next = (at + 24).checked_add(usize_at(section, at + 16)?)?;
        let bytes = section.get(at..next)?.to_vec();
        let arch = std::str::from_utf8(&bytes[24..]).ok().and_then(target);
        all.push(Entry { bytes, code: code..end, arch });
        at = next;
    }
    let apart = all.iter().all(|e| e.code.is_empty() || e.code.start >= at);
    apart.then_some((all, at))
}

/// `hipv4-amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-` is for gfx942; the host's entry, and one for a family of GPUs
/// (`gfx9-4-generic`), are for no one architecture.
fn target(name: &str) -> Option<Arch> {
    let (_, gpu) = name.split_once("-amdgcn-amd-amdhsa-")?;
    let gpu = gpu.trim_start_matches('-');
    gpu.split_once(':').map_or(gpu, |(gpu, _)| gpu).parse().ok()
}

fn rewrite(
    file: &mut [u8],
    start: usize,
    entries: &[Entry],
    table_end: usize,
    keep: &[Arch],
    zeros: &mut Ranges,
    report: &mut Report,
) {
    let stays = |e: &&Entry| e.arch.is_none_or(|a| keep.contains(&a));
    let kept: Vec<&Entry> = entries.iter().filter(stays).collect();
    for e in entries.iter().filter(|e| e.arch.is_some()) {
        if stays(&e) {
            report.kept += 1;
            continue;
        }
        report.dropped += 1;
        let shared = kept.iter().any(|k| k.code.start < e.code.end && e.code.start < k.code.end);
        if !shared {
            file[e.code.clone()].fill(0);
            zeros.add(e.code.clone());
        }
    }
    if kept.len() < entries.len() {
        let mut table = (kept.len() as u64).to_le_bytes().to_vec();
        kept.iter().for_each(|e| table.extend(&e.bytes));
        table.resize(table_end - start - MAGIC.len(), 0);
        file[start + MAGIC.len()..table_end].copy_from_slice(&table);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A bundle as clang writes it: code objects at multiples of 64 here, filled with a number each.
    pub(crate) fn bundle(entries: &[(&str, u8, usize)]) -> Vec<u8> {
        let table: usize = entries.iter().map(|(name, ..)| 24 + name.len()).sum();
        let mut at = (TABLE + table).next_multiple_of(64);
        let (mut head, mut body) = (MAGIC.to_vec(), vec![]);
        head.extend((entries.len() as u64).to_le_bytes());
        for (name, fill, size) in entries {
            for n in [at, *size, name.len()] {
                head.extend((n as u64).to_le_bytes());
            }
            head.extend(name.bytes());
            body.extend(vec![*fill; *size]);
            body.resize(body.len().next_multiple_of(64), 0);
            at += size.next_multiple_of(64);
        }
        head.resize(head.len().next_multiple_of(64), 0);
        [head, body].concat()
    }
    const HOST: &str = "host-x86_64-unknown-linux-gnu-";
    const A: &str = "hipv4-amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-";
    const B: &str = "hipv4-amdgcn-amd-amdhsa--gfx942";
    const C: &str = "hipv4-amdgcn-amd-amdhsa--gfx1100";

    fn trimmed(bytes: &[u8], keep: &[&str]) -> (Vec<u8>, Report, Vec<Range<usize>>) {
        let keep: Vec<Arch> = keep.iter().map(|k| k.parse().unwrap()).collect();
        let (mut file, mut report, mut zeros) = (bytes.to_vec(), Report::default(), Ranges::default());
        trim(&mut file, 0..bytes.len(), &keep, &mut zeros, &mut report);
        (file, report, zeros.sorted())
    }
    /// Names in the tables, and what their code objects are filled with.
    fn shown(file: &[u8]) -> Vec<(String, Vec<u8>)> {
        let starts = (0..file.len()).step_by(8).filter(|at| file[*at..].starts_with(MAGIC));
        let all = starts.flat_map(|at| entries(file, at).unwrap().0);
        all.map(|e| (String::from_utf8_lossy(&e.bytes[24..]).into_owned(), file[e.code].to_vec())).collect()
    }

    #[test]
    fn code_of_other_gpus_leaves_the_table_and_becomes_zeros() {
        let first = bundle(&[(HOST, 0, 0), (A, 1, 100), (B, 2, 200), (C, 3, 300)]);
        let file = [first.clone(), bundle(&[(HOST, 0, 0), (C, 4, 40)])].concat();
        let (out, report, zeros) = trimmed(&file, &["gfx942"]);
        let expected = [(HOST.to_string(), vec![]), (B.to_string(), vec![2; 200]), (HOST.to_string(), vec![])];
        assert_eq!(shown(&out), expected);
        assert_eq!((report.kept, report.dropped, out.len()), (1, 3, file.len()));
        assert_eq!(zeros.iter().map(Range::len).collect::<Vec<_>>(), [100, 300, 40]);
        assert!(zeros.iter().all(|r| out[r.clone()].iter().all(|b| *b == 0)));
        // With all of them kept nothing changes.
        assert_eq!(trimmed(&file, &["gfx942", "gfx90a", "gfx1100"]).0, file);
    }

    #[test]
    fn families_and_what_is_not_understood_stay() {
        let family = bundle(&[(HOST, 0, 0), ("hipv4-amdgcn-amd-amdhsa--gfx9-4-generic", 7, 50), (A, 1, 50)]);
        assert_eq!(shown(&trimmed(&family, &["gfx942"]).0)[1].1, vec![7; 50]);
        let good = bundle(&[(HOST, 0, 0), (A, 1, 100), (B, 2, 100)]);
        // A count, an offset, a length and a name that lead out of the section.
        let b = TABLE + 24 + HOST.len();
        for at in [MAGIC.len() + 6, b + 6, b + 14, b + 22] {
            let mut bad = good.clone();
            bad[at] = 0xff;
            assert_eq!(trimmed(&bad, &["gfx942"]).0, bad, "byte {at}");
        }
        for cut in 0..good.len() {
            trimmed(&good[..cut], &["gfx942"]);
        }
    }
}
