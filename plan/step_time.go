package plan

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"weft/attention/mosaic"
	"weft/dtype"
	"weft/fault"
	"weft/mesh"
	"weft/topology"
)

//go:embed data/efficiency.json
var efficiencyJSON []byte

// Efficiency is one figure of the time model, with how it was found.
type Efficiency struct {
	Value  float64 `json:"value"`
	Status string  `json:"status"` // assumed, measured, compiler (its figures for the code, not a run) or calibrated
	How    string  `json:"how"`
}

// Efficiencies are all figures of the time model.
type Efficiencies struct {
	Status string                `json:"status"`
	How    string                `json:"how"`
	Values map[string]Efficiency `json:"values"`
	// Peer is the calibration of the peer's terms.
	Peer struct {
		How string `json:"how"`
		// HeldOut has, for each family, the calibration on the rows of all other families.
		HeldOut map[string]PeerCalibration `json:"held_out"`
	} `json:"peer"`
}

// ErrData: plan's own data lacks a figure, or has one that is no positive number.
var ErrData = fault.NewKind("plan-data")

var efficiencies = sync.OnceValues(func() (Efficiencies, error) { return readEfficiencies(efficiencyJSON, mosaic.Chips()) })

// EfficiencyData gives the figures that step times are computed with. Error: ErrData.
func EfficiencyData() (Efficiencies, error) { return efficiencies() }

// readEfficiencies reads the figures of the time model and checks that every one is there
// that times are made of: also the kernel's on each chip that it has blocks for. Error: ErrData.
func readEfficiencies(data []byte, chips []string) (Efficiencies, error) {
	var e Efficiencies
	if err := json.Unmarshal(data, &e); err != nil {
		return e, fault.New(ErrData, nil, "efficiencies: %v", err)
	}
	names := []string{"matmul", "attention", "hbm", "link", "collective_seconds", "f32_passes_tpu", "f32_passes_gpu",
		"gpu_pcie_bytes", "cpu_core_flops", "cpu_bytes", "cpu_link_bytes"}
	for _, chip := range chips {
		names = append(names, kernelOn+chip)
	}
	var l fault.List
	for _, name := range names {
		if v, ok := e.Values[name]; !ok {
			l.Add(fault.New(ErrData, nil, "efficiencies: there is no figure %s", name))
		} else if !(v.Value > 0) || math.IsInf(v.Value, 0) {
			l.Add(fault.New(ErrData, nil, "efficiencies: %s is %v: want a positive number", name, v.Value))
		}
	}
	return e, l.Err()
}

// kernelOn is the start of the names of the figures of attention's kernel; a chip's name
// follows.
const kernelOn = "attention_kernel_"

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
	host                float64 // to and from the host's memory; 0 is not known
	rings               bool    // a ring of more than two devices uses its links in both directions
}

func ratesOf(on topology.Slice, o Options) rates {
	r := on.Rates()
	passes := 1.0
	out := rates{flops: r.BF16FLOPs, memory: r.HBMBytes, link: r.LinkBytes / float64(max(1, r.Devices)), host: r.HostBytes / float64(max(1, r.Devices)), rings: on.Kind == topology.TPU}
	switch on.Kind {
	case topology.TPU:
		passes = efficiencyOf("f32_passes_tpu")
	case topology.GPUBox:
		passes = efficiencyOf("f32_passes_gpu")
		if out.link == 0 {
			out.link = efficiencyOf("gpu_pcie_bytes")
		}
	case topology.CPU:
		cores := 2
		if o.Machine.Cores > 0 {
			cores = o.Machine.Cores
		}
		n := float64(on.Devices)
		return rates{flops: efficiencyOf("cpu_core_flops") * float64(cores) / n, memory: efficiencyOf("cpu_bytes") / n, link: efficiencyOf("cpu_link_bytes") / n}
	}
	if o.DType == dtype.F32 {
		out.flops /= passes
	}
	return out
}

// addTimes fills in a plan's times: a roofline for each program, and its collectives.
func (s *search) addTimes(p *Plan, on topology.Slice, m *splitMeasures) error {
	r := ratesOf(on, s.o)
	axes := axesOf(p.split)
	bytes := map[string]int64{}
	for axis, n := range p.CollectiveBytes {
		for _, a := range strings.Split(axis, "+") {
			bytes[a] += n
		}
	}
	for _, a := range axes {
		bytes[a.Name] += 0
	}
	hops := map[string]int{}
	if _, l, err := on.Order(axes, bytes); err != nil {
		return err
	} else {
		for _, a := range l.Axes {
			hops[a.Axis] = a.MaxHops
		}
	}
	p.Time.CollectiveSeconds = map[string]float64{}
	for _, c := range m.programs {
		calls := float64(c.calls)
		matmul, attention := calls*c.matmul/(r.flops*efficiencyOf("matmul")), calls*(c.attention/(r.flops*efficiencyOf("attention"))+kernelSeconds(c.kernelTiles, on, r))
		memory := calls * float64(c.moved) / (r.memory * efficiencyOf("hbm"))
		seconds := max(matmul+attention, memory)
		if memory > matmul+attention {
			p.Time.MemorySeconds += memory
		} else {
			p.Time.MatmulSeconds += matmul
			p.Time.AttentionSeconds += attention
		}
		for _, t := range c.traffic {
			x := calls * (float64(t.Bytes)/(r.link*efficiencyOf("link")*ringLinks(axes, t.Axes, hops, r.rings)) + float64(t.Count)*efficiencyOf("collective_seconds"))
			p.Time.CollectiveSeconds[t.Axis] += x
			seconds += x
		}
		p.StepSeconds += seconds
		p.Programs = append(p.Programs, ProgramTime{Name: c.name, Calls: c.calls, FLOPs: c.matmul + c.attention + c.kernel, MovedBytes: c.moved,
			PeakBytes: c.peak, ArgumentBytes: c.arguments, Seconds: seconds})
	}
	if math.IsNaN(p.StepSeconds) || math.IsInf(p.StepSeconds, 0) {
		return fmt.Errorf("plan: no rates are known for %s", on)
	}
	return nil
}

// kernelSeconds gives the time of attention by a kernel, from the compiler's figure for
// the chip.
func kernelSeconds(flops float64, on topology.Slice, r rates) float64 {
	if flops == 0 {
		return 0
	}
	return flops / (r.flops * efficiencyOf(kernelOn+on.Generation))
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
