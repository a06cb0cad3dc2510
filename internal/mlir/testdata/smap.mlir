#loc1 = loc("a")
#loc3 = loc("shard_map")
#loc5 = loc("psum_invariant")
#loc7 = loc("shard_map:"(#loc3))
#loc9 = loc("psum_invariant:"(#loc5))
module @jit__lambda attributes {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["dp"=2, "tp"=4]> {stablehlo.mesh = {axes = [{name = "dp", size = 2 : i64}, {name = "tp", size = 4 : i64}]}} loc(#loc)
  func.func public @main(%arg0: tensor<64x64xf32> loc("a")) -> (tensor<64x16xf32> {jax.result_info = "result"}) {
    %0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"dp"}, {"tp"}]>] out_shardings=[<@mesh, [{"dp"}, {}]>] manual_axes={"dp", "tp"} (%arg1: tensor<32x16xf32> loc("shard_map:"(#loc3))) {
      %1 = "stablehlo.all_reduce"(%arg1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
      ^bb0(%arg2: tensor<f32> loc("psum_invariant:"(#loc5)), %arg3: tensor<f32> loc("psum_invariant:"(#loc5))):
        %2 = stablehlo.add %arg2, %arg3 : tensor<f32> loc(#loc14)
        stablehlo.return %2 : tensor<f32> loc(#loc11)
      }) : (tensor<32x16xf32>) -> tensor<32x16xf32> loc(#loc11)
      sdy.return %1 : tensor<32x16xf32> loc(#loc7)
    } : (tensor<64x64xf32>) -> tensor<64x16xf32> loc(#loc10)
    return %0 : tensor<64x16xf32> loc(#loc13)
  } loc(#loc)
} loc(#loc)
#loc = loc(unknown)
#loc2 = loc("/home/user/gen.py":44:13 to :42)
#loc4 = loc("/home/user/gen.py":43:23 to :43)
#loc6 = loc("<module>"(#loc2))
#loc8 = loc("<lambda>"(#loc4))
#loc10 = loc("jit(<lambda>)/shard_map"(#loc6))
#loc11 = loc("psum_invariant"(#loc8))
#loc12 = loc(callsite(#loc8 at #loc8))
#loc13 = loc("jit(<lambda>)"(#loc6))
#loc14 = loc("add"(#loc12))
