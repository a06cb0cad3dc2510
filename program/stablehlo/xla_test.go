//go:build !weft_noxla

package stablehlo_test

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"

	"pgregory.net/rapid"
	"weft/internal/spmdtest"
	"weft/program"
	"weft/program/interp"
	"weft/program/stablehlo"
	"weft/xla"
	"weft/xla/plugin"
)

var cpu = sync.OnceValues(func() (*xla.Client, error) { return xla.Open(context.Background(), xla.Options{Devices: 8}) })

// client gives XLA's CPU engine, or skips the test where there is none.
func client(t *testing.T) *xla.Client {
	t.Helper()
	if os.Getenv("WEFT_SKIP_XLA") != "" {
		t.Skip("WEFT_SKIP_XLA is set")
	}
	c, err := cpu()
	if errors.Is(err, plugin.ErrNotInstalled) || errors.Is(err, xla.ErrNoXLA) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// runXLA compiles the text and runs it once.
func runXLA(c *xla.Client, p *program.Program, inputs [][]*interp.Array) ([][]*interp.Array, error) {
	ctx := context.Background()
	x, err := c.Compile(ctx, []byte(stablehlo.Text(p)), xla.CompileOptions{Name: p.Name, Replicas: p.Mesh.NumDevices()})
	if err != nil {
		return nil, err
	}
	defer x.Close()
	args := make([][]*xla.Buffer, len(inputs))
	for pos, row := range inputs {
		for _, a := range row {
			host := a.Tensor()
			b, err := c.Put(host.Data, a.DType, a.Shape, c.Devices()[pos].ID)
			if err != nil {
				return nil, err
			}
			defer b.Destroy()
			args[pos] = append(args[pos], b)
		}
	}
	bufs, done, err := x.Execute(ctx, args)
	if err != nil {
		return nil, err
	}
	if err := done.Wait(ctx); err != nil {
		return nil, err
	}
	outs := make([][]*interp.Array, len(bufs))
	for pos, row := range bufs {
		for _, b := range row {
			host, err := b.Tensor(ctx)
			if err != nil {
				return nil, err
			}
			b.Destroy()
			outs[pos] = append(outs[pos], interp.FromTensor(host))
		}
	}
	return outs, nil
}

// The hand values of every operation, by way of the emitted text.
func TestXLAEveryOperation(t *testing.T) {
	c := client(t)
	for _, k := range spmdtest.Cases() {
		t.Run(k.Name, func(t *testing.T) {
			p, err := k.Program()
			if err != nil {
				t.Fatal(err)
			}
			n := p.Mesh.NumDevices()
			out, err := runXLA(c, p, spmdtest.PerDevice(k.Inputs, n))
			if err != nil {
				t.Fatalf("%v\n%s", err, stablehlo.Text(p))
			}
			for pos, want := range spmdtest.PerDevice(k.Want, n) {
				for i, w := range want {
					// XLA's functions are good to a few last digits.
					if d := spmdtest.Differ(out[pos][i], w, 1e-6); d != "" {
						t.Errorf("device %d, output %d: %s", pos, i, d)
					}
				}
			}
		})
	}
}

// Random programs give on XLA what they give in the interpreter, within what
// roundings can explain.
func TestXLARandomPrograms(t *testing.T) {
	c := client(t)
	rapid.Check(t, func(rt *rapid.T) {
		p, in := spmdtest.Random(rt)
		want, _, err := interp.New(p.Mesh, interp.Options{}).Run(t.Context(), p, in)
		if err != nil {
			rt.Fatal(err)
		}
		got, err := runXLA(c, p, in)
		if err != nil {
			rt.Fatalf("%v\n%s", err, stablehlo.Text(p))
		}
		bounds := spmdtest.Bounds(p)
		for pos := range want {
			for i := range want[pos] {
				if d := spmdtest.Differ(got[pos][i], want[pos][i], bounds[i]); d != "" {
					rt.Fatalf("device %d, output %d, tolerance %g: XLA's %s\n%s", pos, i, bounds[i], d, p)
				}
			}
		}
	})
}

func TestXLAOddNames(t *testing.T) {
	c := client(t)
	for _, p := range []*program.Program{odd(t), spmdtest.Block(t)} {
		in := make([][]*interp.Array, p.Mesh.NumDevices())
		for pos := range in {
			for _, port := range p.Inputs {
				a := interp.NewArray(port.DType, port.Local...)
				for i := range a.Len() {
					a.Set(i, float64((i+pos)%5-2))
				}
				in[pos] = append(in[pos], a)
			}
		}
		want, _, err := interp.New(p.Mesh, interp.Options{}).Run(t.Context(), p, in)
		if err != nil {
			t.Fatal(err)
		}
		got, err := runXLA(c, p, in)
		if err != nil {
			t.Fatalf("%v\n%s", err, stablehlo.Text(p))
		}
		for pos := range want {
			for i := range want[pos] {
				if d := spmdtest.Differ(got[pos][i], want[pos][i], 0x1p-7); d != "" {
					t.Errorf("%s: device %d, output %d: %s", p.Name, pos, i, d)
				}
			}
		}
	}
}
