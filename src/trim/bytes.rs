//! Little-endian numbers at offsets that may be wrong, and sets of ranges.

use std::ops::Range;

pub(crate) fn u16_at(b: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*b.get(at..)?.first_chunk()?))
}
pub(crate) fn u32_at(b: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*b.get(at..)?.first_chunk()?))
}
pub(crate) fn u64_at(b: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*b.get(at..)?.first_chunk()?))
}
pub(crate) fn usize_at(b: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u64_at(b, at)?).ok()
}

/// Byte ranges of a file, added in ascending order.
#[derive(Debug, Default)]
pub(crate) struct Ranges(Vec<Range<usize>>);
impl Ranges {
    /// Adds a range behind all others; adjacent ones become one.
    pub(crate) fn add(&mut self, r: Range<usize>) {
        match self.0.last_mut() {
            Some(last) if last.end == r.start => last.end = r.end,
            _ if r.is_empty() => {}
            _ => self.0.push(r),
        }
    }
    pub(crate) fn sorted(&self) -> Vec<Range<usize>> {
        let mut all = self.0.clone();
        all.sort_by_key(|r| r.start);
        all
    }
}
