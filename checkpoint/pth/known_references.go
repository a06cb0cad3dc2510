package pth

import (
	"slices"
	"strings"
)

// knownNames are the functions and classes, by module, to which files of tensors and of a
// trainer's plain values refer. None of them is ever run: the machine knows the results of
// those that make tensors, and makes inert values for the others. A reference to any other
// name is an error, even if it is not called: such a file is a program, and nobody can say
// what it would make without running it.
var knownNames = map[string][]string{
	"collections": {"OrderedDict", "defaultdict", "Counter", "deque"},
	"torch._utils": {"_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_parameter", "_rebuild_parameter_with_state",
		"_rebuild_qtensor", "_rebuild_sparse_tensor", "_rebuild_sparse_csr_tensor", "_rebuild_nested_tensor", "_rebuild_meta_tensor_no_storage",
		"_rebuild_wrapper_subclass", "_rebuild_device_tensor_from_numpy", "_rebuild_device_tensor_from_cpu_tensor", "_rebuild_xla_tensor"},
	"torch._tensor":       {"_rebuild_from_type_v2", "Tensor"},
	"torch.storage":       {"UntypedStorage", "TypedStorage", "_UntypedStorage", "_TypedStorage"},
	"torch.nn.parameter":  {"Parameter", "Buffer", "UninitializedParameter", "UninitializedBuffer"},
	"torch.serialization": {"_get_layout"},
	"torch.torch_version": {"TorchVersion"},
	"torch": {"Tensor", "Size", "device", "per_tensor_affine", "per_channel_affine", "per_tensor_symmetric", "per_channel_symmetric",
		"per_channel_affine_float_qparams", "strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "jagged",
		"contiguous_format", "channels_last", "channels_last_3d", "preserve_format", "qint8", "quint8", "qint32", "quint4x2", "quint2x4",
		"complex32", "complex128", "float4_e2m1fn_x2", "bits8", "bits16", "bits1x8", "bits2x4", "bits4x2"},
	"numpy.core.multiarray":  {"scalar", "_reconstruct"},
	"numpy._core.multiarray": {"scalar", "_reconstruct"},
	"numpy.core.numeric":     {"_frombuffer"},
	"numpy._core.numeric":    {"_frombuffer"},
	"numpy":                  {"dtype", "ndarray", "bool_", "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"},
	"numpy.dtypes": {"BoolDType", "Float16DType", "Float32DType", "Float64DType", "Int8DType", "Int16DType", "Int32DType", "Int64DType",
		"UInt8DType", "UInt16DType", "UInt32DType", "UInt64DType", "StrDType", "BytesDType"},
	"_codecs":        {"encode"},
	"builtins":       builtins,
	"__builtin__":    builtins,
	"copyreg":        {"_reconstructor"},
	"copy_reg":       {"_reconstructor"},
	"argparse":       {"Namespace"},
	"types":          {"SimpleNamespace"},
	"pathlib":        {"Path", "PosixPath", "PurePath", "PurePosixPath", "WindowsPath", "PureWindowsPath"},
	"pathlib._local": {"Path", "PosixPath", "PurePath", "PurePosixPath", "WindowsPath", "PureWindowsPath"},
	"datetime":       {"datetime", "date", "time", "timedelta", "timezone"},
	"decimal":        {"Decimal"},
	"fractions":      {"Fraction"},
	"uuid":           {"UUID"},
	"_io":            {"BytesIO"},
	"io":             {"BytesIO"},
}

// builtins are the types of plain values. No function is among them, because files that
// do harm call functions of this module.
var builtins = []string{"set", "frozenset", "dict", "list", "tuple", "int", "float", "complex", "bool", "str", "bytes", "bytearray", "slice", "range", "long", "unicode", "object"}

// quantizedStorages are the typed storages of quantized tensors.
var quantizedStorages = []string{"QInt8Storage", "QUInt8Storage", "QInt32Storage", "QUInt4x2Storage", "QUInt2x4Storage"}

// isKnownReference says whether a reference is one of knownNames, a storage class or a
// dtype of torch.
func isKnownReference(g global) bool {
	if slices.Contains(knownNames[g.module], g.name) {
		return true
	}
	switch g.module {
	case "torch", "torch.cuda", "torch.storage":
		_, typed := classes[g.name]
		return typed || g.name == "ComplexDoubleStorage" || slices.Contains(quantizedStorages, g.name) || g.module == "torch" && isDType(g.name)
	}
	return false
}

func isDType(name string) bool {
	_, is := dtypes[name]
	return is || isSubByteInteger(name)
}

// isSubByteInteger says whether a name is one of torch's integers of less than 8 bits.
func isSubByteInteger(name string) bool {
	bits := strings.TrimPrefix(strings.TrimPrefix(name, "u"), "int")
	return name != bits && len(bits) == 1 && bits >= "1" && bits <= "7"
}

// tensorKinds are the functions that make tensors which weft does not read, and what to
// call these tensors in a message.
var tensorKinds = map[string]string{
	"_rebuild_qtensor":                       "a quantized tensor",
	"_rebuild_sparse_tensor":                 "a sparse tensor",
	"_rebuild_sparse_csr_tensor":             "a sparse tensor in compressed rows",
	"_rebuild_nested_tensor":                 "a nested tensor",
	"_rebuild_meta_tensor_no_storage":        "a tensor on the meta device, which has no data",
	"_rebuild_wrapper_subclass":              "a tensor of a class of its own",
	"_rebuild_device_tensor_from_numpy":      "a tensor of another device, kept as a NumPy array",
	"_rebuild_device_tensor_from_cpu_tensor": "a tensor of another device",
	"_rebuild_xla_tensor":                    "a tensor of another device",
	"_reconstruct":                           "a NumPy array",
	"_frombuffer":                            "a NumPy array",
	"ndarray":                                "a NumPy array",
	"UninitializedParameter":                 "a parameter that was never initialized",
	"UninitializedBuffer":                    "a buffer that was never initialized",
}
