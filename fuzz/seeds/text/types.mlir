module {
  func.func @main(%arg0: tensor<3x!quant.uniform<i8:f32, 2.500000e-01:-1>>, %arg1: tensor<3x4xui8>, %tok: !stablehlo.token) -> (tensor<3x!quant.uniform<i8:f32, 2.500000e-01:-1>>, tensor<3xi1>, tensor<2x3xcomplex<f64>>, tuple<tensor<i32>, tuple<>>) {
    %0 = stablehlo.add %arg0, %arg0 : tensor<3x!quant.uniform<i8:f32, 2.500000e-01:-1>>
    %c = stablehlo.constant dense<[true, false, true]> : tensor<3xi1>
    %z = stablehlo.constant dense<(1.0, -0.0)> : tensor<2x3xcomplex<f64>>
    %i = stablehlo.constant dense<-1> : tensor<i32>
    %e = "stablehlo.tuple"() : () -> tuple<>
    %t = stablehlo.tuple %i, %e : tuple<tensor<i32>, tuple<>>
    return %0, %c, %z, %t : tensor<3x!quant.uniform<i8:f32, 2.500000e-01:-1>>, tensor<3xi1>, tensor<2x3xcomplex<f64>>, tuple<tensor<i32>, tuple<>>
  }
}
