package topology

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed data/accelerators.json
var dataJSON []byte

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

// Generation is one kind of TPU.
type Generation struct {
	Name       string   `json:"name"` // v2, v3, v4, v5e, v5p, v6e, tpu7x
	Aliases    []string `json:"aliases"`
	LibtpuName string   `json:"libtpu"`                // before the colon of libtpu's names
	ChipConfig string   `json:"chip_config,omitempty"` // libtpu's chip_config_name
	DeviceKind string   `json:"device_kind"`           // as JAX prints it
	Facts      Facts    `json:"facts"`
}

// CoresPerChip, DevicesPerChip and Dims (2 or 3, of the torus) are facts that everything uses.
func (g *Generation) CoresPerChip() int   { return int(g.Facts.Number("tensorcores_per_chip")) }
func (g *Generation) DevicesPerChip() int { return int(g.Facts.Number("jax_devices_per_chip")) }
func (g *Generation) Dims() int           { return int(g.Facts.Number("torus_dims")) }

// CountsCores reports whether the number in a slice's name counts cores; otherwise it counts chips.
func (g *Generation) CountsCores() bool {
	return g.Facts["name_suffix_counts"].Value == "TensorCores"
}

// namePrefix gives the part of a slice's name before the dash.
func (g *Generation) namePrefix() string {
	if g.Name == "v5e" {
		return "v5litepod"
	}
	return g.Name
}

// GPU is one kind of GPU.
type GPU struct {
	Name  string   `json:"name"`  // as its maker calls it
	Names []string `json:"names"` // as people write it; the first before xN is the slice's name
	Facts Facts    `json:"facts"`
}

// HostOption is one way to make a slice of hosts.
type HostOption struct {
	Hosts        int `json:"hosts"`
	ChipsPerHost int `json:"chips_per_host"`
}

// row is one slice in the embedded data.
type row struct {
	Gen, Name, Topology string
	Chips, Devices      int
	Hosts               *int
	Wrap                []bool
	Usual               bool
	Source              []string
	WrapSource          *string      `json:"wrap_source"`
	HostOptions         []HostOption `json:"host_options"`
	Twisted             *bool
	Note                string
}

type database struct {
	Check       string
	Sources     map[string]string
	Generations []Generation
	Slices      []row
	GPUs        []GPU

	rows map[string]*row // by generation:shape
}

var load = sync.OnceValue(func() *database {
	var d database
	if err := json.Unmarshal(dataJSON, &d); err != nil {
		panic(fmt.Sprintf("topology: embedded data: %v", err))
	}
	d.rows = make(map[string]*row, len(d.Slices))
	for i := range d.Slices {
		r := &d.Slices[i]
		d.rows[r.Gen+":"+r.Topology] = r
	}
	return &d
})

// Generations lists the kinds of TPU, oldest first.
func Generations() []Generation { return slices.Clone(load().Generations) }

// GPUs lists the kinds of GPU.
func GPUs() []GPU { return slices.Clone(load().GPUs) }

// Sources spells out the short ids of sources.
func Sources() map[string]string {
	out := make(map[string]string, len(load().Sources))
	for k, v := range load().Sources {
		out[k] = v
	}
	return out
}

// Slices lists the TPU slices of the data, by generation and chips. [Lookup]
// knows others too: every shape the rules allow, GPU boxes, CPU devices.
func Slices() []Slice {
	var out []Slice
	for _, r := range load().Slices {
		shape, _ := parseShape(r.Topology)
		out = append(out, newTPU(findGeneration(r.Gen), shape))
	}
	return out
}

// findGeneration finds a generation by its name or an alias, in upper or lower case; nil
// if there is none.
func findGeneration(name string) *Generation {
	gens := load().Generations
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

func shapeText(shape []int) string {
	parts := make([]string, len(shape))
	for i, n := range shape {
		parts[i] = strconv.Itoa(n)
	}
	return strings.Join(parts, "x")
}
