package weft

import (
	"context"
	"math/rand/v2"

	"weft/engine"
	"weft/graph"
	"weft/mesh"
	"weft/models"
	"weft/program"
	"weft/tensor"
)

// KernelResult compares the result of a kernel with that of the blocked form of
// attention that it replaces, on one device and on random operands of the model's
// shapes.
type KernelResult struct {
	Program    string  `json:"program"` // that has it
	Of         string  `json:"of"`
	MaxAbsDiff float64 `json:"max_abs_diff"`
	// MaxRelDiff is MaxAbsDiff over the largest magnitude of the blocked form's result.
	MaxRelDiff float64 `json:"max_rel_diff"`
	Tolerance  float64 `json:"tolerance"`
	OK         bool    `json:"ok"`
}

// verifyKernels compares each different kernel in the model's programs for some meshes
// with the blocked form. It does nothing for an engine whose target has no kernels.
func (m *Model) verifyKernels(ctx context.Context, eng engine.Engine, req models.Request, o VerifyOptions, meshes []*mesh.Mesh) ([]KernelResult, error) {
	seen, results := map[string]bool{}, []KernelResult{}
	req.Target = o.Adapt(eng.Target())
	one, err := mesh.Local(mesh.Standard(nil)...)
	if err != nil {
		return nil, err
	}
	for _, on := range append([]*mesh.Mesh{one}, meshes...) {
		g, err := m.Graph(on, req)
		if err != nil {
			return nil, err
		}
		if err := compareKernels(ctx, eng, g, seen, func(r KernelResult) { results = append(results, r) }); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// compareKernels compares the kernels of a graph that are not in seen yet.
func compareKernels(ctx context.Context, eng engine.Engine, g *graph.Graph, seen map[string]bool, found func(KernelResult)) error {
	for _, name := range g.ProgramNames() {
		p := g.Programs[name]
		for _, in := range p.Kernels() {
			config := in.Kernel.Config()
			if seen[config] {
				continue
			}
			seen[config] = true
			both, err := p.Compared(in)
			if err != nil {
				return err
			}
			outs, err := runOnce(ctx, eng, both)
			if err != nil {
				return err
			}
			r := KernelResult{Program: name, Of: in.Kernel.Name + " " + both.Inputs[0].DType.String() + " of", Tolerance: Tolerance(both.Outputs[0].DType, 1)}
			for _, port := range both.Inputs {
				r.Of += " " + program.Type{DType: port.DType, Shape: port.Shape}.String()
			}
			r.MaxAbsDiff, r.MaxRelDiff = Difference(outs[program.ByKernel], outs[program.ByMeaning])
			r.OK = r.MaxRelDiff <= r.Tolerance
			found(r)
		}
	}
	return nil
}

// runOnce runs a program for one device once, on normally distributed inputs.
func runOnce(ctx context.Context, eng engine.Engine, p *program.Program) (map[string][]float32, error) {
	exe, err := eng.Compile(ctx, p)
	if err != nil {
		return nil, err
	}
	defer exe.Close()
	var args []engine.Value
	defer func() {
		for _, a := range args {
			a.Free()
		}
	}()
	r := rand.New(rand.NewPCG(1, 1))
	for _, in := range p.Inputs {
		noise := make([]float32, tensor.Elements(in.Shape))
		for i := range noise {
			noise[i] = float32(r.NormFloat64())
		}
		t, err := tensor.FromFloat32s(in.DType, noise, in.Shape...)
		if err != nil {
			return nil, err
		}
		v, err := eng.Put(ctx, p.Mesh, program.Type{DType: in.DType, Shape: in.Shape}, []*engine.Block{{Data: t.Data}})
		if err != nil {
			return nil, err
		}
		args = append(args, v)
	}
	values, err := exe.Run(ctx, args)
	if err != nil {
		return nil, err
	}
	out := map[string][]float32{}
	for i, port := range p.Outputs {
		t := tensor.New(port.DType, port.Shape...)
		err := values[i].Get(ctx, 0, t.Data)
		values[i].Free()
		if err != nil {
			return nil, err
		}
		if out[port.Name], err = t.Float32s(); err != nil {
			return nil, err
		}
	}
	return out, nil
}
