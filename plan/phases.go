package plan

import (
	"fmt"
	"slices"
	"sync"

	"weft/graph"
	"weft/mesh"
	"weft/phases"
	"weft/topology"
)

// PhasePlan is a phase of making a video.
type PhasePlan struct {
	Name string `json:"name"` // text, image, denoise or decode
	// HBMBytesPerDevice is what a device holds at its fullest: the most of the runs. nil
	// where a run is not modelled, and so is Seconds.
	HBMBytesPerDevice *int64 `json:"hbm_bytes_per_device"`
	// Seconds are those of all runs. Of denoise they are those of all steps and of what runs once
	// before them, or of one step alone where the request does not say how many. Loading weights
	// is not counted.
	Seconds *float64 `json:"seconds"`
	// Steps is how many steps Seconds are of; 0 for phases without.
	Steps int `json:"steps,omitzero"`
	// Beginnings is how often Seconds have what runs once a request: for each of two experts that
	// share the steps.
	Beginnings int `json:"beginnings,omitzero"`
	// Experts is how many models share the steps by their noise, one on the devices at a time; 0 for
	// one that runs them all.
	Experts int `json:"experts,omitzero"`
	// Breakdown is the memory of the run that takes most.
	Breakdown Phase `json:"breakdown"`
	// Runs are those of the models, one after another.
	Runs []PhaseRun `json:"runs"`
}

// PhaseRun is the run of one model in a phase. Only Model is known of one that weft does not
// have.
type PhaseRun struct {
	Model string `json:"model"`
	Mesh  string `json:"mesh,omitempty"`
	DType string `json:"dtype,omitempty"`
	// Tiles is how many tiles the run computes one after another, and Tile their size in pixels,
	// height x width as models.Tiles has them; 0 and "" where pictures are computed whole.
	Tiles int    `json:"tiles,omitzero"`
	Tile  string `json:"tile,omitempty"`
	// Seconds are those of all tiles; Time is that of one, as it is of one step.
	Seconds   *float64 `json:"seconds"`
	Time      *Time    `json:"time,omitempty"`
	Breakdown Phase    `json:"breakdown"`

	of *placedRun
}

// placedRun holds the figures of a model beside the transformer on the devices of a slice.
type placedRun struct {
	phases.Run
	split    split
	measures *splitMeasures // nil where weft does not have the model, or no mesh is legal
	devices  int

	mu    sync.Mutex
	times map[string]*runTimes // by slice
}

// runTimes is what a run takes on a slice.
type runTimes struct {
	rates stepRates
	workTimes
}

// allPrograms are those that run once a request and those of the one step that a model beside
// the transformer has.
func (m *splitMeasures) allPrograms() []programMeasures {
	return slices.Concat(m.onRequest, m.programs)
}

// companions keeps the figures of the models beside the transformer, by the number of devices,
// the target and what is streamed.
type companions struct {
	list  []phases.Run
	mu    sync.Mutex
	known map[string]func() (*placedRun, error)
}

// addPhases adds to a plan the memory of the phases beside denoising. Each phase has the devices
// alone, because weft runs one after another. A phase that no program describes stays "not
// modelled".
func (s *search) addPhases(p *Plan, on topology.Slice) error {
	for _, run := range s.companions.list {
		if run.Phase == phases.Denoise {
			continue
		}
		got, err := s.placeRun(run, on, graph.Offload{})
		if err == nil && got.measures != nil && s.streamCompanion(p, on, &got.measures.memory) {
			resident := got
			got, err = s.placeRun(run, on, graph.Offload{Stream: true, Depth: s.o.Depth()})
			if err == nil && got.measures.memory.SlotBytes == 0 {
				got = resident // it has no layers that could be streamed
			} else if err == nil {
				p.Offload = &Offload{Phases: append(p.streamedPhases(), breakdownKey(run.Phase))}
			}
		}
		if err != nil {
			return err
		}
		p.runs = append(p.runs, got)
		if got.measures == nil {
			continue
		}
		phase := Phase{Memory: &got.measures.memory, Attention: got.measures.choices}
		switch run.Phase { // of several runs, which come one after another, the largest
		case phases.Text:
			p.Breakdown.Text.raiseTo(phase)
		case phases.Decode:
			p.Breakdown.VAE.raiseTo(phase)
		}
		note := fmt.Sprintf("%s on %s of the %d devices, alone: a server that keeps all phases' weights adds them up", run.Name, got.split.meshText(), p.Devices)
		if run.Tiles == 0 || !slices.Contains(p.Notes, note) { // once for tiles of all sizes
			p.Notes = append(p.Notes, note)
		}
	}
	return nil
}

// raiseTo makes a phase another one, if that takes more.
func (p *Phase) raiseTo(other Phase) {
	if p.Memory == nil || other.TotalBytes > p.TotalBytes {
		*p = other
	}
}

// breakdownKey is the name that Breakdown has for a phase.
func breakdownKey(phase string) string {
	switch phase {
	case phases.Denoise:
		return ditPhase
	case phases.Decode:
		return vaePhase
	}
	return phase
}

// measureRuns gives the function that measures the i-th of the models beside the transformer on a
// slice, so that plans of its splits find it measured. The decoder, which takes longest, is the
// first.
func (s *search) measureRuns(on topology.Slice) func(i int) {
	return func(i int) {
		if run := s.companions.list[len(s.companions.list)-1-i]; run.Phase != phases.Denoise {
			_, _ = s.placeRun(run, on, graph.Offload{}) // who asks again hears of an error
		}
	}
}

// placeRun measures a run on the first of the meshes that its model allows.
func (s *search) placeRun(run phases.Run, on topology.Slice, o graph.Offload) (*placedRun, error) {
	run.Request.Target = run.Target(s.o.Target(on))
	key := fmt.Sprint(run.Phase, run.Name, on.Devices, run.Request.Target, run.Request.Latent, o)
	s.companions.mu.Lock()
	get := s.companions.known[key]
	if get == nil {
		get = sync.OnceValues(func() (*placedRun, error) { return s.measureRun(run, on.Devices, o) })
		if s.companions.known == nil {
			s.companions.known = map[string]func() (*placedRun, error){}
		}
		s.companions.known[key] = get
	}
	s.companions.mu.Unlock()
	return get()
}

func (s *search) measureRun(run phases.Run, devices int, o graph.Offload) (*placedRun, error) {
	out := &placedRun{Run: run, devices: devices, times: map[string]*runTimes{}}
	axes := run.Place(devices, run.Request)
	if axes == nil {
		return out, nil
	}
	out.split = splitOf(axes)
	local, err := mesh.Local(axesOf(out.split)...)
	if err != nil {
		return nil, err
	}
	g, err := run.Model.Graph(local, run.Request)
	if err != nil {
		return nil, err
	}
	if out.measures, err = measureGraph(g, 0, run.Passes, o); err != nil {
		return nil, err
	}
	if !s.explains {
		out.measures.graph = nil
	}
	return out, nil
}

// timesOf gives what a run takes on a slice. Its mesh is laid on the slice by its traffic, and
// devices that it leaves idle are an axis of their own.
func (s *search) timesOf(c *placedRun, on topology.Slice) (*runTimes, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if got := c.times[on.String()]; got != nil {
		return got, nil
	}
	axes := axesOf(c.split)
	if idle := c.devices / c.split.countDevices(); idle > 1 {
		axes = append([]mesh.Axis{{Name: "idle", Size: idle}}, axes...)
	}
	o := s.o
	o.DType = c.Request.DType
	r, err := layRates(on, o, axes, byAxis(c.measures.step))
	if err != nil {
		return nil, err
	}
	t := &runTimes{rates: r}
	if t.workTimes, err = r.timeWork(c.measures, c.measures.allPrograms()); err != nil {
		return nil, err
	}
	c.times[on.String()] = t
	return t, nil
}

// listPhases fills in a plan's phases, of which memory and the step's time are known.
func (s *search) listPhases(p *Plan, on topology.Slice) error {
	beside := p.runs
	for _, run := range s.companions.list {
		r, steps, begins := PhaseRun{Model: run.Name}, 0, 0
		if run.Phase == phases.Denoise {
			steps, begins = max(1, s.o.Steps), min(1, s.o.Steps)
			if steps > 1 {
				begins = max(begins, s.experts(run))
			}
			r.Mesh, r.DType = p.Mesh, run.Request.DType.String()
			seconds, once := p.RequestSeconds*float64(begins)+p.StepSeconds*float64(steps), p.Time
			r.Seconds, r.Time, r.Breakdown = &seconds, &once, p.Breakdown.DiT
		} else {
			r.of, beside = beside[0], beside[1:]
			if err := s.describeCompanion(&r, on); err != nil {
				return err
			}
		}
		n := len(p.Phases)
		if n == 0 || p.Phases[n-1].Name != run.Phase {
			p.Phases = append(p.Phases, PhasePlan{Name: run.Phase, Steps: steps, Beginnings: begins, Experts: s.experts(run), Runs: []PhaseRun{r}})
			continue
		}
		p.Phases[n-1].Runs = append(p.Phases[n-1].Runs, r)
	}
	for i := range p.Phases {
		p.Phases[i].addUp()
	}
	return nil
}

// experts is how many models share the steps of a run; 0 for a run of one.
func (s *search) experts(run phases.Run) int {
	if run.Phase == phases.Denoise && s.o.Settings.Number("boundary") > 0 {
		return 2
	}
	return 0
}

// describeCompanion fills in what the run of a model beside the transformer takes, where it was
// measured.
func (s *search) describeCompanion(r *PhaseRun, on topology.Slice) error {
	run := r.of
	if run.measures == nil {
		return nil
	}
	t, err := s.timesOf(run, on)
	if err != nil {
		return err
	}
	seconds := t.seconds * float64(max(1, run.Tiles))
	r.Mesh, r.DType, r.Seconds, r.Time = run.split.meshText(), run.Request.DType.String(), &seconds, &t.time
	r.Breakdown = Phase{Memory: &run.measures.memory, Attention: run.measures.choices}
	if r.Tiles = run.Tiles; r.Tiles > 0 {
		r.Tile, err = tileText(run.Run)
	}
	return err
}

// tileText is the size of a run's tiles in pixels.
func tileText(run phases.Run) (string, error) {
	shape, err := run.Model.Features().Decoder.VideoShape(run.Request.Latent)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%dx%d", shape[2], shape[3]), nil
}

// TilesText says how many tiles of which size the run computes: "8 tiles of 256x256".
func (r PhaseRun) TilesText() string {
	if r.Tiles == 1 {
		return "1 tile of " + r.Tile
	}
	return fmt.Sprintf("%d tiles of %s", r.Tiles, r.Tile)
}

// addUp sums up the runs of a phase, where all are known.
func (p *PhasePlan) addUp() {
	seconds := 0.0
	for _, r := range p.Runs {
		if r.Breakdown.Memory == nil || r.Seconds == nil {
			p.HBMBytesPerDevice, p.Seconds, p.Breakdown = nil, nil, Phase{}
			return
		}
		seconds += *r.Seconds
		if p.Breakdown.Memory == nil || r.Breakdown.TotalBytes > p.Breakdown.TotalBytes {
			p.Breakdown = r.Breakdown
		}
	}
	p.HBMBytesPerDevice, p.Seconds = &p.Breakdown.TotalBytes, &seconds
}

// peakBytes gives the bytes of the phase that takes most.
func (p *Plan) peakBytes() int64 {
	n := p.Breakdown.peakBytes()
	for _, r := range p.runs {
		if r.measures != nil {
			n = max(n, r.measures.memory.TotalBytes)
		}
	}
	return n
}

// unmodelledPhases names the phases that no plan of the search has figures for.
func (s *search) unmodelledPhases() []string {
	out := []string{}
	for _, run := range s.companions.list {
		if run.Model != nil {
			continue
		}
		what := map[string]string{phases.Text: "the text encoder", phases.Image: "encoding the image", phases.Decode: "the VAE"}[run.Phase]
		out = append(out, what+" ("+run.Name+")")
	}
	return out
}
