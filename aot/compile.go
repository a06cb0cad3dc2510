package aot

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"weft/engine"
	"weft/fault"
	"weft/graph"
	"weft/models"
	"weft/program/cost"
	"weft/program/stablehlo"
	"weft/xla"
	"weft/xla/plugin"
)

// Compilation has the compiled programs of a step. Close frees them.
type Compilation struct {
	Step   *Step
	Report Report
	// Texts and Compiled are by program.
	Texts    map[string]string
	Compiled map[string]Compiled

	compiler compiler
}

// Report says what was compiled and what it needs. Bytes are of one device.
type Report struct {
	Model       string           `json:"model"`
	On          string           `json:"on"`
	Mesh        string           `json:"mesh"`
	FSDP        []string         `json:"fsdp"`
	DType       string           `json:"dtype"`
	Batch       int              `json:"batch"` // of a call: with CFG as one batch, twice the videos
	Passes      int              `json:"passes"`
	Layers      int              `json:"layers"`
	Latent      []int            `json:"latent"`       // (channels, frames, height, width)
	DeviceOrder string           `json:"device_order"` // "plain" or "torus"
	DeviceIDs   []int            `json:"device_ids"`   // by mesh position
	Hosts       int              `json:"hosts"`
	Engine      plugin.Installed `json:"engine"`
	Compiler    string           `json:"compiler"` // in its own words
	Programs    []Program        `json:"programs"`
	// Attention is the form each attention takes, and why.
	Attention []graph.Choice `json:"attention"`

	// ResidentWeightBytes are the weights that are there at the moment when a device holds most,
	// with the slots of those that are streamed.
	ResidentWeightBytes int64 `json:"resident_weight_bytes"`
	// Offload says which weights are streamed; nil where none are.
	Offload *Offload `json:"offload,omitempty"`
	// KeptBytes are kept by a request, AliveBytes handed on by a step, at the moment when a
	// device holds most.
	KeptBytes  int64 `json:"kept_bytes"`
	AliveBytes int64 `json:"alive_bytes"`
	// CodeBytes is the programs' own size on the device; nil where the compiler does not say.
	CodeBytes *int64 `json:"code_bytes"`
	// ProgramBytes are those that the program At needs at that moment besides, for its
	// temporaries, results and padding; nil where the compiler gives no statistics.
	ProgramBytes *int64 `json:"program_bytes"`
	At           string `json:"at"`
	Need                // the sum, unknown where a program's own memory is
	// CompileSeconds is how long all programs took, several at a time.
	CompileSeconds float64 `json:"compile_seconds"`
	// LeftOut says what a device holds besides that the compiler gives no figure for.
	LeftOut []string `json:"left_out"`
	Notes   []string `json:"notes"`
	// Phases are all phases of a video, where CompilePhases has compiled them.
	Phases []Phase `json:"phases,omitempty"`
}

// Offload says what a device streams of the weights.
type Offload struct {
	Policy    string `json:"policy"` // as --offload takes it
	Depth     int    `json:"depth"`
	Slots     int    `json:"slots"`
	SlotBytes int64  `json:"slot_bytes"` // of all slots
	StepBytes int64  `json:"step_bytes"`
}

// Program is one program of a step. Figures that a compiler does not give are -1, which
// JSON has as null.
type Program struct {
	Name  string `json:"name"`
	Calls int    `json:"calls"` // of a denoising step, every pass counted; of the request, where Request is set
	// Request marks a program that runs once a request.
	Request bool `json:"request"`
	xla.Memory
	// TotalBytes is Memory.Total.
	TotalBytes int64 `json:"total_bytes"`
	// FLOPs are the Program's, two for a multiply and add, every round of a loop
	// counted; CompilerFLOPs the compiler's, which counts a loop's body once. -1 where
	// it has none.
	FLOPs          int64   `json:"flops"`
	CompilerFLOPs  float64 `json:"compiler_flops"`
	CompileSeconds float64 `json:"compile_seconds"`
}

// Compile compiles every program of a model's step for the slice that o.On names. When ctx ends
// first it returns; the compiler may go on until the process ends. Errors: those
// of NewStep; xla.ErrCompile, and xla.ErrMemory for a program that does not fit;
// plugin.ErrNotInstalled where the slice's engine is not here.
func Compile(ctx context.Context, m models.Model, o Options) (*Compilation, error) {
	s, err := NewStep(m, o)
	if err != nil {
		return nil, err
	}
	return CompileStep(ctx, s, o)
}

// CompileStep is Compile for a step that is built already. It reads only the options that
// say how to compile.
func CompileStep(ctx context.Context, s *Step, o Options) (*Compilation, error) {
	held, err := s.Graph.Residency(graph.Passes{N: s.Passes, Offload: s.Offload})
	if err != nil {
		return nil, err
	}
	comp, err := openCompiler(ctx, s.On, o)
	if err != nil {
		return nil, err
	}
	c := &Compilation{Step: s, Texts: map[string]string{}, Compiled: map[string]Compiled{}, compiler: comp}
	start := time.Now()
	seconds, err := c.compileAll(ctx, o)
	if err != nil {
		c.Close()
		return nil, err
	}
	c.Report = s.newReport()
	c.Report.Notes = append(c.Report.Notes, comp.notes()...)
	c.Report.LeftOut = leftOut(s.On, slices.Collect(maps.Values(c.Texts))...)
	c.Report.CompileSeconds = time.Since(start).Seconds()
	c.Report.Engine, c.Report.Compiler = comp.plugin().Engine(), oneLine(comp.platformVersion())
	for i := range c.Report.Programs {
		p := &c.Report.Programs[i]
		p.CompileSeconds = seconds[p.Name]
		if err := p.fillFromCompiler(c.Compiled[p.Name]); err != nil {
			c.Close()
			return nil, err
		}
	}
	c.Report.sumMemory(s, held)
	return c, nil
}

// MarshalJSON writes the Report, as weft compile does.
func (c *Compilation) MarshalJSON() ([]byte, error) { return json.Marshal(c.Report) }

// Close frees the programs and the compiler's devices.
func (c *Compilation) Close() {
	for _, x := range c.Compiled {
		x.Close()
	}
	c.compiler.close()
}

// compileAll compiles the programs, the costliest first, and says how long each took.
func (c *Compilation) compileAll(ctx context.Context, o Options) (map[string]float64, error) {
	programs := c.Step.Graph.Programs
	names := c.Step.Graph.ProgramNames()
	for _, n := range names {
		c.Texts[n] = stablehlo.Text(programs[n])
	}
	slices.SortStableFunc(names, func(a, b string) int { return len(c.Texts[b]) - len(c.Texts[a]) })
	seconds := map[string]float64{}
	var mu sync.Mutex
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(max(1, orElse(o.Parallel, runtime.GOMAXPROCS(0))))
	for _, name := range names {
		work.Go(func() (err error) {
			defer fault.Recover(&err)
			if err := context.Cause(ctx); err != nil {
				return err
			}
			start := time.Now()
			x, err := c.compiler.compile(ctx, []byte(c.Texts[name]), engine.CompileOptions(programs[name]))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				return fmt.Errorf("program %s: %w", name, err)
			}
			c.Compiled[name], seconds[name] = x, time.Since(start).Seconds()
			if o.Progress != nil {
				o.Progress(name, len(c.Compiled), len(names))
			}
			return nil
		})
	}
	return seconds, work.Wait()
}

func orElse(n, other int) int {
	if n > 0 {
		return n
	}
	return other
}

// newReport makes the report of a step with everything that is known before it is compiled.
func (s *Step) newReport() Report {
	r := Report{Model: s.Model.Name(), On: s.On.String(), Mesh: s.Graph.Mesh.String(), FSDP: append([]string{}, s.FSDP...),
		DType: s.Request.DType.String(), Batch: s.Request.Batch, Passes: s.Passes, Layers: s.Layers, Latent: s.Request.Latent,
		Attention: s.Graph.Choices(), DeviceOrder: s.Order, Hosts: s.On.HostCount(), Notes: append([]string{}, s.Graph.Notes...)}
	for _, d := range s.Graph.Mesh.Devices() {
		r.DeviceIDs = append(r.DeviceIDs, d.ID)
	}
	for _, name := range s.Graph.ProgramNames() {
		p := Program{Name: name, Request: true, FLOPs: cost.WorkOf(s.Graph.Programs[name]).Flops}
		for _, c := range s.Graph.Calls {
			if c.Program == name {
				p.Calls += s.Passes
				p.Request = p.Request && c.Request
			}
		}
		r.Programs = append(r.Programs, p)
	}
	return r
}

// fillFromCompiler fills in a program's figures that the compiler gives. Those that it does
// not give become -1.
func (p *Program) fillFromCompiler(x Compiled) error {
	var err error
	if p.Memory, err = x.Memory(); err != nil {
		return err
	}
	if p.TotalBytes = p.Memory.Total(); !p.Known() {
		p.Memory = xla.Memory{Arguments: -1, Outputs: -1, Temp: -1, Alias: -1, Code: -1, Peak: -1, TotalAllocation: -1, HostTemp: -1}
		p.TotalBytes = -1
	}
	if p.Code == 0 { // no program is empty: XLA's CPU compiler does not say the size
		p.Code = -1
	}
	p.CompilerFLOPs = -1
	cost, err := x.Cost()
	if failed, ok := fault.Fields[xla.PluginFailure](err); ok && failed.Code == "unimplemented" {
		return nil
	}
	if f, ok := cost["flops"].(float32); ok {
		p.CompilerFLOPs = float64(f)
	}
	return err
}

// sumMemory finds the call at which a device holds most, and what it holds then, by the
// formula in the package's comment.
func (r *Report) sumMemory(s *Step, held *graph.Residency) {
	total := map[string]int64{}
	code, known := int64(0), true
	for _, p := range r.Programs {
		total[p.Name] = max(0, p.TotalBytes)
		code += max(0, p.Code)
		known = known && p.Known()
	}
	if s.Offload.Stream {
		r.Offload = &Offload{Policy: s.Policy.String(), Depth: s.Offload.Depth, Slots: held.Weights.SlotCount, SlotBytes: held.Weights.Slots, StepBytes: held.Weights.Step}
	}
	need, own := int64(0), int64(0)
	for i, c := range s.Graph.Calls {
		at := held.Moments[i]
		more := int64(0)
		if known {
			more = total[c.Program] - s.Graph.ArgumentBytes(i)
		}
		if n := at.Weights + at.Kept + at.Alive + more + code; n > need {
			need, own = n, more
			r.ResidentWeightBytes, r.KeptBytes, r.AliveBytes, r.At = at.Weights, at.Kept, at.Alive, c.Program
		}
	}
	if !known {
		r.Notes = append(r.Notes, r.judgeFit(nil, s.Memory)...)
		return
	}
	r.ProgramBytes = &own
	if code > 0 {
		r.CodeBytes = &code
	}
	r.Notes = append(r.Notes, r.judgeFit(&need, s.Memory)...)
}
