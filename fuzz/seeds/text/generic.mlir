#map = {a = 1 : i64}
"builtin.module"() <{sym_name = "m"}> ({
  "func.func"() <{function_type = (tensor<2x3xf32>, tensor<i1>) -> tensor<2x3xf32>, sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<2x3xf32>, %arg1: tensor<i1>):
    %0 = "stablehlo.constant"() <{value = dense<"0x05"> : tensor<3xi1>}> : () -> tensor<3xi1>
    %1 = "stablehlo.broadcast_in_dim"(%0) <{broadcast_dimensions = array<i64: 1>}> : (tensor<3xi1>) -> tensor<2x3xi1>
    %2 = "stablehlo.if"(%arg1) ({
      %5 = "func.call"(%arg0) <{callee = @helper}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
      "stablehlo.return"(%5) : (tensor<2x3xf32>) -> ()
    }, {
      "stablehlo.return"(%arg0) : (tensor<2x3xf32>) -> ()
    }) {mhlo.frontend_attributes = #map} : (tensor<i1>) -> tensor<2x3xf32>
    %3 = "stablehlo.select"(%1, %2, %arg0) : (tensor<2x3xi1>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    "func.return"(%3) : (tensor<2x3xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<2x3xf32>) -> tensor<2x3xf32>, sym_name = "helper", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<2x3xf32>):
    %0 = "stablehlo.tanh"(%arg0) <{result_accuracy = #stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<DEFAULT>>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
    "func.return"(%0) : (tensor<2x3xf32>) -> ()
  }) {tf._input_shapes = [#tf_type.shape<2x3>]} : () -> ()
}) {tf.versions = {bad_consumers = [], min_consumer = 0 : i32, producer = 1345 : i32}} : () -> () loc(#loc)
#loc = loc(unknown)
