package weft

import (
	"fmt"

	"weft/models"
	"weft/nonfinite"
	"weft/tensor"
)

// runFeed is what a run computes on: inputs in the names of the model, or one input that comes
// frame by frame.
type runFeed struct {
	inputs map[string]*tensor.Tensor

	input  string
	shape  []int
	frames FrameSource
}

// start gives a run with the inputs fed: the one that prepare makes for their request. The inputs
// are looked at before that.
func (f runFeed) start(m *Model, allowNonFinite bool, prepare func(models.Request) (*Run, error)) (*Run, error) {
	req, err := f.request(m)
	if err != nil {
		return nil, err
	}
	odd := nonfinite.Checker{Allow: allowNonFinite}
	if err := odd.CheckTensors("input", nil, f.inputs); err != nil {
		return nil, err
	}
	r, err := prepare(req)
	if err != nil {
		return nil, err
	}
	r.odd.Notes = odd.Notes
	if f.input != "" {
		err = r.feedFrames(f.frames)
	} else {
		err = r.feedInputs(f.inputs)
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (f runFeed) request(m *Model) (models.Request, error) {
	if f.input != "" {
		return m.framesRequest(f.input, f.shape)
	}
	return m.Request(f.inputs)
}

// feedInputs cuts the inputs into microbatches, and turns each of these into inputs of
// the graph.
func (r *Run) feedInputs(inputs map[string]*tensor.Tensor) error {
	n := r.req.Batch
	for i := range r.micro {
		part := map[string]*tensor.Tensor{}
		for name, t := range inputs {
			part[name] = t
			if len(t.Shape) > 0 && t.Shape[0] == n*r.micro {
				part[name] = t.Rows(i*n, (i+1)*n)
			}
		}
		in, err := r.model.Feed(r.g, r.req, part)
		if err != nil {
			return err
		}
		r.lanes, r.inputs = append(r.lanes, fmt.Sprint("micro ", i)), append(r.inputs, in)
	}
	return nil
}
