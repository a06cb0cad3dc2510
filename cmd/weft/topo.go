package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"weft/mesh"
	"weft/topology"
)

func (a *app) topoCommand() *cobra.Command {
	var meshText, order string
	var moved []string
	var hosts int
	c := &cobra.Command{
		Use:   "topo [NAME]",
		Short: "Facts of a TPU slice, a GPU box or an accelerator",
		Long: `topo tells what a slice is made of: chips, cores, devices, hosts, coordinates, links,
memory and peak rates, each with its source (--json). A slice is named

  v4-8, v5e-8, v5litepod-8, v5p-8, v6e-8, tpu7x-16   as it is rented
  v4:2x2x1, v5e:2x4                                  by the shape of its chips
  h100x8, h200x8, a100x8                             GPUs of one box
  h100x8x4, gb200x4x18                               GPUs of several hosts: in each, hosts
  cpu:8                                              virtual CPU devices

The number after v2, v3, v4, v5p and tpu7x counts cores, two to a chip; after v5e
and v6e it counts chips. A generation alone (v4, v6e) shows its facts and slices.

With --mesh it lays the axes on the links, so that those with the most traffic have
their neighbours one hop away, and says how many hops there are. --bytes is what
each axis moves in a step; without it each axis counts as heavier than the one
before it.`,
		Example: `  weft topo
  weft topo v4-8
  weft topo h100x8x4
  weft topo v4-32 --mesh dp=4,tp=4
  weft topo v5e:4x4 --mesh tp=4,sp=4 --bytes tp=3000000 --bytes sp=1000000 --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if order != "torus" && order != "plain" {
				return usageError("--order %q: want torus or plain", order)
			}
			if len(args) == 0 {
				if cmd.Flags().Changed("mesh") || hosts != 0 || len(moved) > 0 {
					return usageError("--mesh, --bytes and --hosts are about one slice; name it, as in weft topo v4-8 --mesh tp=4")
				}
				return a.topoList()
			}
			if g, ok := topology.GenerationByName(args[0]); ok && meshText == "" && hosts == 0 {
				return a.topoGeneration(g)
			}
			s, err := topology.Lookup(args[0])
			if err != nil {
				return err
			}
			if hosts != 0 {
				if s, err = s.OnHosts(hosts); err != nil {
					return err
				}
			}
			doc := topology.Document{Report: s.Report()}
			if meshText != "" {
				if doc.Mesh, err = topoMesh(s, meshText, order, moved); err != nil {
					return err
				}
			} else if len(moved) > 0 {
				return usageError("--bytes is about the axes of a mesh; give --mesh too")
			}
			return a.printResult(doc, func() { a.topoText(s, doc.Mesh) })
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, s := range topology.Slices() {
				if s.Usual {
					names = append(names, s.Name)
				}
			}
			return append(names, "h100x8", "h200x8", "a100x8", "b200x8", "cpu:8"), cobra.ShellCompDirectiveNoFileComp
		},
	}
	c.Flags().StringVar(&meshText, "mesh", "", "axes to lay on the slice, outermost first: dp=1,tp=4,sp=2")
	c.Flags().StringArrayVar(&moved, "bytes", nil, "what an axis moves in a step, as in tp=3000000; once for each axis")
	c.Flags().StringVar(&order, "order", "torus", "torus lays axes on the links; plain keeps the runtime's order of devices")
	c.Flags().IntVar(&hosts, "hosts", 0, "hosts of a slice whose name leaves it open (v5e-8, v6e-8: 1 or 2)")
	completeFlag(c, "order", "torus", "plain")
	completeFlag(c, "mesh", "tp=4", "dp=2,tp=4", "tp=8", "sp=8")
	return c
}

func topoMesh(s topology.Slice, text, order string, moved []string) (*topology.MeshReport, error) {
	if text == "auto" {
		return nil, usageError("--mesh auto: name the axes, as in tp=4,sp=2")
	}
	axes, err := mesh.Parse(text)
	if err != nil {
		return nil, err
	}
	bytes, err := topology.ParseBytes(moved)
	if err != nil {
		return nil, err
	}
	return s.ReportMesh(axes, bytes, order == "plain")
}

func (a *app) topoText(s topology.Slice, m *topology.MeshReport) {
	r := s.Report()
	if r.Spec == s.String() {
		a.say("%s", s)
	} else {
		a.say("%s  %s", s, r.Spec)
	}
	line := func(name, format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		for i, part := range wrapText(text, 80-14) {
			if i > 0 {
				name = ""
			}
			a.say("  %s %s", padRight(name, 11), part)
		}
	}
	if note := s.CountNote(); note != "" {
		line("devices", "%d: %s", s.Devices, note)
	} else {
		line("devices", "%d", s.Devices)
	}
	if s.Kind == topology.TPU {
		line("chips", "%d in %s, %d cores; device kind %q", s.Chips, s.Topology(), s.Cores, r.DeviceKind)
		switch {
		case s.Hosts == 0:
			var options []string
			for _, o := range s.HostOptions {
				options = append(options, fmt.Sprintf("%d of %d chips", o.Hosts, o.ChipsPerHost))
			}
			line("hosts", "%s (--hosts)", strings.Join(options, ", or "))
		default:
			line("hosts", "%d", s.Hosts)
		}
		line("links", "%d between chips, %s", r.LinkCount, wrapWords(s))
	}
	switch m := r.Memory; {
	case m.Bytes == nil:
		line("memory", "unknown here: the devices share that of the machine they run on")
	case m.ReservedBytes == nil:
		line("memory", "%.2f GB a device; what of it a program gets is unknown", float64(*m.Bytes)/1e9)
	default:
		line("memory", "%.2f GB a device, %.2f GB of it usable by a program", float64(*m.Bytes)/1e9, float64(*m.UsableBytes)/1e9)
		line("", "holds: %s", m.Source)
		line("", "not a program's, %.2f GB: %s", float64(*m.ReservedBytes)/1e9, m.ReservedSource)
	}
	if rate := r.Rates; rate.BF16FLOPs > 0 {
		text := fmt.Sprintf("bf16 %s TFLOP/s a device", shortNumber(rate.BF16FLOPs/1e12))
		if rate.INT8Ops > 0 {
			text += fmt.Sprintf(", int8 %s TOP/s", shortNumber(rate.INT8Ops/1e12))
		}
		if rate.FP8FLOPs > 0 {
			text += fmt.Sprintf(", fp8 %s TFLOP/s", shortNumber(rate.FP8FLOPs/1e12))
		}
		line("peak", "%s, memory %s GB/s", text, shortNumber(rate.HBMBytes/1e9))
		switch {
		case s.Kind == topology.TPU:
			line("", "a link %s GB/s each way, %d to a chip", shortNumber(rate.LinkBytes/1e9), rate.LinksAChip)
		case rate.LinkBytes > 0 || rate.HostBytes > 0:
			line("", "%s", gpuLinksText(rate))
		}
	}
	if len(r.Alternatives) > 0 {
		word := "same name"
		if s.Kind == topology.GPUBox {
			word = "or"
		}
		line(word, "%s", strings.Join(r.Alternatives, ", "))
	}
	if r.PJRT != nil {
		text := r.PJRT.Name
		for _, k := range []string{"chip_config_name", "chips_per_host_bounds"} {
			if v, ok := r.PJRT.Options[k]; ok {
				text += fmt.Sprintf(" %s=%s", k, strings.ReplaceAll(strings.Trim(fmt.Sprint(v), "[]"), " ", ","))
			}
		}
		line("libtpu", "%s", text)
	}
	if r.Compiler != nil {
		line("compiler", "XLA's CUDA plugin (weft engine install cuda), by its configuration of %s", r.Compiler.Config)
		if r.Compiler.Note != nil {
			line("", "%s", *r.Compiler.Note)
		}
	}
	if s.Note != "" {
		line("note", "%s", s.Note)
	}
	if lines := s.Draw(78); lines != nil {
		a.say("\n  Devices by coordinates (x right, y down), a box is a host:\n")
		for _, l := range lines {
			a.say("  %s", l)
		}
	}
	if m != nil {
		a.topoLayout(m)
	}
}

// topoLayout prints how a mesh is laid on the links of a slice.
func (a *app) topoLayout(m *topology.MeshReport) {
	how := "the plain order"
	if m.Layout.Order == "torus" {
		how = "laid on the links"
	}
	a.say("\n  Mesh %s, %s; hops to the next device and around:\n", m.Mesh, how)
	a.say("  axis   size   longest   sum   hosts     plain: longest   sum   hosts")
	for i, x := range m.Layout.Axes {
		p := m.Layout.Plain[i]
		a.say("  %s %6d %9d %5d %7d %16d %5d %7d", padRight(x.Axis, 4), x.Size, x.MaxHops, x.SumHops, x.Hosts, p.MaxHops, p.SumHops, p.Hosts)
	}
	if len(m.Order) <= 64 {
		text := strings.Trim(fmt.Sprint(m.Order), "[]")
		a.say("")
		for i, part := range wrapText(text, 80-18) {
			head := "Device order"
			if i > 0 {
				head = ""
			}
			a.say("  %s  %s", padRight(head, 12), part)
		}
	}
}

// shortNumber formats a number with one decimal, which is left out when it is zero.
func shortNumber(f float64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", f), ".0")
}

// wrapWords says which dims of a slice close to rings.
func wrapWords(s topology.Slice) string {
	if s.Wrap == nil {
		return "not known whether they close to rings"
	}
	var closed []string
	for d, w := range s.Wrap {
		if w {
			closed = append(closed, string(rune('x'+d)))
		}
	}
	switch len(closed) {
	case 0:
		return "none of which closes a ring"
	case 1:
		return closed[0] + " closes to rings"
	}
	return strings.Join(closed, ", ") + " close to rings"
}

// wrapText breaks a text at blanks into lines of at most width bytes.
func wrapText(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

type generationDoc struct {
	topology.Generation
	Counts         string            `json:"counts"`
	DevicesPerChip int               `json:"devices_per_chip"`
	CoresPerChip   int               `json:"cores_per_chip"`
	Slices         []string          `json:"slices"`
	Sources        map[string]string `json:"sources"`
}

func generationOf(g topology.Generation) generationDoc {
	d := generationDoc{Generation: g, Counts: "chips", DevicesPerChip: g.DevicesPerChip(), CoresPerChip: g.CoresPerChip(), Sources: topology.Sources()}
	if g.CountsCores() {
		d.Counts = "cores"
	}
	for _, s := range topology.Slices() {
		if s.Generation == g.Name {
			d.Slices = append(d.Slices, s.String())
		}
	}
	return d
}

func (a *app) topoGeneration(g topology.Generation) error {
	doc := generationOf(g)
	return a.printResult(doc, func() {
		a.say("TPU %s%s", g.Name, aliasText(g))
		a.say("  the number in a slice's name counts %s; a chip has %s and is %s\n", doc.Counts,
			countText(doc.CoresPerChip, "core"), countText(doc.DevicesPerChip, "device"))
		for _, name := range sortedKeys(g.Facts) {
			f := g.Facts[name]
			value := fmt.Sprint(f.Value)
			switch v := f.Value.(type) {
			case nil:
				value = "not known"
			case float64:
				value = strconv.FormatFloat(v, 'f', -1, 64)
			case map[string]any:
				var parts []string
				for _, k := range sortedKeys(v) {
					parts = append(parts, fmt.Sprintf("%s %v", k, v[k]))
				}
				value = strings.Join(parts, ", ")
			}
			if f.Source != "" {
				value += " (" + f.Source + ")"
			}
			for i, part := range wrapText(value, 80-39) {
				if i > 0 {
					name = ""
				}
				a.say("  %s %s", padRight(name, 36), part)
			}
		}
		a.say("\nSlices:")
		for _, l := range wrapText(strings.Join(doc.Slices, " "), 78) {
			a.say("  %s", l)
		}
	})
}

// countText formats a number of things, with an s for more than one.
func countText(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// aliasText lists a generation's other names in parentheses, if it has any.
func aliasText(g topology.Generation) string {
	if len(g.Aliases) == 0 {
		return ""
	}
	return " (" + strings.Join(g.Aliases, ", ") + ")"
}

type listDoc struct {
	Generations []generationDoc `json:"generations"`
	GPUs        []topology.GPU  `json:"gpus"`
}

func (a *app) topoList() error {
	var doc listDoc
	for _, g := range topology.Generations() {
		d := generationOf(g)
		d.Sources = nil
		doc.Generations = append(doc.Generations, d)
	}
	doc.GPUs = topology.GPUs()
	return a.printResult(doc, func() {
		a.say("TPU    number counts  devices a chip  GB a device  bf16 TFLOP/s  slices")
		for _, d := range doc.Generations {
			small, err := topology.Lookup(d.Slices[0])
			must(err)
			_, first, _ := strings.Cut(d.Slices[0], "-")
			_, last, _ := strings.Cut(d.Slices[len(d.Slices)-1], "-")
			a.say("%s  %s %14d %12.1f %13s  %s-%s to %s", padRight(d.Name, 5), padRight(d.Counts, 13), d.DevicesPerChip,
				float64(small.HBMBytes)/1e9, shortNumber(small.Rates().BF16FLOPs/1e12), d.Name, first, last)
		}
		a.say("")
		a.say("GPU box      GB a device  bf16 TFLOP/s")
		for _, g := range doc.GPUs {
			s, err := topology.Lookup(g.Names[0])
			must(err)
			a.say("%s %11.1f %13s", padRight(g.Names[0]+"xN", 12), float64(s.HBMBytes)/1e9, shortNumber(s.Rates().BF16FLOPs/1e12))
		}
		a.say(`
Name a slice as it is rented (v4-8, v5e-8, tpu7x-16), by the shape of its chips
(v4:2x2x1, v5e:2x4), as GPUs of one box (h100x8) or of several (h100x8x4), or as
CPU devices (cpu:8):
  weft topo v4-8`)
	})
}

// gpuLinksText says how fast a GPU sends to others: over NVLink, PCIe and the network of its host.
func gpuLinksText(rate topology.Rates) string {
	var parts []string
	for _, l := range []struct {
		name string
		rate float64
	}{{"GPU links", rate.LinkBytes}, {"PCIe", rate.HostBytes}, {"network", rate.NetworkBytes}} {
		if l.rate > 0 {
			parts = append(parts, fmt.Sprintf("%s %s GB/s", l.name, shortNumber(l.rate/1e9)))
		}
	}
	return strings.Join(parts, ", ") + " each way"
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
