#loc = loc(unknown)
#loc1 = loc("x")
module @jit__lambda attributes {jax.uses_shape_polymorphism = true, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<i32> {jax.global_constant = "_platform_index"} loc(unknown), %arg1: tensor<64x64xf32> loc("x")) -> (tensor<64x64xf32> {jax.result_info = "result"}) {
    %c = stablehlo.constant dense<1> : tensor<i32> loc(#loc)
    %c_0 = stablehlo.constant dense<0> : tensor<i32> loc(#loc)
    %0 = "stablehlo.case"(%arg0) ({
      stablehlo.return %c_0 : tensor<i32> loc(#loc11)
    }, {
      stablehlo.return %c : tensor<i32> loc(#loc11)
    }) : (tensor<i32>) -> tensor<i32> loc(#loc11)
    %1 = "stablehlo.case"(%0) ({
      %3 = stablehlo.dot_general %arg1, %arg1, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc(#loc11)
      stablehlo.return %3 : tensor<64x64xf32> loc(#loc11)
    }, {
      %3 = stablehlo.dot_general %arg1, %arg1, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc(#loc11)
      stablehlo.return %3 : tensor<64x64xf32> loc(#loc11)
    }) : (tensor<i32>) -> tensor<64x64xf32> loc(#loc11)
    %2 = stablehlo.tanh %1 : tensor<64x64xf32> loc(#loc12)
    return %2 : tensor<64x64xf32> loc(#loc10)
  } loc(#loc)
} loc(#loc)
#loc2 = loc("/home/user/gen.py":15:21 to :24)
#loc3 = loc("/home/user/gen.py":17:14 to :67)
#loc4 = loc("/home/user/gen.py":15:12 to :25)
#loc5 = loc("<lambda>"(#loc2))
#loc6 = loc("<module>"(#loc3))
#loc7 = loc("<lambda>"(#loc4))
#loc8 = loc(callsite(#loc5 at #loc6))
#loc9 = loc(callsite(#loc7 at #loc6))
#loc10 = loc("jit(<lambda>)"(#loc6))
#loc11 = loc("jit(<lambda>)/dot_general"(#loc8))
#loc12 = loc("jit(<lambda>)/tanh"(#loc9))
