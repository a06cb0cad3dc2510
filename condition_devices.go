package weft

import (
	"context"

	"weft/models"
	"weft/pipeline/conditions"
	"weft/tensor"
)

// ConditionDevices are the devices that one model of a pipeline's image phase runs on, as its
// Options say. The weights are loaded by each call and freed at its end.
type ConditionDevices struct {
	Model   *Model
	Options Options
	// Report is that of the last call.
	Report Report
}

// Part is the model with these devices, as package conditions takes it.
func (d *ConditionDevices) Part() *conditions.Part {
	return &conditions.Part{Model: d.Model.Model, Devices: d}
}

// CheckSplit reports every reason why the devices cannot run a request.
func (d *ConditionDevices) CheckSplit(req models.Request) error {
	_, _, _, err := d.Model.applyOptions(req, d.Options)
	return err
}

// Forward runs one step on inputs in the names of the model.
func (d *ConditionDevices) Forward(ctx context.Context, inputs map[string]*tensor.Tensor) (map[string]*tensor.Tensor, error) {
	r, err := d.Model.Start(ctx, inputs, d.Options)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	out, err := r.Forward(ctx)
	d.Report = r.Report()
	return out, err
}

// Stream runs one step on an input that comes by frames, and hands each part of an output over
// as soon as it is computed.
func (d *ConditionDevices) Stream(ctx context.Context, input string, shape []int, frames conditions.FrameSource, visit conditions.Visit) error {
	r, err := d.Model.StartFrames(ctx, input, shape, FrameSource(frames), d.Options)
	if err != nil {
		return err
	}
	defer r.Close()
	err = r.Stream(ctx, visit)
	d.Report = r.Report()
	return err
}

var _ conditions.Devices = (*ConditionDevices)(nil)
