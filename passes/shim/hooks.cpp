// What MLIR's C API lacks: polynomial approximation patterns, and IRMapping-free region moves come from the C API.
#include "mlir/CAPI/IR.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
using namespace mlir;

// Every named math op becomes arithmetic (`names`: n strings, "math.exp").
extern "C" bool zml_expand_math(MlirOperation op, const char *const *names, size_t n) {
  RewritePatternSet p(unwrap(op)->getContext());
  auto wanted = [=](llvm::StringRef name) {
    for (size_t i = 0; i < n; i++)
      if (name == names[i])
        return true;
    return false;
  };
  populateMathF32ExpansionPatterns(p, wanted);
  populateMathPolynomialApproximationPatterns(p, wanted);
  return succeeded(applyPatternsGreedily(unwrap(op), std::move(p)));
}
