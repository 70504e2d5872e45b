//! Fat binaries: containers of PTX and cubins for several architectures, of which the driver takes what fits the GPU.
//!
//! | container | bytes | | element | bytes | |
//! |---|---|---|---|---|---|
//! | 0 | 4 | magic `0xBA55ED50` | 0 | 2 | kind: 1 PTX, 2 cubin |
//! | 4 | 2 | version 1 | 4 | 4 | length of the header |
//! | 6 | 2 | length of the header, 16 | 8 | 8 | length of the content, padded |
//! | 8 | 8 | length of all elements | 28 | 4 | architecture, 90 |
//!
//! The kept elements move to the front, the container's length shrinks, and zeros follow. Containers stay where they
//! are, since the library's data points at them.

use crate::{
    Arch, Report,
    bytes::{Ranges, u16_at, u32_at, usize_at},
};
use std::ops::Range;

const MAGIC: [u8; 4] = 0xBA55_ED50u32.to_le_bytes();
const HEADER: usize = 16;
const PTX: u16 = 1;
const CUBIN: u16 = 2;

struct Element {
    range: Range<usize>,
    kind: u16,
    arch: u32,
}

/// Trims every container in `range` of the file.
pub(crate) fn trim(file: &mut [u8], range: Range<usize>, keep: &[Arch], zeros: &mut Ranges, report: &mut Report) {
    let mut at = range.start;
    // Containers are aligned to 8.
    while at + HEADER <= range.end {
        let Some(end) = container_end(file, at, range.end) else {
            at += 8;
            continue;
        };
        if let Some(elements) = elements(file, at + HEADER..end) {
            rewrite(file, at, end, &elements, keep, zeros, report);
        }
        at = end.next_multiple_of(8);
    }
}

/// The end of a container that starts here, if one does.
fn container_end(file: &[u8], at: usize, limit: usize) -> Option<usize> {
    if file.get(at..at + 4)? != MAGIC || u16_at(file, at + 4)? != 1 || u16_at(file, at + 6)? as usize != HEADER {
        return None;
    }
    usize_at(file, at + 8)?.checked_add(at + HEADER).filter(|end| *end <= limit)
}

/// All elements, or nothing if they do not fill the container exactly.
fn elements(file: &[u8], range: Range<usize>) -> Option<Vec<Element>> {
    let mut all = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let header = u32_at(file, at + 4)? as usize;
        let next = usize_at(file, at + 8)?.checked_add(at.checked_add(header)?)?;
        if header < 32 || next > range.end {
            return None;
        }
        all.push(Element { range: at..next, kind: u16_at(file, at)?, arch: u32_at(file, at + 28)? });
        at = next;
    }
    Some(all)
}

fn rewrite(
    file: &mut [u8],
    at: usize,
    end: usize,
    elements: &[Element],
    keep: &[Arch],
    zeros: &mut Ranges,
    report: &mut Report,
) {
    let cubin_serves = |gpu: Arch| gpu.is_one_gpu() && elements.iter().any(|e| e.kind == CUBIN && gpu.runs(e.arch));
    let mut to = at + HEADER;
    for e in elements {
        let stays = match e.kind {
            CUBIN => keep.iter().any(|gpu| gpu.runs(e.arch)),
            // Only where no cubin serves.
            PTX => keep.iter().any(|gpu| gpu.compiles(e.arch) && !cubin_serves(*gpu)),
            _ => true,
        };
        if stays {
            file.copy_within(e.range.clone(), to);
            to += e.range.len();
            report.kept += 1;
        } else {
            report.dropped += 1;
        }
    }
    if to < end {
        file[at + 8..at + HEADER].copy_from_slice(&((to - at - HEADER) as u64).to_le_bytes());
        file[to..end].fill(0);
        zeros.add(to..end);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A container; each element is kind, architecture, and content filled with the architecture's number.
    pub(crate) fn container(elements: &[(u16, u32, usize)]) -> Vec<u8> {
        let mut body = Vec::new();
        for (kind, arch, content) in elements {
            let mut header = [0u8; 64];
            header[..2].copy_from_slice(&kind.to_le_bytes());
            header[4..8].copy_from_slice(&64u32.to_le_bytes());
            header[8..16].copy_from_slice(&(*content as u64).to_le_bytes());
            header[28..32].copy_from_slice(&arch.to_le_bytes());
            body.extend(header);
            body.extend(vec![*arch as u8; *content]);
        }
        let mut c = MAGIC.to_vec();
        c.extend([1, 0, 16, 0]);
        c.extend((body.len() as u64).to_le_bytes());
        c.extend(body);
        c
    }

    fn trimmed(bytes: &[u8], keep: &[&str]) -> (Vec<u8>, Report) {
        let keep: Vec<Arch> = keep.iter().map(|k| k.parse().unwrap()).collect();
        let mut file = bytes.to_vec();
        let mut report = Report::default();
        trim(&mut file, 0..bytes.len(), &keep, &mut Ranges::default(), &mut report);
        (file, report)
    }

    #[test]
    fn kept_elements_move_forward_and_the_rest_is_zero() {
        let all =
            [container(&[(1, 70, 24), (2, 80, 32), (2, 90, 40), (2, 100, 48)]), container(&[(2, 100, 8)])].concat();
        let (file, report) = trimmed(&all, &["sm_90"]);
        let mut expected = container(&[(2, 90, 40)]);
        expected.resize(16 + 4 * 64 + 24 + 32 + 40 + 48, 0);
        let mut empty = container(&[]);
        empty.resize(16 + 64 + 8, 0);
        assert_eq!(file, [expected, empty].concat());
        assert_eq!((report.kept, report.dropped), (1, 4));
    }

    #[test]
    fn ptx_stays_where_no_cubin_serves() {
        let all = container(&[(1, 70, 24), (2, 80, 32)]);
        assert_eq!(trimmed(&all, &["sm_90"]).1, Report { kept: 1, dropped: 1, ..Report::default() });
        assert_eq!(trimmed(&all, &["sm_80", "sm_90"]).0, all);
        assert_eq!(trimmed(&all, &["sm_80+"]).0, all);
        assert_eq!(trimmed(&all, &["sm_86"]).1, Report { kept: 1, dropped: 1, ..Report::default() });
    }

    #[test]
    fn what_is_not_understood_is_left_alone() {
        let good = container(&[(2, 80, 32), (2, 90, 32)]);
        // A length beyond the section, elements that do not fill the container, another version.
        for (at, value) in [(8, 0xff), (16 + 8, 33), (4, 2), (16 + 4, 8)] {
            let mut bad = good.clone();
            bad[at] = value;
            assert_eq!(trimmed(&bad, &["sm_90"]).0, bad, "byte {at}");
        }
        let unknown = container(&[(64, 80, 32), (2, 90, 32)]);
        assert_eq!(trimmed(&unknown, &["sm_90"]).0, unknown);
        for cut in 0..good.len() {
            trimmed(&good[..cut], &["sm_90"]);
        }
    }
}
