package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"weft"
	"weft/fault"
	"weft/pipeline"
	"weft/request"
)

func (a *app) verifyCommand() *cobra.Command {
	var f runFlags
	var meshes []string
	var devices int
	var each bool
	c := &cobra.Command{
		Use:   "verify --model DIR",
		Short: "Compare splits of a model with one device",
		Long: `verify runs one step on one device and on every legal mesh of up to 8 devices (or
those named), on random inputs, and names the first value along the way that
differs. Where a model answers bf16's rounding more strongly than the documented
tolerance has it, one device runs in f32 too, and what bf16 moves there is allowed
twice. With --layers it reads only the bytes of those layers. An autoencoder
decodes and encodes.

--phases does so for each phase of a video: text, image, denoise and decode of a
release's folder, or those that a single model has a part in, on inputs of the kind
that generate gives them: text encoders that can do without their table of tokens read
the rows that were looked up.

On a TPU it first runs each attention kernel of those programs beside the blocked
form, on one device. No TPU has run weft yet: do this before anything else there.`,
		Example: `  weft verify --model testdata/wan21_t2v
  weft verify --model Wan2.1-T2V-14B --layers 2 --mesh tp=4 --mesh tp=2,sp=2
  weft verify --model Wan2.1-T2V-14B-Diffusers --layers 2 --phases`,
		Args: cobra.NoArgs,
		RunE: f.withTimeLimit(a, func(cmd *cobra.Command, _ []string) error {
			o := weft.VerifyOptions{Devices: devices, OnMesh: func(text string, done, total int) {
				a.progress.reportProgress("verify "+text, int64(done), int64(total))
			}}
			var l fault.List
			var err error
			o.Options, err = f.runOptions(a)
			l.Add(err)
			for _, text := range splitMeshes(meshes) {
				axes, err := request.ParseMesh(text)
				l.Add(err)
				o.Meshes = append(o.Meshes, axes)
			}
			if devices < 1 || devices > mostVerified {
				l.Add(usageError("--devices %d: want 1 to %d: every legal split is run", devices, mostVerified))
			}
			if err := l.Err(); err != nil {
				return err
			}
			doc, err := verifyModel(cmd.Context(), &f, o, each)
			if err != nil {
				return asUsage(err, request.ErrOptions)
			}
			if err := a.printResult(doc, func() { sayVerified(a.say, doc) }); err != nil {
				return err
			}
			return judgeVerified(doc)
		}),
	}
	f.addFlags(c)
	f.addLoRA(c)
	fl := c.Flags()
	fl.StringArrayVar(&meshes, "mesh", nil, "a mesh to try, e.g. tp=2,sp=2; may be given again (default: every legal one)")
	f.addVideo(c, "video size, e.g. 128x96; a small odd grid by default", "video frames with --size")
	f.text["frames"] = "9"
	f.add(c, "batch", "2", "batch size")
	fl.BoolVar(&each, "phases", false, "compare each phase of a video: text, image, denoise, decode")
	fl.IntVar(&devices, "devices", 8, "try meshes of up to N devices")
	return c
}

// verifyModel compares a model, or with each all phases of a release, with one device.
func verifyModel(ctx context.Context, f *runFlags, o weft.VerifyOptions, each bool) (*weft.Verified, error) {
	if each && pipeline.IsRelease(f.model) {
		p, err := weft.OpenPipeline(f.model, pipeline.OpenOptions{Release: f.release})
		if err != nil {
			return nil, err
		}
		defer p.Close()
		return p.Verify(ctx, o)
	}
	m, err := weft.OpenAs(f.model, f.release)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	if each {
		return m.VerifyPhases(ctx, o)
	}
	return m.Verify(ctx, o)
}

// verifiedPhases lists what was compared by phase; without phases it is one of no name.
func verifiedPhases(doc *weft.Verified) []weft.VerifiedPhase {
	if doc.Phases != nil {
		return doc.Phases
	}
	return []weft.VerifiedPhase{{Results: doc.Results, Kernels: doc.Kernels}}
}

// sayVerified prints a row for each kernel and each mesh that was compared.
func sayVerified(say func(string, ...any), doc *weft.Verified) {
	for i, p := range verifiedPhases(doc) {
		if p.Name != "" {
			if i > 0 {
				say("")
			}
			say("%s: %s", p.Name, p.Model)
		}
		for _, k := range p.Kernels {
			verdict := "as the blocked form"
			if !k.OK {
				verdict = "differs from the blocked form: use --attention blocked"
			}
			say("kernel in %s: %s: max rel %.3g, %s", k.Program, k.Of, k.MaxRelDiff, verdict)
		}
		say("%-24s %12s %12s  %s", "mesh", "max abs", "max rel", "first differing")
		for _, r := range p.Results {
			first := r.FirstDiffering
			if r.OK {
				first = "ok"
			}
			if r.BF16Moves > 0 {
				first += fmt.Sprintf("; bf16 itself moves the output by %.3g", r.BF16Moves)
			}
			say("%-24s %12.3g %12.3g  %s", meshAndRun(r), r.MaxAbsDiff, r.MaxRelDiff, first)
		}
	}
}

// meshAndRun names what was compared: the mesh, and of an autoencoder the direction.
func meshAndRun(r weft.VerifyResult) string { return strings.TrimSpace(r.Mesh + " " + r.Run) }

// judgeVerified reports kernels and meshes that differ. Error: errVerify.
func judgeVerified(doc *weft.Verified) error {
	bad, all, wrong, kernels := []string{}, 0, 0, 0
	for _, p := range verifiedPhases(doc) {
		for _, r := range p.Results {
			all++
			if !r.OK {
				bad = append(bad, strings.TrimSpace(p.Name+" "+meshAndRun(r)))
			}
		}
		for _, k := range p.Kernels {
			kernels++
			if !k.OK {
				wrong++
			}
		}
	}
	if wrong > 0 {
		return fault.New(errVerify, nil, "%d of %d kernels differ from the blocked form", wrong, kernels)
	}
	if len(bad) > 0 {
		return fault.New(errVerify, nil, "%d of %d meshes differ from one device: %s", len(bad), all, strings.Join(bad, "; "))
	}
	return nil
}

// mostVerified bounds --devices: this machine simulates all of them, and each one takes
// memory for everything that a device holds.
const mostVerified = 1024

// splitMeshes lists the meshes of --mesh, which may be repeated or may hold several
// meshes with semicolons between them.
func splitMeshes(texts []string) []string {
	out := []string{}
	for _, t := range texts {
		for _, one := range strings.Split(t, ";") {
			if one = strings.TrimSpace(one); one != "" {
				out = append(out, one)
			}
		}
	}
	return out
}
