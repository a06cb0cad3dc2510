package plan

import (
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"weft/dtype"
	"weft/fault"
	"weft/internal/jsontext"
	"weft/internal/peer"
	"weft/mesh"
	"weft/program/cost"
	"weft/topology"
)

//go:embed data/efficiency.json
var efficiencyJSON []byte

// Efficiencies are the figures of the time model, but for those of attention's kernel, which
// stand with their generation in topology's data.
type Efficiencies struct {
	Status string                       `json:"status"`
	How    string                       `json:"how"`
	Values map[string]topology.Estimate `json:"values"`
	// Peer is the calibration of the peer's terms.
	Peer struct {
		How string `json:"how"`
		// HeldOut has, for each family, the calibration on the rows of all other families.
		HeldOut map[string]peer.Calibration `json:"held_out"`
	} `json:"peer"`
}

// ErrData: plan's own data lacks a figure, or has one that is no positive number.
var ErrData = fault.NewKind("plan-data")

// efficiencies gives the figures that step times are computed with. Error: ErrData.
var efficiencies = sync.OnceValues(func() (Efficiencies, error) { return readEfficiencies(efficiencyJSON) })

// readEfficiencies reads the figures of the time model and checks that every one is there
// that times are made of, and no other. Error: ErrData, one for each fault.
func readEfficiencies(data []byte) (Efficiencies, error) {
	var e Efficiencies
	if err := jsontext.Decode(data, jsontext.Options{Keys: true, Whole: true}, &e); err != nil {
		return e, fault.New(ErrData, nil, "%s: %w", efficiencyFile, err)
	}
	names := []string{"matmul", "attention", "hbm", "link", "collective_seconds", "f32_passes_tpu", "f32_passes_gpu",
		"gpu_pcie_bytes", "gpu_network_bytes", "cpu_core_flops", "cpu_bytes", "cpu_link_bytes", "cpu_read_bytes"}
	var l fault.List
	for _, name := range names {
		if v, ok := e.Values[name]; !ok {
			l.Add(fault.New(ErrData, nil, "%s: there is no figure %s", efficiencyFile, name))
		} else if wrong := v.Check(); wrong != "" {
			l.Add(fault.New(ErrData, nil, "%s: %s %s", efficiencyFile, name, wrong))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.Values)) {
		if !slices.Contains(names, name) {
			l.Add(fault.New(ErrData, nil, "%s: nothing uses a figure %s", efficiencyFile, name))
		}
	}
	return e, l.Err()
}

// efficiencyFile is the file that errors of the figures name.
const efficiencyFile = "plan/data/efficiency.json"

// efficiencyOf gives a figure by its name. It is there: a search begins with
// readEfficiencies, which checks that.
func efficiencyOf(name string) float64 {
	e, _ := efficiencies()
	return e.Values[name].Value
}

// Time splits a step's seconds by cause. Each program takes the longer of its arithmetic
// and its memory traffic, and then its collectives.
type Time struct {
	MatmulSeconds     float64            `json:"matmul_seconds"`
	AttentionSeconds  float64            `json:"attention_seconds"`
	MemorySeconds     float64            `json:"memory_seconds"` // where memory traffic is the longer
	CollectiveSeconds map[string]float64 `json:"collective_seconds"`
	// TransferSeconds are those in which layers wait for weights that are streamed.
	TransferSeconds float64 `json:"transfer_seconds,omitzero"`
}

// ProgramTime is one program's part of a step.
type ProgramTime struct {
	Name          string  `json:"name"`
	Calls         int     `json:"calls"` // a step
	FLOPs         float64 `json:"flops"` // a call and device
	MovedBytes    int64   `json:"moved_bytes"`
	PeakBytes     int64   `json:"peak_bytes"`
	ArgumentBytes int64   `json:"argument_bytes"`
	Seconds       float64 `json:"seconds"` // a step
}

// rates are the operations and bytes of one device in a second.
type rates struct {
	flops, memory, link float64
	network             float64 // between hosts of GPUs; 0 is not known
	host                float64 // to and from the host's memory; 0 is not known
	streamed            float64 // at which weights come from the host's memory
	rings               bool    // a ring of more than two devices uses its links in both directions
}

func ratesOf(on topology.Slice, o Options) rates {
	r := on.Rates()
	passes := 1.0
	out := rates{flops: r.BF16FLOPs, memory: r.HBMBytes, link: r.LinkBytes / float64(max(1, r.Devices)), host: r.HostBytes / float64(max(1, r.Devices)), network: r.NetworkBytes, rings: on.Kind == topology.TPU}
	switch on.Kind {
	case topology.TPU:
		passes = efficiencyOf("f32_passes_tpu")
	case topology.GPUBox:
		passes = efficiencyOf("f32_passes_gpu")
		if out.link == 0 { // PCIe joins them
			out.link = cmp.Or(out.host, efficiencyOf("gpu_pcie_bytes"))
		}
		if out.network == 0 {
			out.network = min(out.link, efficiencyOf("gpu_network_bytes"))
		}
	case topology.CPU:
		cores := 2
		if o.Machine.Cores > 0 {
			cores = o.Machine.Cores
		}
		n := float64(on.Devices)
		return rates{flops: efficiencyOf("cpu_core_flops") * float64(cores) / n, memory: efficiencyOf("cpu_bytes") / n, link: efficiencyOf("cpu_link_bytes") / n,
			streamed: efficiencyOf("cpu_read_bytes") / n}
	}
	if out.streamed = out.host; out.host == 0 && on.Kind == topology.GPUBox {
		out.streamed = efficiencyOf("gpu_pcie_bytes")
	}
	if o.DType == dtype.F32 {
		out.flops /= passes
	}
	return out
}

// stepRates has what the times of a plan's programs are computed with.
type stepRates struct {
	rates
	on   topology.Slice
	axes []mesh.Axis
	hops map[string]int // of neighbours along an axis, the longest way
	// overNetwork are the axes whose groups reach beyond what fast links join.
	overNetwork []string
}

// stepRatesOf gives the rates for a plan, with its mesh laid on the slice by its traffic.
func (s *search) stepRatesOf(p *Plan, on topology.Slice) (stepRates, error) {
	return layRates(on, s.o, axesOf(p.split), p.CollectiveBytes)
}

// layRates gives the rates for a mesh, laid on the slice by what it sends along its axes.
func layRates(on topology.Slice, o Options, axes []mesh.Axis, sent map[string]int64) (stepRates, error) {
	r := stepRates{rates: ratesOf(on, o), on: on, axes: axes, hops: map[string]int{}}
	bytes := map[string]int64{}
	for axis, n := range sent {
		for _, a := range strings.Split(axis, "+") {
			bytes[a] += n
		}
	}
	for _, a := range r.axes {
		bytes[a.Name] += 0
	}
	devices, l, err := on.Order(r.axes, bytes)
	if err != nil {
		return r, err
	}
	r.overNetwork = on.NetworkAxes(r.axes, devices)
	for _, a := range l.Axes {
		r.hops[a.Axis] = a.MaxHops
	}
	return r, nil
}

// arithmetic gives the seconds of all calls of a program's contractions, apart for those of
// attention.
func (r stepRates) arithmetic(c *programMeasures) (matmul, attention float64) {
	calls := float64(c.calls)
	return calls * c.matmul / (r.flops * efficiencyOf("matmul")), calls * (c.attention/(r.flops*efficiencyOf("attention")) + kernelSeconds(c.kernelTiles, r.on, r.rates))
}

// movement gives the seconds of all calls of a program's memory traffic.
func (r stepRates) movement(c *programMeasures) float64 {
	return float64(c.calls) * float64(c.moved) / (r.memory * efficiencyOf("hbm"))
}

// sending gives the seconds of collectives in so many calls.
func (r stepRates) sending(t cost.Traffic, calls int) float64 {
	return float64(calls) * (float64(t.Bytes)/(r.linkAlong(t.Axes)*efficiencyOf("link")*ringLinks(r.axes, t.Axes, r.hops, r.rings)) + float64(t.Count)*efficiencyOf("collective_seconds"))
}

// linkAlong gives the rate of a link between neighbours along some axes: the network's where
// one of them reaches beyond the fast links, for a ring waits for its slowest link.
func (r stepRates) linkAlong(axes []string) float64 {
	if slices.ContainsFunc(axes, func(a string) bool { return slices.Contains(r.overNetwork, a) }) {
		return r.network
	}
	return r.link
}

// workTimes is what a graph's programs take together, by cause and by program.
type workTimes struct {
	seconds  float64
	time     Time
	programs []ProgramTime
}

// timeWork gives what programs take, of a step or of what runs once a request: a roofline for
// each program, and its collectives.
func (r stepRates) timeWork(m *splitMeasures, programs []programMeasures) (workTimes, error) {
	w := workTimes{time: Time{CollectiveSeconds: map[string]float64{}}}
	for i := range programs {
		c := &programs[i]
		matmul, attention := r.arithmetic(c)
		memory := r.movement(c)
		seconds := max(matmul+attention, memory)
		if memory > matmul+attention {
			w.time.MemorySeconds += memory
		} else {
			w.time.MatmulSeconds += matmul
			w.time.AttentionSeconds += attention
		}
		for _, t := range c.traffic {
			x := r.sending(t, c.calls)
			w.time.CollectiveSeconds[t.Axis] += x
			seconds += x
		}
		wait := r.waiting(c, m.streaming, seconds)
		w.time.TransferSeconds += wait
		seconds += wait
		w.seconds += seconds
		w.programs = append(w.programs, ProgramTime{Name: c.name, Calls: c.calls, FLOPs: c.matmul + c.attention + c.kernel, MovedBytes: c.moved,
			PeakBytes: c.peak, ArgumentBytes: c.arguments, Seconds: seconds})
	}
	if math.IsNaN(w.seconds) || math.IsInf(w.seconds, 0) {
		return w, fmt.Errorf("plan: no rates are known for %s", r.on)
	}
	return w, nil
}

// addTimes fills in a plan's times.
func (s *search) addTimes(p *Plan, on topology.Slice, m *splitMeasures) error {
	r, err := s.stepRatesOf(p, on)
	if err != nil {
		return err
	}
	w, err := r.timeWork(m, m.programs)
	p.StepSeconds, p.Time, p.Programs = w.seconds, w.time, w.programs
	if err != nil {
		return err
	}
	w, err = r.timeWork(m, m.onRequest)
	p.RequestSeconds = w.seconds
	return err
}

// kernelSeconds gives the time of attention by a kernel, from the compiler's figure for
// the chip.
func kernelSeconds(flops float64, on topology.Slice, r rates) float64 {
	if flops == 0 {
		return 0
	}
	efficiency := on.KernelEfficiency()
	if efficiency == nil {
		return math.Inf(1) // addTimes says that nothing is known
	}
	return flops / (r.flops * efficiency.Value)
}

// ringLinks gives the bandwidth of a ring along some axes, in links: two where it goes both
// ways round more than two devices. Neighbours that lie several hops apart divide it.
func ringLinks(axes []mesh.Axis, along []string, hops map[string]int, rings bool) float64 {
	size, longest := 1, 1
	for _, a := range axes {
		if slices.Contains(along, a.Name) {
			size *= a.Size
			longest = max(longest, hops[a.Name])
		}
	}
	w := 1.0
	if rings && size > 2 {
		w = 2
	}
	return w / float64(longest)
}
