#a = loc("f.py":1:2 to :3)
module @d attributes {jax.uses_shape_polymorphism = true} {
  func.func public @main(%x: tensor<?x4xf32> loc("x"(#a)), %y: tensor<?x4xf32, #stablehlo.bounds<8, ?>>) -> tensor<?x4xf32> {
    %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x4xf32>) -> tensor<i32> loc(fused<"m">["a", callsite("b" at #a)])
    %r = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
    %c = stablehlo.constant dense_resource<blob> : tensor<1xi32>
    %s = stablehlo.concatenate %r, %c, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %z = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %b = stablehlo.dynamic_broadcast_in_dim %z, %s, dims = [] : (tensor<f32>, tensor<2xi32>) -> tensor<?x4xf32>
    %q = stablehlo.add %x, %b : tensor<?x4xf32>
    return %q : tensor<?x4xf32>
  }
}
{-#
  dialect_resources: { builtin: { blob: "0x0400000004000000" } }
#-}
