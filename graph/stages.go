package graph

import (
	"fmt"

	"weft/mesh"
	"weft/program"
)

// StageMoments says, for each call of a graph with a pipeline, what values a device of the call's
// stage holds of one lane as the call begins. A value that another stage made is there in a copy
// from the first call that reads it until its last use, wherever that is. Weights are left out:
// WeightMemory has them by device. Error: that of Spec.Local.
func (g *Graph) StageMoments() ([]Moment, error) {
	w := stageWalk{g: g, held: make([]map[string]int64, g.Stages()), request: map[string]bool{}}
	for i := range w.held {
		w.held[i] = map[string]int64{}
	}
	if err := w.placeInputs(); err != nil {
		return nil, err
	}
	moments, last := make([]Moment, len(g.Calls)), g.LastUse()
	for i, c := range g.Calls {
		moments[i] = w.beginCall(c)
		for k, o := range g.Programs[c.Program].Outputs {
			if o.Donor >= 0 {
				delete(w.held[c.Stage], c.Args[o.Donor].Name)
			}
			w.held[c.Stage][c.Outs[k]] = program.Type{DType: o.DType, Shape: o.Local}.Bytes()
			w.request[c.Outs[k]] = c.Request
		}
		for _, name := range last[i] {
			if !g.isOutput(name) {
				w.drop(name)
			}
		}
	}
	return moments, nil
}

// stageWalk follows the calls of a graph over its stages.
type stageWalk struct {
	g       *Graph
	held    []map[string]int64 // by stage: values with their bytes on a device
	request map[string]bool    // by value: it stays for the whole request
}

// placeInputs puts each input on the stage that reads it first.
func (w *stageWalk) placeInputs() error {
	homes, stage := w.g.Homes(), w.g.StageOf()
	for _, in := range w.g.Inputs {
		home := homes[in.Name]
		if home == nil {
			continue // no call reads it
		}
		n, err := localBytes(in, home)
		if err != nil {
			return fmt.Errorf("%s: %w", in.Name, err)
		}
		w.held[stage[in.Name]][in.Name], w.request[in.Name] = n, !in.Step
	}
	return nil
}

// beginCall brings the values that a call reads to its stage, and adds up what is there.
func (w *stageWalk) beginCall(c Call) (m Moment) {
	for i, r := range c.Args {
		if _, here := w.held[c.Stage][r.Name]; r.Weight || here {
			continue
		}
		in := w.g.Programs[c.Program].Inputs[i]
		w.held[c.Stage][r.Name] = program.Type{DType: in.DType, Shape: in.Local}.Bytes()
	}
	for name, n := range w.held[c.Stage] {
		if w.request[name] {
			m.Kept += n
		} else {
			m.Alive += n
		}
	}
	return m
}

// drop frees a value on every stage.
func (w *stageWalk) drop(name string) {
	for _, held := range w.held {
		delete(held, name)
	}
}

// localBytes is the size of an input on one device.
func localBytes(in Input, on *mesh.Mesh) (int64, error) {
	local, err := in.Spec.Local(on, in.Shape)
	if err != nil {
		return 0, err
	}
	return program.Type{DType: in.DType, Shape: local}.Bytes(), nil
}
