package aot

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"weft/fault"
	"weft/internal/mlir"
	"weft/plan"
	"weft/topology"
	"weft/xla"
	"weft/xla/plugin"
)

// TextOptions say how a program of somebody else's is compiled.
type TextOptions struct {
	Name string // for messages
	// Replicas or Partitions is the number of devices that run the program. 0 takes the
	// number from the program: from its attributes mhlo.num_replicas and
	// mhlo.num_partitions, its meshes and shardings; 1 where nothing in it points to more.
	Replicas, Partitions int
	Plugin               string
	Install              bool
	Fetching             func(plugin.Progress)
	Machine              plan.Machine // whose memory the devices of cpu:N share
}

// TextReport says what a program of somebody else's needs.
type TextReport struct {
	On         string `json:"on"`
	Form       string `json:"form"` // "text", "bytecode" or "jax.export"
	Replicas   int    `json:"replicas"`
	Partitions int    `json:"partitions"`
	// Partitioner names the part of XLA that splits a program of several partitions:
	// "shardy", or "gspmd", which reads mhlo.sharding.
	Partitioner string `json:"partitioner,omitempty"`
	// Producer wrote the bytecode; Platforms and CallingConvention are what the file of
	// jax.export's serialize() says.
	Producer          string           `json:"producer,omitempty"`
	Platforms         []string         `json:"platforms,omitempty"`
	CallingConvention int              `json:"calling_convention,omitempty"`
	Engine            plugin.Installed `json:"engine"`
	Compiler          string           `json:"compiler"`
	Programs          []Program        `json:"programs"` // one
	// Need's bytes are the program's total and its code.
	Need
	// LeftOut says what a device holds besides that the compiler gives no figure for.
	LeftOut []string `json:"left_out"`
	Notes   []string `json:"notes"`
}

// maxProgram bounds a program: weights do not belong in one.
const maxProgram = 1 << 30

// CompileText compiles StableHLO for a slice and says what it needs. The program is
// text, portable bytecode, or the file of jax.export's serialize(); all three give the
// same. Partitioned modules go through XLA's partitioner: Shardy where they have sdy
// annotations, else the one that reads mhlo.sharding. Errors: mlir's ErrFormat and
// ErrDamaged for bytes that are no program, ErrOptions, ErrPlatform, xla.ErrMemory
// where it does not fit, xla.ErrCompile. A compiler may abort the process over a
// broken program: run it in one of its own where programs come from strangers.
func CompileText(ctx context.Context, program []byte, on topology.Slice, o TextOptions) (*TextReport, error) {
	if len(program) == 0 || len(program) > maxProgram {
		return nil, fault.New(mlir.ErrFormat, mlir.Format{Is: "nothing"}, "%s: %d bytes are no program: want StableHLO as text or bytecode, at most %d bytes", o.Name, len(program), maxProgram)
	}
	m, err := mlir.Read(program)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Name, err)
	}
	r := &TextReport{On: on.String(), Form: m.Form, Producer: m.Producer, Platforms: m.Platforms, CallingConvention: m.Convention, Notes: []string{}}
	if err := fault.Join(r.checkPlatform(m, on, o), r.countDevices(m, on, o)); err != nil {
		return nil, err
	}
	c, err := openCompiler(ctx, on, Options{Plugin: o.Plugin, Install: o.Install, Fetching: o.Fetching})
	if err != nil {
		return nil, err
	}
	defer c.close()
	r.Notes = append(r.Notes, c.notes()...)
	r.LeftOut = leftOut(on, string(m.Code))
	if r.Partitions > 1 {
		r.Partitioner = map[bool]string{true: "shardy", false: "gspmd"}[m.Shardy]
	}
	start := time.Now()
	x, err := c.compile(ctx, m.Code, xla.CompileOptions{Name: o.Name, Inspect: true,
		Replicas: r.Replicas, Partitions: r.Partitions, Shardy: m.Shardy})
	if err != nil {
		return nil, err
	}
	defer x.Close()
	p := Program{Name: o.Name, Calls: 1, FLOPs: -1, CompileSeconds: time.Since(start).Seconds()}
	if err := p.fillFromCompiler(x); err != nil {
		return nil, err
	}
	r.Programs, r.Engine, r.Compiler = []Program{p}, c.plugin().Engine(), oneLine(c.platformVersion())
	var need *int64
	if p.Known() {
		n := p.TotalBytes + max(0, p.Code)
		need = &n
	}
	r.Notes = append(r.Notes, r.judgeFit(need, o.Machine.Memory(on))...)
	return r, nil
}

// countDevices finds how many devices run the program. The program says so, and the options
// must not contradict it. It is 1 only where nothing in the program points to more.
func (r *TextReport) countDevices(m *mlir.Module, on topology.Slice, o TextOptions) error {
	var l fault.List
	bad := func(format string, args ...any) {
		l.Add(fault.New(ErrOptions, nil, "%s: %s", o.Name, fmt.Sprintf(format, args...)))
	}
	for _, a := range m.Illegal {
		bad("%s is no number of devices", a)
	}
	if o.Replicas < 0 || o.Partitions < 0 {
		bad("%d replicas, %d partitions: want 1 or more", o.Replicas, o.Partitions)
	}
	if l.Err() != nil {
		return l.Err()
	}
	r.Replicas = cmp.Or(o.Replicas, m.Replicas, 1)
	if m.Replicas > 0 && o.Replicas > 0 && o.Replicas != m.Replicas {
		r.Notes = append(r.Notes, fmt.Sprintf("the program says mhlo.num_replicas = %d; it is compiled for the %d replicas given", m.Replicas, o.Replicas))
	}
	n, err := r.countPartitions(m, o)
	r.Partitions = cmp.Or(n, o.Partitions, 1)
	if r.Replicas > 1 && r.Partitions > 1 {
		bad("%d replicas of %d partitions: a program has several of one or of the other here", r.Replicas, r.Partitions)
	}
	l.Add(err)
	if l.Err() != nil {
		return l.Err()
	}
	devices := max(r.Replicas, r.Partitions)
	what := fmt.Sprintf("%d replicas", r.Replicas)
	if r.Partitions > 1 {
		what = fmt.Sprintf("%d partitions", r.Partitions)
	}
	if devices < m.Members {
		bad("its collectives name device %d, so it is for %d devices at the least, and it would be compiled for %d: give --replicas or --partitions", m.Members-1, m.Members, devices)
	}
	if devices > on.Devices {
		more := ""
		if note := on.CountNote(); note != "" {
			more = ": " + note
		}
		bad("%s need %d devices, %s has %d%s", what, devices, on, on.Devices, more)
	}
	return l.Err()
}

// Partitions are the fields of an ErrOptions over the number of partitions of a program
// of somebody else's: what the options give, what the program says (0 for nothing), and
// the devices of each mesh and sharding that it shows.
type Partitions struct {
	Given int   `json:"given"`
	Said  int   `json:"said"`
	Shown []int `json:"shown"`
}

// countPartitions finds the number of partitions that the program says. It must be that
// of one of the program's meshes or shardings, where it has any.
func (r *TextReport) countPartitions(m *mlir.Module, o TextOptions) (int, error) {
	numbers := Partitions{Given: o.Partitions, Said: cmp.Or(m.Partitions, m.Devices), Shown: []int{}}
	for _, c := range m.Counts {
		numbers.Shown = append(numbers.Shown, c.Devices)
	}
	bad := func(format string, args ...any) (int, error) {
		return 0, fault.New(ErrOptions, numbers, "%s: %s", o.Name, fmt.Sprintf(format, args...))
	}
	said, given := m.Partitions, o.Partitions
	if m.Devices > 0 && said > 0 && m.Devices != max(said, m.Replicas) {
		return bad("the export is for %d devices and its module says mhlo.num_partitions = %d, mhlo.num_replicas = %d: the two must agree", m.Devices, said, m.Replicas)
	}
	by := fmt.Sprintf("mhlo.num_partitions = %d", said)
	if said == 0 && m.Devices > 0 && r.Replicas == 1 {
		said, by = m.Devices, fmt.Sprintf("the export's number of devices, %d", m.Devices)
	}
	n := cmp.Or(given, said)
	var shown, shownSizes []string // meshes and shardings of several devices
	size, agrees := 0, false
	for _, c := range m.Counts {
		if c.Devices > 1 { // one of a single device may stand beside others
			shown = append(shown, fmt.Sprintf("%s, of %d devices", c.What, c.Devices))
			shownSizes = append(shownSizes, fmt.Sprint(c.Devices))
			size, agrees = c.Devices, agrees || c.Devices == n
		}
	}
	const most = 4 // in a message
	if len(shown) > most {
		shown, shownSizes = append(shown[:most], "others"), append(shownSizes[:most], "another of theirs")
	}
	has, advice := strings.Join(shown, " and "), "--partitions "+strings.Join(shownSizes, " or ")
	if r.Replicas > 1 {
		advice = "--replicas 1 " + advice
	}
	switch {
	case len(shown) > 0 && given > 0 && !agrees:
		return bad("--partitions %d, and the program has a %s: give %s or leave it out", given, has, advice)
	case len(shown) > 0 && n > 0 && !agrees:
		return bad("the program has a %s, and %s: the file contradicts itself; give %s to compile it for that many", has, by, advice)
	case len(shown) > 1 && n == 0:
		return bad("the program has a %s, and says no number of partitions: give %s", has, advice)
	case len(shown) > 0:
		switch {
		case n == 0:
			n = size
			r.Notes = append(r.Notes, fmt.Sprintf("the program says no number of partitions; it is for the %d devices of its %s", n, m.Counts[0].What))
		case said > 0 && said != n:
			r.Notes = append(r.Notes, fmt.Sprintf("the program says %s; it is compiled for the %d partitions given", by, n))
		}
		if len(shown) > 1 {
			r.Notes = append(r.Notes, fmt.Sprintf("the program has a %s; it is compiled for %d partitions", has, n))
		}
		return n, nil
	case said > 0 && given > 0 && given != said:
		return bad("--partitions %d, and the program says %s: give --partitions %d or leave it out", given, by, said)
	case n > 0:
		return n, nil
	case r.Replicas > 1:
		return 1, nil
	case len(m.Uncounted) > 0:
		return bad("the program shows a %s and no number of devices: give --partitions N", m.Uncounted[0])
	case m.Shardy && len(m.Counts) == 0:
		return bad("the program has annotations of Shardy and no number of devices: give --partitions N")
	case m.Members > 1:
		return bad("its collectives name device %d and the program says no number of devices: give --replicas N, or --partitions N, of %d at the least", m.Members-1, m.Members)
	}
	return 1, nil
}

// platformCalls lists, by the start of their targets, custom calls that only one platform
// has. They come from JAX's own lowerings and from the kernels that people write.
var platformCalls = []struct{ prefix, platform string }{
	{"tpu_custom_call", "tpu"}, // Mosaic
	{"lapack_", "cpu"},
	{"triton_kernel_call", "cuda"}, {"__gpu$", "cuda"}, {"mosaic_gpu", "cuda"},
	{"cusolver_", "cuda"}, {"cublas_", "cuda"}, {"cusparse_", "cuda"}, {"cu_", "cuda"}, {"cudnn", "cuda"},
	{"__cublas$", "cuda"}, {"__cudnn$", "cuda"},
	{"hipsolver_", "rocm"}, {"hipblas_", "rocm"}, {"hipsparse_", "rocm"}, {"hip_", "rocm"},
}

// listNames joins names from a file. A name with unusual characters is quoted.
func listNames(names []string, between string) string {
	var out []string
	for _, n := range names {
		if q := strconv.Quote(n); q != `"`+n+`"` {
			n = q
		}
		out = append(out, n)
	}
	return strings.Join(out, between)
}

// checkPlatform refuses a program that was lowered for other hardware than the slice.
func (r *TextReport) checkPlatform(m *mlir.Module, on topology.Slice, o TextOptions) error {
	asked := "cpu"
	switch on.Kind {
	case topology.TPU:
		asked = "tpu"
	case topology.GPUBox:
		asked = "cuda"
	}
	if len(m.Platforms) > 0 && !slices.Contains(m.Platforms, asked) {
		return fault.New(ErrPlatform, Platform{Asked: asked, Has: m.Platforms}, "%s was lowered for %s, and %s is %s: export it with platforms=[%q], or name a slice of %s",
			o.Name, listNames(m.Platforms, " and "), on, asked, asked, listNames(m.Platforms, " or "))
	}
	if len(m.Platforms) > 1 {
		r.Notes = append(r.Notes, fmt.Sprintf("the export is for %s: its code for all of them is compiled, and its first argument says which runs", listNames(m.Platforms, ", ")))
	}
	var calls []string
	platform := ""
	for _, call := range m.Calls {
		for _, p := range platformCalls {
			if strings.HasPrefix(call, p.prefix) && p.platform != asked {
				calls, platform = append(calls, call), p.platform
				break
			}
		}
	}
	if calls == nil {
		return nil
	}
	return fault.New(ErrPlatform, Platform{Asked: asked, Has: []string{platform}, Calls: calls}, "%s makes custom calls that only %s has (%s), and %s is %s: lower it for %s alone",
		o.Name, platform, listNames(calls, ", "), on, asked, asked)
}

func oneLine(s string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(s, "\n", ", ")), " ")
}
