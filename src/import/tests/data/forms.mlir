// Pretty forms, one of each kind, and what stands around them.
#alias = dense<[1, 2]> : tensor<2xi64>
!vector = tensor<4xf32>
module @forms attributes {test.note = "a \22quoted\22 word"} {
  func.func public @main(%x: !vector loc("x"), %m: tensor<2x4xf32> {test.arg}, %i: tensor<i32>) -> (tensor<4xf32> {test.result = 1 : i64}, tensor<2xf32>) {
    %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %inf = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %sizes = stablehlo.constant #alias
    %flags = stablehlo.constant dense<[true, false, true]> : tensor<3xi1>
    %pairs = stablehlo.constant dense<[(1.0, -2.0), (0.5, 0x7FC00000)]> : tensor<2xcomplex<f32>>
    %small = stablehlo.constant dense<[-8, 7]> : tensor<2xi4>
    %f8 = stablehlo.constant dense<[1.5, -448.0]> : tensor<2xf8E4M3FN>
    %none = stablehlo.constant dense<> : tensor<0x3xi32>
    %a = stablehlo.add %x, %x : !vector
    %b = stablehlo.broadcast_in_dim %x, dims = [1] : (tensor<4xf32>) -> tensor<2x4xf32>
    %c = stablehlo.compare LT, %m, %b, FLOAT : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xi1>
    %d = stablehlo.select %c, %m, %b : tensor<2x4xi1>, tensor<2x4xf32>
    %e = stablehlo.reduce(%d init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<2xf32>
    %f:2 = stablehlo.reduce(%d init: %zero), (%m init: %inf) across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
     reducer(%p: tensor<f32>, %q: tensor<f32>) (%r: tensor<f32>, %s: tensor<f32>)  {
      %t = stablehlo.maximum %p, %q : tensor<f32>
      %u = stablehlo.minimum %r, %s : tensor<f32>
      stablehlo.return %t, %u : tensor<f32>, tensor<f32>
    }
    %g = stablehlo.slice %m [0:2, 1:4:2] : (tensor<2x4xf32>) -> tensor<2x2xf32>
    %h = stablehlo.dynamic_slice %m, %i, %i, sizes = [1, 2] : (tensor<2x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %j = stablehlo.concatenate %g, %g, dim = 0 : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>
    %k = stablehlo.pad %g, %zero, low = [1, 0], high = [0, -1], interior = [1, 0] : (tensor<2x2xf32>, tensor<f32>) -> tensor<4x1xf32>
    %l = stablehlo.dot_general %m, %j, contracting_dims = [1] x [0], precision = [HIGHEST, DEFAULT] : (tensor<2x4xf32>, tensor<4x2xf32>) -> tensor<2x2xf32>
    %n = stablehlo.reduce_precision %x, format = e5m10 : tensor<4xf32>
    %o:2 = stablehlo.while(%v = %i, %w = %a) : tensor<i32>, tensor<4xf32> attributes {test.loop = 3 : i32}
     cond {
      %y = stablehlo.compare LT, %v, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %y : tensor<i1>
    } do {
      %y = func.call @double(%w) : (tensor<4xf32>) -> tensor<4xf32>
      stablehlo.return %v, %y : tensor<i32>, tensor<4xf32>
    }
    %z = "stablehlo.sort"(%x) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %r = stablehlo.compare GT, %p, %q, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %r : tensor<i1>
    }) : (tensor<4xf32>) -> tensor<4xf32>
    %aa = stablehlo.exponential %z {result_accuracy = #stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<HIGHEST>>} : tensor<4xf32>
    return %o#1, %e : tensor<4xf32>, tensor<2xf32>
  }
  func.func private @double(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %x, %x : tensor<4xf32>
    return %0 : tensor<4xf32> loc(#where)
  } loc(callsite("double"("model.py":3:1 to :9) at #where))
}
#where = loc("outer")
