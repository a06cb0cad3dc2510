package topology

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"weft/fault"
	"weft/internal/numbers"
)

// numberFacts are the facts of a generation without which nothing can be said of a slice.
var numberFacts = []string{"tensorcores_per_chip", "jax_devices_per_chip", "torus_dims", "chips_per_host", "hbm_bytes_per_chip", "hbm_usable_gib_per_device",
	"hbm_bytes_per_s", "peak_bf16_flops", "ici_links_per_chip", "ici_bytes_per_s_per_link_one_way", "vmem_mib_per_core", "mxus_per_core"}

// otherFacts have to be in an entry too. Their value may be null where nobody has found it.
var otherFacts = []string{"name_suffix_counts", "max_slice", "wraparound", "peak_int8_ops", "peak_fp8_flops", "ici_bytes_per_s_total_bidirectional",
	"pcie_bytes_per_s_per_chip", "host_ram"}

// Those of a GPU.
var (
	gpuNumberFacts = []string{"hbm_bytes", "hbm_reserved_bytes", "hbm_bytes_per_s", "peak_bf16_dense_flops"}
	gpuOtherFacts  = []string{"peak_int8_dense_ops", "peak_fp8_dense_flops", "nvlink_bytes_per_s_total_bidirectional", "nvlink_domain_gpus", "pcie",
		"pcie_bytes_per_s_one_way", "network_bytes_per_s_one_way"}
)

// entryCheck collects what is wrong with one entry of the data.
type entryCheck struct {
	d     *database
	entry string // "generations[v4]"
	l     *fault.List
	found int // faults of this entry
}

func (c *entryCheck) bad(key, format string, args ...any) {
	path := c.entry + "." + key
	c.found++
	c.l.Add(fault.New(ErrData, Data{dataFile, path}, "%s: %s %s", dataFile, path, fmt.Sprintf(format, args...)))
}

// check goes over all entries. The JSON has every key by now; here the values are looked
// at, and the facts, whose names are data. Error: ErrData, one for each fault.
func (d *database) check() error {
	var l fault.List
	for i := range d.generations {
		g := &d.generations[i]
		c := &entryCheck{d: d, entry: fmt.Sprintf("generations[%s]", g.Name), l: &l}
		c.checkNames(g)
		c.checkFacts(g.Facts, numberFacts, otherFacts)
		if c.found == 0 { // what follows computes with the facts
			c.checkShapes(g)
		}
		if c.found == 0 {
			c.checkSlices(g)
			c.checkSuggested(g)
			c.checkKernel(g)
		}
	}
	for i := range d.gpus {
		d.checkGPU(&d.gpus[i], &l)
	}
	return l.Err()
}

func (c *entryCheck) checkNames(g *Generation) {
	for _, key := range [][2]string{{"name", g.Name}, {"name_prefix", g.namePrefix}, {"libtpu", g.LibtpuName}, {"device_kind", g.DeviceKind}} {
		if key[1] == "" {
			c.bad(key[0], "is empty")
		}
	}
	for i := range c.d.generations {
		if other := &c.d.generations[i]; other != g && other.Name == g.Name {
			c.bad("name", "is another entry's too")
			return
		}
	}
	if g.namePrefix != g.Name && !slices.Contains(g.Aliases, g.namePrefix) {
		c.bad("name_prefix", "is %q: want the name or an alias, so that names of slices read back", g.namePrefix)
	}
}

// checkFacts checks that an entry has the facts that it needs, and the source of every fact.
func (c *entryCheck) checkFacts(f Facts, positive, others []string) {
	for _, name := range slices.Concat(positive, others) {
		if _, ok := f[name]; !ok {
			c.bad("facts."+name, "is missing")
		} else if n := f.Number(name); slices.Contains(positive, name) && !(n > 0) {
			c.bad("facts."+name, "is %v: want a positive number", f[name].Value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f)) {
		fact := f[name]
		if fact.Value != nil || fact.Source != "" {
			c.checkSource("facts."+name, fact.Source)
		}
		for _, a := range fact.Also {
			c.checkSource("facts."+name, a.Source)
		}
	}
}

// checkSource checks that sources spells an id out.
func (c *entryCheck) checkSource(key, id string) {
	if c.d.sources[id] == "" {
		c.bad(key, "has the source %q, which sources does not spell out", id)
	}
}

// checkShapes checks by what a generation's shapes are given.
func (c *entryCheck) checkShapes(g *Generation) {
	if n := g.Facts["name_suffix_counts"].Value; n != countsCores && n != countsChips {
		c.bad("facts.name_suffix_counts", "is %v: want %s or %s", n, countsCores, countsChips)
	}
	if most, _ := g.Facts["max_slice"].Value.(map[string]any); most["chips"] == nil {
		c.bad("facts.max_slice", "has no chips")
	} else if n, ok := most["chips"].(float64); !ok || n < 1 {
		c.bad("facts.max_slice", "has %v chips: want a positive number", most["chips"])
	}
	switch {
	case g.Dims() != 2 && g.Dims() != 3:
		c.bad("facts.torus_dims", "is %v: want 2 or 3", g.Facts["torus_dims"].Value)
	case g.Dims() == 2 && g.cubes != nil:
		c.bad("cubes", "is for a 3D torus; this one is 2D")
	case g.Dims() == 2 && len(g.rows) == 0:
		c.bad("slices", "is empty: on a 2D torus it has every shape that there is")
	case g.Dims() == 3:
		c.checkCubes(g)
	}
}

func (c *entryCheck) checkCubes(g *Generation) {
	if _, ok := g.Facts["topology_rule"]; !ok {
		c.bad("facts.topology_rule", "is missing: a 3D torus is made of cubes by this rule")
	}
	if g.cubes == nil {
		c.bad("cubes", "is null: want the most cubes of a slice, and the shapes that are smaller than a cube")
		return
	}
	if g.cubes.Most < 1 {
		c.bad("cubes.most", "is %d: want at least 1", g.cubes.Most)
	}
	for _, text := range g.cubes.SmallerShapes {
		if shape, ok := parseShape(text); !ok || len(shape) != 3 || numbers.Product(shape) >= chipsPerCube {
			c.bad("cubes.smaller_shapes", "has %q: want three sizes of less than %d chips", text, chipsPerCube)
		}
	}
}

// checkSlices compares what is given of each slice with the entry's own facts.
func (c *entryCheck) checkSlices(g *Generation) {
	for i := range g.rows {
		r := &g.rows[i]
		key := fmt.Sprintf("slices[%s]", r.Topology)
		shape, ok := parseShape(r.Topology)
		if !ok || len(shape) != g.Dims() {
			c.bad(key, "is no shape of %d sizes", g.Dims())
			continue
		}
		count := r.Chips
		if g.CountsCores() {
			count *= g.CoresPerChip()
		}
		switch name := fmt.Sprintf("%s-%d", g.namePrefix, count); {
		case r.Chips != numbers.Product(shape):
			c.bad(key, "has %d chips: its shape has %d", r.Chips, numbers.Product(shape))
		case r.Devices != r.Chips*g.DevicesPerChip():
			c.bad(key, "has %d devices: %d chips of %d make %d", r.Devices, r.Chips, g.DevicesPerChip(), r.Chips*g.DevicesPerChip())
		case r.Name != name:
			c.bad(key, "is named %q: its number of %s makes it %s", r.Name, countedUnit(g), name)
		case r.Wrap != nil && len(r.Wrap) != 3:
			c.bad(key, "has %d values of wrap: want 3, or null", len(r.Wrap))
		case g.rowOf(shape) != r:
			c.bad(key, "stands twice")
		}
		for _, id := range r.Source {
			c.checkSource(key, id)
		}
		if r.WrapSource != nil {
			c.checkSource(key, *r.WrapSource)
		}
	}
}

func (c *entryCheck) checkSuggested(g *Generation) {
	for _, name := range g.suggested {
		prefix, tail, _ := strings.Cut(name, "-")
		if prefix != g.Name && prefix != g.namePrefix {
			c.bad("suggested", "has %q: want a slice of %s", name, g.Name)
		} else if _, err := lookupTPU(name, g, tail, true); err != nil {
			c.bad("suggested", "has no slice: %v", err)
		}
	}
}

func (c *entryCheck) checkKernel(g *Generation) {
	if g.kernel == nil {
		return
	}
	c.checkSource("attention_kernel.blocks", g.kernel.Blocks.Source)
	c.checkBlocks("head_dim_64", g.kernel.Blocks.HeadDim64)
	c.checkBlocks("head_dim_128", g.kernel.Blocks.HeadDim128)
	if wrong := g.kernel.Efficiency.Check(); wrong != "" {
		c.bad("attention_kernel.efficiency", "%s", wrong)
	} else if g.kernel.Efficiency.Value > 1 {
		c.bad("attention_kernel.efficiency", "is %v: want a share of the peak rate, at most 1", g.kernel.Efficiency.Value)
	}
	head, shape, _ := strings.Cut(g.kernel.Compiler.Topology, ":")
	if sizes, ok := parseShape(shape); head != g.LibtpuName || !ok || !isLegalShape(g, sizes) {
		c.bad("attention_kernel.compiler.topology", "is %q: want %s: and a shape of a slice", g.kernel.Compiler.Topology, g.LibtpuName)
	}
	if n := g.kernel.Compiler.FLOPsPerCycle; !(n > 0) || math.IsInf(n, 0) {
		c.bad("attention_kernel.compiler.flops_per_cycle", "is %v: want a positive number", n)
	}
}

func (c *entryCheck) checkBlocks(key string, b BlockSizes) {
	if b.Queries < 1 || b.Keys < 1 || b.SubBlock < 1 || b.Keys%b.SubBlock != 0 {
		c.bad("attention_kernel.blocks."+key, "has %d queries, %d keys and sub-blocks of %d: each at least 1, the last a divisor of the keys",
			b.Queries, b.Keys, b.SubBlock)
	}
}
