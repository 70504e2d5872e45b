#loc1 = loc("x")
#loc = loc(unknown)
module @jit_f attributes {mhlo.frontend_attributes = {xla.sdy.meshes = "{mesh = #sdy.mesh<[\22x\22=2]>}"}, mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4xf32> {mhlo.layout_mode = "default", mhlo.memory_kind = "device", tf.aliasing_output = 0 : i32} loc("x")) -> (tensor<4xf32> {jax.result_info = "", mhlo.layout_mode = "default"}) {
    %0:2 = stablehlo.optimization_barrier %arg0, %arg0 : tensor<4xf32>, tensor<4xf32> loc(#loc12)
    %1 = stablehlo.cosine %0#0 {mhlo.frontend_attributes = {_xla_compute_type = "host"}} : tensor<4xf32> loc(#loc12)
    %2 = chlo.erf %1 : tensor<4xf32> -> tensor<4xf32> loc(#loc13)
    return %2 : tensor<4xf32> loc(#loc)
  } loc(#loc)
} loc(#loc)
#loc2 = loc("/a b/x.py":5:4 to 6:10)
#loc12 = loc("jit(f)/jit(main)/cos"(#loc2))
#loc13 = loc(callsite(#loc12 at callsite("g"(#loc2) at #loc)))
