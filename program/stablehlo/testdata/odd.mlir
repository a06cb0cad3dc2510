module @"a \22b\22\0A1" attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 2 : i32} {
  // input 0 is "x y"
  // output 0 is ""
  func.func public @main(%v0: tensor<3xf16> {tf.aliasing_output = 0 : i32}) -> (tensor<3xf16>) {
    // over tp: nothing moves
    %v1 = "stablehlo.collective_permute"(%v0) <{source_target_pairs = dense<> : tensor<0x2xi64>}> : (tensor<3xf16>) -> tensor<3xf16>
    %t0 = stablehlo.constant dense<0xFC00> : tensor<f16>
    %v2 = stablehlo.broadcast_in_dim %t0, dims = [] : (tensor<f16>) -> tensor<3xf16>
    %v3 = stablehlo.maximum %v1, %v2 : tensor<3xf16>
    %v4 = stablehlo.constant dense<-0.0e+00> : tensor<f16>
    %v5 = stablehlo.broadcast_in_dim %v4, dims = [] : (tensor<f16>) -> tensor<3xf16>
    %v6 = stablehlo.maximum %v3, %v5 : tensor<3xf16>
    return %v6 : tensor<3xf16>
  }
}
