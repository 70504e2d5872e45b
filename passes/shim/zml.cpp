// Registers the zml dialect; the only C++ that a dialect of our own needs.
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/CAPI/IR.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/RegionKindInterface.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"
#include "ZmlDialect.h.inc"
#define GET_TYPEDEF_CLASSES
#include "ZmlTypes.h.inc"
#define GET_OP_CLASSES
#include "ZmlOps.h.inc"
#include "ZmlDialect.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "ZmlTypes.cpp.inc"
#define GET_OP_CLASSES
#include "ZmlOps.cpp.inc"
using namespace mlir;

void zml::ZmlDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "ZmlTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "ZmlOps.cpp.inc"
      >();
}

LogicalResult zml::SortOp::verifyRegions() {
  auto &body = getComparator().front();
  if (body.getNumArguments() != 2 * getInputs().size())
    return emitOpError("comparator takes two scalars for each input");
  auto yield = dyn_cast<zml::YieldOp>(body.getTerminator());
  if (!yield || yield.getNumOperands() != 1 || !yield.getOperand(0).getType().isInteger(1))
    return emitOpError("comparator yields one i1");
  return success();
}

extern "C" void zml_load_dialect(MlirContext c) { unwrap(c)->getOrLoadDialect<zml::ZmlDialect>(); }
