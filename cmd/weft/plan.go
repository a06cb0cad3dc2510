package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"weft"
	"weft/fault"
	"weft/internal/hostmemory"
	"weft/internal/userfile"
	"weft/lora"
	"weft/models"
	"weft/plan"
	"weft/request"
	"weft/topology"
)

// planFlags are the flags of plan.
type planFlags struct {
	stepFlags
	asserts, prices, explain string
	all, measured            bool
}

// stepFlags are the flags that describe a model's step where no checkpoint is read.
type stepFlags struct {
	requestFlags
	model, release string
}

func (a *app) planCommand() *cobra.Command {
	var f planFlags
	c := &cobra.Command{
		Use:   "plan --model NAME|DIR --size WxH --frames N --on SLICE|all",
		Short: "Will it fit, and which split is best: without the hardware",
		Long: `plan goes over every split of a slice's devices over dp, fsdp, tp and sp, over pp
where one host has them all, over a ring where the heads do not divide over sp
(ulysses=4,ring=2), and over keeping weights in shares along dp and sp, and says of each what a device holds, what its collectives move, and about how
long a step takes; best first. It reads no weights and needs no hardware: the
figures are those of the programs that run.

Where no split fits with all weights on the devices, splits are listed that stream
the weights of some layers from the host (--offload), each with as many layers kept as
fit; a step then takes the longer of computing and of the transfer, layer by layer.

--on all names the smallest slice of every kind that does. --assert judges the
best plan and exits with 1 when it does not hold. GB is 10^9 bytes.

--as vidax plans the peer instead: its program, what its scripts keep resident,
and step times calibrated on rows it published of other families. --prices takes a
file like {"currency": "USD", "chip_hour": {"v5e": 1.2}}, by generation or slice.

--explain says of one figure of the best plan, or of the one that --mesh and --fsdp
name, what made it: the lines of the programs, the rule and the source, largest
first, adding up to the figure.

Encoding the prompts and an image, and decoding the video, are phases of their own,
each on its own mesh of the devices, where weft has the models; memory is the
largest phase's. Times are of all --steps, or of one; they rest on assumed
efficiencies: they rank splits and are no promise.`,
		Example: `  weft plan --model wan2.1-t2v-14b --size 832x480 --frames 81 --on v4-8
  weft plan --model wan2.1-t2v-14b --size 1280x720 --frames 81 --on all
  weft plan --model wan2.1-t2v-1.3b --size 832x480 --frames 81 --on v5e-4 --assert 'hbm<14GB'
  weft plan --model wan2.1-t2v-14b --size 832x480 --frames 81 --on all --steps 50 --prices prices.json
  weft plan --model wan2.1-t2v-14b --size 832x480 --frames 81 --on v4-8 --as vidax
  weft plan --model wan2.1-t2v-14b --size 832x480 --frames 81 --on v4-8 --mesh tp=4 --explain hbm`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// A short life of many small values: collecting them costs more than keeping them.
			defer debug.SetGCPercent(debug.SetGCPercent(800))
			return f.runPlan(cmd.Context(), a)
		},
	}
	f.addFlags(c)
	fl := c.Flags()
	f.addHardware(c, "a TPU slice (v4-8, v5e:2x4), a GPU box (h200x8), cpu:N, or all", func() []string {
		return append([]string{request.All}, topology.SuggestedSlices(topology.TPU, topology.GPUBox, topology.CPU)...)
	})
	f.addMesh(c, "plan this split alone: dp=1,tp=4,sp=1; auto lists all, the best first")
	f.add(c, "weights", "", "type weights are kept in on the devices: bf16, f32 or fp8; default what runs")
	f.addLoRA(c)
	f.add(c, "as", "", "plan another program than weft's: vidax")
	f.add(c, "steps", "", "steps of a video, for what runs once a video and for its price")
	pathFlag(c, &f.prices, "prices", "a JSON `FILE` of what a chip costs an hour")
	f.add(c, "token-times", "", "tokens have timesteps of their own, of two: a given first frame's and the others', as image-to-video with wan2.2-ti2v-5b")
	fl.BoolVar(&f.measured, "measure", false, "with --on cpu:N, run the best plan on this machine too, with weights of zeros")
	fl.BoolVar(&f.all, "all", false, "show the illegal splits too, each with its reason")
	explainFlag(c, &f.explain)
	fl.StringVar(&f.asserts, "assert", "", "bounds on the best plan, with commas between: 'hbm<30GB', 'step<=12s'")
	for _, name := range []string{"model", "size", "frames", "on"} {
		must(c.MarkFlagRequired(name))
	}
	completeFlag(c, "weights", "bf16", "f32", "fp8")
	completeFlag(c, "as", plan.AsVidax)
	return c
}

// addFlags adds the flags that describe a model's step.
func (f *stepFlags) addFlags(c *cobra.Command) {
	pathFlag(c, &f.model, "model", "a model's name, or a folder with config.json")
	f.addVideo(c, "WIDTHxHEIGHT in pixels", "frames of the video")
	f.add(c, "batch", "1", "videos at a time")
	f.addStep(c, "bf16", "keep each weight in shares over these axes: sp, dp,sp, or none; default with and without", "rows of text where config.json does not say (diffusers)")
	f.addCFG(c)
	f.addOffload(c, "where nothing fits without")
	f.addAutoencoder(c)
	releaseFlag(c, &f.release)
	completeFlag(c, "model", models.Presets()...)
}

// maxPrices bounds --prices: a line for every slice is a few kilobytes.
const maxPrices = 1 << 20

// runPlan checks the flags, searches the splits and prints the plans.
func (f *planFlags) runPlan(ctx context.Context, a *app) error {
	var l fault.List
	asserts := []plan.Assertion{}
	if f.asserts != "" {
		var err error
		asserts, err = plan.ParseAssertions(f.asserts)
		l.Add(err)
	}
	r, err := f.parse()
	l.Add(err)
	o := plan.Options{Request: r, Machine: thisMachine()}
	if f.prices != "" {
		if text, err := userfile.Read(f.prices, maxPrices); err != nil {
			l.Add(fault.New(plan.ErrPrices, nil, "prices: %w", err))
		} else {
			o.Prices, err = plan.ReadPrices(text)
			l.Add(err)
		}
	}
	if err := l.Err(); err != nil {
		return err
	}
	m, settings, err := modelOf(f.model, f.release)
	if err != nil {
		return err
	}
	o.Settings = settings
	adapters, err := weft.Adapters(ctx, m, r, settings)
	if err != nil {
		return err
	}
	if f.explain != "" {
		return f.explainPlan(ctx, a, m, o)
	}
	res, err := plan.Search(ctx, m, o)
	if err != nil {
		return err
	}
	doc := planDoc{Document: plan.Document{Result: res}, LoRA: adapters}
	for _, r := range adapters {
		res.Notes = append(res.Notes, r.String()+", which takes no memory of the devices and no time of a step")
	}
	if f.measured && len(res.Plans) > 0 {
		if doc.Measured, err = measureBestPlan(ctx, a, m, o, res); err != nil {
			return err
		}
	}
	doc.Assertions, err = res.Assert(asserts)
	held := err
	err = a.printResult(doc, func() {
		a.printBlock(planText(res, f.all))
		if doc.Measured != nil {
			doc.Measured.sayMeasured(func(format string, args ...any) { a.say(format, args...) })
		}
	})
	if err != nil {
		return err
	}
	if len(res.Plans) == 0 {
		why := "no slice that weft knows does"
		if !o.On.All {
			why = fmt.Sprintf("no split of %s is legal: %s", res.On, res.Refuse[0].Reason)
			if len(res.Refuse) > 1 {
				why = fmt.Sprintf("no split of %s is legal; %d are refused, --all lists them", res.On, len(res.Refuse))
			}
		}
		return fault.New(plan.ErrNoPlan, nil, "%s", why)
	}
	return held
}

// planDoc is the JSON document that plan prints.
type planDoc struct {
	plan.Document
	Measured *planMeasured `json:"measured,omitempty"`
	LoRA     []lora.Report `json:"lora,omitempty"`
}

// thisMachine returns the memory and the cores of this machine, which plans for cpu:N
// are based on.
func thisMachine() plan.Machine {
	return plan.Machine{MemoryBytes: hostmemory.Total(), Cores: runtime.NumCPU()}
}
