// The zml dialect: what has no structured form in linalg (level 1), and the host program (level 2).
#ifndef ZML
#define ZML
include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/CommonTypeConstraints.td"
include "mlir/IR/CommonAttrConstraints.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

def Zml_Dialect : Dialect {
  let name = "zml";
  let cppNamespace = "::zml";
  let useDefaultTypePrinterParser = 1;
}
class Zml_Op<string m, list<Trait> t = []> : Op<Zml_Dialect, m, t>;

//===------------------------------- level 1: tensors -------------------------------===//

def Zml_YieldOp : Zml_Op<"yield", [Pure, Terminator, ReturnLike, ParentOneOf<["SortOp", "ScatterOp", "ScanOp"]>]> {
  let summary = "ends a region of sort, scatter or scan";
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
}

def Zml_DynamicUpdateSliceOp : Zml_Op<"dynamic_update_slice", [Pure, AllTypesMatch<["operand", "result"]>]> {
  let summary = "operand with update written at clamped start indices";
  let description = [{
    StableHLO dynamic_update_slice: one rank-0 integer tensor for each dimension of `operand`; a start is clamped to
    [0, dim(operand) - dim(update)]. `unsigned_starts`: the start indices are unsigned.
  }];
  let arguments = (ins AnyRankedTensor:$operand, AnyRankedTensor:$update, Variadic<AnyRankedTensor>:$starts, UnitAttr:$unsigned_starts);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$operand `,` $update `at` `[` $starts `]` attr-dict `:` type($operand) `,` type($update) `at` `[` type($starts) `]`";
}

def Zml_SortOp : Zml_Op<"sort", [RecursiveMemoryEffects, SingleBlock, IsolatedFromAbove]> {
  let summary = "sorts all inputs together along one dimension";
  let arguments = (ins Variadic<AnyRankedTensor>:$inputs, I64Attr:$dimension, BoolAttr:$is_stable);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let regions = (region SizedRegion<1>:$comparator);
  let assemblyFormat = "$inputs `dim` `=` $dimension `stable` `=` $is_stable $comparator attr-dict `:` functional-type($inputs, $outputs)";
  let hasRegionVerifier = 1;
}

def Zml_ScatterOp : Zml_Op<"scatter", [SameVariadicOperandSize, RecursiveMemoryEffects, SingleBlock, IsolatedFromAbove]> {
  let summary = "StableHLO scatter: inputs with updates combined in at indices";
  let description = [{
    Operands are `inputs`, `indices`, `updates` (as many as inputs). The dimension numbers have StableHLO's names and
    meaning. An update whose window falls outside is skipped. Region: (input elements, update elements) -> new elements.
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$inputs, AnyRankedTensor:$indices, Variadic<AnyRankedTensor>:$updates,
    DenseI64ArrayAttr:$update_window_dims, DenseI64ArrayAttr:$inserted_window_dims, DenseI64ArrayAttr:$input_batching_dims,
    DenseI64ArrayAttr:$scatter_indices_batching_dims, DenseI64ArrayAttr:$scatter_dims_to_operand_dims, I64Attr:$index_vector_dim,
    BoolAttr:$unique_indices, UnitAttr:$unsigned_indices);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let regions = (region SizedRegion<1>:$update);
  let assemblyFormat = "`(` $inputs `)` `[` $indices `]` `(` $updates `)` $update attr-dict `:` `(` type($inputs) `)` `[` type($indices) `]` `(` type($updates) `)` `->` type($outputs)";
}

def Zml_ScanOp : Zml_Op<"scan", [SameVariadicOperandSize, RecursiveMemoryEffects, SingleBlock, IsolatedFromAbove]> {
  let summary = "running reduction along one dimension";
  let description = [{
    Element i of a result is inits combined with elements 0 .. i of the inputs (0 .. i-1 if `exclusive`), or with elements
    n-1 .. i (n-1 .. i+1) if `reverse`. `inits` have the inputs' shape without the dimension. Region, associative: (elements,
    elements that come after them in the tensor) -> combined.
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$inputs, Variadic<AnyRankedTensor>:$inits, I64Attr:$dimension, BoolAttr:$reverse,
    BoolAttr:$exclusive);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let regions = (region SizedRegion<1>:$combiner);
  let assemblyFormat = "`(` $inputs `)` `from` `(` $inits `)` `dim` `=` $dimension `reverse` `=` $reverse `exclusive` `=` $exclusive $combiner attr-dict `:` `(` type($inputs) `)` `from` `(` type($inits) `)` `->` type($outputs)";
}

//===------------------------- in kernels: matrix products --------------------------===//

def Zml_Fragment : TypeDef<Zml_Dialect, "Fragment"> {
  let mnemonic = "fragment";
  let summary = "a matrix that the threads of one subgroup hold together";
  let description = [{
    `use` is "a" or "b" for the factors of a product and "c" for what it is added to. Which thread holds which element
    is the target's business: elements come and go through workgroup memory.
  }];
  let parameters = (ins StringRefParameter<>:$use, "int64_t":$rows, "int64_t":$columns, "::mlir::Type":$element);
  let assemblyFormat = "`<` $use `,` $rows `,` $columns `,` $element `>`";
}

def Zml_FragmentFillOp : Zml_Op<"fragment_fill", [Pure]> {
  let summary = "every element is `value`";
  let arguments = (ins AnyType:$value);
  let results = (outs Zml_Fragment:$result);
  let assemblyFormat = "$value attr-dict `:` type($value) `->` type($result)";
}

def Zml_FragmentLoadOp : Zml_Op<"fragment_load", [MemoryEffects<[MemRead]>]> {
  let summary = "element (r, c) is memory[at + r stride + c], or with `transposed` memory[at + c stride + r]";
  let arguments = (ins AnyMemRef:$memory, Index:$at, I64Attr:$stride, UnitAttr:$transposed);
  let results = (outs Zml_Fragment:$result);
  let assemblyFormat = "$memory `[` $at `]` `stride` `=` $stride (`transposed` $transposed^)? attr-dict `:` type($memory) `->` type($result)";
}

def Zml_FragmentStoreOp : Zml_Op<"fragment_store", [MemoryEffects<[MemWrite]>]> {
  let summary = "memory[at + r stride + c] is element (r, c) of a fragment of use c";
  let arguments = (ins Zml_Fragment:$fragment, AnyMemRef:$memory, Index:$at, I64Attr:$stride);
  let assemblyFormat = "$fragment `,` $memory `[` $at `]` `stride` `=` $stride attr-dict `:` type($fragment) `,` type($memory)";
}

def Zml_MmaOp : Zml_Op<"mma", [Pure, AllTypesMatch<["c", "result"]>]> {
  let summary = "a b + c, sums kept in the type of c";
  let arguments = (ins Zml_Fragment:$a, Zml_Fragment:$b, Zml_Fragment:$c);
  let results = (outs Zml_Fragment:$result);
  let assemblyFormat = "$a `,` $b `,` $c attr-dict `:` type($a) `,` type($b) `,` type($c)";
}

def Zml_TeamMmaOp : Zml_Op<"team_mma"> {
  let summary = "a b + c by a team of neighbouring subgroups, both factors in workgroup memory";
  let description = [{
    Subgroup i of the team holds rows 16 i to 16 i + 15 of c, as one fragment for each 16 columns. Factor a has `a_rows`
    lines from `a_at` on, b has `b_rows` from `b_at` on, `depth` elements of k are used. A line is 128 bytes in eight
    pieces of 16; piece p of line r lies at piece p xor (r mod 8). Lines run along k and are numbered by row of a or
    column of b, or with `a_across`, `b_across` along these and are numbered by k; what is beyond 128 bytes goes on
    after the last line.
    It may still run until a `team_wait`: till then neither its results nor what it reads may be touched.
  }];
  let arguments = (ins AnyMemRef:$a, Index:$a_at, AnyMemRef:$b, Index:$b_at, Variadic<Zml_Fragment>:$c, I64Attr:$a_rows,
    I64Attr:$b_rows, I64Attr:$depth, UnitAttr:$a_across, UnitAttr:$b_across);
  let results = (outs Variadic<Zml_Fragment>:$results);
  let assemblyFormat = "$a `[` $a_at `]` `,` $b `[` $b_at `]` `(` $c `)` attr-dict `:` type($a) `,` type($b) `(` type($c) `)` `->` `(` type($results) `)`";
}

def Zml_TeamWaitOp : Zml_Op<"team_wait"> {
  let summary = "all but the last `pending` team_mma ops are done; their results pass through";
  let arguments = (ins Variadic<Zml_Fragment>:$c, I64Attr:$pending);
  let results = (outs Variadic<Zml_Fragment>:$results);
  let assemblyFormat = "`(` $c `)` `pending` `=` $pending attr-dict `:` `(` type($c) `)` `->` `(` type($results) `)`";
}

def Zml_CopyAsyncOp : Zml_Op<"copy_async", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "`elements` neighbours from a buffer to workgroup memory, zeros where `condition` is given and false";
  let description = "In the thread's open group; done when an async_wait says so. Both places are multiples of 16 bytes, as is the length.";
  let arguments = (ins AnyMemRef:$from, Index:$from_at, AnyMemRef:$to, Index:$to_at, Optional<I1>:$condition, I64Attr:$elements);
  let assemblyFormat = "$from `[` $from_at `]` `to` $to `[` $to_at `]` `elements` `=` $elements (`if` $condition^)? attr-dict `:` type($from) `,` type($to)";
}

def Zml_AsyncCommitOp : Zml_Op<"async_commit"> {
  let summary = "closes the thread's group of copies";
  let assemblyFormat = "attr-dict";
}

def Zml_AsyncWaitOp : Zml_Op<"async_wait"> {
  let summary = "all but the last `pending` groups of the thread's copies are done, and a team_mma after the next barrier sees them";
  let arguments = (ins I64Attr:$pending);
  let assemblyFormat = "`pending` `=` $pending attr-dict";
}

//===--------------------------- kernels --------------------------===//

def Zml_AwaitOp : Zml_Op<"await"> {
  let summary = "what earlier dispatches write is there from here on, and later kernels may start";
  let description = [{
    Only in kernels of profiles with `overlap`, once on every path of a thread that touches a buffer, at the top level of
    the kernel or under conditions that the whole workgroup agrees on. Before it a kernel reads nothing but buffers that
    no dispatch writes (`zml.constant`).
  }];
  let assemblyFormat = "attr-dict";
}

//===--------------------------- level 2: the host program --------------------------===//

def Zml_Buffer : TypeDef<Zml_Dialect, "Buffer"> {
  let mnemonic = "buffer";
  let summary = "a numbered buffer of the host program";
}

def Zml_ProgramOp : Zml_Op<"program", [Symbol, SingleBlock, NoTerminator, IsolatedFromAbove]> {
  let summary = "the host program of one entry";
  let description = [{
    `arguments`, `results`: a dictionary each with name, dtype, shape and role as the entry function had them.
    The body is zml.buffer ops, then steps, then zml.results.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, ArrayAttr:$arguments, ArrayAttr:$results, I64Attr:$arena_bytes);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `arena` `=` $arena_bytes attr-dict-with-keyword $body";
}

def Zml_BufferOp : Zml_Op<"buffer", [Pure, HasParent<"ProgramOp">]> {
  let summary = "a buffer: `argument` I, `result` I, `arena` OFFSET, or `constant` with its `value`";
  let arguments = (ins StrAttr:$kind, I64Attr:$index, I64Attr:$bytes, OptionalAttr<ElementsAttr>:$value);
  let results = (outs Zml_Buffer:$buffer);
  let assemblyFormat = "$kind $index `bytes` `=` $bytes (`value` `=` $value^)? attr-dict";
}

def Zml_DispatchOp : Zml_Op<"dispatch"> {
  let summary = "one launch of a kernel";
  let description = [{
    Buffers in the kernel's argument order, each with the byte offset and the number of bytes that the kernel sees.
    `grid` is there after emit.
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<Zml_Buffer>:$buffers, DenseI64ArrayAttr:$offsets, DenseI64ArrayAttr:$sizes,
    DenseI32ArrayAttr:$scalars, OptionalAttr<DenseI32ArrayAttr>:$grid);
  let assemblyFormat = "$kernel `(` $buffers `)` `offsets` `=` $offsets `sizes` `=` $sizes `scalars` `=` $scalars (`grid` `=` $grid^)? attr-dict";
}

def Zml_LibraryCallOp : Zml_Op<"library_call"> {
  let summary = "a product of matrices by the vendor's library";
  let description = [{
    `to[b, m, n] = sum over k of a[b, m, k] * b[b, k, n]`. `extents`: batch, m, n, k. `strides`: of a, b and to, three each,
    in elements from batch to batch, row to row, column to column. `sizes`: bytes of the four buffers.
    `tf32`: f32 factors may be rounded to tf32.
  }];
  let arguments = (ins Zml_Buffer:$a, Zml_Buffer:$b, Zml_Buffer:$to, Zml_Buffer:$workspace, DenseI64ArrayAttr:$extents,
    DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$sizes, StrArrayAttr:$dtypes, UnitAttr:$tf32);
  let assemblyFormat = "$a `by` $b `to` $to `with` $workspace `extents` `=` $extents `strides` `=` $strides `sizes` `=` $sizes `dtypes` `=` $dtypes attr-dict";
}

def Zml_BarrierOp : Zml_Op<"barrier"> {
  let summary = "everything before is visible to everything after";
  let assemblyFormat = "attr-dict";
}

def Zml_CopyOp : Zml_Op<"copy"> {
  let arguments = (ins Zml_Buffer:$from, I64Attr:$from_offset, Zml_Buffer:$to, I64Attr:$to_offset, I64Attr:$bytes);
  let assemblyFormat = "$from `at` $from_offset `to` $to `at` $to_offset `bytes` `=` $bytes attr-dict";
}

def Zml_FillOp : Zml_Op<"fill"> {
  let arguments = (ins Zml_Buffer:$to, I64Attr:$offset, I64Attr:$bytes, I64Attr:$byte);
  let assemblyFormat = "$to `at` $offset `bytes` `=` $bytes `with` $byte attr-dict";
}

def Zml_WhileOp : Zml_Op<"while", [NoTerminator, SingleBlock]> {
  let summary = "runs condition, and while the predicate byte is 1 runs body and starts over";
  let description = [{
    With `turns` the body runs so often, whatever the condition says.
  }];
  let arguments = (ins Zml_Buffer:$predicate, I64Attr:$offset, OptionalAttr<I64Attr>:$turns);
  let regions = (region SizedRegion<1>:$condition, SizedRegion<1>:$body);
  let assemblyFormat = "$predicate `at` $offset (`turns` `=` $turns^)? `condition` $condition `body` $body attr-dict";
}

def Zml_IfOp : Zml_Op<"if", [NoTerminator, SingleBlock]> {
  let arguments = (ins Zml_Buffer:$predicate, I64Attr:$offset);
  let regions = (region SizedRegion<1>:$then_steps, SizedRegion<1>:$else_steps);
  let assemblyFormat = "$predicate `at` $offset `then` $then_steps `else` $else_steps attr-dict";
}

def Zml_CaseOp : Zml_Op<"case", [NoTerminator, SingleBlock]> {
  let summary = "runs the branch that an i32 names; out of range means the last";
  let arguments = (ins Zml_Buffer:$index, I64Attr:$offset);
  let regions = (region VariadicRegion<SizedRegion<1>>:$branches);
  let assemblyFormat = "$index `at` $offset `branches` $branches attr-dict";
}

def Zml_ResultsOp : Zml_Op<"results", [HasParent<"ProgramOp">]> {
  let summary = "where each result of the entry lives; last in a program";
  let arguments = (ins Variadic<Zml_Buffer>:$buffers);
  let assemblyFormat = "$buffers attr-dict";
}
#endif
