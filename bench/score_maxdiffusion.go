package main

import (
	"context"
	"fmt"
	"slices"

	"weft/models"
	"weft/plan"
	"weft/request"
)

// publishedVideo is a time that MaxDiffusion's authors publish: a whole video of 1280x720 pixels
// and 81 frames, with guidance over dp.
type publishedVideo struct {
	On        string  `json:"on"`
	Model     string  `json:"model"`
	Attention string  `json:"attention"` // flash is with keys and values gathered over the axis that splits the tokens
	Steps     int     `json:"steps"`
	Mesh      string  `json:"mesh"`
	Seconds   float64 `json:"seconds"`
}

// maxDiffusionSource is where the times are published.
const maxDiffusionSource = "AI-Hypercomputer/maxdiffusion README.md at 7cfb8801, sections Ring Attention and Ulysses Attention, and pull request 376 for v6e-8"

// publishedVideos are all ten. Of v6e-8 no mesh is published; it is taken to be the others'.
var publishedVideos = []publishedVideo{
	{"tpu7x-8", "wan2.1-t2v-14b", "flash", 50, "dp=2,sp=4", 249.3},
	{"tpu7x-8", "wan2.1-t2v-14b", "ring", 50, "dp=2,sp=4", 252.4},
	{"tpu7x-8", "wan2.2-t2v-a14b", "flash", 40, "dp=2,sp=4", 194.4},
	{"tpu7x-8", "wan2.2-t2v-a14b", "ring", 40, "dp=2,sp=4", 201.7},
	{"tpu7x-16", "wan2.1-t2v-14b", "flash", 50, "dp=2,sp=8", 127.1},
	{"tpu7x-16", "wan2.1-t2v-14b", "ring", 50, "dp=2,sp=8", 137.2},
	{"tpu7x-16", "wan2.2-t2v-a14b", "flash", 40, "dp=2,sp=8", 106.0},
	{"tpu7x-16", "wan2.2-t2v-a14b", "ring", 40, "dp=2,sp=8", 137.5},
	{"v6e-8", "wan2.2-i2v-a14b", "flash", 40, "dp=2,sp=4", 285.6},
	{"v6e-8", "wan2.2-i2v-a14b", "ulysses", 40, "dp=2,sp=4", 251.5},
}

// videoScore is a published time beside the plan of the same video.
type videoScore struct {
	publishedVideo
	// Planned are the seconds of all phases, Step those of a step, and Share the part of the planned
	// speed that the published time reaches.
	Planned float64 `json:"planned_seconds"`
	Step    float64 `json:"planned_step_seconds"`
	Share   float64 `json:"share_of_planned_speed"`
	// Others is the median share of the rows on other slices, and Predicted the seconds with it.
	Others    float64 `json:"share_by_others"`
	Predicted float64 `json:"predicted_seconds"`
}

func (v videoScore) err() float64 { return v.Predicted/v.Seconds - 1 }

// scoreVideos plans each published video, and predicts its time with the share of the planned
// speed that the rows on other slices reach.
func scoreVideos(ctx context.Context) ([]videoScore, error) {
	var out []videoScore
	for _, v := range publishedVideos {
		s := videoScore{publishedVideo: v}
		m, err := models.ByName(v.Model)
		if err != nil {
			return nil, err
		}
		r, err := request.Parse(request.Text{"size": "1280x720", "frames": "81", "on": v.On, "mesh": v.Mesh, "dtype": "bf16", "steps": fmt.Sprint(v.Steps), "vae-dtype": "bf16"})
		if err != nil {
			return nil, err
		}
		found, err := plan.Search(ctx, m, plan.Options{Request: r})
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(found.Plans, func(p plan.Plan) bool { return len(p.FSDP) == 0 })
		if i < 0 {
			return nil, fmt.Errorf("%v: no plan without sharded weights", v)
		}
		p := found.Plans[i]
		s.Step = p.StepSeconds
		for _, ph := range p.Phases {
			if ph.Seconds == nil {
				return nil, fmt.Errorf("%v: %s is not planned", v, ph.Name)
			}
			s.Planned += *ph.Seconds
		}
		s.Share = s.Planned / v.Seconds
		out = append(out, s)
	}
	for i := range out {
		var shares []float64
		for _, o := range out {
			if o.On != out[i].On {
				shares = append(shares, o.Share)
			}
		}
		out[i].Others, _ = middle(shares)
		out[i].Predicted = out[i].Planned / out[i].Others
	}
	return out, nil
}

// markdownVideos tells how the published times agree.
func (s planScore) markdownVideos(say func(string, ...any)) {
	if len(s.Videos) == 0 {
		return
	}
	say("\n## Time of whole videos, beside MaxDiffusion's published ones\n")
	say("Ten times of whole videos, 1280x720, 81 frames, one video, guidance over dp: %s.", maxDiffusionSource)
	say("*Planned* is `weft plan`'s for weft's own programs on the same mesh, all phases: nobody has measured these programs. A published time reaches a *share*")
	say("of that speed. *Predicted* is the planned time over the median share of the rows on the **other** slices, so that no row of a slice speaks for its own")
	say("slice. Of v6e-8 no mesh is published; it is taken to be the others'.\n")
	var errs []float64
	for _, v := range s.Videos {
		errs = append(errs, v.err())
	}
	m, w := middle(errs)
	say("- 10 rows: predicted median error %.0f %%, worst %.0f %%", 100*m, 100*w)
	say("\n| slice | model | attention | steps | published, s | planned, s | a step planned, s | share | by other slices | predicted, s | error |\n|---|---|---|---|---|---|---|---|---|---|---|")
	for _, v := range s.Videos {
		say("| %s | %s | %s | %d | %.1f | %.1f | %.2f | %.2f | %.2f | %.1f | %+.0f %% |", v.On, v.Model, v.Attention, v.Steps, v.Seconds, v.Planned, v.Step, v.Share, v.Others, v.Predicted, 100*v.err())
	}
	say("\nWhy a published time is longer than the planned one: weft's programs hand heads over by all-to-all (Ulysses) where *flash* gathers all keys and values")
	say("and *ring* passes them on; the planned attention is the compiler's figure for weft's kernel without stalls; and the share of the peak rate in large")
	say("matmuls is assumed (`plan/data/efficiency.json`), not measured.")
}
