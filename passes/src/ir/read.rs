//! Looking at ops, values, types and attributes.

use super::{AttributeLike, Blk, BlockLike, O, OperationLike, TypeLike, V, ValueLike};
use melior::ir::{
    Attribute, BlockRef, Module, OperationRef, Type, Value,
    attribute::{
        ArrayAttribute, BoolAttribute, DenseI32ArrayAttribute, DenseI64ArrayAttribute, FlatSymbolRefAttribute,
        IntegerAttribute, StringAttribute,
    },
};
use mlir_sys::*;

pub(crate) fn value<'c>(raw: MlirValue) -> V<'c> {
    // Sound while the IR lives, see the module's contract.
    unsafe { Value::from_raw(raw) }
}
pub(crate) fn op_ref<'c>(raw: MlirOperation) -> O<'c> {
    // Sound while the IR lives, see the module's contract.
    unsafe { OperationRef::from_raw(raw) }
}

/// Identity of a value while no op is erased.
pub fn key(v: V) -> usize {
    v.to_raw().ptr as usize
}
/// Identity of an op while no op is erased.
pub fn op_key(op: O) -> usize {
    op.to_raw().ptr as usize
}
pub fn name<'c>(op: O<'c>) -> &'c str {
    // The name is interned in the context, which outlives 'c.
    unsafe {
        let s = mlirIdentifierStr(mlirOperationGetName(op.to_raw()));
        std::str::from_utf8_unchecked(std::slice::from_raw_parts(s.data.cast(), s.length))
    }
}
/// The op that defines a value, or none for a block argument.
pub fn def<'c>(v: V<'c>) -> Option<O<'c>> {
    if v.is_block_argument() { None } else { Some(op_ref(unsafe { mlirOpResultGetOwner(v.to_raw()) })) }
}
/// Which result of its op a value is.
pub fn result_number(v: V) -> usize {
    unsafe { mlirOpResultGetResultNumber(v.to_raw()) as usize }
}
/// Which argument of its block a value is.
pub fn arg_number(v: V) -> usize {
    unsafe { mlirBlockArgumentGetArgNumber(v.to_raw()) as usize }
}
/// The op whose region a block argument belongs to.
pub fn owner<'c>(v: V<'c>) -> Option<O<'c>> {
    // Sound: asked of block arguments only, whose block has a parent op or none.
    let parent =
        v.is_block_argument().then(|| unsafe { mlirBlockGetParentOperation(mlirBlockArgumentGetOwner(v.to_raw())) })?;
    (!parent.ptr.is_null()).then(|| op_ref(parent))
}
pub fn result<'c>(op: O<'c>, i: usize) -> V<'c> {
    value(unsafe { mlirOperationGetResult(op.to_raw(), i as isize) })
}
pub fn results<'c>(op: O<'c>) -> Vec<V<'c>> {
    (0..op.result_count()).map(|i| result(op, i)).collect()
}
pub fn operand<'c>(op: O<'c>, i: usize) -> V<'c> {
    value(unsafe { mlirOperationGetOperand(op.to_raw(), i as isize) })
}
pub fn operands<'c>(op: O<'c>) -> Vec<V<'c>> {
    (0..op.operand_count()).map(|i| operand(op, i)).collect()
}
/// The ops of a block, so that it may change while they are walked.
pub fn ops<'c>(block: Blk<'c>) -> Vec<O<'c>> {
    let mut found = vec![];
    let mut next = block.first_operation();
    while let Some(op) = next {
        found.push(op_ref(op.to_raw()));
        next = op.next_in_block();
    }
    found
}
/// First block of a region.
pub fn block<'c>(op: O<'c>, region: usize) -> Blk<'c> {
    unsafe { BlockRef::from_raw(mlirRegionGetFirstBlock(mlirOperationGetRegion(op.to_raw(), region as isize))) }
}
/// Every block of every region of an op.
pub fn blocks<'c>(op: O<'c>) -> Vec<Blk<'c>> {
    let mut found = vec![];
    for r in 0..op.region_count() {
        let mut b = unsafe { mlirRegionGetFirstBlock(mlirOperationGetRegion(op.to_raw(), r as isize)) };
        while !b.ptr.is_null() {
            found.push(unsafe { BlockRef::from_raw(b) });
            b = unsafe { mlirBlockGetNextInRegion(b) };
        }
    }
    found
}
/// First block of a region, or none if the region is empty.
pub fn region_block<'c>(op: O<'c>, region: usize) -> Option<Blk<'c>> {
    let first = unsafe { mlirRegionGetFirstBlock(mlirOperationGetRegion(op.to_raw(), region as isize)) };
    (!first.ptr.is_null()).then(|| unsafe { BlockRef::from_raw(first) })
}
pub fn body<'c>(module: &Module<'c>) -> Blk<'c> {
    unsafe { BlockRef::from_raw(module.body().to_raw()) }
}
pub fn arg<'c>(block: Blk<'c>, i: usize) -> V<'c> {
    value(unsafe { mlirBlockGetArgument(block.to_raw(), i as isize) })
}
pub fn args<'c>(block: Blk<'c>) -> Vec<V<'c>> {
    (0..block.argument_count()).map(|i| arg(block, i)).collect()
}
/// Whether an op stands directly in this block.
pub fn in_block<'c>(op: O<'c>, block: Blk<'c>) -> bool {
    unsafe { mlirBlockEqual(mlirOperationGetBlock(op.to_raw()), block.to_raw()) }
}
/// Every use of a value as (user, operand number).
pub fn uses<'c>(v: V<'c>) -> Vec<(O<'c>, usize)> {
    let mut found = vec![];
    unsafe {
        let mut u = mlirValueGetFirstUse(v.to_raw());
        while !mlirOpOperandIsNull(u) {
            found.push((op_ref(mlirOpOperandGetOwner(u)), mlirOpOperandGetOperandNumber(u) as usize));
            u = mlirOpOperandGetNextUse(u);
        }
    }
    found
}
/// The op that an op is nested in.
pub fn parent<'c>(op: O<'c>) -> Option<O<'c>> {
    let raw = unsafe { mlirOperationGetParentOperation(op.to_raw()) };
    (!raw.ptr.is_null()).then(|| op_ref(raw))
}
/// Every op nested in `op`, itself included, parents first.
pub fn walk<'c>(op: O<'c>) -> Vec<O<'c>> {
    let mut found = vec![op];
    for inner in blocks(op).into_iter().flat_map(ops) {
        found.extend(walk(inner));
    }
    found
}
/// Values of the op's own block that it or anything nested in it reads (a linalg body may capture tensors), once each.
pub fn reads<'c>(op: O<'c>) -> Vec<V<'c>> {
    let home = unsafe { mlirOperationGetBlock(op.to_raw()).ptr };
    let mut seen = std::collections::HashSet::new();
    let mut found = vec![];
    for inner in walk(op) {
        for v in operands(inner) {
            let owner = unsafe {
                if mlirValueIsABlockArgument(v.to_raw()) {
                    mlirBlockArgumentGetOwner(v.to_raw())
                } else {
                    mlirOperationGetBlock(mlirOpResultGetOwner(v.to_raw()))
                }
            };
            if owner.ptr == home && seen.insert(key(v)) {
                found.push(v);
            }
        }
    }
    found
}

/// Extents of a shaped type; empty for a scalar.
pub fn shape(t: Type) -> Vec<i64> {
    if !unsafe { mlirTypeIsAShaped(t.to_raw()) } {
        return vec![];
    }
    unsafe {
        (0..mlirShapedTypeGetRank(t.to_raw())).map(|i| mlirShapedTypeGetDimSize(t.to_raw(), i as isize)).collect()
    }
}
/// Element type of a shaped type, and a scalar type itself.
pub fn elem<'c>(t: Type<'c>) -> Type<'c> {
    if unsafe { mlirTypeIsAShaped(t.to_raw()) } {
        unsafe { Type::from_raw(mlirShapedTypeGetElementType(t.to_raw())) }
    } else {
        t
    }
}
/// The same vector or memref type (shape, layout, memory space) with another element type.
pub fn with_elem<'c>(t: Type<'c>, e: Type<'c>) -> Type<'c> {
    let dims = shape(t);
    let rank = dims.len() as isize;
    unsafe {
        Type::from_raw(if mlirTypeIsAMemRef(t.to_raw()) {
            let (layout, space) = (mlirMemRefTypeGetLayout(t.to_raw()), mlirMemRefTypeGetMemorySpace(t.to_raw()));
            mlirMemRefTypeGet(e.to_raw(), rank, dims.as_ptr(), layout, space)
        } else {
            assert!(mlirTypeIsAVector(t.to_raw()), "{t} is neither a vector nor a memref");
            mlirVectorTypeGet(rank, dims.as_ptr(), e.to_raw())
        })
    }
}
pub fn elements(t: Type) -> i64 {
    shape(t).iter().product()
}
pub fn is_tensor(t: Type) -> bool {
    t.is_ranked_tensor()
}
pub fn is_float(t: Type) -> bool {
    unsafe { mlirTypeIsAFloat(t.to_raw()) }
}
/// Bits of an integer type, if it is one.
pub fn int_bits(t: Type) -> Option<u32> {
    unsafe { mlirTypeIsAInteger(t.to_raw()).then(|| mlirIntegerTypeGetWidth(t.to_raw())) }
}
/// Bits of an integer or float type.
pub fn bits(t: Type) -> u32 {
    int_bits(t).unwrap_or_else(|| {
        assert!(is_float(t), "{t} has no width");
        unsafe { mlirFloatTypeGetWidth(t.to_raw()) }
    })
}
/// Bytes of one element in a buffer: a value never shares a byte with another.
pub fn elem_bytes(t: Type) -> i64 {
    let e = elem(t);
    unsafe {
        if mlirTypeIsAComplex(e.to_raw()) {
            return 2 * elem_bytes(Type::from_raw(mlirComplexTypeGetElementType(e.to_raw())));
        }
    }
    i64::from(bits(e).div_ceil(8))
}
pub fn is_i1(t: Type) -> bool {
    int_bits(t) == Some(1)
}
pub fn is_index(t: Type) -> bool {
    t.is_index()
}
pub fn is_bf16(t: Type) -> bool {
    unsafe { mlirTypeIsABF16(t.to_raw()) }
}

pub fn attr<'c>(op: O<'c>, name: &str) -> Option<Attribute<'c>> {
    op.attribute(name).ok().map(|a| unsafe { Attribute::from_raw(a.to_raw()) })
}
/// Every attribute of an op, inherent ones too.
pub fn attributes<'c>(op: O<'c>) -> Vec<(&'c str, Attribute<'c>)> {
    unsafe {
        (0..mlirOperationGetNumAttributes(op.to_raw()))
            .map(|i| {
                let a = mlirOperationGetAttribute(op.to_raw(), i);
                let s = mlirIdentifierStr(a.name);
                // The name is interned in the context, which outlives 'c.
                let name = std::str::from_utf8_unchecked(std::slice::from_raw_parts(s.data.cast(), s.length));
                (name, Attribute::from_raw(a.attribute))
            })
            .collect()
    }
}
pub fn has_attr(op: O, name: &str) -> bool {
    op.has_attribute(name)
}
pub fn int_attr(op: O, name: &str) -> Option<i64> {
    let a: IntegerAttribute = attr(op, name)?.try_into().ok()?;
    Some(a.value())
}
/// Predicates of `arith.cmpf` by their numbers: `oeq`, and its opposite.
pub const OEQ: i64 = 1;
pub const UNE: i64 = 13;
pub fn bool_attr(op: O, name: &str) -> Option<bool> {
    let a: BoolAttribute = attr(op, name)?.try_into().ok()?;
    Some(a.value())
}
pub fn str_attr<'c>(op: O<'c>, name: &str) -> Option<&'c str> {
    let a: StringAttribute = attr(op, name)?.try_into().ok()?;
    // Interned in the context.
    Some(unsafe { text(mlirStringAttrGetValue(a.to_raw())) })
}
pub fn symbol_attr<'c>(op: O<'c>, name: &str) -> Option<&'c str> {
    let a: FlatSymbolRefAttribute = attr(op, name)?.try_into().ok()?;
    // Interned in the context.
    Some(unsafe { text(mlirFlatSymbolRefAttrGetValue(a.to_raw())) })
}
/// A string of MLIR's, which may be empty (melior's own reader of string references is undefined on those).
///
/// # Safety
/// It is UTF-8 and lives as long as 'c.
unsafe fn text<'c>(s: MlirStringRef) -> &'c str {
    if s.length == 0 {
        return "";
    }
    unsafe { std::str::from_utf8_unchecked(std::slice::from_raw_parts(s.data.cast(), s.length)) }
}
/// `array<i64: ...>`
pub fn i64s_attr(op: O, name: &str) -> Option<Vec<i64>> {
    let a: DenseI64ArrayAttribute = attr(op, name)?.try_into().ok()?;
    Some((0..a.len()).map(|i| a.element(i).expect("in range")).collect())
}
/// `array<i32: ...>`
pub fn i32s_attr(op: O, name: &str) -> Option<Vec<i32>> {
    let a: DenseI32ArrayAttribute = attr(op, name)?.try_into().ok()?;
    Some((0..a.len()).map(|i| a.element(i).expect("in range")).collect())
}
pub fn array<'c>(a: Attribute<'c>) -> Vec<Attribute<'c>> {
    match ArrayAttribute::try_from(a) {
        Ok(a) => {
            (0..a.len()).map(|i| unsafe { Attribute::from_raw(a.element(i).expect("in range").to_raw()) }).collect()
        }
        Err(_) => vec![],
    }
}
/// Entry of a dictionary attribute.
pub fn dict_get<'c>(a: Attribute<'c>, name: &str) -> Option<Attribute<'c>> {
    unsafe {
        if !mlirAttributeIsADictionary(a.to_raw()) {
            return None;
        }
        let found = mlirDictionaryAttrGetElementByName(a.to_raw(), melior::StringRef::new(name).to_raw());
        (!found.ptr.is_null()).then(|| Attribute::from_raw(found))
    }
}
/// A dense attribute of tensor type `t` that holds `value` everywhere.
pub fn splat<'c>(t: Type<'c>, value: Attribute<'c>) -> Attribute<'c> {
    unsafe { Attribute::from_raw(mlirDenseElementsAttrSplatGet(t.to_raw(), value.to_raw())) }
}
/// Whether a dense elements attribute holds one value everywhere.
pub fn dense_is_splat(a: Attribute) -> bool {
    unsafe { mlirAttributeIsADenseElements(a.to_raw()) && mlirDenseElementsAttrIsSplat(a.to_raw()) }
}
/// The elements of dense data, row-major, little-endian, each of whole bytes (a predicate is one), a splat written out.
/// None for an attribute of another kind.
pub fn dense_bytes(a: Attribute) -> Option<Vec<u8>> {
    unsafe {
        let raw = a.to_raw();
        if !mlirAttributeIsADenseElements(raw) {
            return None;
        }
        let t: Type = Type::from_raw(mlirAttributeGetType(raw));
        let count = elements(t).max(0) as usize;
        if is_i1(elem(t)) {
            return Some((0..count).map(|i| u8::from(mlirDenseElementsAttrGetBoolValue(raw, i as isize))).collect());
        }
        if count == 0 {
            return Some(vec![]);
        }
        let width = elem_bytes(t) as usize;
        let splat = mlirDenseElementsAttrIsSplat(raw);
        // Sound: MLIR keeps every other element in whole bytes of its width, once for a splat.
        let data = std::slice::from_raw_parts(
            mlirDenseElementsAttrGetRawData(raw).cast::<u8>(),
            width * if splat { 1 } else { count },
        );
        Some(if splat { data.repeat(count) } else { data.to_vec() })
    }
}
/// The groups of expand_shape or collapse_shape.
pub fn reassociation(op: O) -> Vec<Vec<usize>> {
    let groups = attr(op, "reassociation").map(array).unwrap_or_default();
    let number = |a: &Attribute| IntegerAttribute::try_from(*a).map_or(0, |i| i.value() as usize);
    groups.into_iter().map(|g| array(g).iter().map(number).collect()).collect()
}
/// The op with this symbol in a block.
pub fn find<'c>(block: Blk<'c>, symbol: &str) -> Option<O<'c>> {
    ops(block).into_iter().find(|op| str_attr(*op, "sym_name") == Some(symbol))
}
/// Elements of a vector type, if it is one.
pub fn vector_len(t: Type) -> Option<i64> {
    unsafe { mlirTypeIsAVector(t.to_raw()) }.then(|| elements(t))
}
pub fn location<'c>(op: O<'c>) -> melior::ir::Location<'c> {
    unsafe { melior::ir::Location::from_raw(mlirOperationGetLocation(op.to_raw())) }
}
/// The module as an op.
pub fn module_op<'c>(module: &Module<'c>) -> O<'c> {
    op_ref(module.as_operation().to_raw())
}
/// Elements of `array<i64: ...>`.
pub fn i64s(a: Attribute) -> Option<Vec<i64>> {
    let a = DenseI64ArrayAttribute::try_from(a).ok()?;
    Some((0..a.len()).map(|i| a.element(i).expect("in range")).collect())
}
/// A string attribute's text.
pub fn string(a: Attribute) -> Option<String> {
    StringAttribute::try_from(a).ok().map(|s| unsafe { text(mlirStringAttrGetValue(s.to_raw())) }.to_string())
}
/// Elements of `array<i32: ...>`.
pub fn i32s(a: Attribute) -> Option<Vec<i32>> {
    let a = DenseI32ArrayAttribute::try_from(a).ok()?;
    Some((0..a.len()).map(|i| a.element(i).expect("in range")).collect())
}
/// An integer attribute's value.
pub fn int(a: Attribute) -> Option<i64> {
    IntegerAttribute::try_from(a).ok().map(|i| i.value())
}
