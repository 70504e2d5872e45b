#loc = loc("m.py":1:0)
#map = affine_map<(d0, d1) -> (d0, d1)>
module attributes {torch.debug_module_name = "M"} {
  ml_program.global private mutable @global_seed(dense<0> : tensor<i64>) : tensor<i64>
  func.func @forward(%arg0: tensor<?x4xf32> loc("m.py":1:0)) -> tensor<?x4xf32> {
    %0 = stablehlo.tanh %arg0 : tensor<?x4xf32> loc(#loc)
    return %0 : tensor<?x4xf32> loc(#loc12)
  } loc(#loc)
} loc(#loc)
#loc12 = loc(fused<"x">["a", #loc])
