//! Buffers as arrays of words, and loads and stores in them.
//!
//! A `vector.load` of a scalar memref becomes an invalid bitcast in MLIR's conversion, so a buffer whose accesses are all
//! vectors of one width (or multiples of it) is retyped as an array of that width: `memref<64xf32>` read 4 at a time is
//! `memref<16xvector<4xf32>>`, `memref<64xi8>` read 4 at a time is `memref<16xi32>`. Where accesses disagree the word is
//! what divides them all, at worst one element.
//!
//! Elements narrower than a byte (`i1`, if widen-predicates was left out) are a byte to a scalar access and packed bits
//! to a vector access, as LLVM and MLIR define it.

use super::rewrite::{Lanes, Rewrite, count};
use melior::ir::{Attribute, Type};
use zmlc_passes::{
    ir::{B, O, V, ValueLike, elem, key, name, operand, operands, read, result, shape},
    pass::PassError,
};

/// A buffer's words, and then its value.
#[derive(Clone, Copy)]
pub struct Memory<'c> {
    pub r#type: Type<'c>,
    value: Option<V<'c>>,
    /// The element as the kernel was written.
    element: Type<'c>,
    /// The element as it is stored.
    stored: Type<'c>,
    /// Elements of a word.
    lanes: i64,
}

/// Bytes of the widest word.
const WIDEST: i64 = 16;

impl<'c> Memory<'c> {
    /// Chooses the word of `old` from all its uses. `bounded`: whether its type says how many words there are.
    pub fn plan(b: &B<'c>, old: V<'c>, class: &str, bounded: bool) -> Result<Self, PassError> {
        let t = old.r#type();
        let element = elem(t);
        if shape(t).iter().any(|d| *d < 0) {
            return Err(PassError::Bug(format!("`{t}` has no static shape")));
        }
        let stored = stored(b, element)?;
        let bytes = i64::from(read::bits(stored)) / 8;
        let users = read::uses(old);
        // Nothing to agree on where nothing reads or writes.
        let mut lanes = if users.is_empty() { 1 } else { WIDEST / bytes };
        for (user, _) in users {
            lanes = gcd(lanes, width(user, element, bytes)?);
        }
        // Of single 16-bit elements a fragment is loaded as floats only.
        let fragments = read::uses(old).iter().any(|(user, _)| name(*user).starts_with("zml."));
        let stored = if lanes == 1 && fragments && read::is_bf16(element) { b.ty("f16") } else { stored };
        let total = shape(t).iter().product::<i64>();
        // A buffer that only vectors touch is touched in whole words: what is left over at its end is not.
        let words = if class == "StorageBuffer" { total / lanes } else { (total + lanes - 1) / lanes };
        let (word, words) = (word(b, stored, lanes), words.max(1).to_string());
        let words = if bounded { &words } else { "?" };
        let r#type = b.ty(&format!("memref<{words}x{word}, #spirv.storage_class<{class}>>"));
        Ok(Memory { r#type, value: None, element, stored, lanes })
    }
    pub fn at(self, value: V<'c>) -> Self {
        Memory { value: Some(value), ..self }
    }
    pub fn value(&self) -> V<'c> {
        self.value.expect("placed")
    }
    pub fn lanes(&self) -> i64 {
        self.lanes
    }
    fn load_word(&self, b: &B<'c>, at: V<'c>) -> V<'c> {
        b.op1("memref.load", &[self.value(), at], elem(self.r#type), &[])
    }
    fn store_word(&self, b: &B<'c>, x: V<'c>, at: V<'c>) {
        b.op("memref.store", &[x, self.value(), at], &[], &[], vec![]);
    }

    /// `n` consecutive elements from element `index` on, as values.
    fn load(&self, b: &B<'c>, index: V<'c>, n: i64) -> Lanes<'c> {
        let first = quotient(b, index, self.lanes);
        let mut found = vec![];
        for w in 0..n / self.lanes {
            let word = self.load_word(b, offset(b, first, w));
            let parts = self.unpack(b, word);
            found.extend(parts);
        }
        found
    }
    fn store(&self, b: &B<'c>, values: &[V<'c>], index: V<'c>) {
        let first = quotient(b, index, self.lanes);
        for (w, parts) in values.chunks(self.lanes as usize).enumerate() {
            let word = self.pack(b, parts);
            self.store_word(b, word, offset(b, first, w as i64));
        }
    }

    /// The elements of a word.
    fn unpack(&self, b: &B<'c>, word: V<'c>) -> Lanes<'c> {
        if self.lanes == 1 {
            return vec![self.hold(b, word)];
        }
        let components = components(b, word);
        if components.len() as i64 == self.lanes {
            return components.into_iter().map(|x| self.hold(b, x)).collect();
        }
        let each = self.lanes / components.len() as i64;
        components.into_iter().flat_map(|x| self.split(b, x, each)).collect()
    }
    fn pack(&self, b: &B<'c>, parts: &[V<'c>]) -> V<'c> {
        let word = elem(self.r#type);
        let n = read::vector_len(word).unwrap_or(1);
        let parts: Lanes = if self.lanes == n {
            parts.iter().map(|x| self.unhold(b, *x)).collect()
        } else {
            parts.chunks((self.lanes / n) as usize).map(|x| self.join(b, x)).collect()
        };
        if n == 1 { parts[0] } else { b.op1("vector.from_elements", &parts, word, &[]) }
    }
    /// The `each` elements of an integer.
    fn split(&self, b: &B<'c>, x: V<'c>, each: i64) -> Lanes<'c> {
        let int = x.r#type();
        if read::is_bf16(self.element) {
            let high = b.same("arith.andi", &[x, b.cint(int, 0xffff_0000)]);
            let low = b.same("arith.shli", &[x, b.cint(int, 16)]);
            return [low, high].map(|x| b.op1("arith.bitcast", &[x], b.f32(), &[])).to_vec();
        }
        let parts = b.op1("spirv.Bitcast", &[x], b.vector(each, self.stored), &[]);
        components(b, parts).into_iter().map(|x| self.hold(b, x)).collect()
    }
    fn join(&self, b: &B<'c>, parts: &[V<'c>]) -> V<'c> {
        let bits = i64::from(read::bits(self.stored));
        let int = b.i((bits * parts.len() as i64) as u32);
        if read::is_bf16(self.element) {
            let [low, high] = [parts[0], parts[1]].map(|x| b.op1("arith.bitcast", &[x], int, &[]));
            let low = b.same("arith.shrui", &[low, b.cint(int, 16)]);
            return b.same("arith.ori", &[low, high]);
        }
        let parts: Lanes = parts.iter().map(|x| self.unhold(b, *x)).collect();
        let vector = b.op1("vector.from_elements", &parts, b.vector(parts.len() as i64, self.stored), &[]);
        b.op1("spirv.Bitcast", &[vector], int, &[])
    }
    /// A stored element as it is held.
    fn hold(&self, b: &B<'c>, x: V<'c>) -> V<'c> {
        if read::is_bf16(self.element) {
            let x = if read::is_float(self.stored) { b.op1("arith.bitcast", &[x], b.i(16), &[]) } else { x };
            let wide = b.op1("arith.extui", &[x], b.i(32), &[]);
            let high = b.same("arith.shli", &[wide, b.cint(b.i(32), 16)]);
            b.op1("arith.bitcast", &[high], b.f32(), &[])
        } else if read::is_i1(self.element) {
            b.op1("arith.trunci", &[x], self.element, &[])
        } else {
            x
        }
    }
    fn unhold(&self, b: &B<'c>, x: V<'c>) -> V<'c> {
        if read::is_bf16(self.element) {
            let bits = b.op1("arith.bitcast", &[x], b.i(32), &[]);
            let high = b.same("arith.shrui", &[bits, b.cint(b.i(32), 16)]);
            let bits = b.op1("arith.trunci", &[high], b.i(16), &[]);
            if read::is_float(self.stored) { b.op1("arith.bitcast", &[bits], self.stored, &[]) } else { bits }
        } else if read::is_i1(self.element) {
            b.op1("arith.extui", &[x], self.stored, &[])
        } else {
            x
        }
    }

    /// `n` elements of `bits` bits each, packed from byte `index` on.
    fn load_packed(&self, b: &B<'c>, index: V<'c>, n: i64) -> Lanes<'c> {
        let bits = i64::from(read::bits(self.element));
        let bytes: Lanes = (0..(n * bits + 7) / 8).map(|k| self.load_word(b, offset(b, index, k))).collect();
        (0..n)
            .map(|i| {
                let (byte, shift) = (bytes[(i * bits / 8) as usize], i * bits % 8);
                let low = b.same("arith.shrui", &[byte, b.cint(self.stored, shift)]);
                b.op1("arith.trunci", &[low], self.element, &[])
            })
            .collect()
    }
    fn store_packed(&self, b: &B<'c>, values: &[V<'c>], index: V<'c>) {
        let per_byte = 8 / i64::from(read::bits(self.element));
        for (k, parts) in values.chunks(per_byte as usize).enumerate() {
            let mut byte = b.cint(self.stored, 0);
            for (i, x) in parts.iter().enumerate() {
                let wide = b.op1("arith.extui", &[*x], self.stored, &[]);
                let shift = b.cint(self.stored, i as i64 * 8 / per_byte);
                byte = b.same("arith.ori", &[byte, b.same("arith.shli", &[wide, shift])]);
            }
            self.store_word(b, byte, offset(b, index, k as i64));
        }
    }
}

impl<'c> Rewrite<'c> {
    pub fn allocate(&mut self, b: &B<'c>, old: V<'c>, class: &str, op: &str) -> Result<(), PassError> {
        let memory = Memory::plan(b, old, class, true)?;
        let value = b.op1(op, &[], memory.r#type, &[("operandSegmentSizes", b.i32s(&[0, 0]))]);
        self.memory.insert(key(old), memory.at(value));
        Ok(())
    }
    pub fn memory_op(&mut self, b: &B<'c>, op: O<'c>) -> Result<(), PassError> {
        match name(op) {
            "memref.load" | "vector.load" => {
                let y = result(op, 0);
                let (memory, index) = self.place(b, op, 0)?;
                let n = count(y) as i64;
                let is_vector = read::vector_len(y.r#type()).is_some();
                let lanes = if is_vector && read::bits(memory.element) < 8 {
                    memory.load_packed(b, index, n)
                } else {
                    memory.load(b, index, n)
                };
                self.set(y, lanes);
            }
            "memref.store" | "vector.store" => {
                let x = operand(op, 0);
                let (memory, index) = self.place(b, op, 1)?;
                let lanes = self.lanes(x);
                if read::vector_len(x.r#type()).is_some() && read::bits(memory.element) < 8 {
                    memory.store_packed(b, &lanes, index);
                } else {
                    memory.store(b, &lanes, index);
                }
            }
            "memref.alloca" => self.allocate(b, result(op, 0), "Function", "memref.alloca")?,
            "memref.atomic_rmw" => {
                let (memory, index) = self.place(b, op, 1)?;
                let x = self.one(operand(op, 0));
                let operands = [x, memory.value(), index];
                let y = b.op1(name(op), &operands, memory.stored, &read::attributes(op));
                self.set(result(op, 0), vec![y]);
            }
            other => return Err(PassError::Bug(format!("`{other}` does not belong in a kernel"))),
        }
        Ok(())
    }
    /// The memory that operand `base` names, and the flat index that the operands after it make.
    pub fn place(&mut self, b: &B<'c>, op: O<'c>, base: usize) -> Result<(Memory<'c>, V<'c>), PassError> {
        let old = operand(op, base);
        let memory = *self.memory.get(&key(old)).ok_or_else(|| {
            PassError::Bug(format!("`{}` reads memory that is neither an argument nor an allocation", name(op)))
        })?;
        let indices = &operands(op)[base + 1..];
        let mut flat = b.cidx(0);
        for (i, extent) in indices.iter().zip(shape(old.r#type())) {
            let i = self.one(*i);
            // The first index of a flat memref stays what it is, so that a division by the word finds its product.
            flat = if indices.len() == 1 { i } else { b.addi(b.muli(flat, b.cidx(extent)), i) };
        }
        Ok((memory, flat))
    }
}

/// What one access of a buffer moves, in elements: the word must divide it.
fn width(user: O, element: Type, bytes: i64) -> Result<i64, PassError> {
    let vector = match name(user) {
        "memref.load" | "memref.store" | "memref.atomic_rmw" => return Ok(1),
        "vector.load" => result(user, 0),
        "vector.store" => operand(user, 0),
        // Places of fragments are multiples of 16 elements or of the stride.
        "zml.fragment_load" | "zml.fragment_store" => return Ok(read::int_attr(user, "stride").unwrap_or(1)),
        other => return Err(PassError::Bug(format!("how `{other}` accesses memory is not known"))),
    };
    if read::bits(element) < 8 {
        return Ok(1);
    }
    let aligned = read::int_attr(user, "alignment").unwrap_or(bytes) / bytes;
    Ok(gcd(count(vector) as i64, aligned.max(1)))
}
fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The type that an element has in memory.
fn stored<'c>(b: &B<'c>, element: Type<'c>) -> Result<Type<'c>, PassError> {
    match (read::int_bits(element), read::is_float(element)) {
        (Some(8 | 16 | 32 | 64), _) => Ok(element),
        (Some(1), _) => Ok(b.i(8)),
        (None, true) => match read::bits(element) {
            8 => Ok(b.i(8)),
            16 if read::is_bf16(element) => Ok(b.i(16)),
            16 | 32 | 64 => Ok(element),
            _ => Err(unsupported(element)),
        },
        _ => Err(unsupported(element)),
    }
}
fn unsupported(t: Type) -> PassError {
    PassError::Unsupported {
        what: format!("no buffers of `{t}` on this target"),
        hint: "convert to a type of 8, 16, 32 or 64 bits".into(),
    }
}
/// The type of `lanes` elements as one word.
fn word<'c>(b: &B<'c>, stored: Type<'c>, lanes: i64) -> Type<'c> {
    let bits = i64::from(read::bits(stored));
    match (lanes, bits * lanes) {
        (1, _) => stored,
        _ if bits >= 32 => b.vector(lanes, stored),
        (_, total @ (16 | 32)) => b.i(total as u32),
        (_, total) => b.vector(total / 32, b.i(32)),
    }
}
/// The components of a vector word, or the word itself.
fn components<'c>(b: &B<'c>, word: V<'c>) -> Lanes<'c> {
    match read::vector_len(word.r#type()) {
        None => vec![word],
        Some(n) => (0..n)
            .map(|i| {
                let position: [(&str, Attribute); 1] = [("static_position", b.i64s(&[i]))];
                b.op1("vector.extract", &[word], elem(word.r#type()), &position)
            })
            .collect(),
    }
}
fn offset<'c>(b: &B<'c>, index: V<'c>, by: i64) -> V<'c> {
    if by == 0 { index } else { b.addi(index, b.cidx(by)) }
}
/// `index / by` for an index that is a multiple of `by`, a power of two: taken out of products and sums where that is plain.
pub fn quotient<'c>(b: &B<'c>, index: V<'c>, by: i64) -> V<'c> {
    divide(b, index, by).unwrap_or_else(|| b.same("arith.shrui", &[index, b.cidx(i64::from(by.ilog2()))]))
}
fn divide<'c>(b: &B<'c>, index: V<'c>, by: i64) -> Option<V<'c>> {
    if by == 1 {
        return Some(index);
    }
    let op = read::def(index)?;
    match name(op) {
        "arith.constant" => {
            let x = read::int_attr(op, "value").filter(|x| x % by == 0)?;
            Some(b.cidx(x / by))
        }
        "arith.muli" => {
            let (x, y) = (operand(op, 0), operand(op, 1));
            if let Some(y) = divide(b, y, by) { Some(b.muli(x, y)) } else { divide(b, x, by).map(|x| b.muli(x, y)) }
        }
        "arith.addi" => {
            let (x, y) = (divide(b, operand(op, 0), by)?, divide(b, operand(op, 1), by)?);
            Some(b.addi(x, y))
        }
        _ => None,
    }
}
