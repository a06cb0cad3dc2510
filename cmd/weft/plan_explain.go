package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"weft"
	"weft/internal/printable"
	"weft/models"
	"weft/plan"
)

// explainFlag adds --explain, with the names of figures to complete.
func explainFlag(c *cobra.Command, into *string) {
	c.Flags().StringVar(into, "explain", "", "what a figure is made of: hbm, weights, step, flops, sent, all-reduce:tp, ...")
	completeFlagWith(c, "explain", explainableNames)
}

// explainableNames are the names of figures, as far as they are known without a plan.
func explainableNames() []string {
	names := plan.FigureShortNames()
	for _, name := range plan.FigureNames() {
		key, _, open := strings.Cut(name, "[")
		if !open {
			key = strings.TrimRight(key, "ABCDEFGHIJKLMNOPQRSTUVWXYZ|") // what follows the colon is the plan's own
		}
		names = append(names, key)
	}
	slices.Sort(names)
	return names
}

// explainPlan prints what a figure of the best plan is made of.
func (f *planFlags) explainPlan(ctx context.Context, a *app, m models.Model, o plan.Options) error {
	for flag, given := range map[string]bool{"measure": f.measured, "assert": f.asserts != "", "all": f.all} {
		if given {
			return usageError("--explain with --%s: an explanation is of one figure of one plan", flag)
		}
	}
	doc, err := plan.Explain(ctx, m, o, f.explain)
	if err != nil {
		return err
	}
	return a.printResult(doc, func() { a.printBlock(explanationText(doc)) })
}

// smallPart is the share below which parts are gathered into one row of the text.
const smallPart = 0.01

// explanationText formats an explanation for people, in 80 columns: two lines for each part,
// what it is and by which rule, and the sources below.
func explanationText(d *plan.Explanation) string {
	var b strings.Builder
	say := func(format string, args ...any) { b.WriteString(printable.Sprintf(format+"\n", args...)) }
	split := d.Split.Mesh
	if len(d.Split.FSDP) > 0 {
		split += " fsdp:" + strings.Join(d.Split.FSDP, ",")
	}
	if d.Split.BestOf > 1 {
		split += fmt.Sprintf(", the best of %d splits", d.Split.BestOf)
	}
	sayAfterHead(say, "", fmt.Sprintf("%s on %s, %s", d.Model, d.Slice, split))
	sayAfterHead(say, "", fmt.Sprintf("%s = %s (%s): %s", d.Figure, amountText(d.Value, d.Unit), exactText(d.Value, d.Unit), d.Of))
	for _, p := range d.Padding {
		sayAfterHead(say, "note: ", p)
	}
	say("")
	say("%12s %6s  %s", "", "share", "program:line x calls, and what it is")
	var sources []string
	var small struct {
		n          int
		sum, share float64
	}
	for _, p := range d.Parts {
		if p.Share < smallPart && p.Share > -smallPart {
			small.n, small.sum, small.share = small.n+1, small.sum+p.Value, small.share+p.Share
			continue
		}
		source := ""
		if p.Source != "" {
			i := slices.Index(sources, p.Source)
			if i < 0 {
				i, sources = len(sources), append(sources, p.Source)
			}
			source = fmt.Sprintf(" [%d]", i+1)
		}
		sayAfterHead(say, fmt.Sprintf("%12s %5.1f%%  ", amountText(p.Value, d.Unit), 100*p.Share), placeText(p)+": "+cutText(p.What, 110))
		for _, line := range partDetails(p) {
			sayAfterHead(say, "                     ", line)
		}
		sayAfterHead(say, "                     ", p.Rule+source)
	}
	if small.n > 0 {
		say("%12s %5.1f%%  %d others; --json lists them", amountText(small.sum, d.Unit), 100*small.share, small.n)
	}
	say("%12s %5.1f%%  in all, %d parts", amountText(d.Sum, d.Unit), 100*shareText(d), len(d.Parts))
	if len(sources) > 0 {
		say("")
	}
	for i, s := range sources {
		sayAfterHead(say, fmt.Sprintf("[%d] ", i+1), s)
	}
	return strings.TrimRight(b.String(), "\n")
}

func shareText(d *plan.Explanation) float64 {
	if d.Value == 0 {
		return 0
	}
	return d.Sum / d.Value
}

// placeText says where a part comes from: "block:251 x 40", or of a weight "weight x 40".
func placeText(p plan.Part) string {
	place := p.Op
	switch {
	case p.Line > 0:
		place = fmt.Sprintf("%s:%d", p.Program, p.Line)
	case p.Program != "":
		place = p.Program + " " + p.Op
	}
	if p.Calls > 1 {
		place += fmt.Sprintf(" x %d", p.Calls)
	}
	return place
}

// partDetails says how a weight or value is held, and which inputs an instruction reads.
func partDetails(p plan.Part) []string {
	if len(p.Reads) > 0 {
		return []string{"reads " + strings.Join(p.Reads, ", ")}
	}
	if p.Spec == nil {
		return nil
	}
	text := fmt.Sprintf("%s %v %s: %v a device", p.DType, p.Shape, p.Spec, p.Local)
	if p.Padding != "" {
		text += "; " + p.Padding
	}
	return []string{text}
}

// amountText writes a value in few columns.
func amountText(v float64, unit string) string {
	switch unit {
	case "bytes":
		if v < 0 {
			return "-" + weft.Bytes(int64(-v))
		}
		return weft.Bytes(int64(v))
	case "seconds":
		if v < 0.1 {
			return fmt.Sprintf("%.2g ms", v*1e3)
		}
		return fmt.Sprintf("%.3f s", v)
	}
	for _, k := range []struct {
		name string
		size float64
	}{{"PFLOP", 1e15}, {"TFLOP", 1e12}, {"GFLOP", 1e9}, {"MFLOP", 1e6}} {
		if v >= k.size {
			return fmt.Sprintf("%.2f %s", v/k.size, k.name)
		}
	}
	return fmt.Sprintf("%.0f FLOP", v)
}

// exactText writes a value with every digit.
func exactText(v float64, unit string) string {
	if unit == "seconds" {
		return fmt.Sprintf("%v s", v)
	}
	return fmt.Sprintf("%.0f %s", v, unit)
}

// cutText cuts a text at so many columns.
func cutText(text string, columns int) string {
	r := []rune(text)
	if len(r) <= columns {
		return text
	}
	return string(r[:columns-3]) + "..."
}
