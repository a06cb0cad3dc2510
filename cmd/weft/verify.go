package main

import (
	"strings"

	"github.com/spf13/cobra"

	"weft"
	"weft/fault"
	"weft/request"
)

func (a *app) verifyCommand() *cobra.Command {
	var f runFlags
	var meshes []string
	var devices int
	c := &cobra.Command{
		Use:   "verify --model DIR",
		Short: "Compare splits of a model with one device",
		Long: `verify runs one step on one device and on every legal mesh of up to 8 devices (or
those named), on random inputs, and names the first value along the way that
differs. With --layers it reads only the bytes of those layers.

On a TPU it first runs each attention kernel of those programs beside the blocked
form, on one device. No TPU has run weft yet: do this before anything else there.`,
		Example: `  weft verify --model testdata/wan21_t2v
  weft verify --model Wan2.1-T2V-14B --layers 2 --mesh tp=4 --mesh tp=2,sp=2`,
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
			m, err := weft.OpenAs(f.model, f.release)
			if err != nil {
				return err
			}
			defer m.Close()
			doc, err := m.Verify(cmd.Context(), o)
			if err != nil {
				return asUsage(err, request.ErrOptions)
			}
			results, kernels := doc.Results, doc.Kernels
			bad, wrong := []string{}, 0
			for _, r := range results {
				if !r.OK {
					bad = append(bad, r.Mesh)
				}
			}
			for _, k := range kernels {
				if !k.OK {
					wrong++
				}
			}
			if err := a.printResult(doc, func() {
				for _, k := range kernels {
					verdict := "as the blocked form"
					if !k.OK {
						verdict = "differs from the blocked form: use --attention blocked"
					}
					a.say("kernel in %s: %s: max rel %.3g, %s", k.Program, k.Of, k.MaxRelDiff, verdict)
				}
				a.say("%-24s %12s %12s  %s", "mesh", "max abs", "max rel", "first differing")
				for _, r := range results {
					first := r.FirstDiffering
					if r.OK {
						first = "ok"
					}
					a.say("%-24s %12.3g %12.3g  %s", r.Mesh, r.MaxAbsDiff, r.MaxRelDiff, first)
				}
			}); err != nil {
				return err
			}
			if wrong > 0 {
				return fault.New(errVerify, nil, "%d of %d kernels differ from the blocked form", wrong, len(kernels))
			}
			if len(bad) > 0 {
				return fault.New(errVerify, nil, "%d of %d meshes differ from one device: %s", len(bad), len(results), strings.Join(bad, "; "))
			}
			return nil
		}),
	}
	f.addFlags(c)
	fl := c.Flags()
	fl.StringArrayVar(&meshes, "mesh", nil, "a mesh to try, e.g. tp=2,sp=2; may be given again (default: every legal one)")
	f.addVideo(c, "video size, e.g. 128x96; a small odd grid by default", "video frames with --size")
	f.text["frames"] = "9"
	f.add(c, "batch", "2", "batch size")
	fl.IntVar(&devices, "devices", 8, "try meshes of up to N devices")
	return c
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
