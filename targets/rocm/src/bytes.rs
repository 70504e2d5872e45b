//! Little-endian numbers at offsets that a file names, each checked.

pub(crate) fn bytes_at(file: &[u8], at: usize, n: usize) -> Result<&[u8], String> {
    at.checked_add(n).and_then(|end| file.get(at..end)).ok_or(format!("offset {at} is outside the file"))
}
pub(crate) fn u16_at(file: &[u8], at: usize) -> Result<u16, String> {
    Ok(u16::from_le_bytes(bytes_at(file, at, 2)?.try_into().expect("two bytes")))
}
pub(crate) fn u32_at(file: &[u8], at: usize) -> Result<u32, String> {
    Ok(u32::from_le_bytes(bytes_at(file, at, 4)?.try_into().expect("four bytes")))
}
pub(crate) fn u64_at(file: &[u8], at: usize) -> Result<u64, String> {
    Ok(u64::from_le_bytes(bytes_at(file, at, 8)?.try_into().expect("eight bytes")))
}
/// A text that ends with NUL.
pub(crate) fn text_at(file: &[u8], at: usize) -> Result<String, String> {
    let end = file.get(at..).and_then(|n| n.iter().position(|b| *b == 0)).ok_or("a name outside the file")?;
    Ok(String::from_utf8_lossy(&file[at..at + end]).into_owned())
}
