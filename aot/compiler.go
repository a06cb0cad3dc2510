package aot

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"weft/engine"
	"weft/fault"
	"weft/targets"
	"weft/topology"
	"weft/xla"
)

// Compiled is a program as its compiler made it. It is safe for use by many goroutines.
type Compiled interface {
	Memory() (xla.Memory, error)
	// Cost is the compiler's analysis, which some plugins do not have.
	Cost() (map[string]any, error)
	// Optimized is what the compiler made of the program, with its format.
	Optimized() ([]byte, string, error)
	Serialize() ([]byte, error)
	Close()
}

// compiler compiles for the devices of a slice.
type compiler interface {
	compile(ctx context.Context, text []byte, o xla.CompileOptions) (Compiled, error)
	plugin() *xla.Plugin
	platformVersion() string // its version, in the plugin's words
	deviceKind() string      // what it calls the devices
	notes() []string         // on how it compiles, for reports
	close()
}

// openCompiler opens the compiler of a slice: for TPUs libtpu's and for GPUs the CUDA plugin's,
// which take a topology in place of devices; for cpu:N the CPU plugin's, with so many virtual devices.
func openCompiler(ctx context.Context, on topology.Slice, o Options) (compiler, error) {
	if p, ok := on.PJRT(); ok {
		name := o.Plugin
		if name == "" {
			name = p.Engine
		}
		t, err := xla.OpenTopology(ctx, p.Name, xla.TopologyOptions{Plugin: name, Extra: p.Options, Progress: o.Fetching})
		if err != nil {
			return nil, err
		}
		if err := sameDevices(on, t.Devices()); err != nil {
			t.Close()
			return nil, err
		}
		return topologyCompiler{t}, nil
	}
	if on.Kind == topology.GPUBox {
		return openGPUCompiler(ctx, on, o)
	}
	c, err := xla.Open(ctx, xla.Options{Plugin: o.Plugin, Devices: on.Devices, Install: o.Install, Progress: o.Fetching})
	if err != nil {
		return nil, err
	}
	if wanted := targets.For(on).HostKernels; wanted.Available {
		if k := engine.RegisterKernels(c.Plugin()); !k.Available {
			err := fault.New(xla.ErrNoForeign, nil, "programs for %v call weft's kernels for processors: %s", on, k.Why)
			return nil, errors.Join(err, c.Close())
		}
	}
	return clientCompiler{c}, nil
}

// sameDevices checks that the plugin's devices are those of the slice. A program that is
// compiled for others would exchange data with the wrong neighbours.
func sameDevices(on topology.Slice, have []xla.TopologyDevice) error {
	want := map[int]topology.Device{}
	for _, d := range on.DeviceList() {
		want[d.ID] = d
	}
	if len(have) != len(want) {
		return fault.New(ErrSlice, nil, "%s has %d devices, its compiler says %d", on, len(want), len(have))
	}
	for _, d := range have {
		w, ok := want[d.ID]
		if !ok || d.Process != w.Process || d.Core != w.Core || !slices.Equal(d.Coords, w.Coords[:]) {
			return fault.New(ErrSlice, nil, "%s: its compiler has device %d in process %d at %v core %d, weft in %d at %v core %d",
				on, d.ID, d.Process, d.Coords, d.Core, w.Process, w.Coords, w.Core)
		}
	}
	return nil
}

// topologyCompiler compiles for a topology whose devices are absent.
type topologyCompiler struct{ t *xla.Topology }

func (c topologyCompiler) compile(ctx context.Context, text []byte, o xla.CompileOptions) (Compiled, error) {
	return c.t.Compile(ctx, text, o)
}
func (c topologyCompiler) plugin() *xla.Plugin     { return c.t.Plugin() }
func (c topologyCompiler) platformVersion() string { return c.t.PlatformVersion() }
func (c topologyCompiler) deviceKind() string      { return c.t.Devices()[0].Kind }
func (c topologyCompiler) notes() []string         { return c.t.Plugin().Notes() }
func (c topologyCompiler) close()                  { c.t.Close() }

// clientCompiler compiles for a client's devices, which are present.
type clientCompiler struct{ c *xla.Client }

func (c clientCompiler) compile(ctx context.Context, text []byte, o xla.CompileOptions) (Compiled, error) {
	return c.c.Compile(ctx, text, o)
}
func (c clientCompiler) plugin() *xla.Plugin { return c.c.Plugin() }
func (c clientCompiler) platformVersion() string {
	return fmt.Sprint(c.c.Platform(), " ", c.c.PlatformVersion())
}
func (c clientCompiler) deviceKind() string { return c.c.Devices()[0].Kind }
func (c clientCompiler) notes() []string    { return c.c.Plugin().Notes() }
func (c clientCompiler) close()             { _ = c.c.Close() }
