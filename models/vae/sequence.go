package vae

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"weft/graph"
	"weft/models/step"
	"weft/program"
	"weft/spmd"
)

// Sequence is a value of the graph that has frames. They are made in order, each when a call that
// reads it is added: so a frame passes as many layers as it can before the next one is read, and
// the devices hold no more frames than kernels read together.
type Sequence struct {
	Name   string // its frames are Name.0, Name.1 and so on
	Frames int
	Type   step.Value // of one frame
	maker  *frameMaker
}

// frameMaker adds the calls that make the frames of one or more sequences.
type frameMaker struct {
	made int                 // frames that are made
	add  func(frame int) int // adds the call that makes a frame, and returns how many it makes
}

// Given is a sequence of frames that the graph's inputs have.
func (s *Build) Given(name string, frames int) *Sequence {
	in := s.Graph.Input(FrameName(name, 0))
	return &Sequence{Name: name, Frames: frames, Type: step.Value{DType: in.DType, Shape: in.Shape, Spec: in.Spec}, maker: &frameMaker{made: frames}}
}

// Frame returns the name of a frame, and first adds the calls that make it and are not there yet.
// The first frame stands for those before it, and the last one for those behind it: as kernels see
// it that repeat what lies at the ends.
func (q *Sequence) Frame(t int) string {
	t = min(max(t, 0), q.Frames-1)
	for q.maker.made <= t {
		n := q.maker.add(q.maker.made)
		q.maker.made += n
	}
	return FrameName(q.Name, t)
}

// MakeAll adds the calls that make all frames.
func (q *Sequence) MakeAll() {
	for t := range q.Frames {
		q.Frame(t)
	}
}

// Layer is a call for each frame, or for a few frames, of values that it makes. What its programs
// read and make, and Reads does not have, is kept for the calls that follow: frames of such a value
// have the numbers of the frames that are read.
type Layer struct {
	// Title names the calls, for people; "" stands for Name.
	Title string
	// Name begins the names of the values: Name.x. With "" their names are those of the ports.
	Name   string
	Prefix string // of the parameters that its programs name
	Frames int    // that it makes
	// Reads has the sequences that ports with offsets are bound to, by the value of the port.
	Reads map[string]*Sequence
	// Values has the values that other ports are bound to, by the port. A port that it does not have
	// is bound to the parameter of its name behind Prefix or, where there is none, to the value of its
	// name.
	Values map[string]string
	// Call says how a frame is made.
	Call func(frame int) FrameCall
	kept map[string]bool
}

// FrameCall is a call of a layer.
type FrameCall struct {
	Program string
	Own     int // the frame from which the offsets of ports that are read count
	First   int // the frame that offset 0 of ports that are made stands for; frames before 0 are dropped
	Makes   int // how many frames are made that were not there before
}

// EachFrame is the call of a layer that makes one frame for each that it reads.
func EachFrame(program string) func(int) FrameCall {
	return func(frame int) FrameCall { return FrameCall{Program: program, Own: frame, First: frame, Makes: 1} }
}

// EveryOther is the call of a layer that makes one frame for two that it reads; for the first frame
// it reads that frame alone.
func EveryOther(program string) func(int) FrameCall {
	return func(frame int) FrameCall { return FrameCall{Program: program, Own: 2 * frame, First: frame, Makes: 1} }
}

// AddLayer returns the sequences that a layer makes, by the value of its programs' ports. Its
// programs must be defined.
func (s *Build) AddLayer(l Layer) map[string]*Sequence {
	last := s.Graph.Programs[l.Call(l.Frames-1).Program]
	l.kept = l.keptBy(last)
	m := &frameMaker{add: func(frame int) int {
		c := l.Call(frame)
		s.addFrameCall(l, c)
		return c.Makes
	}}
	out := map[string]*Sequence{}
	for _, o := range last.Outputs {
		value, _ := splitPort(o.Name)
		if l.kept[value] {
			continue
		}
		out[value] = &Sequence{Name: l.valueName(value), Frames: l.Frames, Type: step.Value{DType: o.DType, Shape: o.Shape, Spec: o.Spec}, maker: m}
	}
	return out
}

// keptBy is the set of values that a program of the layer reads of earlier calls of the layer.
func (l Layer) keptBy(p *program.Program) map[string]bool {
	kept := map[string]bool{}
	for _, in := range p.Inputs {
		if !strings.Contains(in.Name, "@") {
			continue
		}
		if value, _ := splitPort(in.Name); l.Reads[value] == nil {
			kept[value] = true
		}
	}
	return kept
}

// valueName is the name in the graph of a value that a layer makes.
func (l Layer) valueName(value string) string {
	if l.Name == "" {
		return value
	}
	return l.Name + "." + value
}

// splitPort is the value and the offset that Port made a name of.
func splitPort(port string) (value string, offset int) {
	at := strings.LastIndex(port, "@")
	if at < 0 {
		panic("vae: port " + port + " has no frames")
	}
	offset, err := strconv.Atoi(port[at+1:])
	if err != nil {
		panic("vae: port " + port)
	}
	return port[:at], offset
}

// addFrameCall adds a call of a layer, behind the calls that make what it reads.
func (s *Build) addFrameCall(l Layer, c FrameCall) {
	p := s.Graph.Programs[c.Program]
	call := graph.Call{Name: fmt.Sprintf("%s, frame %d", cmp.Or(l.Title, l.Name, c.Program), max(0, c.First)), Program: c.Program}
	for _, in := range p.Inputs {
		call.Args = append(call.Args, s.bindPort(l, c, in.Name))
	}
	for _, o := range p.Outputs {
		value, offset := splitPort(o.Name)
		at := c.First
		if l.kept[value] {
			at = c.Own
		}
		call.Outs = append(call.Outs, FrameName(l.valueName(value), at+offset))
	}
	s.Graph.Calls = append(s.Graph.Calls, call)
}

// bindPort returns what an input of a layer's program is bound to.
func (s *Build) bindPort(l Layer, c FrameCall, port string) graph.Ref {
	if !strings.Contains(port, "@") {
		if value, ok := l.Values[port]; ok {
			return graph.Ref{Name: value}
		}
		if name := l.Prefix + port; s.Has(name) {
			return graph.Ref{Weight: true, Name: name}
		}
		return graph.Ref{Name: port}
	}
	value, offset := splitPort(port)
	if from := l.Reads[value]; from != nil {
		return graph.Ref{Name: from.Frame(c.Own + offset)}
	}
	return graph.Ref{Name: FrameName(l.valueName(value), max(0, c.Own+offset))} // kept
}

// Window reads frames of a sequence, one after another: (B, T, H, W, C). The offsets count from the
// call's own frame, and value is the name of the ports.
func (p *Program) Window(value string, of *Sequence, offsets ...int) spmd.Tensor {
	parts := make([]spmd.Tensor, len(offsets))
	for i, offset := range offsets {
		p.Graph.Value(Port(value, offset), of.Type)
		parts[i] = p.Value(Port(value, offset))
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return p.Concat(1, parts...)
}
