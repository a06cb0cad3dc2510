package xla

import (
	"errors"
	"strings"
	"testing"
	"unsafe"

	"weft/dtype"
	"weft/xla/internal/pjrt"
	"weft/xla/plugin"
)

// foreignText calls a function of this process on two operands.
const foreignText = `module {
  func.func public @main(%x: tensor<2x3xf32>, %y: tensor<4xbf16>) -> tensor<2x3xf32> {
    %z = stablehlo.custom_call @NAME(%x, %y) {api_version = 4 : i32, backend_config = {config = "a \"text\""}} : (tensor<2x3xf32>, tensor<4xbf16>) -> tensor<2x3xf32>
    return %z : tensor<2x3xf32>
  }
}`

// A program's call comes with its operands, its configuration and the memory of its result; an error and a panic of the
// handler are errors of the program, and the client goes on.
func TestForeignCalls(t *testing.T) {
	c := newClient(t, 1)
	var seen *ForeignCall
	for name, do := range map[string]func(*ForeignCall) error{
		"weft_test_doubles": func(call *ForeignCall) error {
			seen = &ForeignCall{Config: call.Config, Args: append([]ForeignBuffer{}, call.Args...), Results: append([]ForeignBuffer{}, call.Results...)}
			for i, x := range floats(call.Args[0].Data) {
				*(*float32)(unsafe.Pointer(&call.Results[0].Data[4*i])) = 2 * x
			}
			return nil
		},
		"weft_test_refuses": func(*ForeignCall) error { return errors.New("the handler has its reasons") },
		"weft_test_panics":  func(*ForeignCall) error { panic("no such thing") },
	} {
		for range 2 { // the second time changes nothing
			if err := c.Plugin().RegisterForeign(name, "config", do); err != nil {
				t.Fatal(err)
			}
		}
	}
	run := func(name string) ([]float32, error) {
		x := compile(t, c, strings.ReplaceAll(foreignText, "NAME", name), CompileOptions{Args: []ArgSpec{{DType: dtype.F32, Shape: []int{2, 3}}, {DType: dtype.BF16, Shape: []int{4}}},
			Outputs: []ArgSpec{{DType: dtype.F32, Shape: []int{2, 3}}}})
		args := put(t, c, []int{0}, []int{2, 3}, func(_, i int) float32 { return float32(i) })
		y, err := c.FromHost(AlignedBytes(8), dtype.BF16, []int{4}, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		outs, done, err := x.Execute(t.Context(), [][]*Buffer{{args[0][0], y}})
		if err == nil {
			err = done.Wait(t.Context())
		}
		if err != nil {
			return nil, err
		}
		return read(t, outs[0][0]), nil
	}
	for _, want := range []struct{ name, text string }{{"weft_test_refuses", "the handler has its reasons"}, {"weft_test_panics", "no such thing"}} {
		if _, err := run(want.name); err == nil || !strings.Contains(err.Error(), want.text) {
			t.Errorf("%s: %v", want.name, err)
		}
	}
	have, err := run("weft_test_doubles")
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range have {
		if x != float32(2*i) {
			t.Errorf("number %d is %g", i, x)
		}
	}
	if seen.Config != `a "text"` || len(seen.Args) != 2 || seen.Args[1].DType != dtype.BF16 || len(seen.Args[1].Data) != 8 || len(seen.Args[0].Shape) != 2 || len(seen.Results) != 1 {
		t.Errorf("%+v", seen)
	}
}

// A plugin without the interface is refused by name.
func TestNoForeignCalls(t *testing.T) {
	table := make([]uintptr, 200) // a header and functions, with no extensions
	table[0] = 8 * uintptr(len(table))
	p := &Plugin{api: pjrt.FromTable(unsafe.Pointer(&table[0]), "old.so"), engine: plugin.Installed{Name: "old", API: "0.1"}}
	err := p.RegisterForeign("weft_test", "config", nil)
	if !errors.Is(err, ErrNoForeign) || !strings.Contains(err.Error(), "plugin old (PJRT API 0.1) has no foreign function interface") {
		t.Error(err)
	}
}
