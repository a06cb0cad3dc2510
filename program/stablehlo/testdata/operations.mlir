module @neg_f32 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<3xf32>) -> (tensor<3xf32>) {
    %v1 = stablehlo.negate %v0 : tensor<3xf32>
    return %v1 : tensor<3xf32>
  }
}
module @neg_i32 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<2xi32>) -> (tensor<2xi32>) {
    %v1 = stablehlo.negate %v0 : tensor<2xi32>
    return %v1 : tensor<2xi32>
  }
}
module @abs_f32 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<3xf32>) -> (tensor<3xf32>) {
    %v1 = stablehlo.abs %v0 : tensor<3xf32>
    return %v1 : tensor<3xf32>
  }
}
module @abs_i32 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<2xi32>) -> (tensor<2xi32>) {
    %v1 = stablehlo.abs %v0 : tensor<2xi32>
    return %v1 : tensor<2xi32>
  }
}
module @exp_f32 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<4xf32>) -> (tensor<4xf32>) {
    %v1 = stablehlo.exponential %v0 : tensor<4xf32>
    return %v1 : tensor<4xf32>
  }
}
module @exp_f64 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<3xf64>) -> (tensor<3xf64>) {
    %v1 = stablehlo.exponential %v0 : tensor<3xf64>
    return %v1 : tensor<3xf64>
  }
}
module @log_f32 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<4xf32>) -> (tensor<4xf32>) {
    %v1 = stablehlo.log %v0 : tensor<4xf32>
    return %v1 : tensor<4xf32>
  }
}
module @sqrt_f32 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<3xf32>) -> (tensor<3xf32>) {
    %v1 = stablehlo.sqrt %v0 : tensor<3xf32>
    return %v1 : tensor<3xf32>
  }
}
module @sqrt_bf16 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<3xbf16>) -> (tensor<3xbf16>) {
    %v1 = stablehlo.sqrt %v0 : tensor<3xbf16>
    return %v1 : tensor<3xbf16>
  }
}
module @rsqrt_f32 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<2xf32>) -> (tensor<2xf32>) {
    %v1 = stablehlo.rsqrt %v0 : tensor<2xf32>
    return %v1 : tensor<2xf32>
  }
}
module @tanh_f32 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<3xf32>) -> (tensor<3xf32>) {
    %v1 = stablehlo.tanh %v0 : tensor<3xf32>
    return %v1 : tensor<3xf32>
  }
}
module @sigmoid_f32 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<3xf32>) -> (tensor<3xf32>) {
    %v1 = stablehlo.logistic %v0 : tensor<3xf32>
    return %v1 : tensor<3xf32>
  }
}
module @sin_f32 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<2xf32>) -> (tensor<2xf32>) {
    %v1 = stablehlo.sine %v0 : tensor<2xf32>
    return %v1 : tensor<2xf32>
  }
}
module @cos_f32 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<2xf32>) -> (tensor<2xf32>) {
    %v1 = stablehlo.cosine %v0 : tensor<2xf32>
    return %v1 : tensor<2xf32>
  }
}
module @not_i32 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<3xi32>) -> (tensor<3xi32>) {
    %v1 = stablehlo.not %v0 : tensor<3xi32>
    return %v1 : tensor<3xi32>
  }
}
module @not_i1 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<2xi1>) -> (tensor<2xi1>) {
    %v1 = stablehlo.not %v0 : tensor<2xi1>
    return %v1 : tensor<2xi1>
  }
}
module @not_ui8 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<2xui8>) -> (tensor<2xui8>) {
    %v1 = stablehlo.not %v0 : tensor<2xui8>
    return %v1 : tensor<2xui8>
  }
}
module @add_f32 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<3xf32>, %v1: tensor<3xf32>) -> (tensor<3xf32>) {
    %v2 = stablehlo.add %v0, %v1 : tensor<3xf32>
    return %v2 : tensor<3xf32>
  }
}
module @add_bf16 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<3xbf16>, %v1: tensor<3xbf16>) -> (tensor<3xbf16>) {
    %v2 = stablehlo.add %v0, %v1 : tensor<3xbf16>
    return %v2 : tensor<3xbf16>
  }
}
module @add_f16 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<3xf16>, %v1: tensor<3xf16>) -> (tensor<3xf16>) {
    %v2 = stablehlo.add %v0, %v1 : tensor<3xf16>
    return %v2 : tensor<3xf16>
  }
}
module @add_f64 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<2xf64>, %v1: tensor<2xf64>) -> (tensor<2xf64>) {
    %v2 = stablehlo.add %v0, %v1 : tensor<2xf64>
    return %v2 : tensor<2xf64>
  }
}
module @add_i32 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<2xi32>, %v1: tensor<2xi32>) -> (tensor<2xi32>) {
    %v2 = stablehlo.add %v0, %v1 : tensor<2xi32>
    return %v2 : tensor<2xi32>
  }
}
module @add_ui8 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<2xui8>, %v1: tensor<2xui8>) -> (tensor<2xui8>) {
    %v2 = stablehlo.add %v0, %v1 : tensor<2xui8>
    return %v2 : tensor<2xui8>
  }
}
module @sub_f32 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<2xf32>, %v1: tensor<2xf32>) -> (tensor<2xf32>) {
    %v2 = stablehlo.subtract %v0, %v1 : tensor<2xf32>
    return %v2 : tensor<2xf32>
  }
}
module @sub_ui32 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<2xui32>, %v1: tensor<2xui32>) -> (tensor<2xui32>) {
    %v2 = stablehlo.subtract %v0, %v1 : tensor<2xui32>
    return %v2 : tensor<2xui32>
  }
}
module @mul_f32 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<2xf32>, %v1: tensor<2xf32>) -> (tensor<2xf32>) {
    %v2 = stablehlo.multiply %v0, %v1 : tensor<2xf32>
    return %v2 : tensor<2xf32>
  }
}
module @mul_i64 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<2xi64>, %v1: tensor<2xi64>) -> (tensor<2xi64>) {
    %v2 = stablehlo.multiply %v0, %v1 : tensor<2xi64>
    return %v2 : tensor<2xi64>
  }
}
module @div_f32 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<3xf32>, %v1: tensor<3xf32>) -> (tensor<3xf32>) {
    %v2 = stablehlo.divide %v0, %v1 : tensor<3xf32>
    return %v2 : tensor<3xf32>
  }
}
module @div_i32 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<3xi32>, %v1: tensor<3xi32>) -> (tensor<3xi32>) {
    %v2 = stablehlo.divide %v0, %v1 : tensor<3xi32>
    return %v2 : tensor<3xi32>
  }
}
module @div_ui32 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<2xui32>, %v1: tensor<2xui32>) -> (tensor<2xui32>) {
    %v2 = stablehlo.divide %v0, %v1 : tensor<2xui32>
    return %v2 : tensor<2xui32>
  }
}
module @max_f32 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<3xf32>, %v1: tensor<3xf32>) -> (tensor<3xf32>) {
    %v2 = stablehlo.maximum %v0, %v1 : tensor<3xf32>
    return %v2 : tensor<3xf32>
  }
}
module @min_f32 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<3xf32>, %v1: tensor<3xf32>) -> (tensor<3xf32>) {
    %v2 = stablehlo.minimum %v0, %v1 : tensor<3xf32>
    return %v2 : tensor<3xf32>
  }
}
module @max_i32 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<2xi32>, %v1: tensor<2xi32>) -> (tensor<2xi32>) {
    %v2 = stablehlo.maximum %v0, %v1 : tensor<2xi32>
    return %v2 : tensor<2xi32>
  }
}
module @min_ui8 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<2xui8>, %v1: tensor<2xui8>) -> (tensor<2xui8>) {
    %v2 = stablehlo.minimum %v0, %v1 : tensor<2xui8>
    return %v2 : tensor<2xui8>
  }
}
module @max_i1 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<3xi1>, %v1: tensor<3xi1>) -> (tensor<3xi1>) {
    %v2 = stablehlo.maximum %v0, %v1 : tensor<3xi1>
    return %v2 : tensor<3xi1>
  }
}
module @rem_f32 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<3xf32>, %v1: tensor<3xf32>) -> (tensor<3xf32>) {
    %v2 = stablehlo.remainder %v0, %v1 : tensor<3xf32>
    return %v2 : tensor<3xf32>
  }
}
module @rem_i32 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<3xi32>, %v1: tensor<3xi32>) -> (tensor<3xi32>) {
    %v2 = stablehlo.remainder %v0, %v1 : tensor<3xi32>
    return %v2 : tensor<3xi32>
  }
}
module @and_i32 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<2xi32>, %v1: tensor<2xi32>) -> (tensor<2xi32>) {
    %v2 = stablehlo.and %v0, %v1 : tensor<2xi32>
    return %v2 : tensor<2xi32>
  }
}
module @and_i1 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<4xi1>, %v1: tensor<4xi1>) -> (tensor<4xi1>) {
    %v2 = stablehlo.and %v0, %v1 : tensor<4xi1>
    return %v2 : tensor<4xi1>
  }
}
module @or_i32 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<2xi32>, %v1: tensor<2xi32>) -> (tensor<2xi32>) {
    %v2 = stablehlo.or %v0, %v1 : tensor<2xi32>
    return %v2 : tensor<2xi32>
  }
}
module @or_i1 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<4xi1>, %v1: tensor<4xi1>) -> (tensor<4xi1>) {
    %v2 = stablehlo.or %v0, %v1 : tensor<4xi1>
    return %v2 : tensor<4xi1>
  }
}
module @compare_EQ_f32 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<3xf32>, %v1: tensor<3xf32>) -> (tensor<3xi1>) {
    %v2 = stablehlo.compare EQ, %v0, %v1, FLOAT : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    return %v2 : tensor<3xi1>
  }
}
module @compare_NE_f32 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<3xf32>, %v1: tensor<3xf32>) -> (tensor<3xi1>) {
    %v2 = stablehlo.compare NE, %v0, %v1, FLOAT : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    return %v2 : tensor<3xi1>
  }
}
module @compare_LT_f32 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<3xf32>, %v1: tensor<3xf32>) -> (tensor<3xi1>) {
    %v2 = stablehlo.compare LT, %v0, %v1, FLOAT : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    return %v2 : tensor<3xi1>
  }
}
module @compare_LE_f32 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<3xf32>, %v1: tensor<3xf32>) -> (tensor<3xi1>) {
    %v2 = stablehlo.compare LE, %v0, %v1, FLOAT : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    return %v2 : tensor<3xi1>
  }
}
module @compare_GT_i32 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<3xi32>, %v1: tensor<3xi32>) -> (tensor<3xi1>) {
    %v2 = stablehlo.compare GT, %v0, %v1, SIGNED : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
    return %v2 : tensor<3xi1>
  }
}
module @compare_GE_i32 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<3xi32>, %v1: tensor<3xi32>) -> (tensor<3xi1>) {
    %v2 = stablehlo.compare GE, %v0, %v1, SIGNED : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
    return %v2 : tensor<3xi1>
  }
}
module @compare_LT_ui8 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<2xui8>, %v1: tensor<2xui8>) -> (tensor<2xi1>) {
    %v2 = stablehlo.compare LT, %v0, %v1, UNSIGNED : (tensor<2xui8>, tensor<2xui8>) -> tensor<2xi1>
    return %v2 : tensor<2xi1>
  }
}
module @compare_EQ_i1 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<2xi1>, %v1: tensor<2xi1>) -> (tensor<2xi1>) {
    %v2 = stablehlo.compare EQ, %v0, %v1, UNSIGNED : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
    return %v2 : tensor<2xi1>
  }
}
module @convert_f32_bf16 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<4xf32>) -> (tensor<4xbf16>) {
    %v1 = stablehlo.convert %v0 : (tensor<4xf32>) -> tensor<4xbf16>
    return %v1 : tensor<4xbf16>
  }
}
module @convert_f32_f16 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<5xf32>) -> (tensor<5xf16>) {
    %v1 = stablehlo.convert %v0 : (tensor<5xf32>) -> tensor<5xf16>
    return %v1 : tensor<5xf16>
  }
}
module @convert_bf16_f32 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<2xbf16>) -> (tensor<2xf32>) {
    %v1 = stablehlo.convert %v0 : (tensor<2xbf16>) -> tensor<2xf32>
    return %v1 : tensor<2xf32>
  }
}
module @convert_f32_i32 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<3xf32>) -> (tensor<3xi32>) {
    %v1 = stablehlo.convert %v0 : (tensor<3xf32>) -> tensor<3xi32>
    return %v1 : tensor<3xi32>
  }
}
module @convert_f32_i1 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<3xf32>) -> (tensor<3xi1>) {
    %v1 = stablehlo.convert %v0 : (tensor<3xf32>) -> tensor<3xi1>
    return %v1 : tensor<3xi1>
  }
}
module @convert_f32_f64 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<2xf32>) -> (tensor<2xf64>) {
    %v1 = stablehlo.convert %v0 : (tensor<2xf32>) -> tensor<2xf64>
    return %v1 : tensor<2xf64>
  }
}
module @convert_f64_f32 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<2xf64>) -> (tensor<2xf32>) {
    %v1 = stablehlo.convert %v0 : (tensor<2xf64>) -> tensor<2xf32>
    return %v1 : tensor<2xf32>
  }
}
module @convert_i32_f32 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<2xi32>) -> (tensor<2xf32>) {
    %v1 = stablehlo.convert %v0 : (tensor<2xi32>) -> tensor<2xf32>
    return %v1 : tensor<2xf32>
  }
}
module @convert_i32_ui8 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<3xi32>) -> (tensor<3xui8>) {
    %v1 = stablehlo.convert %v0 : (tensor<3xi32>) -> tensor<3xui8>
    return %v1 : tensor<3xui8>
  }
}
module @convert_i32_i64 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<2xi32>) -> (tensor<2xi64>) {
    %v1 = stablehlo.convert %v0 : (tensor<2xi32>) -> tensor<2xi64>
    return %v1 : tensor<2xi64>
  }
}
module @convert_i1_f32 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<2xi1>) -> (tensor<2xf32>) {
    %v1 = stablehlo.convert %v0 : (tensor<2xi1>) -> tensor<2xf32>
    return %v1 : tensor<2xf32>
  }
}
module @convert_i1_i32 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<2xi1>) -> (tensor<2xi32>) {
    %v1 = stablehlo.convert %v0 : (tensor<2xi1>) -> tensor<2xi32>
    return %v1 : tensor<2xi32>
  }
}
module @select attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // input 2 is "x2"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<3xi1>, %v1: tensor<3xf32>, %v2: tensor<3xf32>) -> (tensor<3xf32>) {
    %v3 = stablehlo.select %v0, %v1, %v2 : tensor<3xi1>, tensor<3xf32>
    return %v3 : tensor<3xf32>
  }
}
module @sources attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // output 0 is "y0"
  // output 1 is "y1"
  // output 2 is "y2"
  // output 3 is "y3"
  // output 4 is "y4"
  // output 5 is "y5"
  // output 6 is "y6"
  // output 7 is "y7"
  // output 8 is "y8"
  // output 9 is "y9"
  // output 10 is "y10"
  // output 11 is "y11"
  func.func public @main(%v0: tensor<1xf32>) -> (tensor<f32>, tensor<2xf32>, tensor<bf16>, tensor<1x2xi32>, tensor<2xi1>, tensor<ui8>, tensor<f16>, tensor<f64>, tensor<f32>, tensor<2x3xf32>, tensor<2x2xi32>, tensor<3xbf16>) {
    %v1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %t0 = stablehlo.constant dense<1.0e-01> : tensor<f32>
    %v2 = stablehlo.broadcast_in_dim %t0, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %v3 = stablehlo.constant dense<-1.0e+30> : tensor<bf16>
    %t1 = stablehlo.constant dense<-7> : tensor<i32>
    %v4 = stablehlo.broadcast_in_dim %t1, dims = [] : (tensor<i32>) -> tensor<1x2xi32>
    %t2 = stablehlo.constant dense<true> : tensor<i1>
    %v5 = stablehlo.broadcast_in_dim %t2, dims = [] : (tensor<i1>) -> tensor<2xi1>
    %v6 = stablehlo.constant dense<255> : tensor<ui8>
    %v7 = stablehlo.constant dense<-1.5e+00> : tensor<f16>
    %v8 = stablehlo.constant dense<1.0e-300> : tensor<f64>
    %v9 = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %v10 = stablehlo.iota dim = 1 : tensor<2x3xf32>
    %v11 = stablehlo.iota dim = 0 : tensor<2x2xi32>
    %v12 = stablehlo.iota dim = 0 : tensor<3xbf16>
    return %v1, %v2, %v3, %v4, %v5, %v6, %v7, %v8, %v9, %v10, %v11, %v12 : tensor<f32>, tensor<2xf32>, tensor<bf16>, tensor<1x2xi32>, tensor<2xi1>, tensor<ui8>, tensor<f16>, tensor<f64>, tensor<f32>, tensor<2x3xf32>, tensor<2x2xi32>, tensor<3xbf16>
  }
}
module @broadcast attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // input 2 is "x2"
  // output 0 is "y0"
  // output 1 is "y1"
  // output 2 is "y2"
  func.func public @main(%v0: tensor<2xf32>, %v1: tensor<2x1xf32>, %v2: tensor<f32>) -> (tensor<3x2xf32>, tensor<2x2xf32>, tensor<2xf32>) {
    %v3 = stablehlo.broadcast_in_dim %v0, dims = [1] : (tensor<2xf32>) -> tensor<3x2xf32>
    %v4 = stablehlo.broadcast_in_dim %v1, dims = [0, 1] : (tensor<2x1xf32>) -> tensor<2x2xf32>
    %v5 = stablehlo.broadcast_in_dim %v2, dims = [] : (tensor<f32>) -> tensor<2xf32>
    return %v3, %v4, %v5 : tensor<3x2xf32>, tensor<2x2xf32>, tensor<2xf32>
  }
}
module @reshape attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // output 0 is "y0"
  // output 1 is "y1"
  func.func public @main(%v0: tensor<2x3xf32>) -> (tensor<3x2xf32>, tensor<6xf32>) {
    %v1 = stablehlo.reshape %v0 : (tensor<2x3xf32>) -> tensor<3x2xf32>
    %v2 = stablehlo.reshape %v0 : (tensor<2x3xf32>) -> tensor<6xf32>
    return %v1, %v2 : tensor<3x2xf32>, tensor<6xf32>
  }
}
module @transpose attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // output 0 is "y0"
  // output 1 is "y1"
  func.func public @main(%v0: tensor<2x3xf32>, %v1: tensor<1x2x2xf32>) -> (tensor<3x2xf32>, tensor<2x1x2xf32>) {
    %v2 = stablehlo.transpose %v0, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
    %v3 = stablehlo.transpose %v1, dims = [2, 0, 1] : (tensor<1x2x2xf32>) -> tensor<2x1x2xf32>
    return %v2, %v3 : tensor<3x2xf32>, tensor<2x1x2xf32>
  }
}
module @slice attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // output 0 is "y0"
  // output 1 is "y1"
  func.func public @main(%v0: tensor<2x3xf32>) -> (tensor<2x2xf32>, tensor<0x3xf32>) {
    %v1 = stablehlo.slice %v0 [0:2, 1:3] : (tensor<2x3xf32>) -> tensor<2x2xf32>
    %v2 = stablehlo.slice %v0 [1:1, 0:3] : (tensor<2x3xf32>) -> tensor<0x3xf32>
    return %v1, %v2 : tensor<2x2xf32>, tensor<0x3xf32>
  }
}
module @pad attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // output 0 is "y0"
  // output 1 is "y1"
  func.func public @main(%v0: tensor<2xf32>, %v1: tensor<1x1xi32>) -> (tensor<5xf32>, tensor<2x1xi32>) {
    %t0 = stablehlo.constant dense<-3.0e+00> : tensor<f32>
    %v2 = stablehlo.pad %v0, %t0, low = [1], high = [2], interior = [0] : (tensor<2xf32>, tensor<f32>) -> tensor<5xf32>
    %t1 = stablehlo.constant dense<7> : tensor<i32>
    %v3 = stablehlo.pad %v1, %t1, low = [0, 0], high = [1, 0], interior = [0, 0] : (tensor<1x1xi32>, tensor<i32>) -> tensor<2x1xi32>
    return %v2, %v3 : tensor<5xf32>, tensor<2x1xi32>
  }
}
module @concat attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<2x1xf32>, %v1: tensor<2x2xf32>) -> (tensor<2x4xf32>) {
    %v2 = stablehlo.concatenate %v0, %v1, %v0, dim = 1 : (tensor<2x1xf32>, tensor<2x2xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
    return %v2 : tensor<2x4xf32>
  }
}
module @"dyn-slice" attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // input 2 is "x2"
  // input 3 is "x3"
  // input 4 is "x4"
  // output 0 is "y0"
  // output 1 is "y1"
  // output 2 is "y2"
  // output 3 is "y3"
  func.func public @main(%v0: tensor<4xf32>, %v1: tensor<i32>, %v2: tensor<i32>, %v3: tensor<i32>, %v4: tensor<2x3xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2x1xf32>) {
    %v5 = stablehlo.dynamic_slice %v0, %v1, sizes = [2] : (tensor<4xf32>, tensor<i32>) -> tensor<2xf32>
    %v6 = stablehlo.dynamic_slice %v0, %v2, sizes = [2] : (tensor<4xf32>, tensor<i32>) -> tensor<2xf32>
    %v7 = stablehlo.dynamic_slice %v0, %v3, sizes = [2] : (tensor<4xf32>, tensor<i32>) -> tensor<2xf32>
    %t0 = stablehlo.constant dense<0> : tensor<i32>
    %v8 = stablehlo.dynamic_slice %v4, %t0, %v1, sizes = [2, 1] : (tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<2x1xf32>
    return %v5, %v6, %v7, %v8 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2x1xf32>
  }
}
module @"dyn-update" attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // input 2 is "x2"
  // input 3 is "x3"
  // input 4 is "x4"
  // input 5 is "x5"
  // output 0 is "y0"
  // output 1 is "y1"
  // output 2 is "y2"
  func.func public @main(%v0: tensor<4xf32>, %v1: tensor<2xf32>, %v2: tensor<i32>, %v3: tensor<i32>, %v4: tensor<2x3xf32>, %v5: tensor<2x1xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<2x3xf32>) {
    %v6 = stablehlo.dynamic_update_slice %v0, %v1, %v2 : (tensor<4xf32>, tensor<2xf32>, tensor<i32>) -> tensor<4xf32>
    %v7 = stablehlo.dynamic_update_slice %v0, %v1, %v3 : (tensor<4xf32>, tensor<2xf32>, tensor<i32>) -> tensor<4xf32>
    %t0 = stablehlo.constant dense<0> : tensor<i32>
    %v8 = stablehlo.dynamic_update_slice %v4, %v5, %t0, %v2 : (tensor<2x3xf32>, tensor<2x1xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>
    return %v6, %v7, %v8 : tensor<4xf32>, tensor<4xf32>, tensor<2x3xf32>
  }
}
module @take attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // input 2 is "x2"
  // input 3 is "x3"
  // input 4 is "x4"
  // output 0 is "y0"
  // output 1 is "y1"
  // output 2 is "y2"
  // output 3 is "y3"
  // output 4 is "y4"
  func.func public @main(%v0: tensor<2x3xf32>, %v1: tensor<3xf32>, %v2: tensor<2x2xi32>, %v3: tensor<i32>, %v4: tensor<0xi32>) -> (tensor<2x2x3xf32>, tensor<2x2x2xf32>, tensor<2x2xf32>, tensor<2xf32>, tensor<0x3xf32>) {
    %v5 = "stablehlo.gather"(%v0, %v2) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 3>}> : (tensor<2x3xf32>, tensor<2x2xi32>) -> tensor<2x2x3xf32>
    %v6 = "stablehlo.gather"(%v0, %v2) <{dimension_numbers = #stablehlo.gather<offset_dims = [0], collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 2, 1>}> : (tensor<2x3xf32>, tensor<2x2xi32>) -> tensor<2x2x2xf32>
    %v7 = "stablehlo.gather"(%v1, %v2) <{dimension_numbers = #stablehlo.gather<offset_dims = [], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1>}> : (tensor<3xf32>, tensor<2x2xi32>) -> tensor<2x2xf32>
    %v8 = "stablehlo.gather"(%v0, %v3) <{dimension_numbers = #stablehlo.gather<offset_dims = [0], collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 0>, indices_are_sorted = false, slice_sizes = array<i64: 2, 1>}> : (tensor<2x3xf32>, tensor<i32>) -> tensor<2xf32>
    %v9 = "stablehlo.gather"(%v0, %v4) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 3>}> : (tensor<2x3xf32>, tensor<0xi32>) -> tensor<0x3xf32>
    return %v5, %v6, %v7, %v8, %v9 : tensor<2x2x3xf32>, tensor<2x2x2xf32>, tensor<2x2xf32>, tensor<2xf32>, tensor<0x3xf32>
  }
}
module @reduce attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // input 2 is "x2"
  // input 3 is "x3"
  // input 4 is "x4"
  // output 0 is "y0"
  // output 1 is "y1"
  // output 2 is "y2"
  // output 3 is "y3"
  // output 4 is "y4"
  // output 5 is "y5"
  // output 6 is "y6"
  // output 7 is "y7"
  // output 8 is "y8"
  // output 9 is "y9"
  // output 10 is "y10"
  func.func public @main(%v0: tensor<2x3xf32>, %v1: tensor<4xbf16>, %v2: tensor<2x2xi32>, %v3: tensor<2xi1>, %v4: tensor<2x0xf32>) -> (tensor<2xf32>, tensor<3xf32>, tensor<f32>, tensor<2x1xf32>, tensor<bf16>, tensor<bf16>, tensor<2xi32>, tensor<2xi32>, tensor<i1>, tensor<2xf32>, tensor<2xf32>) {
    %t0 = stablehlo.constant dense<0.0e+00> : tensor<f32>
    %v5 = stablehlo.reduce(%v0 init: %t0) applies stablehlo.add across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
    %t1 = stablehlo.constant dense<0.0e+00> : tensor<f32>
    %v6 = stablehlo.reduce(%v0 init: %t1) applies stablehlo.add across dimensions = [0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<3xf32>
    %t2 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %v7 = stablehlo.reduce(%v0 init: %t2) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<f32>
    %t3 = stablehlo.constant dense<0.0e+00> : tensor<f32>
    %v8 = stablehlo.reduce(%v0 init: %t3) applies stablehlo.add across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
    %v9 = stablehlo.reshape %v8 : (tensor<2xf32>) -> tensor<2x1xf32>
    %t4 = stablehlo.convert %v1 : (tensor<4xbf16>) -> tensor<4xf32>
    %t6 = stablehlo.constant dense<0.0e+00> : tensor<f32>
    %t5 = stablehlo.reduce(%t4 init: %t6) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    %v10 = stablehlo.convert %t5 : (tensor<f32>) -> tensor<bf16>
    %t7 = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %v11 = stablehlo.reduce(%v1 init: %t7) applies stablehlo.maximum across dimensions = [0] : (tensor<4xbf16>, tensor<bf16>) -> tensor<bf16>
    %t8 = stablehlo.constant dense<0> : tensor<i32>
    %v12 = stablehlo.reduce(%v2 init: %t8) applies stablehlo.add across dimensions = [0] : (tensor<2x2xi32>, tensor<i32>) -> tensor<2xi32>
    %t9 = stablehlo.constant dense<-2147483648> : tensor<i32>
    %v13 = stablehlo.reduce(%v2 init: %t9) applies stablehlo.maximum across dimensions = [1] : (tensor<2x2xi32>, tensor<i32>) -> tensor<2xi32>
    %t10 = stablehlo.constant dense<false> : tensor<i1>
    %v14 = stablehlo.reduce(%v3 init: %t10) applies stablehlo.maximum across dimensions = [0] : (tensor<2xi1>, tensor<i1>) -> tensor<i1>
    %t11 = stablehlo.constant dense<0.0e+00> : tensor<f32>
    %v15 = stablehlo.reduce(%v4 init: %t11) applies stablehlo.add across dimensions = [1] : (tensor<2x0xf32>, tensor<f32>) -> tensor<2xf32>
    %t12 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %v16 = stablehlo.reduce(%v4 init: %t12) applies stablehlo.maximum across dimensions = [1] : (tensor<2x0xf32>, tensor<f32>) -> tensor<2xf32>
    return %v5, %v6, %v7, %v9, %v10, %v11, %v12, %v13, %v14, %v15, %v16 : tensor<2xf32>, tensor<3xf32>, tensor<f32>, tensor<2x1xf32>, tensor<bf16>, tensor<bf16>, tensor<2xi32>, tensor<2xi32>, tensor<i1>, tensor<2xf32>, tensor<2xf32>
  }
}
module @dot attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // input 2 is "x2"
  // input 3 is "x3"
  // output 0 is "y0"
  // output 1 is "y1"
  // output 2 is "y2"
  // output 3 is "y3"
  // output 4 is "y4"
  func.func public @main(%v0: tensor<2x3xf32>, %v1: tensor<2x3xf32>, %v2: tensor<2x2x1xf32>, %v3: tensor<1x2x2xf32>) -> (tensor<2x2xf32>, tensor<f32>, tensor<2x2x2xf32>, tensor<2x2xf32>, tensor<2x2xbf16>) {
    %v4 = stablehlo.dot_general %v0, %v1, contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST] : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>
    %v5 = stablehlo.dot_general %v0, %v1, contracting_dims = [0, 1] x [0, 1], precision = [HIGHEST, HIGHEST] : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<f32>
    %v6 = stablehlo.dot_general %v2, %v3, batching_dims = [0] x [1], contracting_dims = [2] x [0], precision = [HIGHEST, HIGHEST] : (tensor<2x2x1xf32>, tensor<1x2x2xf32>) -> tensor<2x2x2xf32>
    %t0 = stablehlo.constant dense<0.0e+00> : tensor<f32>
    %v7 = stablehlo.reduce(%v0 init: %t0) applies stablehlo.add across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
    %t1 = stablehlo.constant dense<0.0e+00> : tensor<f32>
    %v8 = stablehlo.reduce(%v1 init: %t1) applies stablehlo.add across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
    %v9 = stablehlo.dot_general %v7, %v8, contracting_dims = [] x [], precision = [HIGHEST, HIGHEST] : (tensor<2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
    %t2 = stablehlo.dot_general %v0, %v1, contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST] : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>
    %v10 = stablehlo.convert %t2 : (tensor<2x2xf32>) -> tensor<2x2xbf16>
    return %v4, %v5, %v6, %v9, %v10 : tensor<2x2xf32>, tensor<f32>, tensor<2x2x2xf32>, tensor<2x2xf32>, tensor<2x2xbf16>
  }
}
module @dot_bf16 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // input 2 is "x2"
  // input 3 is "x3"
  // output 0 is "y0"
  // output 1 is "y1"
  // output 2 is "y2"
  func.func public @main(%v0: tensor<1x4xbf16>, %v1: tensor<1x4xbf16>, %v2: tensor<2xi32>, %v3: tensor<2xi32>) -> (tensor<1x1xf32>, tensor<1x1xbf16>, tensor<i32>) {
    %v4 = stablehlo.dot_general %v0, %v1, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x4xbf16>, tensor<1x4xbf16>) -> tensor<1x1xf32>
    %v5 = stablehlo.dot_general %v0, %v1, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<1x4xbf16>, tensor<1x4xbf16>) -> tensor<1x1xbf16>
    %v6 = stablehlo.dot_general %v2, %v3, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2xi32>, tensor<2xi32>) -> tensor<i32>
    return %v4, %v5, %v6 : tensor<1x1xf32>, tensor<1x1xbf16>, tensor<i32>
  }
}
module @conv attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // input 2 is "x2"
  // input 3 is "x3"
  // output 0 is "y0"
  // output 1 is "y1"
  // output 2 is "y2"
  // output 3 is "y3"
  // output 4 is "y4"
  func.func public @main(%v0: tensor<1x3x1xf32>, %v1: tensor<1x1x3xf32>, %v2: tensor<1x2x3x2xf32>, %v3: tensor<2x2x2x2xf32>) -> (tensor<1x3x1xf32>, tensor<1x1x1xf32>, tensor<1x3x1xf32>, tensor<1x1x2x2xf32>, tensor<1x2x3x2xf32>) {
    %v4 = stablehlo.convolution(%v0, %v1) dim_numbers = [b, 0, f]x[o, i, 0]->[b, 0, f], window = {pad = [[1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]} : (tensor<1x3x1xf32>, tensor<1x1x3xf32>) -> tensor<1x3x1xf32>
    %v5 = stablehlo.convolution(%v0, %v1) dim_numbers = [b, 0, f]x[o, i, 0]->[b, 0, f], window = {pad = [[0, 0]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]} : (tensor<1x3x1xf32>, tensor<1x1x3xf32>) -> tensor<1x1x1xf32>
    %v6 = stablehlo.convolution(%v0, %v1) dim_numbers = [b, 0, f]x[o, i, 0]->[b, 0, f], window = {pad = [[2, 0]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]} : (tensor<1x3x1xf32>, tensor<1x1x3xf32>) -> tensor<1x3x1xf32>
    %v7 = stablehlo.convolution(%v2, %v3) dim_numbers = [b, 0, 1, f]x[o, i, 0, 1]->[b, 0, 1, f], window = {pad = [[0, 0], [0, 0]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]} : (tensor<1x2x3x2xf32>, tensor<2x2x2x2xf32>) -> tensor<1x1x2x2xf32>
    %v8 = stablehlo.convolution(%v2, %v3) dim_numbers = [b, 0, 1, f]x[o, i, 0, 1]->[b, 0, 1, f], window = {pad = [[1, 0], [0, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]} : (tensor<1x2x3x2xf32>, tensor<2x2x2x2xf32>) -> tensor<1x2x3x2xf32>
    return %v4, %v5, %v6, %v7, %v8 : tensor<1x3x1xf32>, tensor<1x1x1xf32>, tensor<1x3x1xf32>, tensor<1x1x2x2xf32>, tensor<1x2x3x2xf32>
  }
}
module @conv_strided attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // input 2 is "x2"
  // input 3 is "x3"
  // output 0 is "y0"
  // output 1 is "y1"
  // output 2 is "y2"
  func.func public @main(%v0: tensor<1x5x1xf32>, %v1: tensor<1x1x3xf32>, %v2: tensor<1x3x4x1xf32>, %v3: tensor<1x1x2x2xf32>) -> (tensor<1x2x1xf32>, tensor<1x3x1xf32>, tensor<1x1x2x1xf32>) {
    %v4 = stablehlo.convolution(%v0, %v1) dim_numbers = [b, 0, f]x[o, i, 0]->[b, 0, f], window = {stride = [2], pad = [[0, 0]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]} : (tensor<1x5x1xf32>, tensor<1x1x3xf32>) -> tensor<1x2x1xf32>
    %v5 = stablehlo.convolution(%v0, %v1) dim_numbers = [b, 0, f]x[o, i, 0]->[b, 0, f], window = {stride = [2], pad = [[1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]} : (tensor<1x5x1xf32>, tensor<1x1x3xf32>) -> tensor<1x3x1xf32>
    %v6 = stablehlo.convolution(%v2, %v3) dim_numbers = [b, 0, 1, f]x[o, i, 0, 1]->[b, 0, 1, f], window = {stride = [2, 3], pad = [[0, 0], [0, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]} : (tensor<1x3x4x1xf32>, tensor<1x1x2x2xf32>) -> tensor<1x1x2x1xf32>
    return %v4, %v5, %v6 : tensor<1x2x1xf32>, tensor<1x3x1xf32>, tensor<1x1x2x1xf32>
  }
}
module @conv_bf16 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // output 0 is "y0"
  // output 1 is "y1"
  func.func public @main(%v0: tensor<1x2x2xbf16>, %v1: tensor<1x2x2xbf16>) -> (tensor<1x1x1xf32>, tensor<1x1x1xbf16>) {
    %v2 = stablehlo.convolution(%v0, %v1) dim_numbers = [b, 0, f]x[o, i, 0]->[b, 0, f], window = {pad = [[0, 0]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x2x2xbf16>, tensor<1x2x2xbf16>) -> tensor<1x1x1xf32>
    %v3 = stablehlo.convolution(%v0, %v1) dim_numbers = [b, 0, f]x[o, i, 0]->[b, 0, f], window = {pad = [[0, 0]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x2x2xbf16>, tensor<1x2x2xbf16>) -> tensor<1x1x1xbf16>
    return %v2, %v3 : tensor<1x1x1xf32>, tensor<1x1x1xbf16>
  }
}
module @loop attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // output 0 is "y0"
  // output 1 is "y1"
  func.func public @main(%v0: tensor<2xf32>, %v1: tensor<f32>) -> (tensor<2xf32>, tensor<f32>) {
    %t0 = stablehlo.constant dense<5.0e-01> : tensor<f32>
    %v2 = stablehlo.broadcast_in_dim %t0, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %v3 = stablehlo.constant dense<0.0e+00> : tensor<f32>
    %t1 = stablehlo.constant dense<0> : tensor<i32>
    %w0:5 = stablehlo.while(%i0 = %t1, %v5 = %v0, %v6 = %v3, %v0_0 = %v0, %v1_0 = %v1) : tensor<i32>, tensor<2xf32>, tensor<f32>, tensor<2xf32>, tensor<f32>
    cond {
      %t2 = stablehlo.constant dense<3> : tensor<i32>
      %t3 = stablehlo.compare LT, %i0, %t2, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %t3 : tensor<i1>
    } do {
      %t4 = stablehlo.constant dense<5.0e-01> : tensor<f32>
      %v2_0 = stablehlo.broadcast_in_dim %t4, dims = [] : (tensor<f32>) -> tensor<2xf32>
      %v7 = stablehlo.multiply %v5, %v2_0 : tensor<2xf32>
      %v8 = stablehlo.add %v7, %v0_0 : tensor<2xf32>
      %v9 = stablehlo.convert %i0 : (tensor<i32>) -> tensor<f32>
      %v10 = stablehlo.multiply %v9, %v1_0 : tensor<f32>
      %v11 = stablehlo.add %v6, %v10 : tensor<f32>
      %t5 = stablehlo.constant dense<1> : tensor<i32>
      %t6 = stablehlo.add %i0, %t5 : tensor<i32>
      stablehlo.return %t6, %v8, %v11, %v0_0, %v1_0 : tensor<i32>, tensor<2xf32>, tensor<f32>, tensor<2xf32>, tensor<f32>
    }
    return %w0#1, %w0#2 : tensor<2xf32>, tensor<f32>
  }
}
module @loop_swap attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // input 2 is "x2"
  // output 0 is "y0"
  // output 1 is "y1"
  // output 2 is "y2"
  func.func public @main(%v0: tensor<1xf32>, %v1: tensor<1xf32>, %v2: tensor<1xf32>) -> (tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) {
    %t0 = stablehlo.constant dense<0> : tensor<i32>
    %w0:4 = stablehlo.while(%i0 = %t0, %v4 = %v0, %v5 = %v1, %v6 = %v2) : tensor<i32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>
    cond {
      %t1 = stablehlo.constant dense<3> : tensor<i32>
      %t2 = stablehlo.compare LT, %i0, %t1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %t2 : tensor<i1>
    } do {
      %t3 = stablehlo.constant dense<1> : tensor<i32>
      %t4 = stablehlo.add %i0, %t3 : tensor<i32>
      stablehlo.return %t4, %v5, %v4, %v6 : tensor<i32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>
    }
    return %w0#1, %w0#2, %w0#3 : tensor<1xf32>, tensor<1xf32>, tensor<1xf32>
  }
}
module @loop_outside attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // output 0 is "y0"
  // output 1 is "y1"
  // output 2 is "y2"
  func.func public @main(%v0: tensor<1xf32>, %v1: tensor<1xf32>) -> (tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) {
    %t0 = stablehlo.constant dense<0> : tensor<i32>
    %w0:5 = stablehlo.while(%i0 = %t0, %v3 = %v0, %v4 = %v0, %v0_0 = %v0, %v1_0 = %v1) : tensor<i32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>
    cond {
      %t1 = stablehlo.constant dense<2> : tensor<i32>
      %t2 = stablehlo.compare LT, %i0, %t1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %t2 : tensor<i1>
    } do {
      %v5 = stablehlo.add %v3, %v0_0 : tensor<1xf32>
      %t3 = stablehlo.constant dense<1> : tensor<i32>
      %t4 = stablehlo.add %i0, %t3 : tensor<i32>
      stablehlo.return %t4, %v1_0, %v5, %v0_0, %v1_0 : tensor<i32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>
    }
    %v8 = stablehlo.add %w0#1, %v0 : tensor<1xf32>
    return %w0#1, %w0#2, %v8 : tensor<1xf32>, tensor<1xf32>, tensor<1xf32>
  }
}
module @loop_nested attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  // input 0 is "x0"
  // input 1 is "x1"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<2x3xf32>, %v1: tensor<i32>) -> (tensor<2x3xf32>) {
    %v2 = stablehlo.constant dense<10> : tensor<i32>
    %t0 = stablehlo.constant dense<0> : tensor<i32>
    %w0:3 = stablehlo.while(%i0 = %t0, %v4 = %v0, %v1_0 = %v1) : tensor<i32>, tensor<2x3xf32>, tensor<i32>
    cond {
      %t1 = stablehlo.constant dense<2> : tensor<i32>
      %t2 = stablehlo.compare LT, %i0, %t1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %t2 : tensor<i1>
    } do {
      %v2_0 = stablehlo.constant dense<10> : tensor<i32>
      %v5 = stablehlo.multiply %i0, %v2_0 : tensor<i32>
      %v6 = stablehlo.add %v5, %v1_0 : tensor<i32>
      %t3 = stablehlo.constant dense<0.0e+00> : tensor<f32>
      %v7 = stablehlo.broadcast_in_dim %t3, dims = [] : (tensor<f32>) -> tensor<1x3xf32>
      %t4 = stablehlo.constant dense<0> : tensor<i32>
      %w1:3 = stablehlo.while(%i1 = %t4, %v9 = %v7, %v6_1 = %v6) : tensor<i32>, tensor<1x3xf32>, tensor<i32>
      cond {
        %t5 = stablehlo.constant dense<3> : tensor<i32>
        %t6 = stablehlo.compare LT, %i1, %t5, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %t6 : tensor<i1>
      } do {
        %v2_1 = stablehlo.constant dense<10> : tensor<i32>
        %v10 = stablehlo.add %v6_1, %i1 : tensor<i32>
        %v11 = stablehlo.multiply %v2_1, %v2_1 : tensor<i32>
        %v12 = stablehlo.add %v10, %v11 : tensor<i32>
        %v13 = stablehlo.convert %v12 : (tensor<i32>) -> tensor<f32>
        %v14 = stablehlo.reshape %v13 : (tensor<f32>) -> tensor<1x1xf32>
        %t7 = stablehlo.constant dense<0> : tensor<i32>
        %v15 = stablehlo.dynamic_update_slice %v9, %v14, %t7, %i1 : (tensor<1x3xf32>, tensor<1x1xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
        %t8 = stablehlo.constant dense<1> : tensor<i32>
        %t9 = stablehlo.add %i1, %t8 : tensor<i32>
        stablehlo.return %t9, %v15, %v6_1 : tensor<i32>, tensor<1x3xf32>, tensor<i32>
      }
      %t10 = stablehlo.constant dense<0> : tensor<i32>
      %v17 = stablehlo.dynamic_update_slice %v4, %w1#1, %i0, %t10 : (tensor<2x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>
      %t11 = stablehlo.constant dense<1> : tensor<i32>
      %t12 = stablehlo.add %i0, %t11 : tensor<i32>
      stablehlo.return %t12, %v17, %v1_0 : tensor<i32>, tensor<2x3xf32>, tensor<i32>
    }
    return %w0#1 : tensor<2x3xf32>
  }
}
module @"all-reduce" attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 4 : i32} {
  // input 0 is "x0"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<2xf32>) -> (tensor<2xf32>) {
    // over tp: partial sums
    %v1 = "stablehlo.all_reduce"(%v0) <{replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>}> ({
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %z = stablehlo.add %x, %y : tensor<f32>
        stablehlo.return %z : tensor<f32>
    }) : (tensor<2xf32>) -> tensor<2xf32>
    return %v1 : tensor<2xf32>
  }
}
module @"all-reduce_max_dp" attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 4 : i32} {
  // input 0 is "x0"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<2xf32>) -> (tensor<2xf32>) {
    // over dp: row maximum
    %v1 = "stablehlo.all_reduce"(%v0) <{replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>}> ({
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %z = stablehlo.maximum %x, %y : tensor<f32>
        stablehlo.return %z : tensor<f32>
    }) : (tensor<2xf32>) -> tensor<2xf32>
    return %v1 : tensor<2xf32>
  }
}
module @"all-gather" attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 4 : i32} {
  // input 0 is "x0"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<2xf32>) -> (tensor<1x4xf32>) {
    %v1 = stablehlo.reshape %v0 : (tensor<2xf32>) -> tensor<1x2xf32>
    // over tp: whole rows
    %v2 = "stablehlo.all_gather"(%v1) <{all_gather_dim = 1 : i64, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>}> : (tensor<1x2xf32>) -> tensor<1x4xf32>
    return %v2 : tensor<1x4xf32>
  }
}
module @"all-gather_tp_dp" attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 4 : i32} {
  // input 0 is "x0"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<1xf32>) -> (tensor<4xf32>) {
    // over tp+dp: tp is the major axis
    %v1 = "stablehlo.all_gather"(%v0) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 2, 1, 3]]> : tensor<1x4xi64>}> : (tensor<1xf32>) -> tensor<4xf32>
    return %v1 : tensor<4xf32>
  }
}
module @"reduce-scatter" attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 2 : i32} {
  // input 0 is "x0"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<2xf32>) -> (tensor<1xf32>) {
    // over tp: sum and split
    %v1 = "stablehlo.reduce_scatter"(%v0) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, scatter_dimension = 0 : i64}> ({
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %z = stablehlo.add %x, %y : tensor<f32>
        stablehlo.return %z : tensor<f32>
    }) : (tensor<2xf32>) -> tensor<1xf32>
    return %v1 : tensor<1xf32>
  }
}
module @"all-to-all" attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 2 : i32} {
  // input 0 is "x0"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<2x2xf32>) -> (tensor<1x4xf32>) {
    // over tp: rows to columns
    %v1 = "stablehlo.all_to_all"(%v0) <{concat_dimension = 1 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, split_count = 2 : i64, split_dimension = 0 : i64}> : (tensor<2x2xf32>) -> tensor<1x4xf32>
    return %v1 : tensor<1x4xf32>
  }
}
module @"all-to-all_same_dim" attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 2 : i32} {
  // input 0 is "x0"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<4xf32>) -> (tensor<4xf32>) {
    // over tp: regroup
    %v1 = "stablehlo.all_to_all"(%v0) <{concat_dimension = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, split_count = 2 : i64, split_dimension = 0 : i64}> : (tensor<4xf32>) -> tensor<4xf32>
    return %v1 : tensor<4xf32>
  }
}
module @permute attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 4 : i32} {
  // input 0 is "x0"
  // output 0 is "y0"
  // output 1 is "y1"
  func.func public @main(%v0: tensor<1xf32>) -> (tensor<1xf32>, tensor<1xf32>) {
    // over tp: next block of keys
    %v1 = "stablehlo.collective_permute"(%v0) <{source_target_pairs = dense<[[0, 1], [1, 2], [2, 3], [3, 0]]> : tensor<4x2xi64>}> : (tensor<1xf32>) -> tensor<1xf32>
    // over tp: to the next stage
    %v2 = "stablehlo.collective_permute"(%v0) <{source_target_pairs = dense<[[0, 1], [1, 2], [2, 3]]> : tensor<3x2xi64>}> : (tensor<1xf32>) -> tensor<1xf32>
    return %v1, %v2 : tensor<1xf32>, tensor<1xf32>
  }
}
module @"axis-index" attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 6 : i32} {
  // input 0 is "x0"
  // output 0 is "y0"
  // output 1 is "y1"
  // output 2 is "y2"
  // output 3 is "y3"
  func.func public @main(%v0: tensor<1xf32>) -> (tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) {
    %t0 = stablehlo.replica_id : tensor<ui32>
    %t1 = stablehlo.constant dense<3> : tensor<ui32>
    %t2 = stablehlo.divide %t0, %t1 : tensor<ui32>
    %t3 = stablehlo.constant dense<2> : tensor<ui32>
    %t4 = stablehlo.remainder %t2, %t3 : tensor<ui32>
    %v1 = stablehlo.convert %t4 : (tensor<ui32>) -> tensor<i32>
    %t5 = stablehlo.replica_id : tensor<ui32>
    %t6 = stablehlo.constant dense<3> : tensor<ui32>
    %t7 = stablehlo.remainder %t5, %t6 : tensor<ui32>
    %v2 = stablehlo.convert %t7 : (tensor<ui32>) -> tensor<i32>
    %v3 = stablehlo.constant dense<0> : tensor<i32>
    %v4 = stablehlo.constant dense<2> : tensor<i32>
    %v5 = stablehlo.multiply %v2, %v4 : tensor<i32>
    %v6 = stablehlo.add %v5, %v1 : tensor<i32>
    return %v1, %v2, %v3, %v6 : tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>
  }
}
module @loop_ring attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 4 : i32} {
  // input 0 is "x0"
  // output 0 is "y0"
  func.func public @main(%v0: tensor<1xf32>) -> (tensor<1xf32>) {
    %t0 = stablehlo.constant dense<0.0e+00> : tensor<f32>
    %v1 = stablehlo.broadcast_in_dim %t0, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %t1 = stablehlo.constant dense<0> : tensor<i32>
    %w0:3 = stablehlo.while(%i0 = %t1, %v3 = %v0, %v4 = %v1) : tensor<i32>, tensor<1xf32>, tensor<1xf32>
    cond {
      %t2 = stablehlo.constant dense<4> : tensor<i32>
      %t3 = stablehlo.compare LT, %i0, %t2, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %t3 : tensor<i1>
    } do {
      // over tp: ring
      %v5 = "stablehlo.collective_permute"(%v3) <{source_target_pairs = dense<[[0, 1], [1, 2], [2, 3], [3, 0]]> : tensor<4x2xi64>}> : (tensor<1xf32>) -> tensor<1xf32>
      %v6 = stablehlo.add %v4, %v3 : tensor<1xf32>
      %t4 = stablehlo.constant dense<1> : tensor<i32>
      %t5 = stablehlo.add %i0, %t4 : tensor<i32>
      stablehlo.return %t5, %v5, %v6 : tensor<i32>, tensor<1xf32>, tensor<1xf32>
    }
    return %w0#2 : tensor<1xf32>
  }
}
