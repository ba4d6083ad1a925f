#loc1 = loc("p['w']")
module @m attributes {mhlo.num_partitions = 1 : i32} {
  func.func public @main(%arg0: tensor<2x3xf32> {tf.aliasing_output = 0 : i32} loc(#loc1), %arg1: tensor<3x4xf32>) -> (tensor<2x3xf32> {jax.result_info = "r"}, tensor<f32>) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32> loc(#loc2)
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1:2 = stablehlo.while(%i = %c, %a = %0) : tensor<i32>, tensor<2x4xf32>
    cond {
      %n = stablehlo.constant dense<3> : tensor<i32>
      %5 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %5 : tensor<i1>
    } do {
      %5 = func.call @f(%a, %0) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
      %c_1 = stablehlo.constant dense<1> : tensor<i32>
      %6 = stablehlo.add %i, %c_1 : tensor<i32>
      stablehlo.return %6, %5 : tensor<i32>, tensor<2x4xf32>
    }
    %cst = stablehlo.constant dense<0.0> : tensor<f32>
    %2 = stablehlo.reduce(%1#1 init: %cst) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %3 = "stablehlo.case"(%1#0) ({
      stablehlo.return %arg0 : tensor<2x3xf32>
    }, {
      %7 = stablehlo.negate %arg0 : tensor<2x3xf32>
      stablehlo.return %7 : tensor<2x3xf32>
    }) : (tensor<i32>) -> tensor<2x3xf32>
    return %3, %2 : tensor<2x3xf32>, tensor<f32>
  } loc(#loc)
  func.func private @f(%arg0: tensor<2x4xf32>, %arg1: tensor<2x4xf32>) -> tensor<2x4xf32> {
    %0 = stablehlo.add %arg0, %arg1 : tensor<2x4xf32>
    return %0 : tensor<2x4xf32>
  }
}
#loc = loc(unknown)
#loc2 = loc("jit(g)/layer/dot_general"(#loc3))
#loc3 = loc("a/b.py":7:8 to :9)
