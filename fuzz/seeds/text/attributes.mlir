module @IrToHlo.12 attributes {mhlo.cross_program_prefetches = [], mhlo.input_output_alias = [], mhlo.is_dynamic = false, mhlo.use_auto_spmd_partitioning = false} {
  sdy.mesh @mesh = <["x"=1]>
  func.func @main(%arg0: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>, mhlo.sharding = "{replicated}"}, %arg1: tensor<8x2xf32> {tf.aliasing_output = 0 : i32}) -> (tensor<4x2xf32> {jax.result_info = "result[0]", mhlo.layout_mode = "default"}) {
    %0 = sdy.sharding_constraint %arg0 <@mesh, [{"x"}, {}]> : tensor<4x8xf32>
    %1 = stablehlo.dot_general %0, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] {mhlo.frontend_attributes = {grad_x = "false"}, xla_shape = "f32[4,2]{1,0}"} : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
    %2 = stablehlo.composite "my.gelu" %1 {composite_attributes = {approx = "tanh", k = 3 : i64, arr = [1 : i32, "a"], nested = {x = dense<1.0> : tensor<2xf32>}}, decomposition = @gelu, version = 2 : i32} : (tensor<4x2xf32>) -> tensor<4x2xf32>
    %3 = stablehlo.custom_call @Sharding(%2) {backend_config = "", mhlo.sharding = "{devices=[1,1]0}"} : (tensor<4x2xf32>) -> tensor<4x2xf32>
    %4 = stablehlo.optimization_barrier %3 : tensor<4x2xf32>
    return %4 : tensor<4x2xf32>
  }
  func.func private @gelu(%arg0: tensor<4x2xf32>) -> tensor<4x2xf32> {
    %cst = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x2xf32>
    %1 = stablehlo.multiply %arg0, %0 : tensor<4x2xf32>
    return %1 : tensor<4x2xf32>
  }
}
