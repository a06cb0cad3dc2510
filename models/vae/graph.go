package vae

import (
	"fmt"
	"strconv"
	"strings"

	"weft/dtype"
	"weft/graph"
	"weft/internal/numbers"
	"weft/mesh"
	"weft/models"
	"weft/models/step"
	"weft/sharding"
	"weft/strategy"
)

// splitDim is a dim of the pictures and the mesh axis over which it is sharded.
type splitDim struct {
	what, axis string
	size       int // in latents
}

// splitDims are the two dims of the pictures that are sharded: rows over sp, columns over
// tp.
func splitDims(latent []int) [2]splitDim {
	return [2]splitDim{{"latent rows", strategy.Axis(strategy.Rows), latent[2]}, {"latent columns", strategy.Axis(strategy.Columns), latent[3]}}
}

// Layout says how the tensors of a request are sharded over a mesh.
type Layout struct {
	Frames     int           // latent
	Rows, Cols int           // of latents
	Padded     [2]int        // rows and columns on the mesh: multiples of sp and tp
	Pictures   sharding.Spec // (B, T, H, W, C)
	Batch      sharding.Spec
}

func layOut(on *mesh.Mesh, latent []int) Layout {
	l := Layout{Frames: latent[1], Rows: latent[2], Cols: latent[3],
		Pictures: strategy.SpecOf(strategy.Batch, strategy.None, strategy.Rows, strategy.Columns), Batch: strategy.SpecOf(strategy.Batch)}
	for i, d := range splitDims(latent) {
		l.Padded[i] = numbers.RoundUp(d.size, on.Size(d.axis))
	}
	return l
}

// Build is one graph under construction.
//
// Shapes: B batch, T frames, H rows and W columns padded so that the sharded dims divide, C
// channels. Channels come last, because convolutions on CPU and TPU want them so.
type Build struct {
	*step.Step
	Layout Layout
	// First says whether the programs under construction are those of the first
	// frame, or the first frames, or those of the later ones.
	First bool
}

// New starts the graph of a request, which must have passed Check, and notes padding.
func New(m step.Parameters, on *mesh.Mesh, r models.Request) (*Build, error) {
	base, err := step.New(m, on, r)
	if err != nil {
		return nil, err
	}
	s := &Build{Step: base, Layout: layOut(on, r.Latent)}
	for i, d := range splitDims(r.Latent) {
		if p := s.Layout.Padded[i]; p > d.size {
			s.Note("%d %s padded by %d to %d for %s=%d; padding is zeros to every kernel and is cut off again", d.size, d.what, p-d.size, p, d.axis, on.Size(d.axis))
		}
	}
	return s, nil
}

// SplitsPictures says whether several devices share a picture.
func (s *Build) SplitsPictures() bool {
	return s.Mesh.Size(strategy.Axes(strategy.Rows, strategy.Columns)...) > 1
}

// Port names the input or output of a program that is bound to the frame of a value that lies
// by so many frames from the call's own.
func Port(value string, offset int) string { return fmt.Sprintf("%s@%+d", value, offset) }

// FrameName is the name of one frame of a value in the graph.
func FrameName(value string, frame int) string { return fmt.Sprintf("%s.%d", value, frame) }

// FrameInputs declares an input of the model (B, C, T, H, W) as an input of the graph for each
// frame, and as the input of programs that read one frame.
func (s *Build) FrameInputs(name string, channels, frames, rows, cols int) {
	shape := []int{s.Request.Batch, channels, 1, rows, cols}
	for t := range frames {
		s.Graph.Inputs = append(s.Graph.Inputs, graph.Input{Name: FrameName(name, t), DType: dtype.F32, Shape: shape, Spec: s.Layout.Batch, Step: true, Of: name, Frame: t})
	}
	s.Value(Port(name, 0), step.Value{DType: dtype.F32, Shape: shape, Spec: s.Layout.Batch})
}

// FramePorts declares the ports of programs that read so many frames of such an input at once.
func (s *Build) FramePorts(name string, channels, frames, rows, cols int) {
	for t := range frames {
		s.Value(Port(name, t), step.Value{DType: dtype.F32, Shape: []int{s.Request.Batch, channels, 1, rows, cols}, Spec: s.Layout.Batch})
	}
}

// OutputFrames makes the frames of a value an output of the graph under each of the names.
// shape is (channels, frames, height, width) of the output.
func (s *Build) OutputFrames(value string, frames int, shape []int, names ...string) {
	values := make([]string, frames)
	for t := range values {
		values[t] = FrameName(value, t)
	}
	s.OutputValues(values, shape, names...)
}

// OutputValues makes values, which follow one another along dim 2, an output of the graph under
// each of the names.
func (s *Build) OutputValues(values []string, shape []int, names ...string) {
	o := graph.Output{Value: values[0], Then: values[1:], Dim: 2, Shape: append([]int{s.Request.Batch}, shape...)}
	for _, o.Name = range names {
		s.Graph.Outputs = append(s.Graph.Outputs, o)
	}
}

// ofTheFirstFrame ends the names of the first frame's programs.
const ofTheFirstFrame = " of the first frame"

// ProgramName tells the names of the first frame's programs from those of the later
// ones.
func (s *Build) ProgramName(stage string) string {
	if s.First {
		return stage + ofTheFirstFrame
	}
	return stage
}

// Call is a call of a program for one frame, or for a few that are computed together.
type Call struct {
	Program string
	// Name is for people; "" stands for the program's name and the frame.
	Name  string
	Frame int // the call's own, from which the offsets of ports count
	// Frames has the own frame of values that run at another rate, by name.
	Frames map[string]int
	// Others has the values that ports are bound to whose frames are those of another value.
	Others map[string]string
	Trace  map[string][]int // the shapes of outputs that are traced, by value
}

// AddCall adds a call. A port that is named like a parameter is bound to that parameter,
// V@-1 to the frame before the call's own of the value V, any other to the value of its name.
func (s *Build) AddCall(c Call) {
	p := s.Graph.Programs[c.Program]
	bind := func(name string) (value, frame string) {
		at := strings.LastIndex(name, "@")
		if at < 0 {
			return name, name
		}
		offset, err := strconv.Atoi(name[at+1:])
		if err != nil {
			panic("vae: port " + name)
		}
		value = name[:at]
		own, ok := c.Frames[value]
		if !ok {
			own = c.Frame
		}
		frame = FrameName(value, own+offset)
		if other, ok := c.Others[frame]; ok {
			frame = other
		}
		return value, frame
	}
	name := c.Name
	if name == "" {
		name = fmt.Sprintf("%s, frame %d", strings.TrimSuffix(c.Program, ofTheFirstFrame), c.Frame)
	}
	call := graph.Call{Name: name, Program: c.Program, Trace: map[int]graph.Traced{}}
	for _, in := range p.Inputs {
		if s.Has(in.Name) {
			call.Args = append(call.Args, graph.Ref{Weight: true, Name: in.Name})
			continue
		}
		_, frame := bind(in.Name)
		call.Args = append(call.Args, graph.Ref{Name: frame})
	}
	for i, o := range p.Outputs {
		value, frame := bind(o.Name)
		call.Outs = append(call.Outs, frame)
		if shape, ok := c.Trace[value]; ok {
			call.Trace[i] = graph.Traced{Name: frame, Shape: shape}
		}
	}
	s.Graph.Calls = append(s.Graph.Calls, call)
}
