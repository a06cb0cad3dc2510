package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weft/aot"
	"weft/fault"
	"weft/models"
	"weft/phases"
	"weft/plan"
	"weft/request"
)

// scored is a configuration whose memory plan says and a compiler knows.
type scored struct {
	Model  string `json:"model"`
	Size   string `json:"size"`
	Frames int    `json:"frames"`
	On     string `json:"on"`
	Mesh   string `json:"mesh"`
	CFG    string `json:"cfg"`
	// Split is the residual stream split over tp.
	Split bool `json:"split_residual"`
	// Batch is the number of videos; 0 is one.
	Batch int `json:"batch,omitempty"`
	// Development marks the configurations that were looked at while plan's rules were
	// written; the others were compiled afterwards.
	Development bool `json:"development"`
}

// scoredAOT are the configurations: both sizes of Wan2.1, 480p and 720p, 9, 33 and 81
// frames, tp of 1 to 8, sp of 1 to 4, on four generations.
func scoredAOT() []scored {
	const small, large = "wan2.1-t2v-1.3b", "wan2.1-t2v-14b"
	const p480, p720 = "832x480", "1280x720"
	var out []scored
	for i, row := range []string{
		large + " " + p480 + " 81 v4-8 dp=1,tp=4,sp=1", small + " " + p480 + " 33 v5e-1 dp=1,tp=1,sp=1",
		large + " " + p480 + " 9 v5e-8 dp=1,tp=8,sp=1", small + " " + p480 + " 81 v4-8 dp=1,tp=1,sp=4",
		large + " " + p480 + " 33 v5p-8 dp=1,tp=2,sp=2", small + " " + p720 + " 9 v6e-4 dp=2,tp=2,sp=1",
		small + " " + p480 + " 81 v4-8 dp=1,tp=4,sp=1", large + " " + p480 + " 9 v4-8 dp=1,tp=4,sp=1 sequential",
		large + " " + p480 + " 81 v4-8 dp=1,tp=4,sp=1 split",

		large + " " + p720 + " 81 v4-8 dp=1,tp=4,sp=1", large + " " + p720 + " 81 v6e-8 dp=1,tp=8,sp=1",
		large + " " + p720 + " 33 v5e-8 dp=1,tp=4,sp=2", small + " " + p480 + " 9 v6e-1 dp=1,tp=1,sp=1",
		small + " " + p720 + " 81 v5p-8 dp=1,tp=4,sp=1", small + " " + p720 + " 33 v4-8 dp=1,tp=2,sp=2",
		small + " " + p480 + " 81 v5e-4 dp=2,tp=1,sp=2", large + " " + p480 + " 81 v5e-8 dp=1,tp=8,sp=1",
		large + " " + p480 + " 33 v5p-8 dp=1,tp=1,sp=4", large + " " + p720 + " 9 v4-8 dp=1,tp=4,sp=1",
		small + " " + p720 + " 81 v6e-4 dp=1,tp=1,sp=4", large + " " + p480 + " 81 v6e-8 dp=1,tp=2,sp=4",
		small + " " + p480 + " 33 v4-8 dp=2,tp=2,sp=1", large + " " + p480 + " 9 v5p-8 dp=2,tp=2,sp=1",
		small + " " + p720 + " 9 v5e-1 dp=1,tp=1,sp=1", large + " " + p720 + " 33 v6e-8 dp=1,tp=4,sp=2",
		large + " " + p480 + " 81 v4-8 dp=1,tp=4,sp=1 sequential", large + " " + p720 + " 33 v5p-8 dp=1,tp=4,sp=1 split",
	} {
		f := strings.Fields(row)
		s := scored{Model: f[0], Size: f[1], On: f[3], Mesh: f[4], CFG: plan.CFGBatch, Development: i < 9}
		fmt.Sscan(f[2], &s.Frames)
		if len(f) > 5 && f[5] == "split" {
			s.Split = true
		} else if len(f) > 5 {
			s.CFG = f[5]
		}
		out = append(out, s)
	}
	return out
}

// bytesScore is a configuration's memory by plan and by the compiler, of one device.
type bytesScore struct {
	scored
	// Programs tells the step's programs apart from those of other versions of weft.
	Programs       string  `json:"programs"`
	Compiler       string  `json:"compiler"`
	CompileSeconds float64 `json:"compile_seconds"`
	WeightBytes    int64   `json:"weight_bytes"`
	// CompiledBytes is the compiler's total, with the programs' own code; PlannedBytes plan's.
	CompiledBytes int64  `json:"compiled_bytes"`
	CompiledAt    string `json:"compiled_at"`
	PlannedBytes  int64  `json:"planned_bytes"`
	PlannedAt     string `json:"planned_at"`
}

func (b bytesScore) total() float64 { return float64(b.PlannedBytes)/float64(b.CompiledBytes) - 1 }
func (b bytesScore) rest() float64 {
	return float64(b.PlannedBytes-b.WeightBytes)/float64(b.CompiledBytes-b.WeightBytes) - 1
}

// planScore is the report.
type planScore struct {
	Date     string       `json:"date"`
	Hardware hardware     `json:"hardware"`
	AOT      []bytesScore `json:"aot"`
	Phases   []phaseScore `json:"phases"`
	// NotCompiled lists the phases' runs that plan counts and nothing has compiled.
	NotCompiled []string     `json:"not_compiled"`
	Peer        peerScore    `json:"peer"`
	Videos      []videoScore `json:"videos"`
}

// score holds plan against the TPU compiler, and plan --as vidax against what
// vidax measured.
func score(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("score", flag.ExitOnError)
	reuse := fs.String("reuse", "", "take the compiler's figures of an earlier score's `FILE`.json for the programs that are still the same; plan's are always made anew")
	limit := fs.Int("limit", len(scoredAOT()), "compile no more than `N` configurations; 0 compiles nothing, phases neither")
	named := fs.String("phases", strings.Join(phases.Names(), ","), "which phases of them, by commas")
	only := fs.String("only", "", "compile phases only of videos whose model and slice have this `TEXT`")
	parts := fs.String("parts", strings.Join(scoreParts, ","), "what is scored, by commas; the rest is as --reuse has it")
	out := fs.String("out", filepath.Join("bench", "results"), "where the report goes")
	page := fs.String("page", scorePage, "the page of the documents that is written too once all is scored; \"\" for none")
	if err := fs.Parse(args); err != nil {
		return err
	}
	s := planScore{Date: time.Now().Format(time.DateOnly), Hardware: thisHardware()}
	var before planScore
	if *reuse != "" {
		text, err := os.ReadFile(*reuse)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &before); err != nil {
			return fmt.Errorf("%s: %w", *reuse, err)
		}
	}
	s.AOT, s.Phases, s.NotCompiled, s.Peer, s.Videos = before.AOT, before.Phases, before.NotCompiled, before.Peer, before.Videos
	save := func() error { return s.save(*out) } // a compilation is long; what is done stays
	for _, part := range split(*parts) {
		var err error
		switch part {
		case "steps":
			err = s.scoreSteps(ctx, *limit, save)
		case "phases":
			if *limit == 0 {
				*named = ""
			}
			err = s.scorePhases(ctx, *only, split(*named), save)
		case "peer":
			s.Peer, err = scorePeer()
		case "videos":
			s.Videos, err = scoreVideos(ctx)
		default:
			err = fault.New(ErrUsage, nil, "no part %q; there are %s", part, strings.Join(scoreParts, ", "))
		}
		if err != nil {
			return err
		}
	}
	if err := s.save(*out); err != nil || *page == "" {
		return err
	}
	return os.WriteFile(*page, []byte(s.page()), 0o644)
}

// scoreParts are what score holds plan against.
var scoreParts = []string{"steps", "phases", "peer", "videos"}

// scoreSteps scores the configurations of Wan2.1's step, and compiles those that the score has not.
func (s *planScore) scoreSteps(ctx context.Context, limit int, save func() error) error {
	before, compiled := s.AOT, 0
	s.AOT = nil
	for _, c := range scoredAOT() {
		b := bytesScore{scored: c}
		m, r, err := b.options()
		if err != nil {
			return err
		}
		if b.Programs, err = digestStep(m, r); err != nil {
			return fmt.Errorf("%v: %w", c, err)
		}
		i := slices.IndexFunc(before, func(old bytesScore) bool { return old.scored == c && old.Programs == b.Programs })
		switch {
		case i >= 0:
			b = before[i]
		case compiled < limit:
			compiled++
			if err := b.compile(ctx); err != nil {
				return fmt.Errorf("%v: %w", c, err)
			}
		default:
			continue
		}
		if err := b.plan(ctx); err != nil {
			return fmt.Errorf("%v: %w", c, err)
		}
		fmt.Fprintf(os.Stderr, "%s %s %d frames %s %s: total %+.1f %%, without weights %+.1f %%\n", c.Model, c.Size, c.Frames, c.On, c.Mesh, 100*b.total(), 100*b.rest())
		s.AOT = append(s.AOT, b)
		if err := save(); err != nil {
			return err
		}
	}
	return nil
}

// scorePage is the page of the documents that has the newest score.
var scorePage = filepath.Join("docs", "plan-score.md")

// page is the score as a page of the documents.
func (s planScore) page() string {
	intro := "How `weft plan` agrees with a compiler and with what others measured, in one page. It is made by `go run ./bench score`, which writes\n" +
		"it from the result of its date in `bench/results`; how the figures of the time model are got is in `plan/README.md`.\n"
	title, rest, _ := strings.Cut(s.markdown(), "\n\n")
	return title + "\n\n" + intro + "\n" + rest
}

func (b *bytesScore) options() (models.Model, request.Request, error) {
	m, err := models.ByName(b.Model)
	if err != nil {
		return nil, request.Request{}, err
	}
	r, err := request.Parse(request.Text{"size": b.Size, "frames": fmt.Sprint(b.Frames), "on": b.On, "mesh": b.Mesh, "dtype": "bf16", "cfg": b.CFG, "split-residual": fmt.Sprint(b.Split), "batch": fmt.Sprint(max(1, b.Batch))})
	return m, r, err
}

func (b *bytesScore) compile(ctx context.Context) error {
	m, r, err := b.options()
	if err != nil {
		return err
	}
	c, err := aot.Compile(ctx, m, aot.Options{Request: r, Parallel: 1})
	if err != nil {
		return err
	}
	defer c.Close()
	b.Compiler, b.CompileSeconds = c.Report.Compiler, c.Report.CompileSeconds
	b.CompiledBytes, b.CompiledAt, b.WeightBytes = c.Report.Bytes(), c.Report.At, c.Report.ResidentWeightBytes
	return nil
}

func (b *bytesScore) plan(ctx context.Context) error {
	m, r, err := b.options()
	if err != nil {
		return err
	}
	found, err := plan.Search(ctx, m, plan.Options{Request: r})
	if err != nil {
		return err
	}
	i := slices.IndexFunc(found.Plans, func(p plan.Plan) bool { return len(p.FSDP) == 0 })
	if i < 0 {
		return errors.New("plan refuses it")
	}
	p := found.Plans[i]
	b.PlannedBytes, b.PlannedAt = p.Breakdown.DiT.TotalBytes, p.Breakdown.DiT.At
	return nil
}

func (s planScore) save(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	base := filepath.Join(dir, s.Date+"-plan-score")
	if err := os.WriteFile(base+".json", append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(base+".md", []byte(s.markdown()), 0o644)
}

// middle and worst of absolute values.
func middle(errs []float64) (median, worst float64) {
	if len(errs) == 0 {
		return 0, 0
	}
	abs := slices.Clone(errs)
	for i, e := range abs {
		abs[i] = max(e, -e)
	}
	slices.Sort(abs)
	n := len(abs)
	return (abs[(n-1)/2] + abs[n/2]) / 2, abs[n-1]
}

func (s planScore) markdown() string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	say("# What plan says, scored (%s)\n", s.Date)
	say("Made by `go run ./bench score`.\n")
	say("## Memory, beside libtpu's\n")
	say("Every program of a step compiled ahead of time for the slice by libtpu, and added up as `weft compile` does: weights, what waits between")
	say("calls, and at the fullest call the compiler's arguments, temporaries and results, with its padding, and the programs' code. GB are 10^9")
	say("bytes of one device; bf16, batch 1, CFG as one batch unless it says sequential. *Without weights* is the same with the weights taken off")
	say("both sides. Rules were written looking at the development rows only.\n")
	for _, part := range []struct {
		name string
		in   func(bytesScore) bool
	}{{"held out", func(b bytesScore) bool { return !b.Development }}, {"development", func(b bytesScore) bool { return b.Development }},
		{"all", func(bytesScore) bool { return true }}} {
		var total, rest []float64
		for _, r := range s.AOT {
			if part.in(r) {
				total, rest = append(total, r.total()), append(rest, r.rest())
			}
		}
		if len(total) == 0 {
			continue
		}
		tm, tw := middle(total)
		rm, rw := middle(rest)
		say("- %s, %d configurations: total median %.1f %%, worst %.1f %%; without weights median %.1f %%, worst %.1f %%", part.name, len(total), 100*tm, 100*tw, 100*rm, 100*rw)
	}
	say("- %d of %d configurations are compiled with the programs of this date", len(s.AOT), len(scoredAOT()))
	say("\n| model | size | frames | slice | mesh | | compiled, GB | planned, GB | error | without weights | planned | error |\n|---|---|---|---|---|---|---|---|---|---|---|---|")
	for _, r := range s.AOT {
		var marks []string
		if r.Development {
			marks = append(marks, "dev")
		}
		if r.Split {
			marks = append(marks, "stream split")
		}
		if r.CFG != plan.CFGBatch {
			marks = append(marks, r.CFG)
		}
		gb := func(n int64) string { return fmt.Sprintf("%.2f", float64(n)/1e9) }
		say("| %s | %s | %d | %s | %s | %s | %s | %s | %+.1f %% | %s | %s | %+.1f %% |", strings.TrimPrefix(r.Model, "wan2.1-t2v-"), r.Size, r.Frames, r.On,
			strings.ReplaceAll(r.Mesh, ",", " "),
			strings.Join(marks, ", "), gb(r.CompiledBytes), gb(r.PlannedBytes), 100*r.total(), gb(r.CompiledBytes-r.WeightBytes), gb(r.PlannedBytes-r.WeightBytes), 100*r.rest())
	}
	if len(s.AOT) > 0 {
		say("\n%s", strings.Join(strings.Fields(s.AOT[0].Compiler), " "))
	}
	s.markdownPhases(say)
	s.Peer.markdown(say)
	s.markdownVideos(say)
	return b.String()
}
