package topology

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"weft/fault"
	"weft/internal/numbers"
)

// Kind is the kind of a slice's devices.
type Kind string

// The kinds.
const (
	TPU    Kind = "tpu"
	GPUBox Kind = "gpu"
	CPU    Kind = "cpu"
)

// Slice is a set of devices that is rented as one: a TPU slice, a box of GPUs,
// virtual CPU devices. It is a value that nobody changes; make one with Lookup.
type Slice struct {
	// Name is what it is called: "v4-8", "h100x8", "cpu:8". Two shapes can share
	// one; String tells them apart.
	Name       string
	Kind       Kind
	Generation string // "v4", or the GPU's short name; "cpu"
	Shape      []int  // of chips: 2 2 1
	Usual      bool   // of the shapes with this name, this is the one it means
	Chips      int    // 0 for CPU
	Cores      int    // TensorCores; 0 for GPU and CPU, where the data has no number
	Devices    int
	// Hosts is the number of virtual machines. 0: the name leaves it open, and
	// HostOptions are the ways; devices are then numbered as on the first.
	Hosts       int
	HostOptions []HostOption
	// Wrap says which dims of the torus close to rings. nil: not known (smaller v2
	// and v3 slices), or no torus.
	Wrap []bool
	// HBM per device in bytes: all of it, and what one program may use. 0: not known.
	HBMBytes, HBMUsableBytes int64
	Note                     string
	Sources                  []string // who says that this slice exists: ids of Sources
	WrapSource               string
	Twisted                  bool // also to be had as a twisted torus, which weft does not lay out

	hostBounds [3]int // chips of one host
	perChip    int    // devices of one chip
}

// newTPU makes a slice of a legal shape.
func newTPU(g *Generation, shape []int) Slice {
	chips := numbers.Product(shape)
	count := chips
	if g.CountsCores() {
		count = chips * g.CoresPerChip()
	}
	s := Slice{
		Name: fmt.Sprintf("%s-%d", g.namePrefix, count), Kind: TPU, Generation: g.Name, Shape: slices.Clone(shape),
		Usual: slices.Equal(shape, shapesOf(g, chips)[0]),
		Chips: chips, Cores: chips * g.CoresPerChip(), Devices: chips * g.DevicesPerChip(), perChip: g.DevicesPerChip(),
		Hosts: (chips + 3) / 4, hostBounds: [3]int{2, 2, 1}, Wrap: slices.Clone(wrappedDims(g, shape)),
		HBMBytes:       int64(g.Facts.Number("hbm_bytes_per_chip")) / int64(g.DevicesPerChip()),
		HBMUsableBytes: int64(math.Round(g.Facts.Number("hbm_usable_gib_per_device") * (1 << 30))),
	}
	if chips == 1 {
		s.hostBounds = [3]int{1, 1, 1}
	}
	if r := g.rowOf(shape); r != nil {
		s.Note, s.Sources, s.HostOptions = r.Note, slices.Clone(r.Source), slices.Clone(r.HostOptions)
		if r.WrapSource != nil {
			s.WrapSource = *r.WrapSource
		}
		s.Twisted = r.Twisted
	} else {
		s.Sources, s.WrapSource = []string{g.Facts["topology_rule"].Source}, g.Facts["wraparound"].Source
		s.Note = "in no table of slices; legal by the rule of shapes"
		most, _ := g.Facts["max_slice"].Value.(map[string]any)
		if n, _ := most["chips"].(float64); float64(chips) > n {
			s.Note += fmt.Sprintf(", but above the %.0f chips of the largest job on the vendor's page", n)
		}
	}
	if len(s.HostOptions) > 0 {
		s.Hosts, s.hostBounds = 0, [3]int{2, 4, 1}
	}
	return s
}

func newCPU(n int) Slice {
	return Slice{
		Name: fmt.Sprintf("cpu:%d", n), Kind: CPU, Generation: "cpu", Shape: []int{n}, Usual: true,
		Devices: n, perChip: 1, Hosts: 1, hostBounds: [3]int{n, 1, 1},
		Note: "virtual devices on this machine's processors; they share its memory",
	}
}

// String is a name that Lookup reads back to this very slice.
func (s Slice) String() string {
	if s.Usual {
		return s.Name
	}
	return s.Spec()
}

// Spec is the name with the shape: "v4:2x2x1".
func (s Slice) Spec() string {
	if s.Kind != TPU {
		return s.Name
	}
	return s.Generation + ":" + s.Topology()
}

// Topology is the shape: "2x2x1".
func (s Slice) Topology() string { return numbers.SizesText(s.Shape) }

// Alternatives are the other slices that share the name, or that it could be
// taken for, as Lookup reads them.
func (s Slice) Alternatives() []string {
	out := []string{}
	switch {
	case s.Kind == TPU:
		g := findGeneration(s.Generation)
		for _, shape := range shapesOf(g, s.Chips) {
			if !slices.Equal(shape, s.Shape) {
				out = append(out, g.Name+":"+numbers.SizesText(shape))
			}
		}
	case s.Kind == GPUBox:
		for _, g := range load().gpus {
			family, _, _ := strings.Cut(g.Names[0], "-")
			own, _, _ := strings.Cut(s.Generation, "-")
			if family == own && g.Names[0] != s.Generation {
				out = append(out, fmt.Sprintf("%sx%d", g.Names[0], s.Devices))
			}
		}
	}
	return out
}

// HostCount is the number of hosts, the first option where the name leaves it open.
func (s Slice) HostCount() int {
	if s.Hosts == 0 {
		return s.HostOptions[0].Hosts
	}
	return s.Hosts
}

// OnHosts chooses the number of hosts where the name leaves it open. Error: ErrHosts.
func (s Slice) OnHosts(n int) (Slice, error) {
	known := []int{s.Hosts}
	if len(s.HostOptions) > 0 {
		known = known[:0]
		for _, o := range s.HostOptions {
			known = append(known, o.Hosts)
		}
	}
	if !slices.Contains(known, n) {
		choices := strings.Trim(fmt.Sprint(known), "[]")
		return Slice{}, fault.New(ErrHosts, Hosts{s.String(), n, known},
			"%s is not made of %d hosts; hosts: %s", s, n, strings.ReplaceAll(choices, " ", " or "))
	}
	if len(s.HostOptions) > 0 {
		s.Hosts = n
		if n > 1 {
			s.hostBounds = [3]int{2, 2, 1}
		}
	}
	return s, nil
}

// Facts gives the facts that are known of the accelerator, with sources; nil for CPU.
func (s Slice) Facts() Facts {
	switch s.Kind {
	case TPU:
		return findGeneration(s.Generation).Facts
	case GPUBox:
		if g := findGPU(s.Generation); g != nil {
			return g.Facts
		}
	}
	return nil
}

// AttentionKernel gives the figures of attention's kernel on the slice's chips; nil where they have none.
func (s Slice) AttentionKernel() *AttentionKernel {
	if s.Kind != TPU {
		return nil
	}
	return findGeneration(s.Generation).AttentionKernel()
}

// KernelEfficiency gives the share of the peak rate that attention's kernel reaches on the
// slice's TPUs or GPUs; nil where they have no kernel.
func (s Slice) KernelEfficiency() *Estimate {
	switch s.Kind {
	case TPU:
		if k := s.AttentionKernel(); k != nil {
			return &k.Efficiency
		}
	case GPUBox:
		if k := findGPU(s.Generation).kernel; k != nil {
			return &k.Efficiency
		}
	}
	return nil
}

// Rates are the peak rates of one device, per second. 0: not known, which JSON has as null.
type Rates struct {
	BF16FLOPs   float64 `json:"bf16_flops"`
	INT8Ops     float64 `json:"int8_ops"`
	FP8FLOPs    float64 `json:"fp8_flops"`
	HBMBytes    float64 `json:"hbm_bytes"`
	LinkBytes   float64 `json:"link_bytes"`    // one link of the chip, one way; of a GPU, all its NVLinks together
	LinkAchieve float64 `json:"link_achieved"` // rate of a link that a source says is achieved
	HostBytes   float64 `json:"host_bytes"`    // from the host, PCIe, per chip
	// NetworkBytes is what one GPU sends to another host, one way.
	NetworkBytes float64 `json:"network_bytes,omitzero"`
	LinksAChip   int     `json:"links_per_chip"`
	Devices      int     `json:"devices_per_chip"` // who share the links
}

// MarshalJSON writes null for a rate that is not known.
func (r Rates) MarshalJSON() ([]byte, error) {
	type plain Rates
	return json.Marshal(struct {
		plain
		BF16FLOPs   *float64 `json:"bf16_flops"`
		INT8Ops     *float64 `json:"int8_ops"`
		FP8FLOPs    *float64 `json:"fp8_flops"`
		HBMBytes    *float64 `json:"hbm_bytes"`
		LinkBytes   *float64 `json:"link_bytes"`
		LinkAchieve *float64 `json:"link_achieved"`
		HostBytes   *float64 `json:"host_bytes"`
		LinksAChip  *int     `json:"links_per_chip"`
	}{plain(r), nilIfZero(r.BF16FLOPs), nilIfZero(r.INT8Ops), nilIfZero(r.FP8FLOPs), nilIfZero(r.HBMBytes), nilIfZero(r.LinkBytes), nilIfZero(r.LinkAchieve),
		nilIfZero(r.HostBytes), nilIfZero(r.LinksAChip)})
}

// Rates gives the peak rates; where each is from is in Facts.
func (s Slice) Rates() Rates {
	f, per := s.Facts(), float64(s.perChip)
	switch s.Kind {
	case TPU:
		r := Rates{BF16FLOPs: f.Number("peak_bf16_flops") / per, INT8Ops: f.Number("peak_int8_ops") / per, FP8FLOPs: f.Number("peak_fp8_flops") / per,
			HBMBytes: f.Number("hbm_bytes_per_s") / per, LinkBytes: f.Number("ici_bytes_per_s_per_link_one_way"),
			HostBytes: f.Number("pcie_bytes_per_s_per_chip"), LinksAChip: int(f.Number("ici_links_per_chip")), Devices: s.perChip}
		for _, a := range f["ici_bytes_per_s_per_link_one_way"].Also {
			if n, ok := a.Value.(float64); ok && n < r.LinkBytes {
				r.LinkAchieve = n // scaling-book's figure for estimates
			}
		}
		return r
	case GPUBox:
		return Rates{BF16FLOPs: f.Number("peak_bf16_dense_flops"), INT8Ops: f.Number("peak_int8_dense_ops"), FP8FLOPs: f.Number("peak_fp8_dense_flops"),
			HBMBytes: f.Number("hbm_bytes_per_s"), LinkBytes: f.Number("nvlink_bytes_per_s_total_bidirectional") / 2, Devices: 1,
			HostBytes: f.Number("pcie_bytes_per_s_one_way"), NetworkBytes: f.Number("network_bytes_per_s_one_way")}
	}
	return Rates{Devices: 1}
}

// PJRTTopology has the name and options with which a plugin makes the devices of a slice
// that is not there.
type PJRTTopology struct {
	Engine  string         `json:"engine"` // weft's name for the plugin
	Name    string         `json:"name"`
	Options map[string]any `json:"options"` // string or []int64
}

// PJRT gives libtpu's name for the slice and the options that it needs. v4 needs megacore,
// without which a chip shows as two devices. A slice whose hosts do not have libtpu's
// default of 2x2x1 chips needs those. False for GPUs and CPU.
func (s Slice) PJRT() (PJRTTopology, bool) {
	if s.Kind != TPU {
		return PJRTTopology{}, false
	}
	g := findGeneration(s.Generation)
	t := PJRTTopology{Engine: "tpu", Name: g.LibtpuName + ":" + s.Topology(), Options: map[string]any{}}
	if g.ChipConfig != "" {
		t.Options["chip_config_name"] = g.ChipConfig
	}
	if s.hostBounds[0]*s.hostBounds[1] > 4 {
		t.Options["chips_per_host_bounds"] = []int64{int64(s.hostBounds[0]), int64(s.hostBounds[1]), 1}
	}
	return t, true
}
