module @jit_f {
  func.func public @main(%arg0: tensor<2x4xf32>) -> (tensor<2x4xf32> {jax.result_info = ""}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %cst = stablehlo.constant dense<0.0> : tensor<f32>
    %c_0 = stablehlo.constant dense<3> : tensor<i32>
    %0:2 = stablehlo.while(%iterArg = %arg0, %iterArg_1 = %c) : tensor<2x4xf32>, tensor<i32> attributes {mhlo.frontend_attributes = {x = "y"}}
     cond {
      %1 = stablehlo.compare  LT, %iterArg_1, %c_0,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %1:2 = func.call @step(%iterArg, %iterArg_1) : (tensor<2x4xf32>, tensor<i32>) -> (tensor<2x4xf32>, tensor<i32>)
      stablehlo.return %1#0, %1#1 : tensor<2x4xf32>, tensor<i32>
    }
    %2 = "stablehlo.reduce"(%0#0, %cst) ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %s = func.call @sum(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
        "stablehlo.return"(%s) : (tensor<f32>) -> ()
    }) {dimensions = dense<1> : tensor<1xi64>} : (tensor<2x4xf32>, tensor<f32>) -> tensor<2xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<2xf32>) -> tensor<2x4xf32>
    return %3 : tensor<2x4xf32>
  }
  func.func private @sum(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.add %a, %b : tensor<f32>
    return %0 : tensor<f32>
  }
  func.func private @step(%x: tensor<2x4xf32>, %i: tensor<i32>) -> (tensor<2x4xf32>, tensor<i32>) {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.add %i, %c : tensor<i32>
    %1 = stablehlo.add %x, %x : tensor<2x4xf32>
    return %1, %0 : tensor<2x4xf32>, tensor<i32>
  }
}
