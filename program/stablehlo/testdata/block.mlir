module @block attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 4 : i32} {
  // input 0 is "hidden"
  // input 1 is "ffn.weight"
  // output 0 is "hidden"
  // output 1 is "norm"
  func.func public @main(%v0: tensor<4x8xf32> {tf.aliasing_output = 0 : i32}, %v1: tensor<8x8xbf16>) -> (tensor<4x8xf32>, tensor<bf16>) {
    %t0 = stablehlo.constant dense<0.0e+00> : tensor<f32>
    %v2 = stablehlo.reduce(%v0 init: %t0) applies stablehlo.add across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
    %v3 = stablehlo.reshape %v2 : (tensor<4xf32>) -> tensor<4x1xf32>
    %v4 = stablehlo.constant dense<1.25e-01> : tensor<f32>
    %v5 = stablehlo.broadcast_in_dim %v4, dims = [] : (tensor<f32>) -> tensor<4x1xf32>
    %v6 = stablehlo.multiply %v3, %v5 : tensor<4x1xf32>
    %v7 = stablehlo.broadcast_in_dim %v6, dims = [0, 1] : (tensor<4x1xf32>) -> tensor<4x8xf32>
    %v8 = stablehlo.subtract %v0, %v7 : tensor<4x8xf32>
    %v9 = stablehlo.convert %v8 : (tensor<4x8xf32>) -> tensor<4x8xbf16>
    %v10 = stablehlo.dot_general %v9, %v1, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xf32>
    %v11 = stablehlo.convert %v10 : (tensor<4x8xf32>) -> tensor<4x8xbf16>
    // over tp: columns of the other shard
    %v12 = "stablehlo.all_gather"(%v11) <{all_gather_dim = 1 : i64, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>}> : (tensor<4x8xbf16>) -> tensor<4x16xbf16>
    %v13 = stablehlo.slice %v12 [0:4, 0:8] : (tensor<4x16xbf16>) -> tensor<4x8xbf16>
    %v14 = stablehlo.convert %v13 : (tensor<4x8xbf16>) -> tensor<4x8xf32>
    // over tp: row-parallel sum
    %v15 = "stablehlo.all_reduce"(%v14) <{replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>}> ({
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %z = stablehlo.add %x, %y : tensor<f32>
        stablehlo.return %z : tensor<f32>
    }) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %t1 = stablehlo.constant dense<-1.0e+00> : tensor<f32>
    %v16 = stablehlo.broadcast_in_dim %t1, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %t2 = stablehlo.constant dense<0> : tensor<i32>
    %w0:4 = stablehlo.while(%i0 = %t2, %v18 = %v15, %v19 = %v0, %v6_0 = %v6) : tensor<i32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x1xf32>
    cond {
      %t3 = stablehlo.constant dense<2> : tensor<i32>
      %t4 = stablehlo.compare LT, %i0, %t3, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %t4 : tensor<i1>
    } do {
      %t5 = stablehlo.constant dense<-1.0e+00> : tensor<f32>
      %v16_0 = stablehlo.broadcast_in_dim %t5, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
      // over tp: ring of blocks
      %v20 = "stablehlo.collective_permute"(%v18) <{source_target_pairs = dense<[[0, 1], [1, 0], [2, 3], [3, 2]]> : tensor<4x2xi64>}> : (tensor<4x8xf32>) -> tensor<4x8xf32>
      %t6 = stablehlo.constant dense<0> : tensor<i32>
      %v21 = stablehlo.dynamic_slice %v19, %i0, %t6, sizes = [1, 8] : (tensor<4x8xf32>, tensor<i32>, tensor<i32>) -> tensor<1x8xf32>
      %v22 = stablehlo.maximum %v19, %v16_0 : tensor<4x8xf32>
      %v23 = stablehlo.broadcast_in_dim %v6_0, dims = [0, 1] : (tensor<4x1xf32>) -> tensor<4x8xf32>
      %v24 = stablehlo.multiply %v18, %v23 : tensor<4x8xf32>
      %v25 = stablehlo.broadcast_in_dim %v21, dims = [0, 1] : (tensor<1x8xf32>) -> tensor<4x8xf32>
      %v26 = stablehlo.add %v25, %v24 : tensor<4x8xf32>
      %v27 = stablehlo.add %v22, %v26 : tensor<4x8xf32>
      %t7 = stablehlo.constant dense<1> : tensor<i32>
      %t8 = stablehlo.add %i0, %t7 : tensor<i32>
      stablehlo.return %t8, %v20, %v27, %v6_0 : tensor<i32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x1xf32>
    }
    %v30 = stablehlo.convert %w0#1 : (tensor<4x8xf32>) -> tensor<4x8xbf16>
    %t9 = stablehlo.convert %v30 : (tensor<4x8xbf16>) -> tensor<4x8xf32>
    %t11 = stablehlo.constant dense<0.0e+00> : tensor<f32>
    %t10 = stablehlo.reduce(%t9 init: %t11) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<f32>
    %v31 = stablehlo.convert %t10 : (tensor<f32>) -> tensor<bf16>
    return %w0#2, %v31 : tensor<4x8xf32>, tensor<bf16>
  }
}
