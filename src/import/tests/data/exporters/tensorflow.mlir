module @a_inference_f_12__.9 attributes {mhlo.unique_id = 0 : i64, tf.versions = {bad_consumers = [], min_consumer = 12 : i32, producer = 1482 : i32}, tf_saved_model.semantics, mhlo.xla_entry_computation_parameter_layouts = [dense<[1, 0]> : tensor<2xindex>], mhlo.dynamic_parameter_bindings = []} {
  func.func @main(%arg0: tensor<1x4xf32> {tf._user_specified_name = "x", tf.device = "", tf_saved_model.index_path = [0], xla_framework.input_mapping = 0 : i32}) -> (tensor<1x4xf32> {tf_saved_model.index_path = ["out"], xla_framework.result_mapping = 0 : i32}) attributes {tf.entry_function = {control_outputs = "", inputs = "x", outputs = "Identity"}, allow_soft_placement = false, tf_saved_model.exported_names = ["f"], execution_thread = "main", tf.shape = #tf_type.shape<1x?>} {
    %3 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = "stablehlo.constant"() {value = dense<[[2.0, 1.0, 0.0, -1.0]]> : tensor<1x4xf32>} : () -> tensor<1x4xf32>
    %1 = "stablehlo.add"(%arg0, %0) : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
    %2 = "stablehlo.reduce"(%1, %3) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = "stablehlo.maximum"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%c) : (tensor<f32>) -> ()
    }) {dimensions = dense<1> : tensor<1xi64>} : (tensor<1x4xf32>, tensor<f32>) -> tensor<1xf32>
    %4 = "stablehlo.broadcast_in_dim"(%2) {broadcast_dimensions = dense<0> : tensor<1xi64>} : (tensor<1xf32>) -> tensor<1x4xf32>
    return %4 : tensor<1x4xf32>
  }
}
