package main

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"weft/graph"
	"weft/mesh"
	"weft/models"
	"weft/phases"
	"weft/program/stablehlo"
	"weft/request"
	"weft/targets"
)

// digestPrograms tells the programs of a graph apart from others: a compiler's figures hold for
// these alone.
func digestPrograms(g *graph.Graph) string {
	h := sha256.New()
	for _, name := range g.ProgramNames() {
		fmt.Fprintf(h, "%s\n%s\n", name, stablehlo.Text(g.Programs[name]))
	}
	return fmt.Sprintf("%x", h.Sum(nil))[:16]
}

// digestStep is that of a model's step as a request has it, on a mesh in plain order.
func digestStep(m models.Model, r request.Request) (string, error) {
	step, _, err := r.OfVideo(m)
	if err != nil {
		return "", err
	}
	step.FSDP, step.Target = r.FSDP, r.Adapt(targets.For(r.On.Slice))
	return digestOn(m, step, r.Mesh)
}

// digestRun is that of a model beside the transformer on a mesh that a plan names.
func digestRun(run phases.Run, r request.Request, axes []mesh.Axis) (string, error) {
	req := run.Request
	req.Target = run.Target(r.Adapt(targets.For(r.On.Slice)))
	return digestOn(run.Model, req, axes)
}

func digestOn(m models.Model, r models.Request, axes []mesh.Axis) (string, error) {
	on, err := mesh.Local(mesh.Standard(slices.Clone(axes))...)
	if err != nil {
		return "", err
	}
	g, err := m.Graph(on, r)
	if err != nil {
		return "", err
	}
	return digestPrograms(g), nil
}
