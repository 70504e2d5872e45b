module @IrToHlo.12 attributes {mhlo.cross_program_prefetches = [], mhlo.input_output_alias = [], mhlo.is_dynamic = false, mhlo.use_auto_spmd_partitioning = false} {
  func.func @main(%arg0: tensor<5xf32>, %arg1: tensor<10x5xf32>, %arg2: tensor<3x5xf32>) -> tensor<3x10xf32> {
    %0 = stablehlo.transpose %arg1, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[5,10]{0,1}"} : (tensor<10x5xf32>) -> tensor<5x10xf32>
    %1 = stablehlo.dot %arg2, %0, precision = [DEFAULT, DEFAULT] : (tensor<3x5xf32>, tensor<5x10xf32>) -> tensor<3x10xf32>
    %2 = stablehlo.constant dense<1.0> : tensor<10xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [1] : (tensor<10xf32>) -> tensor<3x10xf32>
    %4 = stablehlo.add %1, %3 : tensor<3x10xf32>
    return %4 : tensor<3x10xf32>
  }
}
