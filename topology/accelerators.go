package topology

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Fact is one value with where it comes from. Value is a number, a text, an
// object, or nil where it was not found or does not apply.
type Fact struct {
	Value  any    `json:"value"`
	Source string `json:"source"`
	Also   []Also `json:"also,omitempty"`  // what other sources say
	Trust  string `json:"trust,omitempty"` // why Value, where they differ
	Note   string `json:"note,omitempty"`
}

// Also is another source's value.
type Also struct {
	Value  any    `json:"value"`
	Source string `json:"source"`
}

// Facts are the facts of one kind of accelerator, by name: "peak_bf16_flops".
// They are per chip unless the name says otherwise.
type Facts map[string]Fact

// Number is the value of a fact, 0 when it is not known or no number.
func (f Facts) Number(name string) float64 {
	n, _ := f[name].Value.(float64)
	return n
}

// Generation is one kind of TPU: one entry of the data, which has all that weft knows of it.
type Generation struct {
	Name       string   `json:"name"` // v2, v3, v4, v5e, v5p, v6e, tpu7x
	Aliases    []string `json:"aliases"`
	LibtpuName string   `json:"libtpu"`                // before the colon of libtpu's names
	ChipConfig string   `json:"chip_config,omitempty"` // libtpu's chip_config_name
	DeviceKind string   `json:"device_kind"`           // as JAX prints it
	Facts      Facts    `json:"facts"`

	namePrefix string // of its slices' names, before the dash
	suggested  []string
	cubes      *cubes // nil on a 2D torus
	kernel     *AttentionKernel
	rows       []sliceRow
}

// CoresPerChip, DevicesPerChip and Dims (2 or 3, of the torus) are facts that everything uses.
func (g *Generation) CoresPerChip() int   { return int(g.Facts.Number("tensorcores_per_chip")) }
func (g *Generation) DevicesPerChip() int { return int(g.Facts.Number("jax_devices_per_chip")) }
func (g *Generation) Dims() int           { return int(g.Facts.Number("torus_dims")) }

// CountsCores reports whether the number in a slice's name counts cores; otherwise it counts chips.
func (g *Generation) CountsCores() bool {
	return g.Facts["name_suffix_counts"].Value == countsCores
}

// What name_suffix_counts says.
const (
	countsCores = "TensorCores"
	countsChips = "chips"
)

// AttentionKernel gives the figures of attention's kernel on this generation; nil where it has none.
func (g *Generation) AttentionKernel() *AttentionKernel { return g.kernel }

// AttentionKernel has the figures of attention's kernel on one generation: how it is cut up,
// what a plan counts with, and how it is compiled where the chip is not there.
type AttentionKernel struct {
	Blocks     KernelBlocks   `json:"blocks"`
	Efficiency Estimate       `json:"efficiency"` // share of the chip's peak rate in bf16
	Compiler   KernelCompiler `json:"compiler"`
}

// KernelBlocks are the kernel's block sizes by head dim.
type KernelBlocks struct {
	HeadDim64  BlockSizes `json:"head_dim_64"`
	HeadDim128 BlockSizes `json:"head_dim_128"`
	Source     string     `json:"source"`
}

// BlockSizes say how the kernel cuts queries and keys; package mosaic has the reasons.
type BlockSizes struct {
	Queries  int  `json:"queries"`
	Keys     int  `json:"keys"`
	SubBlock int  `json:"sub_block"` // keys whose scores are computed together
	Kept     bool `json:"kept"`      // the running softmax stays in values between sub-blocks
	Ones     bool `json:"ones"`      // the matrix unit sums the exponentials
}

// KernelCompiler says how the kernel's code is judged by libtpu without the chip.
type KernelCompiler struct {
	Topology string `json:"topology"` // a small slice, by libtpu's name
	// FLOPsPerCycle is the limit of a core's matrix units with a head dim of 128.
	FLOPsPerCycle float64 `json:"flops_per_cycle"`
	How           string  `json:"how"`
}

// Estimate is one figure of a model of time, with how it was found.
type Estimate struct {
	Value  float64 `json:"value"`
	Status string  `json:"status"` // assumed, measured, compiler (its figures for the code, not a run) or calibrated
	How    string  `json:"how"`
}

// Check says what is wrong with an estimate; "" is nothing.
func (e Estimate) Check() string {
	switch {
	case !(e.Value > 0) || math.IsInf(e.Value, 0):
		return fmt.Sprintf("is %v: want a positive number", e.Value)
	case !slices.Contains([]string{"assumed", "measured", "compiler", "calibrated"}, e.Status):
		return fmt.Sprintf("has status %q: want assumed, measured, compiler or calibrated", e.Status)
	case e.How == "":
		return "does not say how it was found"
	}
	return ""
}

// HostOption is one way to make a slice of hosts.
type HostOption struct {
	Hosts        int `json:"hosts"`
	ChipsPerHost int `json:"chips_per_host"`
}

// Generations lists the kinds of TPU, oldest first.
func Generations() []Generation { return slices.Clone(load().generations) }

// GPUs lists the kinds of GPU.
func GPUs() []GPU { return slices.Clone(load().gpus) }

// Sources spells out the short ids of sources.
func Sources() map[string]string { return maps.Clone(load().sources) }

// SuggestedSlices names slices that people often ask for, of each of some kinds in turn, for
// the completions of a shell.
func SuggestedSlices(kinds ...Kind) []string {
	var out []string
	for _, kind := range kinds {
		switch kind {
		case TPU:
			for _, g := range load().generations {
				out = append(out, g.suggested...)
			}
		case GPUBox:
			for _, g := range load().gpus {
				out = append(out, g.suggested...)
			}
		case CPU:
			out = append(out, newCPU(8).String())
		}
	}
	return out
}

// Slices lists the TPU slices of the data, by generation and chips. [Lookup]
// knows others too: every shape the rules allow, GPU boxes, CPU devices.
func Slices() []Slice {
	var out []Slice
	for i := range load().generations {
		g := &load().generations[i]
		for _, r := range g.rows {
			out = append(out, newTPU(g, r.shape()))
		}
	}
	return out
}

// findGeneration finds a generation by its name or an alias, in upper or lower case; nil
// if there is none.
func findGeneration(name string) *Generation {
	gens := load().generations
	for i := range gens {
		g := &gens[i]
		if strings.EqualFold(g.Name, name) || slices.ContainsFunc(g.Aliases, func(a string) bool { return strings.EqualFold(a, name) }) {
			return g
		}
	}
	return nil
}

// GenerationByName finds "v4", "v5litepod", "Ironwood", ...
func GenerationByName(name string) (Generation, bool) {
	if g := findGeneration(strings.TrimSpace(name)); g != nil {
		return *g, true
	}
	return Generation{}, false
}

// parseShape reads "2x2x1": one to three sizes of at least 1.
func parseShape(text string) ([]int, bool) {
	parts := strings.Split(text, "x")
	if len(parts) > 3 {
		return nil, false
	}
	shape := make([]int, len(parts))
	for i, p := range parts {
		n, ok := parseNumber(p)
		if !ok {
			return nil, false
		}
		shape[i] = n
	}
	return shape, true
}

// parseNumber reads a whole number from 1 to a million, without a sign or leading zeros.
func parseNumber(text string) (int, bool) {
	if len(text) == 0 || len(text) > 7 || text[0] < '1' || text[0] > '9' {
		return 0, false // also signs and leading zeros, which Atoi takes
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n <= 1_000_000
}
