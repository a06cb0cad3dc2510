package pjrt

import (
	"fmt"
	"math"
	"runtime"
	"sort"
	"structs"
	"unsafe"
)

// namedValue is PJRT_NamedValue. Its union is one word, which holds a number
// or an address; as the word cannot be both to the collector it is a plain
// integer, and what it may name is pinned, which also keeps it alive. This is
// the one place where Go memory is named by an integer.
type namedValue struct {
	_         structs.HostLayout
	size      uintptr
	ext       unsafe.Pointer
	name      unsafe.Pointer
	nameSize  uintptr
	kind      int32
	_         int32
	word      uint64
	valueSize uintptr
}

const (
	namedString int32 = iota
	namedInt64
	namedInt64List
	namedFloat
	namedBool
)

// Named is a set of options or attributes. Values are string, int64, []int64, float32 or bool.
type Named map[string]any

// encode lays options out for C. They are in the order of their names, so that equal
// sets of options make equal calls.
func (n Named) encode(p *runtime.Pinner) ([]namedValue, error) {
	names := make([]string, 0, len(n))
	for k := range n {
		names = append(names, k)
	}
	sort.Strings(names)
	out := make([]namedValue, len(names))
	for i, k := range names {
		v := &out[i]
		v.size = unsafe.Sizeof(*v)
		v.name, v.nameSize = pin(p, stringData(k)), uintptr(len(k))
		v.valueSize = 1
		switch x := n[k].(type) {
		case string:
			v.kind, v.word, v.valueSize = namedString, uint64(uintptr(pin(p, stringData(x)))), uintptr(len(x))
		case int64:
			v.kind, v.word = namedInt64, uint64(x)
		case []int64:
			v.kind, v.word, v.valueSize = namedInt64List, uint64(uintptr(pin(p, dataOf(x)))), uintptr(len(x))
		case float32:
			v.kind, v.word = namedFloat, uint64(math.Float32bits(x))
		case bool:
			v.kind = namedBool
			if x {
				v.word = 1
			}
		default:
			return nil, fmt.Errorf("option %q has a value of type %T; string, int64, []int64, float32 and bool are known", k, x)
		}
	}
	return out, nil
}

// decodeNamed copies n attributes out of C memory. The stride of the array is the size
// of the struct (56 bytes), which no version has changed.
func decodeNamed(p unsafe.Pointer, n uintptr) Named {
	out := Named{}
	if p == nil {
		return out
	}
	for _, v := range unsafe.Slice((*namedValue)(p), n) {
		var x any
		switch v.kind {
		case namedString:
			x = copyText(foreignPointer(uintptr(v.word)), v.valueSize)
		case namedInt64:
			x = int64(v.word)
		case namedInt64List:
			list := []int64{}
			if v.valueSize > 0 && v.word != 0 {
				list = append(list, unsafe.Slice((*int64)(foreignPointer(uintptr(v.word))), v.valueSize)...)
			}
			x = list
		case namedFloat:
			x = math.Float32frombits(uint32(v.word))
		case namedBool:
			x = v.word&0xff != 0
		}
		out[copyText(v.name, v.nameSize)] = x
	}
	return out
}
