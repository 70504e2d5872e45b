func.func @main(%x: tensor<8xf32>, %unused: tensor<4xf32>, %i: tensor<8xi32>) -> (tensor<8xi1>, tensor<8xi32>, tensor<8xf32>, tensor<8xi8>) {
  %nan = stablehlo.constant dense<0x7FC00000> : tensor<8xf32>
  %a = stablehlo.compare EQ, %x, %nan, FLOAT : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
  %none = stablehlo.constant dense<0> : tensor<i32>
  %nones = stablehlo.broadcast_in_dim %none, dims = [] : (tensor<i32>) -> tensor<8xi32>
  %c = stablehlo.divide %i, %nones : tensor<8xi32>
  %low = stablehlo.constant dense<6.0> : tensor<f32>
  %high = stablehlo.constant dense<0.0> : tensor<f32>
  %d = stablehlo.clamp %low, %x, %high : (tensor<f32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %large = stablehlo.constant dense<[1, 2, 3, 4, 5, 6, 7, 300]> : tensor<8xi32>
  %e = stablehlo.convert %large : (tensor<8xi32>) -> tensor<8xi8>
  return %a, %c, %d, %e : tensor<8xi1>, tensor<8xi32>, tensor<8xf32>, tensor<8xi8>
}
func.func @reductions(%x: tensor<4x8xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %a = stablehlo.reduce(%x init: %one) applies stablehlo.add across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %b = stablehlo.reduce(%x init: %zero) applies stablehlo.maximum across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  %dead = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1] : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32>
  return %a, %b : tensor<4xf32>, tensor<4xf32>
}
func.func @indices(%x: tensor<8xf32>, %u: tensor<2xf32>) -> (tensor<4xf32>, tensor<3x1xf32>, tensor<8xf32>) {
  %start = stablehlo.constant dense<6> : tensor<i32>
  %a = stablehlo.dynamic_slice %x, %start, sizes = [4] : (tensor<8xf32>, tensor<i32>) -> tensor<4xf32>
  %where = stablehlo.constant dense<[[2], [9], [1]]> : tensor<3x1xi32>
  %b = "stablehlo.gather"(%x, %where) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = true, slice_sizes = array<i64: 1>}> : (tensor<8xf32>, tensor<3x1xi32>) -> tensor<3x1xf32>
  %twice = stablehlo.constant dense<3> : tensor<2x1xi32>
  %c = "stablehlo.scatter"(%x, %twice, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = true}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    stablehlo.return %q : tensor<f32>
  }) : (tensor<8xf32>, tensor<2x1xi32>, tensor<2xf32>) -> tensor<8xf32>
  return %a, %b, %c : tensor<4xf32>, tensor<3x1xf32>, tensor<8xf32>
}
func.func @loops(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<i32>, tensor<f32>) {
  %true = stablehlo.constant dense<true> : tensor<i1>
  %a = stablehlo.while(%v = %x) : tensor<f32>
  cond {
    stablehlo.return %true : tensor<i1>
  } do {
    %s = stablehlo.add %v, %v : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }
  %limit = stablehlo.constant dense<9.0> : tensor<f32>
  %b = stablehlo.while(%v = %x) : tensor<f32>
  cond {
    %p = stablehlo.compare LT, %x, %limit : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %s = stablehlo.add %v, %v : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %ten = stablehlo.constant dense<10> : tensor<i32>
  %c = stablehlo.while(%v = %zero) : tensor<i32>
  cond {
    %p = stablehlo.compare GT, %v, %ten : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %s = stablehlo.add %v, %ten : tensor<i32>
    stablehlo.return %s : tensor<i32>
  }
  %d = "stablehlo.case"(%ten) ({
    stablehlo.return %x : tensor<f32>
  }, {
    stablehlo.return %limit : tensor<f32>
  }) : (tensor<i32>) -> tensor<f32>
  return %a, %b, %c, %d : tensor<f32>, tensor<f32>, tensor<i32>, tensor<f32>
}
