package pth

import (
	"fmt"

	"weft/dtype"
	"weft/fault"
	"weft/internal/numbers"
)

// Tensor is one tensor of a file. Its element (i, j, ...) lies at byte
// Offset + (i*Strides[0] + j*Strides[1] + ...) * the size of an element.
type Tensor struct {
	Name    string
	DType   dtype.DType // Invalid for a type that weft cannot read
	Stored  string      // the type's name, as in safetensors
	Shape   []int
	Strides []int // in elements
	Offset  int64 // in the file
}

// view is a tensor as the pickle describes it.
type view struct {
	storage storage
	stored  string // the type's name in safetensors, "" where it has none
	typed   string // the type's name in the pickle
	offset  int64
	shape   []int64
	strides []int64
}

// classes are the typed storages.
var classes = map[string]string{
	"DoubleStorage": "F64", "FloatStorage": "F32", "HalfStorage": "F16", "BFloat16Storage": "BF16",
	"LongStorage": "I64", "IntStorage": "I32", "ShortStorage": "I16", "CharStorage": "I8", "ByteStorage": "U8",
	"BoolStorage": "BOOL", "ComplexFloatStorage": "C64",
}

// dtypes are torch's dtypes that have no storage class of their own, and those that have.
var dtypes = map[string]string{
	"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32", "int16": "I16",
	"int8": "I8", "uint8": "U8", "bool": "BOOL", "uint16": "U16", "uint32": "U32", "uint64": "U64", "complex64": "C64",
	"float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e8m0fnu": "F8_E8M0",
	"float8_e4m3fnuz": "F8_E4M3FNUZ", "float8_e5m2fnuz": "F8_E5M2FNUZ",
	"double": "F64", "float": "F32", "half": "F16", "long": "I64", "int": "I32", "short": "I16", "cfloat": "C64",
}

// otherSizes are the bytes of an element of those types that weft can list but not read.
var otherSizes = map[string]int64{"C64": 8, "F8_E8M0": 1, "F8_E4M3FNUZ": 1, "F8_E5M2FNUZ": 1}

// resultOfCall gives the result of a call in a pickle, without running anything: a tensor
// for functions that rebuild tensors, a dict for those that make one, and an inert object
// for all others.
func (m *machine) resultOfCall(f, args any) any {
	a, ok := args.(tuple)
	if !ok {
		m.fail("arguments that are no tuple")
		return nil
	}
	g, ok := f.(global)
	if !ok {
		return &opaque{is: "an object", holds: []any{f, args}}
	}
	switch name := g.module + "." + g.name; name {
	case "collections.OrderedDict":
		return m.orderedDict(a)
	case "collections.defaultdict", "builtins.dict", "__builtin__.dict":
		return &dict{}
	case "torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_tensor_v3", "torch._utils._rebuild_tensor":
		return m.rebuildTensor(g.name, a)
	case "torch._utils._rebuild_parameter", "torch._utils._rebuild_parameter_with_state", "torch.nn.parameter.Parameter", "torch.nn.parameter.Buffer":
		if len(a) > 0 && isTensor(a[0]) {
			return a[0]
		}
		m.fail("a parameter made of no tensor")
		return nil
	case "torch._tensor._rebuild_from_type_v2":
		return m.rebuildFromType(a)
	case "torch.Size":
		if len(a) == 1 {
			return a[0]
		}
	case "numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar":
		return &opaque{is: "a NumPy number"}
	}
	if kind, is := tensorKinds[g.name]; is && g.module != "collections" {
		return &refused{kind}
	}
	return &opaque{is: g.module + "." + g.name, holds: a}
}

// rebuildFromType reads (function, class, arguments, state), a tensor of a class. For
// torch's own classes, it is the tensor that the function gives.
func (m *machine) rebuildFromType(a tuple) any {
	if len(a) < 3 {
		m.fail("a tensor of a class without its arguments")
		return nil
	}
	inner, ok1 := a[0].(global)
	class, ok2 := a[1].(global)
	if !ok1 || !ok2 || inner.name == "_rebuild_from_type_v2" {
		m.fail("a tensor of a class is not as torch writes it")
		return nil
	}
	switch class.module + "." + class.name {
	case "torch.Tensor", "torch._tensor.Tensor", "torch.nn.parameter.Parameter", "torch.nn.parameter.Buffer":
		return m.resultOfCall(inner, a[2])
	}
	return &refused{"a tensor of the class " + class.module + "." + class.name}
}

// isTensor says whether a value is a tensor, readable or not.
func isTensor(v any) bool {
	switch v.(type) {
	case *view, *refused:
		return true
	}
	return false
}

// orderedDict makes a dict from the pairs in the arguments, if there are any.
func (m *machine) orderedDict(args tuple) *dict {
	d := &dict{}
	if len(args) == 0 {
		return d
	}
	if l, ok := args[0].(*list); ok {
		if m.spare -= len(l.items); m.spare < 0 {
			m.fail("one list serves for too many dicts")
			return d
		}
		for _, item := range l.items {
			switch pair := item.(type) {
			case tuple:
				d.addPairs(pair[:min(len(pair), 2)])
			case *list:
				d.addPairs(pair.items[:min(len(pair.items), 2)])
			}
		}
	}
	return d
}

// rebuildTensor reads (storage, offset, shape, strides, requires_grad, hooks[, dtype][, metadata]).
func (m *machine) rebuildTensor(name string, a tuple) any {
	bad := func() any {
		m.fail("%s is not called as torch does", name)
		return nil
	}
	if len(a) < 4 {
		return bad()
	}
	s, ok1 := a[0].(storage)
	offset, ok2 := a[1].(int64)
	shape, ok3 := readIntegers(a[2])
	strides, ok4 := readIntegers(a[3])
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return bad()
	}
	v := &view{storage: s, stored: classes[s.class], typed: s.class, offset: offset, shape: shape, strides: strides}
	metadata := 6
	if name == "_rebuild_tensor_v3" {
		metadata = 7
		g, ok := global{}, false
		if len(a) > 6 {
			g, ok = a[6].(global)
		}
		if !ok || g.module != "torch" {
			return bad()
		}
		v.stored, v.typed = dtypes[g.name], "torch."+g.name
	}
	if len(a) > metadata {
		if bits, ok := a[metadata].(*dict); ok {
			for i, key := range bits.keys {
				if set, ok := bits.values[i].(bool); ok && set {
					return &refused{fmt.Sprintf("a tensor with its bit %q set, by which it is read otherwise", key)}
				}
			}
		}
	}
	if s.location == "meta" {
		return &refused{"a tensor on the meta device, which has no data"}
	}
	return v
}

// maxRank is torch's own limit on the number of dims.
const maxRank = 64

// readIntegers reads a shape or strides: a tuple of integers.
func readIntegers(v any) ([]int64, bool) {
	t, ok := v.(tuple)
	if !ok || len(t) > maxRank {
		return nil, false
	}
	list := make([]int64, len(t))
	for i, x := range t {
		if list[i], ok = x.(int64); !ok {
			return nil, false
		}
	}
	return list, true
}

// entry is where a storage's bytes are in the file.
type entry struct{ offset, bytes int64 }

// resolveTensor checks a view against its storage and places it in the file.
func (v *view) resolveTensor(file, name string, e entry) (Tensor, error) {
	t := Tensor{Name: name, Stored: v.stored, Shape: []int{}, Strides: []int{}}
	t.DType, _ = dtype.FromSafetensors(v.stored)
	if v.stored == "" {
		return t, fault.New(ErrStorageType, Value{file, name, v.typed}, "%s: tensor %s is of the type %s, which is none that weft knows", file, name, v.typed)
	}
	size := int64(t.DType.Size())
	if n, other := otherSizes[v.stored]; other {
		size = n
	}
	last, ok := v.lastElement()
	need := int64(0)
	if ok && last >= 0 {
		var fits bool
		if need, fits = numbers.MulChecked(last+1, size); !fits || last+1 < 0 {
			ok = false
		}
	}
	for _, n := range v.shape {
		t.Shape = append(t.Shape, int(n))
	}
	for _, n := range v.strides {
		t.Strides = append(t.Strides, int(n))
	}
	if !ok || need > e.bytes {
		return t, fault.New(ErrStorageBounds, Bounds{file, name, t.Shape, t.Strides, v.offset, need, e.bytes},
			"%s: tensor %s of shape %v, strides %v and offset %d reaches past its storage of %d bytes",
			file, name, v.shape, v.strides, v.offset, e.bytes)
	}
	t.Offset = e.offset
	if last >= 0 {
		t.Offset += v.offset * size
	}
	return t, nil
}

// lastElement gives the index in the storage of the tensor's last element, -1 for an empty
// tensor. ok is false for negative numbers, for another number of strides than dims, and
// for overflow.
func (v *view) lastElement() (last int64, ok bool) {
	if len(v.shape) != len(v.strides) || v.offset < 0 {
		return 0, false
	}
	last, empty, elements := v.offset, false, int64(1)
	for i, n := range v.shape {
		if n < 0 || v.strides[i] < 0 {
			return 0, false
		}
		if n == 0 {
			empty = true
			continue
		}
		reach, fits := numbers.MulChecked(n-1, v.strides[i])
		if !fits || last+reach < last {
			return 0, false
		}
		last += reach
		if elements, fits = numbers.MulChecked(elements, n); !fits {
			return 0, false
		}
	}
	if _, fits := numbers.MulChecked(elements, 8); !fits {
		return 0, false
	}
	if empty {
		return -1, true
	}
	return last, true
}
