//! The two hash tables over dynamic symbols by which loaders find kernels by name.

/// GNU's hash of a name.
pub fn gnu(name: &str) -> u32 {
    name.bytes().fold(5381, |h: u32, b| h.wrapping_mul(33).wrapping_add(u32::from(b)))
}
/// System V ABI, chapter 5, "Hash Table".
fn sysv(name: &str) -> u32 {
    name.bytes().fold(0, |h: u32, b| {
        let h = (h << 4).wrapping_add(u32::from(b));
        let top = h & 0xf000_0000;
        (h ^ top >> 24) & !top
    })
}

/// How many buckets `.gnu.hash` has for this number of symbols; the symbols have to be in the buckets' order.
pub fn buckets(symbols: usize) -> u32 {
    (symbols / 4).max(1) as u32
}

/// The section `.gnu.hash` over `names`, which are the dynamic symbols from number 1 on.
pub fn gnu_table(names: &[&str]) -> Vec<u8> {
    const SHIFT: u32 = 26;
    let buckets = buckets(names.len());
    let words = (names.len() * 12 / 64 + 1).next_power_of_two();
    let (mut bloom, mut first) = (vec![0u64; words], vec![0u32; buckets as usize]);
    let mut chain = Vec::new();
    for (i, name) in names.iter().enumerate() {
        let h = gnu(name);
        bloom[(h / 64) as usize & (words - 1)] |= 1 << (h % 64) | 1 << (h >> SHIFT & 63);
        let bucket = h % buckets;
        if first[bucket as usize] == 0 {
            first[bucket as usize] = i as u32 + 1;
        }
        let last = names.get(i + 1).is_none_or(|n| gnu(n) % buckets != bucket);
        chain.push(h & !1 | u32::from(last));
    }
    let mut table: Vec<u8> = [buckets, 1, words as u32, SHIFT].iter().flat_map(|w| w.to_le_bytes()).collect();
    table.extend(bloom.iter().flat_map(|w| w.to_le_bytes()));
    table.extend(first.iter().chain(&chain).flat_map(|w| w.to_le_bytes()));
    table
}

/// The section `.hash` over the same.
pub fn sysv_table(names: &[&str]) -> Vec<u8> {
    let n = names.len() + 1;
    let (mut buckets, mut chains) = (vec![0u32; n], vec![0u32; n]);
    for (i, name) in names.iter().enumerate() {
        let bucket = &mut buckets[sysv(name) as usize % n];
        chains[i + 1] = *bucket;
        *bucket = i as u32 + 1;
    }
    [n as u32, n as u32].iter().chain(&buckets).chain(&chains).flat_map(|w| w.to_le_bytes()).collect()
}
