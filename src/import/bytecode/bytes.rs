//! Reading bytes with every length checked: variable-length integers, sections, counted lists.

use crate::{diag::Diagnostic, tree::Span};

pub(super) type R<T> = Result<T, Box<Diagnostic>>;

/// A part of the file. Positions are offsets from the file's start, for messages and alignment.
#[derive(Clone)]
pub(super) struct Bytes<'a> {
    pub data: &'a [u8],
    pub pos: usize,
    /// Offset of `data` in the file.
    pub base: usize,
}

impl<'a> Bytes<'a> {
    pub fn new(data: &'a [u8], base: usize) -> Self {
        Bytes { data, pos: 0, base }
    }
    pub fn remaining(&self) -> usize {
        self.data.len() - self.pos
    }
    pub fn is_empty(&self) -> bool {
        self.remaining() == 0
    }
    pub fn damaged<T>(&self, what: impl Into<String>) -> R<T> {
        Err(damaged(self.base + self.pos, what))
    }
    pub fn byte(&mut self) -> R<u8> {
        match self.data.get(self.pos) {
            Some(b) => {
                self.pos += 1;
                Ok(*b)
            }
            None => self.damaged("it ends early"),
        }
    }
    pub fn take(&mut self, n: usize) -> R<&'a [u8]> {
        if n > self.remaining() {
            return self.damaged(format!("{n} bytes are announced, {} are left", self.remaining()));
        }
        self.pos += n;
        Ok(&self.data[self.pos - n..self.pos])
    }
    /// A prefixed variable-length integer: the number of low zero bits of the first byte is the number of bytes that
    /// follow it.
    pub fn varint(&mut self) -> R<u64> {
        let first = self.byte()?;
        if first & 1 == 1 {
            return Ok(u64::from(first >> 1));
        }
        let more = first.trailing_zeros().min(8) as usize;
        let mut raw = [0; 8];
        let rest = self.take(more)?;
        if first == 0 {
            raw.copy_from_slice(rest);
            return Ok(u64::from_le_bytes(raw));
        }
        raw[0] = first;
        raw[1..].iter_mut().zip(rest).for_each(|(r, b)| *r = *b);
        Ok(u64::from_le_bytes(raw) >> (more + 1))
    }
    /// Zigzag-encoded.
    pub fn signed(&mut self) -> R<i64> {
        let v = self.varint()?;
        Ok((v >> 1) as i64 ^ -((v & 1) as i64))
    }
    /// A value and the flag in its lowest bit.
    pub fn flagged(&mut self) -> R<(u64, bool)> {
        let v = self.varint()?;
        Ok((v >> 1, v & 1 == 1))
    }
    /// A number of things that take at least a byte each.
    pub fn count(&mut self) -> R<usize> {
        let n = self.varint()?;
        if n > self.remaining() as u64 {
            return self.damaged(format!("{n} entries are announced in {} bytes", self.remaining()));
        }
        Ok(n as usize)
    }
    pub fn signed_list(&mut self) -> R<Vec<i64>> {
        let n = self.count()?;
        (0..n).map(|_| self.signed()).collect()
    }
    pub fn blob(&mut self) -> R<&'a [u8]> {
        let n = self.count()?;
        self.take(n)
    }
    /// Up to and without a zero byte.
    pub fn terminated(&mut self) -> R<&'a [u8]> {
        match self.data[self.pos..].iter().position(|b| *b == 0) {
            Some(n) => {
                let s = self.take(n)?;
                self.pos += 1;
                Ok(s)
            }
            None => self.damaged("a string has no end"),
        }
    }
    /// Id and content of a section.
    pub fn section(&mut self) -> R<(u8, Bytes<'a>)> {
        let id = self.byte()?;
        let n = self.varint()?;
        if id & 0x80 != 0 {
            let alignment = self.varint()?;
            if !alignment.is_power_of_two() || alignment > 1 << 20 {
                return self.damaged(format!("section alignment {alignment}"));
            }
            while !((self.base + self.pos) as u64).is_multiple_of(alignment) {
                if self.byte()? != 0xcb {
                    return self.damaged("wrong padding before a section");
                }
            }
        }
        let start = self.base + self.pos;
        if n > self.remaining() as u64 {
            return self.damaged(format!("a section of {n} bytes is announced, {} are left", self.remaining()));
        }
        Ok((id & 0x7f, Bytes::new(self.take(n as usize)?, start)))
    }
}

pub(super) fn damaged(at: usize, what: impl Into<String>) -> Box<Diagnostic> {
    let d = Diagnostic::error("E0501", Span::NONE, format!("damaged bytecode at byte {at}: {}", what.into()));
    Box::new(d.hint("a truncated or altered copy? compare the file's size with the original's"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_length_integers() {
        // From the format's table: 1, 2, 3 and 9 bytes, and the 8-byte form whose prefix is a whole byte.
        let read = |b: &[u8]| Bytes::new(b, 0).varint().unwrap();
        assert_eq!(read(&[0x03]), 1);
        assert_eq!(read(&[0xff]), 127);
        assert_eq!(read(&[0x02, 0x02]), 128);
        assert_eq!(read(&[0x04, 0x00, 0x02]), 1 << 14);
        assert_eq!(read(&[0x80, 1, 0, 0, 0, 0, 0, 1]), 1 | 1 << 48);
        assert_eq!(read(&[0x00, 1, 0, 0, 0, 0, 0, 0, 0x80]), 1 | 1 << 63);
        assert_eq!(Bytes::new(&[0x03], 0).signed().unwrap(), -1);
        assert_eq!(Bytes::new(&[0x05], 0).signed().unwrap(), 1);
        assert!(Bytes::new(&[0x02], 0).varint().is_err());
        assert!(Bytes::new(&[0xff], 0).count().is_err());
    }
}
