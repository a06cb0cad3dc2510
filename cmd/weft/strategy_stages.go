package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"weft/fault"
	"weft/strategy"
)

type stagesFlags struct {
	layers, stages, micro, chunks int
	embed, head                   float64
	schedule                      string
}

type stagesDoc struct {
	Even     []int     `json:"even"`     // layers of each stage
	Balanced []int     `json:"balanced"` // the same, by cost
	Costs    twoCosts  `json:"costs"`    // of each stage
	Chunks   twoChunks `json:"chunks"`   // layers of each stage's chunks

	Kind        string     `json:"kind"`
	Micro       int        `json:"micro"`
	BubbleShare float64    `json:"bubble_share"`
	Overhead    float64    `json:"overhead"`
	Makespan    float64    `json:"makespan"` // a stage's forward takes 1, its backward 2
	Live        []int      `json:"live"`
	Costed      twoSpans   `json:"costed_makespan"` // a layer's forward takes 1, its backward 2
	Schedule    [][]string `json:"schedule"`
}

type twoCosts struct {
	Even     []float64 `json:"even"`
	Balanced []float64 `json:"balanced"`
}

type twoChunks struct {
	Even     [][]int `json:"even"`
	Balanced [][]int `json:"balanced"`
}

type twoSpans struct {
	Even     float64 `json:"even"`
	Balanced float64 `json:"balanced"`
}

func (a *app) strategyStages() *cobra.Command {
	var f stagesFlags
	c := &cobra.Command{
		Use:   "stages --layers N --stages P",
		Short: "Which layers each stage of a pipeline holds, and its schedule",
		Long: `stages assigns layers in two ways. even: the same number each, the remainder
one each to the first stages, as people know it. balanced: the smallest largest
cost of a stage, then the largest smallest, then the fewest activations alive
under 1F1B; --embed and --head are what comes before and after the layers, in
layers.

The schedule lists each stage's work in order: F3 is the forward of microbatch
3, B3 its backward, F3.1 that of its second chunk. The bubble share is the
share of the step in which a stage stands idle; the overhead is how much longer
the step is than the work of one stage. The makespan counts 1 for a stage's
forward and 2 for its backward. With --chunks above 1, 1f1b is interleaved;
forward is inference.`,
		Example: `  weft strategy stages --layers 30 --stages 4
  weft strategy stages --layers 30 --stages 4 --embed 1 --head 1 --micro 8 \
    --schedule 1f1b --chunks 1
  weft strategy stages --layers 40 --stages 4 --schedule interleaved --chunks 2`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			doc, err := f.planStages()
			if err != nil {
				return err
			}
			return a.printResult(doc, func() { a.showStages(doc, f) })
		},
	}
	fl := c.Flags()
	fl.IntVar(&f.layers, "layers", 0, "layers of the model")
	fl.IntVar(&f.stages, "stages", 0, "stages of the pipeline")
	finiteFlag(c, &f.embed, "embed", 0, "cost before the layers, a layer being 1")
	finiteFlag(c, &f.head, "head", 0, "cost after the layers, a layer being 1")
	fl.IntVar(&f.micro, "micro", 8, "microbatches of a step")
	fl.StringVar(&f.schedule, "schedule", "1f1b", "gpipe, 1f1b, interleaved or forward")
	fl.IntVar(&f.chunks, "chunks", 1, "chunks of layers a stage holds")
	must(c.MarkFlagRequired("layers"))
	must(c.MarkFlagRequired("stages"))
	completeFlag(c, "schedule", "gpipe", "1f1b", "interleaved", "forward")
	return c
}

// planStages assigns the layers to stages in both ways, and makes the schedule.
func (f stagesFlags) planStages() (*stagesDoc, error) {
	kind := strategy.Kind(f.schedule)
	if kind == strategy.OneF1B && f.chunks > 1 {
		kind = strategy.Interleaved
	}
	costs := strategy.Costs{Embed: f.embed, Head: f.head}
	var l fault.List
	virtual := f.stages // each stage holds virtual stages i, stages+i, ...
	if f.chunks > 1 && f.stages > 0 && f.stages <= f.layers {
		if most := f.layers / f.stages; f.chunks > most {
			l.Add(usageError("--chunks %d of %d stages need a layer each, and there are %d layers; at most %d chunks", f.chunks, f.stages, f.layers, most))
		} else {
			virtual = f.stages * f.chunks
		}
	}
	even, err := strategy.Even(f.layers, virtual)
	l.Add(err)
	var balanced strategy.Stages
	if err == nil {
		balanced, err = strategy.Balanced(f.layers, virtual, max(1, f.micro), costs)
		l.Add(err)
	}
	schedule, err := strategy.Schedule(kind, max(1, f.stages), f.micro, f.chunks)
	l.Add(err)
	if err := l.Err(); err != nil {
		return nil, err
	}
	doc := &stagesDoc{Kind: string(kind), Micro: f.micro, Live: strategy.Live(schedule),
		BubbleShare: strategy.BubbleShare(f.stages, f.micro, f.chunks), Overhead: strategy.Overhead(f.stages, f.micro, f.chunks)}
	backward := 2.0
	if kind == strategy.Forward {
		backward = 0
	}
	doc.Makespan = strategy.Makespan(f.stages, f.micro, f.chunks, 1, backward)
	doc.Even, doc.Chunks.Even, doc.Costs.Even = f.perStage(even, costs)
	doc.Balanced, doc.Chunks.Balanced, doc.Costs.Balanced = f.perStage(balanced, costs)
	if doc.Costed.Even, err = f.costedMakespan(schedule, costs.Of(even)); err != nil {
		return nil, err
	}
	if doc.Costed.Balanced, err = f.costedMakespan(schedule, costs.Of(balanced)); err != nil {
		return nil, err
	}
	for _, actions := range schedule {
		line := make([]string, len(actions))
		for i, act := range actions {
			line[i] = act.String()
		}
		doc.Schedule = append(doc.Schedule, line)
	}
	return doc, nil
}

// perStage adds up, for each stage, the layers and costs of the virtual stages that it
// holds.
func (f stagesFlags) perStage(s strategy.Stages, c strategy.Costs) (counts []int, chunks [][]int, costs []float64) {
	counts, chunks, costs = make([]int, f.stages), make([][]int, f.stages), make([]float64, f.stages)
	of := c.Of(s)
	for v, n := range s.Counts() {
		i := v % f.stages
		counts[i] += n
		costs[i] += of[v]
		chunks[i] = append(chunks[i], n)
	}
	return counts, chunks, costs
}

// costedMakespan returns the makespan of a schedule in which virtual stage i costs
// costs[i] forward and twice that backward.
func (f stagesFlags) costedMakespan(schedule [][]strategy.Action, costs []float64) (float64, error) {
	run, err := strategy.Simulate(schedule, func(stage int, a strategy.Action) float64 {
		cost := costs[a.Chunk*f.stages+stage]
		if a.Backward {
			cost *= 2
		}
		return cost
	})
	return run.Makespan(), err
}

func (a *app) showStages(doc *stagesDoc, f stagesFlags) {
	a.say("%d layers over %d stages, embed %g, head %g", f.layers, f.stages, f.embed, f.head)
	a.say("%-9s %8s %8s %10s %8s %6s", "", "even", "cost", "balanced", "cost", "live")
	for i := range doc.Even {
		a.say("%-9s %8d %8s %10d %8s %6d", fmt.Sprintf("stage %d", i), doc.Even[i], numberText(doc.Costs.Even[i]), doc.Balanced[i], numberText(doc.Costs.Balanced[i]), doc.Live[i])
	}
	a.say("")
	work := "a stage's forward 1 and its backward 2"
	if doc.Kind == string(strategy.Forward) {
		work = "a stage's forward 1"
	}
	a.say("schedule         %s, microbatches %d, chunks a stage %d", doc.Kind, doc.Micro, len(doc.Chunks.Even[0]))
	a.say("bubble share     %s of the step", numberText(doc.BubbleShare))
	a.say("overhead         %s over the work of one stage", numberText(doc.Overhead))
	a.say("makespan         %s with %s", numberText(doc.Makespan), work)
	a.say("                 %s even and %s balanced with a layer's forward 1", numberText(doc.Costed.Even), numberText(doc.Costed.Balanced))
	a.say("")
	width := len(fmt.Sprintf("stage %d  ", len(doc.Schedule)-1))
	for i, line := range doc.Schedule {
		a.sayWrapped(padRight(fmt.Sprintf("stage %d", i), width), line)
	}
}

// numberText formats a number with at most six digits and no trailing zeros.
func numberText(x float64) string { return strconv.FormatFloat(x, 'g', 6, 64) }
