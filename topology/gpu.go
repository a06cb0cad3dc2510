package topology

import (
	"fmt"
	"slices"
	"strings"

	"weft/fault"
)

// GPU is one kind of GPU: one entry of the data.
type GPU struct {
	Name     string   `json:"name"`      // as its maker calls it
	Names    []string `json:"names"`     // as people write it; the first before xN is the slice's name
	HostGPUs int      `json:"host_gpus"` // most of them in one host
	// DeviceKinds are what its driver and XLA call it.
	DeviceKinds []string `json:"device_kinds"`
	Facts       Facts    `json:"facts"`

	suggested []string
	compiler  *GPUCompiler
	kernel    *GPUKernel
}

// Compiler says with which of XLA's configurations programs are compiled for this GPU where
// it is absent; nil where weft has no compiler for it.
func (g *GPU) Compiler() *GPUCompiler { return g.compiler }

// Kernel gives the figures of attention's kernel on this GPU; nil where it has none.
func (g *GPU) Kernel() *GPUKernel { return g.kernel }

// GPUCompiler says which of the target configurations in XLA's CUDA plugin describes a GPU.
type GPUCompiler struct {
	Config string `json:"config"` // its device_description_str
	// Changes are fields of the configuration, each with the value that replaces the
	// plugin's, for a GPU that the plugin does not know.
	Changes map[string]string `json:"changes"`
	Note    *string           `json:"note"` // on such changes, for reports
}

// GPUKernel has the figures of attention's kernel on one kind of GPU.
type GPUKernel struct {
	Tiles      GPUTiles `json:"tiles"`
	Efficiency Estimate `json:"efficiency"` // share of the GPU's peak rate in bf16
}

// GPUTiles are the kernel's block sizes by head dim, padded to a power of two.
type GPUTiles struct {
	HeadDim64  GPUTile `json:"head_dim_64"`
	HeadDim128 GPUTile `json:"head_dim_128"`
	// HeadDim256 is nil where registers do not hold so wide a head.
	HeadDim256 *GPUTile `json:"head_dim_256"`
	Source     string   `json:"source"`
}

// GPUTile says how the kernel cuts queries and keys, how many warps of 32 threads share a
// block, and how many blocks of keys are on their way from memory at once.
type GPUTile struct {
	Queries int `json:"queries"`
	Keys    int `json:"keys"`
	Warps   int `json:"warps"`
	Stages  int `json:"stages"`
}

// findGPU finds a GPU by one of its short names; nil if there is none.
func findGPU(name string) *GPU {
	list := load().gpus
	for i := range list {
		if slices.Contains(list[i].Names, name) {
			return &list[i]
		}
	}
	return nil
}

// GPUByName finds "h100", "4090", ...
func GPUByName(name string) (GPU, bool) {
	if g := findGPU(strings.ToLower(strings.TrimSpace(name))); g != nil {
		return *g, true
	}
	return GPU{}, false
}

// GPUByDeviceKind finds the GPU that its driver calls so: "NVIDIA H100 80GB HBM3".
func GPUByDeviceKind(kind string) (GPU, bool) {
	for _, g := range load().gpus {
		if slices.Contains(g.DeviceKinds, kind) {
			return g, true
		}
	}
	return GPU{}, false
}

// GPU gives the kind of GPU that the slice is made of; false for other slices.
func (s Slice) GPU() (GPU, bool) {
	if s.Kind != GPUBox {
		return GPU{}, false
	}
	return GPUByName(s.Generation)
}

// gpuOf finds the GPU in the name of a box, whatever its numbers.
func gpuOf(text string) *GPU {
	name, _ := splitBox(text)
	return findGPU(name)
}

// splitBox splits "h100x8", "8xh100", "h100x8x4" or "h100" into the GPU's name and the
// numbers behind it: "8", "8x4" or "".
func splitBox(text string) (name, counts string) {
	for _, g := range load().gpus {
		for _, known := range g.Names {
			rest, ok := strings.CutPrefix(text, known)
			if !ok || len(known) < len(name) {
				continue
			}
			switch {
			case rest == "":
				return known, ""
			case strings.ContainsRune("x:-", rune(rest[0])) && findGPU(text) == nil:
				name, counts = known, rest[1:]
			}
		}
	}
	if name != "" {
		return name, counts
	}
	if a, b, ok := strings.Cut(text, "x"); ok && findGPU(b) != nil {
		return b, a
	}
	return text, ""
}

// lookupGPU reads the name of a box of GPUs, or of several boxes.
func lookupGPU(name, text string) (Slice, error) {
	short, counts := splitBox(text)
	g := findGPU(short)
	if short == text {
		return newGPU(g, 1, 1), nil
	}
	first := g.Names[0]
	box := fmt.Sprintf("%sx%d", first, g.HostGPUs)
	each, more, several := strings.Cut(counts, "x")
	n, ok := parseNumber(each)
	hosts, hostsOK := 1, true
	if several {
		hosts, hostsOK = parseNumber(more)
	}
	switch {
	case !ok || !hostsOK:
		return Slice{}, unknownSliceError(name, fmt.Sprintf("%q is no number of GPUs, nor one of GPUs by hosts", counts), box, first+"x1", box+"x2")
	case n > g.HostGPUs && !several && n%g.HostGPUs == 0 && n/g.HostGPUs <= maxGPUHosts:
		return Slice{}, unknownSliceError(name, fmt.Sprintf("one host holds at most %d of them, and several hosts are written with their number", g.HostGPUs),
			fmt.Sprintf("%sx%d", box, n/g.HostGPUs), box)
	case n > g.HostGPUs:
		return Slice{}, unknownSliceError(name, fmt.Sprintf("one host holds at most %d of them; several hosts are written with their number", g.HostGPUs), box, box+"x2")
	case hosts > maxGPUHosts:
		return Slice{}, unknownSliceError(name, fmt.Sprintf("at most %d hosts", maxGPUHosts), fmt.Sprintf("%sx%d", box, maxGPUHosts))
	}
	return newGPU(g, n, hosts), nil
}

// maxGPUHosts bounds the hosts of a slice of GPUs: more is a mistyped number.
const maxGPUHosts = 64

// newGPU makes so many hosts of n GPUs.
func newGPU(g *GPU, n, hosts int) Slice {
	s := Slice{
		Name: fmt.Sprintf("%sx%d", g.Names[0], n), Kind: GPUBox, Generation: g.Names[0], Shape: []int{n}, Usual: true,
		Chips: n * hosts, Devices: n * hosts, perChip: 1, Hosts: hosts, hostBounds: [3]int{n, 1, 1},
		HBMBytes: int64(g.Facts.Number("hbm_bytes")),
		Sources:  []string{g.Facts["hbm_bytes"].Source},
	}
	if hosts > 1 {
		s.Name, s.Shape = fmt.Sprintf("%sx%d", s.Name, hosts), []int{n, hosts}
	}
	if reserved := int64(g.Facts.Number("hbm_reserved_bytes")); reserved > 0 {
		s.HBMUsableBytes = s.HBMBytes - reserved
	}
	s.Note = g.Name
	domain := int(g.Facts.Number("nvlink_domain_gpus"))
	switch {
	case domain > 1 && g.compiler == nil:
		s.Note += ", every two joined by a link of AMD's"
	case domain > 1:
		s.Note += ", every two joined by NVLink through a switch"
	case n > 1:
		s.Note += ", joined by PCIe only"
	}
	switch {
	case hosts > 1 && domain < n*hosts && g.Facts.Number("network_bytes_per_s_one_way") > 0:
		s.Note += ", hosts by a network"
	case hosts > 1 && domain < n*hosts:
		s.Note += ", hosts by a network of which nothing is known"
	}
	return s
}

// gpusInAll names the slice of the same GPU that has n in all, if there is one.
func (s Slice) gpusInAll(n int) (string, bool) {
	per := findGPU(s.Generation).HostGPUs
	switch {
	case n <= per:
		return fmt.Sprintf("%sx%d", s.Generation, n), true
	case n%per == 0 && n/per <= maxGPUHosts:
		return fmt.Sprintf("%sx%dx%d", s.Generation, per, n/per), true
	}
	return "", false
}

// LinkSpan is how many neighbouring devices one kind of link joins, before slower ones are
// needed: GPUs that share NVLink, else those of a host. 0 stands for all.
func (s Slice) LinkSpan() int {
	if s.Kind != GPUBox || s.Hosts == 1 {
		return 0
	}
	return max(s.Shape[0], int(s.Facts().Number("nvlink_domain_gpus")))
}

// checkGPU checks the entry of one GPU.
func (d *database) checkGPU(g *GPU, l *fault.List) {
	c := &entryCheck{d: d, entry: fmt.Sprintf("gpus[%s]", g.Name), l: l}
	if len(g.Names) == 0 {
		c.bad("names", "is empty: want the name that a box begins with")
		return
	}
	if g.HostGPUs < 1 {
		c.bad("host_gpus", "is %d: want at least 1", g.HostGPUs)
	}
	if len(g.DeviceKinds) == 0 {
		c.bad("device_kinds", "is empty: want what its driver calls it")
	}
	c.checkFacts(g.Facts, gpuNumberFacts, gpuOtherFacts)
	for _, name := range g.suggested {
		if !strings.HasPrefix(name, g.Names[0]+"x") {
			c.bad("suggested", "has %q: want %sxN", name, g.Names[0])
		}
	}
	if g.compiler != nil && (g.compiler.Config == "" || len(g.compiler.Changes) > 0 && g.compiler.Note == nil) {
		c.bad("compiler", "has the configuration %q and %d changes: want a name, and a note where there are changes", g.compiler.Config, len(g.compiler.Changes))
	}
	if g.kernel == nil {
		return
	}
	if g.compiler == nil {
		c.bad("attention_kernel", "is there, and no compiler for it")
	}
	c.checkSource("attention_kernel.tiles", g.kernel.Tiles.Source)
	tiles := []GPUTile{g.kernel.Tiles.HeadDim64, g.kernel.Tiles.HeadDim128}
	if wide := g.kernel.Tiles.HeadDim256; wide != nil {
		tiles = append(tiles, *wide)
	}
	for i, t := range tiles {
		key := []string{"head_dim_64", "head_dim_128", "head_dim_256"}[i]
		if !isPowerOfTwo(t.Queries) || !isPowerOfTwo(t.Keys) || !isPowerOfTwo(t.Warps) || t.Queries < 16 || t.Keys < 16 || t.Stages < 1 {
			c.bad("attention_kernel.tiles."+key, "has %+v: want powers of two, blocks of at least 16, and at least one stage", t)
		}
	}
	if wrong := g.kernel.Efficiency.Check(); wrong != "" {
		c.bad("attention_kernel.efficiency", "%s", wrong)
	} else if g.kernel.Efficiency.Value > 1 {
		c.bad("attention_kernel.efficiency", "is %v: want a share of the peak rate, at most 1", g.kernel.Efficiency.Value)
	}
}

func isPowerOfTwo(n int) bool { return n > 0 && n&(n-1) == 0 }
