func.func @main(%x: tensor<4x8xf32>, %i: tensor<4x8xi32>, %k: tensor<i32>, %u: tensor<8xui8>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4x8xi32>, tensor<4x8xi1>, tensor<2x8xf32>, tensor<4x8xf32>, tensor<i32>, tensor<i8>, tensor<8xi1>) {
  %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<-0.0> : tensor<f32>
  %a = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %b = stablehlo.reduce(%x init: %lowest) applies stablehlo.maximum across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %two = stablehlo.constant dense<2> : tensor<4x8xi32>
  %c = stablehlo.divide %i, %two : tensor<4x8xi32>
  %d = stablehlo.compare NE, %x, %x, FLOAT : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xi1>
  %from = stablehlo.constant dense<2> : tensor<i32>
  %none = stablehlo.constant dense<0> : tensor<i32>
  %e = stablehlo.dynamic_slice %x, %from, %none, sizes = [2, 8] : (tensor<4x8xf32>, tensor<i32>, tensor<i32>) -> tensor<2x8xf32>
  %six = stablehlo.constant dense<6.0> : tensor<f32>
  %f = stablehlo.clamp %zero, %x, %six : (tensor<f32>, tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %g = stablehlo.while(%v = %none) : tensor<i32>
  cond {
    %p = stablehlo.compare LT, %v, %k : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %n = stablehlo.add %v, %one : tensor<i32>
    stablehlo.return %n : tensor<i32>
  }
  %h = stablehlo.convert %one : (tensor<i32>) -> tensor<i8>
  %zeros = stablehlo.constant dense<0> : tensor<8xui8>
  %negative = stablehlo.compare LT, %u, %zeros, UNSIGNED : (tensor<8xui8>, tensor<8xui8>) -> tensor<8xi1>
  %loss = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<f32>
  return %a, %b, %c, %d, %e, %f, %g, %h, %negative : tensor<4xf32>, tensor<4xf32>, tensor<4x8xi32>, tensor<4x8xi1>, tensor<2x8xf32>, tensor<4x8xf32>, tensor<i32>, tensor<i8>, tensor<8xi1>
}
