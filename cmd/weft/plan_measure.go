package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"

	"weft"
	"weft/checkpoint"
	"weft/dtype"
	"weft/engine"
	"weft/fault"
	"weft/graph"
	"weft/internal/userfile"
	"weft/mesh"
	"weft/models"
	"weft/plan"
	"weft/request"
	"weft/topology"
)

// planMeasured compares the best plan with a run of it on this machine.
type planMeasured struct {
	Mesh                string   `json:"mesh"`
	FSDP                []string `json:"fsdp"`
	PlannedStepSeconds  float64  `json:"planned_step_seconds"`
	StepSeconds         float64  `json:"step_seconds"` // the faster of two
	PlannedWeightBytes  int64    `json:"planned_weight_bytes"`
	ResidentWeightBytes int64    `json:"resident_weight_bytes"`   // of the fullest device, when the plan has it hold most
	PlannedBytes        int64    `json:"planned_bytes"`           // of all devices
	PeakRSSBytes        int64    `json:"peak_rss_bytes,omitzero"` // of the process; left out where the system does not tell
	CompileSeconds      float64  `json:"compile_seconds"`
	EngineName          string   `json:"engine"`
	Devices             int      `json:"devices"`
}

// measureBestPlan runs the best plan on this machine. The weights are zeros, read from
// a sparse file that takes no space on disk.
func measureBestPlan(ctx context.Context, a *app, m models.Model, o plan.Options, res *plan.Result) (*planMeasured, error) {
	if o.On.Kind != topology.CPU || o.As != "" {
		return nil, usageError("--measure runs the plan on this machine: it goes with --on cpu:N and weft's own program")
	}
	p := res.Plans[0]
	all := p.HBMBytesPerDevice * int64(p.Devices)
	if limit := o.Machine.MemoryBytes; limit > 0 && all > limit {
		return nil, fault.New(plan.ErrTooBig, nil, "--measure: the best plan, %s, takes %s on %d devices of this machine, which has %s; a smaller size or fewer frames", p.Mesh, weft.Bytes(all), p.Devices, weft.Bytes(limit))
	}
	dir, remove, err := userfile.MakeTempFolder("weft-plan-")
	if err != nil {
		return nil, err
	}
	defer remove()
	config, err := json.Marshal(m.Config())
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), config, 0o644); err != nil {
		return nil, err
	}
	entries := []checkpoint.Entry{}
	for _, w := range m.Params(0) {
		e := checkpoint.Entry{Name: w.Name, DType: dtype.F32, Shape: w.Shape}
		if w.Matmul {
			e.DType = o.ComputeType()
		}
		entries = append(entries, e)
	}
	if err := checkpoint.CreateSparse(filepath.Join(dir, "model.safetensors"), entries...); err != nil {
		return nil, err
	}
	model, err := weft.Open(dir)
	if err != nil {
		return nil, err
	}
	defer model.Close()
	step, _, err := o.OfVideo(m)
	if err != nil {
		return nil, err
	}
	in, err := model.Example(step.Batch, step.Latent, 1)
	if err != nil {
		return nil, err
	}
	asked := o.Request
	if asked.Mesh, err = mesh.Parse(p.Mesh); err != nil {
		return nil, err
	}
	if asked.FSDP = p.FSDP; slices.Equal(p.FSDP, []string{mesh.FSDP}) {
		asked.FSDP = nil // a mesh axis fsdp shares the weights by itself
	}
	if p.Offload != nil {
		asked = asked.Streaming(p.Offload.Kept)
		asked.OffloadDepth = &p.Offload.Depth
	} else {
		asked.Offload, asked.OffloadDepth = request.Offload{}, nil
	}
	r, err := model.Start(ctx, in, weft.Options{Request: asked, Device: "cpu", Engine: engine.Options{Warn: a.warn}})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for range 3 { // the first computes what depends on the text alone besides
		if _, err := r.Forward(ctx); err != nil {
			return nil, err
		}
	}
	rep := r.Report()
	held, err := r.Graph().WeightMemory(asked.Offloading())
	if err != nil {
		return nil, err
	}
	ofRequest := slices.ContainsFunc(r.Graph().Calls, func(c graph.Call) bool { return c.Request && c.Program == p.Breakdown.DiT.At })
	var resident int64
	for _, w := range held {
		resident = max(resident, w.At(ofRequest))
	}
	return &planMeasured{Mesh: p.Mesh, FSDP: p.FSDP, PlannedStepSeconds: p.StepSeconds, StepSeconds: rep.Seconds,
		PlannedWeightBytes: p.Breakdown.DiT.WeightsBytes, ResidentWeightBytes: resident, PlannedBytes: all, PeakRSSBytes: rep.PeakRSS,
		CompileSeconds: rep.CompileSeconds, EngineName: rep.Engine.Name, Devices: p.Devices}, nil
}

// sayMeasured prints the comparison for people.
func (m *planMeasured) sayMeasured(say func(string, ...any)) {
	say("")
	say("measured on this machine, %s on %d devices of %s", m.Mesh, m.Devices, m.EngineName)
	say("  step     %s, planned %s (%.2f of it)", secondsText(m.StepSeconds), secondsText(m.PlannedStepSeconds), m.StepSeconds/m.PlannedStepSeconds)
	say("  weights  %s a device, planned %s", weft.Bytes(m.ResidentWeightBytes), weft.Bytes(m.PlannedWeightBytes))
	peak := "unknown"
	if m.PeakRSSBytes > 0 {
		peak = weft.Bytes(m.PeakRSSBytes)
	}
	say("  memory   %s the whole process, planned %s for all devices", peak, weft.Bytes(m.PlannedBytes))
}
