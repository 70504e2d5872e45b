module attributes {mhlo.frontend_attributes = {xla.sdy.meshes = "{mesh = #sdy.mesh<[\22x\22=2]>}"}, mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  func @main(%arg0: tensor<2x4xf32> {mhlo.frontend_attributes = {xla.sdy.sharding = "#sdy.sharding<@mesh, [{\22x\22}, {}]>"}, mhlo.sharding = "{devices=[2,1]<=[2]}"}) -> tensor<2x8xf32> {
    %0 = stablehlo.constant dense<1.0> : tensor<4x8xf32>
    %1 = "stablehlo.dot_general"(%arg0, %0) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
    %2 = stablehlo.custom_call @Sharding(%1) {backend_config = "", mhlo.sharding = "{replicated}", api_version = 1 : i32} : (tensor<2x8xf32>) -> tensor<2x8xf32>
    %3 = "stablehlo.slice"(%2) {start_indices = dense<0> : tensor<2xi64>, limit_indices = dense<[2, 8]> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>} : (tensor<2x8xf32>) -> tensor<2x8xf32>
    %4 = "stablehlo.compare"(%3, %2) {comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type FLOAT>} : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xi1>
    %5 = "stablehlo.select"(%4, %3, %2) : (tensor<2x8xi1>, tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
    %6 = stablehlo.slice %5 [0:2, 0:8] : (tensor<2x8xf32>) -> tensor<2x8xf32>
    return %6 : tensor<2x8xf32>
  }
}
