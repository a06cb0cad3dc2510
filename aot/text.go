package aot

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"weft/fault"
	"weft/plan"
	"weft/topology"
	"weft/xla"
	"weft/xla/plugin"
)

// TextOptions say how a program of somebody else's is compiled.
type TextOptions struct {
	Name string // for messages
	// Replicas and Partitions are how many devices run it, one of the two. 0 is what
	// the module's attributes mhlo.num_replicas and mhlo.num_partitions say, else 1.
	Replicas, Partitions int
	Plugin               string
	Install              bool
	Fetching             func(plugin.Progress)
	MemoryBytes          int64 // of a device, where the slice does not say (cpu:N)
}

// TextReport is what a program of somebody else's needs.
type TextReport struct {
	On         string           `json:"on"`
	Form       string           `json:"form"` // "text" or "bytecode"
	Replicas   int              `json:"replicas"`
	Partitions int              `json:"partitions"`
	Engine     plugin.Installed `json:"engine"`
	Compiler   string           `json:"compiler"`
	Programs   []Program        `json:"programs"` // one
	// Need's bytes are the program's total and its code.
	Need
	Notes []string `json:"notes"`
}

// bytecode is how MLIR bytecode begins.
var bytecode = []byte("ML\xefR")

// maxProgram bounds a program: weights do not belong in one.
const maxProgram = 1 << 30

var counts = regexp.MustCompile(`mhlo\.num_(replicas|partitions)\s*=\s*([0-9]+)`)

// CompileText compiles StableHLO for a slice, as text or portable bytecode, and
// says what it needs. Partitioned modules go through XLA's partitioner: Shardy
// where they have sdy annotations, else the one that reads mhlo.sharding. Errors:
// ErrOptions, xla.ErrMemory where it does not fit, xla.ErrCompile. A compiler may
// abort the process over a broken program: run it in one of its own where programs
// come from strangers.
func CompileText(ctx context.Context, program []byte, on topology.Slice, o TextOptions) (*TextReport, error) {
	r := &TextReport{On: on.String(), Form: form(program), Notes: []string{}}
	if err := r.settle(program, on, o); err != nil {
		return nil, err
	}
	c, err := open(ctx, on, Options{Plugin: o.Plugin, Install: o.Install, Fetching: o.Fetching})
	if err != nil {
		return nil, err
	}
	defer c.close()
	start := time.Now()
	x, err := c.compile(ctx, program, xla.CompileOptions{Name: o.Name, Inspect: true,
		Replicas: r.Replicas, Partitions: r.Partitions, Shardy: bytes.Contains(program, []byte("sdy."))})
	if err != nil {
		return nil, err
	}
	defer x.Close()
	p := Program{Name: o.Name, Calls: 1, FLOPs: -1, CompileSeconds: time.Since(start).Seconds()}
	if err := p.ask(x); err != nil {
		return nil, err
	}
	r.Programs, r.Engine, r.Compiler = []Program{p}, c.plugin().Engine(), oneLine(c.platform())
	var need *int64
	if p.Known() {
		n := p.TotalBytes + max(0, p.Code)
		need = &n
	}
	r.Notes = append(r.Notes, r.judgeFit(need, plan.Options{MemoryBytes: o.MemoryBytes}.Memory(on))...)
	return r, nil
}

func form(program []byte) string {
	if bytes.HasPrefix(program, bytecode) {
		return "bytecode"
	}
	return "text"
}

// settle finds how many devices run the program.
func (r *TextReport) settle(program []byte, on topology.Slice, o TextOptions) error {
	var l fault.List
	bad := func(format string, args ...any) {
		l.Add(fault.New(ErrOptions, nil, "%s: %s", o.Name, fmt.Sprintf(format, args...)))
	}
	if len(program) == 0 || len(program) > maxProgram {
		bad("%d bytes are no program: want StableHLO as text or bytecode, at most %d", len(program), maxProgram)
		return l.Err()
	}
	said := map[string]int{}
	if r.Form == "text" {
		head, _, _ := bytes.Cut(program, []byte("func.func"))
		for _, m := range counts.FindAllSubmatch(head, -1) {
			n, err := strconv.Atoi(string(m[2]))
			if err != nil || n < 1 {
				bad("mhlo.num_%s = %s is no number of devices", m[1], m[2])
				continue
			}
			said[string(m[1])] = n
		}
	} else if o.Replicas == 0 && o.Partitions == 0 && bytes.Contains(program, []byte("mhlo.num_partitions")) {
		bad("bytecode that names mhlo.num_partitions: how many devices it is for is not read from bytecode; give --partitions N (1 for one device), or the module as text")
	}
	if o.Replicas < 0 || o.Partitions < 0 {
		bad("%d replicas, %d partitions: want 1 or more", o.Replicas, o.Partitions)
	}
	r.Replicas = cmp.Or(o.Replicas, said["replicas"], 1)
	r.Partitions = cmp.Or(o.Partitions, said["partitions"], 1)
	if o.Replicas > 0 && o.Partitions == 0 && said["partitions"] > 1 {
		r.Notes = append(r.Notes, fmt.Sprintf("the module says %d partitions; they stay beside the %d replicas given", said["partitions"], o.Replicas))
	}
	if r.Replicas > 1 && r.Partitions > 1 {
		bad("%d replicas of %d partitions: a program has several of one or of the other here", r.Replicas, r.Partitions)
	} else if n := max(r.Replicas, r.Partitions); n > on.Devices {
		what := fmt.Sprintf("%d replicas", r.Replicas)
		if r.Partitions > 1 {
			what = fmt.Sprintf("%d partitions", r.Partitions)
		}
		more := ""
		if note := on.CountNote(); note != "" {
			more = ": " + note
		}
		bad("%s need %d devices, %s has %d%s", what, n, on, on.Devices, more)
	}
	return l.Err()
}

func oneLine(s string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(s, "\n", ", ")), " ")
}
