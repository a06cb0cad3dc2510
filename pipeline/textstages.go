package pipeline

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"weft/checkpoint"
	"weft/dtype"
	"weft/fault"
	"weft/identify"
	"weft/mesh"
	"weft/models"
	"weft/tensor"
)

// textStage is a model that a text goes through between its encoder and the transformer.
type textStage struct {
	use   models.TextStage
	model *identify.Match
}

// part is what messages and sums call the stage.
func (s *textStage) part() Part { return Part(s.use.Preset) }

// stagesFolder is where diffusers' layout has all stages.
const stagesFolder = "connectors"

// openStages finds and opens the models that a text goes through behind its encoder, which is open.
func (p *Pipeline) openStages(t *textPart, f Files) error {
	t.stages = nil
	var errs fault.List
	for _, use := range t.use.Then {
		s := &textStage{use: use}
		path := p.stagePath(t, use, f)
		p.paths[s.part()] = path
		c, err := checkpoint.Open(path)
		if err == nil {
			if s.model, err = identify.IdentifyPart(c, use.Preset); err != nil {
				c.Close()
			}
		}
		if err != nil {
			errs.Add(fmt.Errorf("%s, which the text goes through, in %s: %w", use.Preset, path, err))
			continue
		}
		t.stages = append(t.stages, s)
	}
	return errs.Err()
}

// stagePath is where a stage's weights lie: in the file that is named, in the folder that diffusers
// has for all stages, or in a publisher's own file of another part.
func (p *Pipeline) stagePath(t *textPart, use models.TextStage, f Files) string {
	switch {
	case f.Connectors != "":
		return f.Connectors
	case p.Layout == Diffusers:
		return filepath.Join(p.Dir, stagesFolder)
	case use.Within == models.WithinTextEncoder:
		return p.paths[t.parts[0]]
	}
	return p.paths[Transformer]
}

// checkStages refuses a stage that does not read the rows that the model before it makes.
func (p *Pipeline) checkStages(t *textPart) error {
	shape, err := t.encoderShape(p.Settings.Count("text_len"))
	if err != nil {
		return nil // the encoder is refused already
	}
	for _, s := range t.stages {
		on, err := meshOfOneDevice()
		if err != nil {
			return err
		}
		g, err := s.model.Graph(on, s.request(1, shape[1]))
		if err != nil {
			return err
		}
		in := g.Input("context")
		if in == nil || in.Shape[len(in.Shape)-1] != shape[len(shape)-1] {
			return p.refusePart(s.part(), s.model, s.use.Preset, "%s reads rows %v, and what comes before it makes rows of %d numbers: they are not of one release",
				s.model.Name(), in, shape[len(shape)-1])
		}
		shape = outputShape(g, s.use.Output)
	}
	return nil
}

// request is that of a stage, for so many texts of so many rows.
func (s *textStage) request(texts, rows int) models.Request {
	return models.Request{Batch: texts, Text: rows, DType: dtype.F32, Masked: slices.Contains(s.model.Inputs(), "context_mask")}
}

// shapeBehind is the shape of what the stages make of rows.
func (t *textPart) shapeBehind(shape []int) ([]int, error) {
	for _, s := range t.stages {
		on, err := meshOfOneDevice()
		if err != nil {
			return nil, err
		}
		g, err := s.model.Graph(on, s.request(1, shape[1]))
		if err != nil {
			return nil, err
		}
		if shape = outputShape(g, s.use.Output); len(shape) < 3 {
			return nil, fault.New(models.ErrInputs, nil, "%s has no output %s", s.model.Name(), s.use.Output)
		}
	}
	return shape, nil
}

// placeStages chooses the mesh of each stage of a text.
func (s *settled) placeStages(d Devices, t *textPart) ([]Placement, error) {
	var errs fault.List
	var out []Placement
	for _, stage := range t.stages {
		place := Placement{DType: s.o.ComputeType()}
		r := stage.request(len(s.texts()), t.use.Length(s.rows))
		var err error
		place.Mesh, err = firstLegal(textMeshes(d.Count()), func(m []mesh.Axis) error {
			return d.CheckSplit(stage.model, r, Placement{Mesh: m, DType: place.DType})
		})
		errs.Add(err)
		out = append(out, place)
	}
	return out, errs.Err()
}

// runStages puts the encoder's rows of each video's texts through the stages, one after another.
func (t *textPart) runStages(ctx context.Context, d Devices, outs []map[string]*tensor.Tensor, batches []textBatch, places []Placement) (Cost, error) {
	var cost Cost
	output := t.use.Output
	for i, s := range t.stages {
		inputs := make([]map[string]*tensor.Tensor, len(outs))
		for v, out := range outs {
			rows := out[output]
			if rows == nil {
				return cost, fault.New(models.ErrOutput, nil, "there is no output %q for %s to read", output, s.model.Name())
			}
			inputs[v] = map[string]*tensor.Tensor{"context": rows}
			if slices.Contains(s.model.Inputs(), "context_mask") {
				_, inputs[v]["context_mask"] = batches[v].tensors()
			}
		}
		made, c, err := d.Forward(ctx, s.model, inputs, places[i])
		cost.addRun(c)
		if err != nil {
			return cost, err
		}
		copy(outs, made)
		output = s.use.Output
	}
	return cost, nil
}

// lastOutput is the output of the last model that a text goes through.
func (t *textPart) lastOutput() string {
	if n := len(t.stages); n > 0 {
		return t.stages[n-1].use.Output
	}
	return t.use.Output
}
