//! Cubins that lie in a section as zstd frames of their own. One for a GPU that is not kept becomes zeros; a library
//! that wants it gets an error from the decompressor.

use crate::{
    Arch, Report,
    bytes::{Ranges, u16_at, u32_at},
};
use std::ops::Range;

const ZSTD: [u8; 4] = 0xFD2F_B528u32.to_le_bytes();
/// `e_machine` of cubins.
const EM_CUDA: u16 = 190;
/// As far as `e_flags` of an ELF header.
const PREFIX: usize = 64;

pub(crate) fn trim(file: &mut [u8], range: Range<usize>, keep: &[Arch], zeros: &mut Ranges, report: &mut Report) {
    let mut at = range.start;
    while at + 4 <= range.end {
        let Some(next) = file[at..range.end].windows(4).position(|w| w == ZSTD) else { return };
        at += next;
        let frame = &file[at..range.end];
        let Some((arch, length)) = arch_of(frame).zip(zstd::zstd_safe::find_frame_compressed_size(frame).ok()) else {
            at += 4;
            continue;
        };
        if keep.iter().any(|gpu| gpu.runs(arch)) {
            report.kept += 1;
        } else {
            report.dropped += 1;
            file[at..at + length].fill(0);
            zeros.add(at..at + length);
        }
        at += length;
    }
}

/// The architecture of the cubin in a frame, if it holds one.
fn arch_of(frame: &[u8]) -> Option<u32> {
    let mut start = Vec::with_capacity(PREFIX);
    let decoder = zstd::Decoder::with_buffer(frame).ok()?;
    std::io::Read::read_to_end(&mut std::io::Read::take(decoder, PREFIX as u64), &mut start).ok()?;
    if !start.starts_with(b"\x7fELF") || u16_at(&start, 18)? != EM_CUDA {
        return None;
    }
    let flags = u32_at(&start, 48)?;
    // The architecture moved by a byte with version 8 of the ABI.
    Some(if start[8] >= 8 { flags >> 8 & 0xff } else { flags & 0xff })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(abi: u8, flags: u32) -> Vec<u8> {
        let mut cubin = vec![0u8; 3000];
        cubin[..4].copy_from_slice(b"\x7fELF");
        cubin[8] = abi;
        cubin[18] = 190;
        cubin[48..52].copy_from_slice(&flags.to_le_bytes());
        cubin[64..].iter_mut().enumerate().for_each(|(i, b)| *b = (i * i % 251) as u8);
        zstd::bulk::compress(&cubin, 3).unwrap()
    }

    #[test]
    fn frames_of_other_gpus_become_zeros() {
        // Flags as found in cublasLt: sm_80 and sm_90 of the older ABI, sm_100 of the newer.
        let frames = [
            frame(7, 0x0050_0550),
            frame(7, 0x005a_055a),
            frame(8, 0x0600_6402),
            zstd::bulk::compress(b"text", 3).unwrap(),
        ];
        let mut file = frames.join(&[7u8; 5][..]);
        let mut report = Report::default();
        trim(
            &mut file,
            0..frames.join(&[7u8; 5][..]).len(),
            &["sm_90".parse().unwrap()],
            &mut Ranges::default(),
            &mut report,
        );
        let expected = [vec![0; frames[0].len()], frames[1].clone(), vec![0; frames[2].len()], frames[3].clone()];
        assert!(file == expected.join(&[7u8; 5][..]));
        assert_eq!((report.kept, report.dropped), (1, 2));
    }
}
