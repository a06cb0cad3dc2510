package aot

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"weft/fault"
	"weft/internal/cubin"
	"weft/topology"
	"weft/xla"
	"weft/xla/plugin"
)

// gpuEngine is the engine that compiles for GPUs.
const gpuEngine = "cuda"

// gpuTiling gives matmuls blocks by a model of their cost. Without a GPU nothing can be tried,
// and matmuls inside loops would get blocks of 16 x 8.
const gpuTiling = "xla_gpu_experimental_cost_model_gemm_tiling_default"

// gpuCompiler compiles for GPUs that are absent.
type gpuCompiler struct {
	topologyCompiler
	config plugin.GPUConfig
	gpu    topology.GPU

	mu     sync.Mutex
	remark []string // on programs that were compiled twice
}

// OpenGPUs opens XLA's CUDA plugin for the GPUs of a slice, which are absent. What would end the process
// is looked for first: xla.OpenTopology checks the options, and the configuration is the
// plugin's own. It reads Plugin and Fetching of the options. Errors: ErrSlice for a GPU that
// nothing here compiles for, plugin.ErrNotInstalled, plugin.ErrGPUConfig.
func OpenGPUs(ctx context.Context, on topology.Slice, o Options) (*xla.Topology, plugin.GPUConfig, error) {
	none := plugin.GPUConfig{}
	gpu, ok := on.GPU()
	if !ok {
		return nil, none, fault.New(ErrSlice, nil, "%s has no GPUs", on)
	}
	how := gpu.Compiler()
	if how == nil {
		return nil, none, fault.New(ErrSlice, nil, "%s: programs for AMD's GPUs are planned and not compiled: XLA's ROCm plugin is linked against ROCm's libraries (HIP, rocBLAS, MIOpen and others), "+
			"which have to be installed with a driver; weft plan --on %s says what a device will hold, and h100x8, h200x8 or b200x8 are compiled for with nothing else", on, on)
	}
	name := cmp.Or(o.Plugin, gpuEngine)
	engine, err := plugin.Resolve(name)
	if err != nil {
		return nil, none, err
	}
	config, err := plugin.FindGPUConfig(engine.Path, how.Config)
	if err != nil {
		return nil, none, err
	}
	if config, err = config.Change(how.Changes); err != nil {
		return nil, none, err
	}
	t, err := xla.OpenTopology(ctx, on.String(), xla.TopologyOptions{Plugin: name, Extra: xla.GPUOptions(config, on.HostCount(), on.Devices/on.HostCount()), Progress: o.Fetching})
	if err != nil {
		return nil, none, err
	}
	if err := sameGPUs(on, t.Devices()); err != nil {
		t.Close()
		return nil, none, err
	}
	return t, config, nil
}

// openGPUCompiler opens the compiler of a slice of GPUs. Errors: those of OpenGPUs.
func openGPUCompiler(ctx context.Context, on topology.Slice, o Options) (compiler, error) {
	t, config, err := OpenGPUs(ctx, on, o)
	if err != nil {
		return nil, err
	}
	gpu, _ := on.GPU()
	return &gpuCompiler{topologyCompiler: topologyCompiler{t}, config: config, gpu: gpu}, nil
}

// sameGPUs checks that the plugin numbers the devices and hosts of a slice as weft does.
func sameGPUs(on topology.Slice, have []xla.TopologyDevice) error {
	want := map[int]int{} // a device's host
	for _, d := range on.DeviceList() {
		want[d.ID] = d.Process
	}
	if len(have) != len(want) {
		return fault.New(ErrSlice, nil, "%s has %d devices, its compiler says %d", on, len(want), len(have))
	}
	for _, d := range have {
		if host, ok := want[d.ID]; !ok || host != d.Process {
			return fault.New(ErrSlice, nil, "%s: its compiler has device %d on host %d, weft on host %d", on, d.ID, d.Process, host)
		}
	}
	return nil
}

// muchSpilled is how many bytes of registers a thread may spill in all kernels of a program before
// other blocks are tried: a few words cost nothing beside a second compilation.
const muchSpilled = 256

// compile compiles with blocks for matmuls by a cost model. Where that makes kernels spill many
// registers, it compiles once more with XLA's default blocks, and takes the one that spills less.
func (c *gpuCompiler) compile(ctx context.Context, text []byte, o xla.CompileOptions) (Compiled, error) {
	with := func(tiling bool) (Compiled, int, error) {
		tried := o
		tried.Overrides = map[string]any{gpuTiling: tiling}
		maps.Copy(tried.Overrides, o.Overrides)
		x, err := c.topologyCompiler.compile(ctx, text, tried)
		if err != nil {
			return nil, 0, err
		}
		return x, spilledBytes(x), nil
	}
	x, spilled, err := with(true)
	if err != nil || spilled <= muchSpilled {
		return x, err
	}
	other, less, err := with(false)
	if err != nil {
		return x, nil // the first one is whole
	}
	kept := "the first are kept"
	if less < spilled {
		x, other, kept = other, x, "the second are taken"
	}
	other.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remark = append(c.remark, fmt.Sprintf("program %s spilled %d bytes of registers a thread with blocks by the cost model and %d with default ones: %s", o.Name, spilled, less, kept))
	return x, nil
}

// spilledBytes adds up what a thread spills in all kernels of a program; 0 where the executable does
// not tell.
func spilledBytes(x Compiled) int {
	data, err := x.Serialize()
	if err != nil {
		return 0
	}
	images, err := cubin.Images(data)
	if err != nil {
		return 0
	}
	n := 0
	for _, image := range images {
		kernels, err := cubin.Read(image)
		if err != nil {
			continue
		}
		for _, k := range kernels {
			n += k.FrameBytes
		}
	}
	return n
}

// notes say how the programs were compiled, for reports.
func (c *gpuCompiler) notes() []string {
	list := append(c.topologyCompiler.notes(), fmt.Sprintf("compiled for the plugin's own description of %s; blocks of matmuls are by XLA's cost model (%s), since without a GPU none can be timed", c.config.Name, gpuTiling))
	if note := c.gpu.Compiler().Note; note != nil {
		list = append(list, *note)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return append(list, c.remark...)
}

// What a compiler for absent GPUs leaves out of its figures.
const (
	leftOutCode     = "the programs' own code: the plugin gives its size as 0"
	leftOutTuning   = "autotuning: the programs that a GPU's own plugin chooses by timing may hold more or less"
	leftOutConvs    = "cuDNN's workspaces: convolutions are left to cuDNN, which chooses its algorithm on the GPU"
	leftOutNetworks = "NCCL's buffers: the collectives are made when the programs are loaded"
)

// leftOut says what the figures of a slice's compiler do not have, of programs with these texts.
func leftOut(on topology.Slice, texts ...string) []string {
	list := []string{}
	if on.Kind != topology.GPUBox {
		return list
	}
	list = append(list, leftOutCode, leftOutTuning)
	has := func(words ...string) bool {
		return slices.ContainsFunc(texts, func(text string) bool {
			return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
		})
	}
	if has("stablehlo.convolution") {
		list = append(list, leftOutConvs)
	}
	if on.Devices > 1 && has("stablehlo.all_", "stablehlo.reduce_scatter", "stablehlo.collective_") {
		list = append(list, leftOutNetworks)
	}
	return list
}
