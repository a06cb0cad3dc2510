package xla

import (
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"weft/dtype"
	"weft/fault"
	"weft/tensor"
	"weft/xla/internal/pjrt"
)

// ErrNoForeign: the plugin cannot call functions of this process.
var ErrNoForeign = fault.NewKind("no-foreign-functions")

// ForeignBuffer is an operand or a result of a foreign call: its type, and its memory, which is the
// plugin's and valid until the handler returns.
type ForeignBuffer struct {
	DType dtype.DType
	Shape []int
	Data  []byte
}

// ForeignCall is one call of a handler from a program: custom_call with api_version 4. Config is the text
// attribute of that name.
type ForeignCall struct {
	Args, Results []ForeignBuffer
	Config        string
}

// handlers are the names that have been registered, by plugin: XLA keeps one table for a process.
var handlers struct {
	sync.Mutex
	of map[*Plugin][]string
}

// RegisterForeign makes programs on processors call do by this name; a name that has a handler
// keeps it. do runs on threads of the plugin's, several at a time, and its error is the
// program's. Error: ErrNoForeign where the plugin has no foreign function interface.
func (p *Plugin) RegisterForeign(name, config string, do func(*ForeignCall) error) error {
	handlers.Lock()
	defer handlers.Unlock()
	if slices.Contains(handlers.of[p], name) {
		return nil
	}
	if !p.api.HasForeign() {
		return fault.New(ErrNoForeign, nil, "plugin %s (PJRT API %s) has no foreign function interface, by which programs call %s", p.engine.Name, p.engine.API, name)
	}
	err := p.api.RegisterForeign(name, func(c *pjrt.ForeignCall) error {
		call := &ForeignCall{Config: c.Text[config]}
		for _, x := range []struct {
			from []pjrt.ForeignBuffer
			to   *[]ForeignBuffer
		}{{c.Args, &call.Args}, {c.Results, &call.Results}} {
			for _, b := range x.from {
				buffer, err := readForeign(b)
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				*x.to = append(*x.to, buffer)
			}
		}
		return do(call)
	})
	if err != nil {
		return fault.New(ErrNoForeign, nil, "plugin %s (PJRT API %s) does not take the function %s: %w", p.engine.Name, p.engine.API, name, err)
	}
	if handlers.of == nil {
		handlers.of = map[*Plugin][]string{}
	}
	handlers.of[p] = append(handlers.of[p], name)
	return nil
}

// foreignKinds numbers element types as XLA itself does, which is not how PJRT does.
var foreignKinds = map[int32]dtype.DType{
	1: dtype.Bool, 2: dtype.I8, 3: dtype.I16, 4: dtype.I32, 5: dtype.I64, 6: dtype.U8, 7: dtype.U16, 8: dtype.U32, 9: dtype.U64,
	10: dtype.F16, 11: dtype.F32, 12: dtype.F64, 16: dtype.BF16, 19: dtype.F8E5M2, 20: dtype.F8E4M3,
}

// readForeign reads a buffer of a call.
func readForeign(b pjrt.ForeignBuffer) (ForeignBuffer, error) {
	out := ForeignBuffer{DType: foreignKinds[b.Kind]}
	if out.DType == dtype.Invalid {
		return out, fmt.Errorf("a buffer of element type %d, which weft does not know", b.Kind)
	}
	for _, n := range b.Dims {
		out.Shape = append(out.Shape, int(n))
	}
	if n := tensor.Elements(out.Shape) * out.DType.Size(); n > 0 {
		out.Data = unsafe.Slice((*byte)(b.Memory), n)
	}
	return out, nil
}
