package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"weft/aot"
	"weft/mesh"
	"weft/models"
	"weft/phases"
	"weft/plan"
	"weft/request"
)

// scoredVideo is a whole video whose phases plan counts and a compiler compiles.
type scoredVideo struct {
	Model  string `json:"model"`
	Size   string `json:"size"`
	Frames int    `json:"frames"`
	On     string `json:"on"`
}

// scoredVideos has every family, with each of its encoders and autoencoders at least once, on two
// slices of different generations. The pictures are small, because libtpu takes a quarter of an
// hour for a single program of convolutions at 832x480; weights are the releases'.
func scoredVideos() []scoredVideo {
	var out []scoredVideo
	for _, on := range []string{"v5e-8", "v5p-8"} {
		for _, model := range []string{
			"wan2.1-i2v-14b", "cogvideox-5b", "ltx-video-2b", "hunyuanvideo-cfgdistill", "cosmos2.5-2b", "cosmos3-edge", "wan2.2-ti2v-5b", "ltx2.5-22b", "hunyuan1.5",
			"wan2.1-t2v-1.3b", "wan2.2-i2v-a14b", "cogvideox-2b", "cosmos3-nano",
		} {
			out = append(out, scoredVideo{model, "512x256", 17, on})
		}
	}
	return out
}

// phaseScore is one model's run in a phase of a video, by plan and by the compiler, of one device.
type phaseScore struct {
	scoredVideo
	Phase string `json:"phase"`
	Runs  string `json:"runs"` // the model that runs
	DType string `json:"dtype"`
	Mesh  string `json:"mesh"`
	// Tile is the number of the run among those of its model in the phase: tiles of several sizes.
	Tile int `json:"tile,omitzero"`
	// Programs tells the run's programs apart from those of other versions of weft.
	Programs       string  `json:"programs"`
	Compiler       string  `json:"compiler"`
	CompileSeconds float64 `json:"compile_seconds"`
	WeightBytes    int64   `json:"weight_bytes"`
	CompiledBytes  int64   `json:"compiled_bytes"`
	CompiledAt     string  `json:"compiled_at"`
	PlannedBytes   int64   `json:"planned_bytes"`
	PlannedAt      string  `json:"planned_at"`
}

func (p phaseScore) total() float64 { return float64(p.PlannedBytes)/float64(p.CompiledBytes) - 1 }
func (p phaseScore) rest() float64 {
	return float64(p.PlannedBytes-p.WeightBytes)/float64(p.CompiledBytes-p.WeightBytes) - 1
}

// plan plans the video on its slice, the best split.
func (v scoredVideo) plan(ctx context.Context) (models.Model, request.Request, plan.Plan, error) {
	m, err := models.ByName(v.Model)
	if err != nil {
		return nil, request.Request{}, plan.Plan{}, err
	}
	r, err := request.Parse(request.Text{"size": v.Size, "frames": fmt.Sprint(v.Frames), "on": v.On, "dtype": "bf16"})
	if err != nil {
		return nil, r, plan.Plan{}, err
	}
	if r, err = plan.Best(ctx, m, plan.Options{Request: r}); err != nil {
		return nil, r, plan.Plan{}, err
	}
	found, err := plan.Search(ctx, m, plan.Options{Request: r})
	if err != nil {
		return nil, r, plan.Plan{}, err
	}
	i := slices.IndexFunc(found.Plans, func(p plan.Plan) bool { return slices.Equal(p.FSDP, r.FSDP) })
	if i < 0 {
		return nil, r, plan.Plan{}, fmt.Errorf("%v: the best plan is not among the plans of its mesh", v)
	}
	return m, r, found.Plans[i], nil
}

// plannedPhases has a score for each run that the plan counts, without the compiler's figures.
func plannedPhases(v scoredVideo, m models.Model, asked request.Request, p plan.Plan) ([]phaseScore, error) {
	runs, err := phases.Of(m, asked)
	if err != nil {
		return nil, err
	}
	var out []phaseScore
	at := 0
	for _, ph := range p.Phases {
		for i, r := range ph.Runs {
			run := runs[at]
			at++
			if r.Breakdown.Memory == nil {
				continue
			}
			s := phaseScore{scoredVideo: v, Phase: ph.Name, Runs: r.Model, DType: r.DType, Mesh: r.Mesh, PlannedBytes: r.Breakdown.TotalBytes, PlannedAt: r.Breakdown.At}
			if r.Tiles > 0 {
				s.Tile = i + 1
			}
			if run.Phase == phases.Denoise {
				s.Programs, err = digestStep(m, asked)
			} else if axes, e := mesh.Parse(r.Mesh); e != nil {
				err = e
			} else {
				s.Programs, err = digestRun(run, asked, axes)
			}
			if err != nil {
				return nil, err
			}
			out = append(out, s)
		}
	}
	return out, nil
}

// take fills in the compiler's figures of an earlier score of the same run.
func (p *phaseScore) take(before []phaseScore) bool {
	i := slices.IndexFunc(before, func(b phaseScore) bool {
		return b.scoredVideo == p.scoredVideo && b.Phase == p.Phase && b.Runs == p.Runs && b.DType == p.DType && b.Mesh == p.Mesh && b.Tile == p.Tile && b.Programs == p.Programs
	})
	if i < 0 {
		return false
	}
	b := before[i]
	p.Compiler, p.CompileSeconds, p.WeightBytes, p.CompiledBytes, p.CompiledAt = b.Compiler, b.CompileSeconds, b.WeightBytes, b.CompiledBytes, b.CompiledAt
	return true
}

// scoreVideo compiles the named phases of a video, but for those that an earlier score has. A run
// that nothing compiled has no compiled bytes.
func scoreVideo(ctx context.Context, v scoredVideo, before []phaseScore, named []string) ([]phaseScore, error) {
	m, r, p, err := v.plan(ctx)
	if err != nil {
		return nil, err
	}
	list, err := plannedPhases(v, m, r, p)
	if err != nil {
		return nil, err
	}
	missing := false
	for i := range list {
		missing = !list[i].take(before) && slices.Contains(named, list[i].Phase) || missing
	}
	if !missing {
		return list, nil
	}
	o := aot.Options{Request: r, Parallel: 1, Progress: func(program string, done, total int) {
		fmt.Fprintf(os.Stderr, "%s %s: %s, %d of %d\n", v.Model, v.On, program, done, total)
	}}
	c, err := aot.Compile(ctx, m, o)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.CompilePhases(ctx, o, named...); err != nil {
		return nil, err
	}
	for _, ph := range c.Report.Phases {
		for i, run := range ph.Runs {
			at := slices.IndexFunc(list, func(s phaseScore) bool {
				return s.Phase == ph.Name && s.Runs == run.Model && s.DType == run.DType && (s.Tile == 0 || s.Tile == i+1)
			})
			if at < 0 || len(run.Programs) == 0 {
				continue
			}
			s := &list[at]
			s.Compiler, s.CompileSeconds, s.WeightBytes = c.Report.Compiler, run.CompileSeconds, run.ResidentWeightBytes
			s.CompiledBytes, s.CompiledAt = run.Bytes(), run.At
		}
	}
	return list, nil
}

// scorePhases scores every video, and compiles the named phases of those whose model and slice have
// the text only, where the score lacks one.
func (s *planScore) scorePhases(ctx context.Context, only string, named []string, save func() error) error {
	before := s.Phases
	s.Phases, s.NotCompiled = nil, nil
	for _, v := range scoredVideos() {
		compile := named
		if !strings.Contains(v.Model+" "+v.On, only) {
			compile = nil
		}
		list, err := scoreVideo(ctx, v, before, compile)
		if err != nil {
			return fmt.Errorf("%v: %w", v, err)
		}
		for _, p := range list {
			if p.CompiledBytes == 0 {
				s.NotCompiled = append(s.NotCompiled, fmt.Sprintf("%s of %s (%s, %s)", p.Phase, p.Runs, p.Model, p.On))
				continue
			}
			s.Phases = append(s.Phases, p)
			fmt.Fprintf(os.Stderr, "%s %s: %s of %s on %s: total %+.1f %%, without weights %+.1f %%\n", v.Model, v.On, p.Phase, p.Runs, p.Mesh, 100*p.total(), 100*p.rest())
		}
		if len(compile) == 0 {
			continue
		}
		if err := save(); err != nil {
			return err
		}
	}
	return save()
}

// markdownPhases tells how every phase's memory agrees.
func (s planScore) markdownPhases(say func(string, ...any)) {
	if len(s.Phases) == 0 {
		return
	}
	say("\n## Memory of every phase, beside libtpu's\n")
	say("Every program of every phase of a video, compiled for two slices as `weft compile --phases` does, with the split that `weft plan` puts first. bf16, and f32")
	say("for autoencoders; one video, at the size of a thumbnail, since libtpu takes many minutes for a program of convolutions on whole pictures.\n")
	var names []string
	for _, p := range s.Phases {
		if !slices.Contains(names, p.Phase) {
			names = append(names, p.Phase)
		}
	}
	for _, name := range append(names, "all") {
		var total, rest []float64
		for _, p := range s.Phases {
			if name == "all" || p.Phase == name {
				total, rest = append(total, p.total()), append(rest, p.rest())
			}
		}
		tm, tw := middle(total)
		rm, rw := middle(rest)
		say("- %s, %d runs: total median %.1f %%, worst %.1f %%; without weights median %.1f %%, worst %.1f %%", name, len(total), 100*tm, 100*tw, 100*rm, 100*rw)
	}
	n := len(s.NotCompiled)
	say("- %d of %d runs are compiled", len(s.Phases), len(s.Phases)+n)
	if n > 0 {
		say("\nNot compiled yet: %s.", strings.Join(s.NotCompiled, "; "))
	}
	say("\n| video of | size | frames | slice | phase | model | mesh | compiled, GB | planned, GB | error | without weights | planned | error |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|")
	gb := func(n int64) string { return fmt.Sprintf("%.2f", float64(n)/1e9) }
	for _, p := range s.Phases {
		say("| %s | %s | %d | %s | %s | %s | %s | %s | %s | %+.1f %% | %s | %s | %+.1f %% |", p.Model, p.Size, p.Frames, p.On, p.Phase, p.Runs, strings.ReplaceAll(p.Mesh, ",", " "),
			gb(p.CompiledBytes), gb(p.PlannedBytes), 100*p.total(), gb(p.CompiledBytes-p.WeightBytes), gb(p.PlannedBytes-p.WeightBytes), 100*p.rest())
	}
}
