package plan

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"weft/fault"
	"weft/mesh"
	"weft/models"
	"weft/sharding"
	"weft/topology"
)

// Explanation says of one figure of a plan what it is made of, the largest part first. The
// parts add up to the figure: Value, Sum and the plan's own figure are one number.
type Explanation struct {
	Figure string  `json:"figure"` // as the JSON of plans calls it: "hbm_bytes_per_device"
	Value  float64 `json:"value"`  // whole below 2^53
	Unit   string  `json:"unit"`   // bytes, seconds or flops
	// Of says which moment or which runs the figure counts: "a device at its fullest, ...".
	Of    string `json:"of"`
	Model string `json:"model"`
	Slice string `json:"slice"`
	Split Chosen `json:"split"`
	// Padding says what the split pads, in words, as the plan does.
	Padding []string `json:"padding"`
	Parts   []Part   `json:"parts"`
	Sum     float64  `json:"sum"` // of the parts' values, added in their order
}

// Chosen is the split that is explained.
type Chosen struct {
	Mesh string   `json:"mesh"`
	FSDP []string `json:"fsdp"` // axes over which the weights are sharded
	// BestOf is the number of legal splits that were compared; 1 where one alone was asked for.
	BestOf int `json:"best_of"`
}

// Part is an amount that a figure is made of.
type Part struct {
	Value float64 `json:"value"`
	Share float64 `json:"share"` // of the figure; 0 where that is 0
	// Kind is, of memory, the kind that plans count it as: weights, residual, attention,
	// gathered or temp.
	Kind string `json:"kind,omitempty"`
	// Program is the program that the amount comes from, and Calls how often it runs in
	// what the figure counts. Of a weight or value, Calls is the number of its kind that are
	// held.
	Program string `json:"program"`
	Calls   int    `json:"calls"`
	// Line is the number of the instruction's line in the program's listing, from 1; 0 where
	// the part is of no instruction.
	Line int    `json:"line"`
	Op   string `json:"op"` // the operation; of memory also weight, input or value
	// What is the instruction as the listing has it, or the name of a weight, input or value.
	What string `json:"what"`
	// Reads names the program's inputs that the instruction reads as they are, converted,
	// reshaped or gathered: which weight a matmul multiplies by.
	Reads []string `json:"reads,omitempty"`
	// Shape is the whole shape of a weight, input or value, Local what one device holds of
	// it, and Spec how it is sharded.
	DType string         `json:"dtype,omitempty"`
	Shape []int          `json:"shape,omitempty"`
	Local []int          `json:"local,omitempty"`
	Spec  *sharding.Spec `json:"spec,omitempty"`
	// Padding says what a split added behind the value; "" for nothing.
	Padding string `json:"padding,omitempty"`
	Rule    string `json:"rule"`   // how the amount follows
	Source  string `json:"source"` // who says the numbers in it that are no shapes
}

// The units of figures.
const (
	unitBytes   = "bytes"
	unitSeconds = "seconds"
	unitFLOPs   = "flops"
)

// largestWhole bounds the whole numbers that a float64 has all of.
const largestWhole = 1 << 53

// Explain searches as Search does for the best plan, and says of one of its figures what made it.
// name is one of FigureNames, with what it is of after a colon where it is of something:
// "collective_bytes:tp". Errors: ErrFigure, ErrNoPlan where no split is legal, and those of
// Search.
func Explain(ctx context.Context, m models.Model, o Options, name string) (*Explanation, error) {
	f, err := parseFigure(name)
	if err != nil {
		return nil, err
	}
	if o.As != "" {
		return nil, fault.New(ErrFigure, nil, "explain %s with the program of %s: the figures of weft's own program can be explained, the peer's are calibrated as a whole", name, o.As)
	}
	res, err := Search(ctx, m, o)
	if err != nil {
		return nil, err
	}
	if len(res.Plans) == 0 {
		return nil, res.noPlanToExplain(name)
	}
	best := &res.Plans[0]
	on, err := topology.Lookup(best.Slice)
	if err != nil {
		return nil, err
	}
	e, err := newExplainer(m, on, o, best)
	if err != nil {
		return nil, err
	}
	doc, err := e.explain(f)
	if err != nil {
		return nil, err
	}
	doc.Split.BestOf = len(res.Plans)
	return doc, nil
}

func (r *Result) noPlanToExplain(name string) error {
	why := fmt.Sprintf("no slice that weft knows runs %s", r.Model)
	if len(r.Refuse) > 0 {
		why = r.Refuse[0].Reason
	}
	return fault.New(ErrNoPlan, nil, "explain %s: no split of %s is legal: %s", name, r.On, why)
}

// explainer plans one split once more, and keeps the graphs that the plan is read from.
type explainer struct {
	*search
	on   topology.Slice
	p    *Plan
	got  *splitMeasures
	logs map[*scaledGraph]map[string]*programEvidence
}

func newExplainer(m models.Model, on topology.Slice, o Options, of *Plan) (*explainer, error) {
	s, err := newSearch(m, o)
	if err != nil {
		return nil, err
	}
	s.explains = true
	e := &explainer{search: s, on: on, logs: map[*scaledGraph]map[string]*programEvidence{}}
	var refused *Refusal
	if e.p, refused, err = s.planSplit(on, of.split); err != nil {
		return nil, err
	}
	if refused != nil {
		return nil, fault.New(fault.ErrInternal, nil, "explain: %s was planned, and then refused: %s", of.Mesh, refused.Reason)
	}
	_, r, err := s.requestForSplit(on, of.split)
	if err != nil {
		return nil, err
	}
	stage := of.split
	stage.pp = 1
	local, err := mesh.Local(axesOf(stage)...)
	if err != nil {
		return nil, err
	}
	e.got, err = s.measureSplit(local, stage, r) // those that planSplit has kept
	return e, err
}

// explain makes the explanation of a figure.
func (e *explainer) explain(f figure) (*Explanation, error) {
	of, value, parts, err := f.entry.explain(e, f)
	if err != nil {
		return nil, err
	}
	doc := &Explanation{Figure: f.String(), Value: value, Unit: f.entry.unit, Of: of, Model: e.m.Name(), Slice: e.p.Slice, Split: Chosen{Mesh: e.p.Mesh, FSDP: e.p.FSDP}, Parts: parts, Padding: e.p.Padding}
	return doc, doc.finish()
}

// errNoSum: the parts of a figure do not add up to it, which is a fault of weft's own.
var errNoSum = fault.ErrInternal

// finish orders the parts, adds them up, and makes up for what floating point rounded where the plan
// adds in another order: in the last bits of the largest part, or where those are too coarse, in a
// row of its own. Whole figures have nothing of it: theirs must be exact.
func (d *Explanation) finish() error {
	d.Parts = slices.DeleteFunc(d.Parts, func(p Part) bool { return p.Value == 0 })
	d.sortParts()
	d.Sum = d.addUp()
	if d.Parts == nil {
		d.Parts = []Part{} // an empty list in JSON too
	}
	if d.Sum != d.Value {
		rest := d.Value - d.Sum
		if d.Unit != unitSeconds && math.Abs(d.Value) < largestWhole || math.Abs(rest) > 1e-9*math.Abs(d.Value) {
			return fault.New(errNoSum, nil, "explain %s: the parts add up to %v, and the plan has %v", d.Figure, d.Sum, d.Value)
		}
		for range 4 { // the sum of the changed parts is rounded again
			d.Parts[0].Value += d.Value - d.Sum
			d.sortParts()
			if d.Sum = d.addUp(); d.Sum == d.Value {
				break
			}
		}
	}
	if d.Sum != d.Value {
		d.Parts = append(d.Parts, Part{Value: d.Value - d.Sum, Op: "rounding", What: "rounding", Rule: "what floating point rounds where the plan adds in another order"})
		d.Sum = d.addUp()
	}
	if d.Sum != d.Value {
		return fault.New(errNoSum, nil, "explain %s: the parts and their rounding add up to %v, and the plan has %v", d.Figure, d.Sum, d.Value)
	}
	for i := range d.Parts {
		if d.Value != 0 {
			d.Parts[i].Share = d.Parts[i].Value / d.Value
		}
	}
	return nil
}

func (d *Explanation) sortParts() {
	slices.SortStableFunc(d.Parts, func(a, b Part) int { return cmp.Compare(b.Value, a.Value) })
}

func (d *Explanation) addUp() float64 {
	sum := 0.0
	for _, p := range d.Parts {
		sum += p.Value
	}
	return sum
}

// ErrFigure: a figure that plans do not have, or that is of something this plan does not have.
var ErrFigure = fault.NewKind("unknown-figure")
