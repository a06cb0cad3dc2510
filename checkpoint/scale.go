package checkpoint

import (
	"slices"
	"strings"

	"weft/dtype"
	"weft/fault"
	"weft/internal/bystander"
	"weft/internal/printable"
)

// markerNames are the last parts of the names of markers, tensors that say how weights
// are stored. ComfyUI's older repacks have one empty tensor scaled_fp8; its newer ones
// have, beside each weight, a tensor comfy_quant with JSON as bytes.
var markerNames = []string{"scaled_fp8", "comfy_quant"}

// lastPart gives the part of a name after the last dot.
func lastPart(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

func isMarker(r *record) bool { return slices.Contains(markerNames, lastPart(r.Name)) }

// scaleNames gives the names under which the scale of a tensor may be:
// "x.weight" has "x.weight_scale" or "x.scale_weight".
func scaleNames(name string) [2]string {
	i := strings.LastIndexByte(name, '.') + 1
	return [2]string{name + "_scale", name[:i] + "scale_" + name[i:]}
}

// scaledName gives the name of the tensor that a scale belongs to. Only weight_scale and
// scale_weight count: other names that end in "_scale" are parameters.
func scaledName(name string) (string, bool) {
	i := strings.LastIndexByte(name, '.') + 1
	switch name[i:] {
	case "weight_scale", "scale_weight":
		return name[:i] + "weight", true
	}
	return "", false
}

// assignRoles finds scales, markers and tokenizers. Without its scale, an fp8 value is off
// by a factor of hundreds, and the output looks like that of a bad model. So it is an
// error, before anything is read, if a scale cannot be applied. For tensors of another
// model, which may never be used, the error comes when they are asked for.
func (c *Checkpoint) assignRoles() error {
	names := slices.Clone(c.sortedKeys())
	own := c.ownNames()
	if err := c.refuseQuantized(own); err != nil {
		return err
	}
	var faults scaleFaults
	report := func(name string, err error) {
		if r := c.records[name]; err != nil && !own[name] && r != nil {
			r.unusable = err
		} else {
			faults.add(err)
		}
	}
	for _, name := range names {
		if r := c.records[name]; isFP8(r.DType) {
			report(name, c.attachScale(r))
		}
	}
	for _, name := range names {
		r := c.records[name]
		weight, is := scaledName(name)
		if is && r.Role == Weight {
			err := fault.New(ErrUnappliedScale, Scale{weight, []string{name}},
				"%s scales %s, which %s; nothing would apply it", name, weight, c.whyUnscalable(weight))
			if report(weight, err); own[name] && !own[weight] {
				faults.add(err)
			}
		}
	}
	c.markAuxiliaries(names)
	return faults.err()
}

// scaleFaults collects errors about scales. A file has hundreds of scales, and usually all
// of them have the same fault: the first few errors are reported in full, and the scales
// of the others by name.
type scaleFaults struct {
	list   fault.List
	count  int
	others []string
}

const scaleFaultsTold = 3

func (f *scaleFaults) add(err error) {
	if err == nil {
		return
	}
	if f.count++; f.count <= scaleFaultsTold {
		f.list.Add(err)
		return
	}
	if fields, ok := fault.Fields[Scale](err); ok {
		f.others = append(f.others, fields.Scales...)
	}
}

func (f *scaleFaults) err() error {
	if n := len(f.others); n > 0 {
		f.list.Add(fault.New(ErrUnappliedScale, Scale{Scales: f.others}, "%s more that would not be applied: %s", plural(n, "scale"), printable.ListNames(f.others)))
	}
	return f.list.Err()
}

// ownNames gives the names that internal/bystander does not assign to another model. If it
// assigns all of them, the file is that model's own, and ownNames gives all names.
func (c *Checkpoint) ownNames() map[string]bool {
	own := make(map[string]bool, len(c.names))
	for _, name := range c.names {
		if _, beside := bystander.Find(nil, name); !beside {
			own[name] = true
		}
	}
	if len(own) == 0 {
		for _, name := range c.names {
			own[name] = true
		}
	}
	return own
}

func isFP8(d dtype.DType) bool { return d == dtype.F8E4M3 || d == dtype.F8E5M2 }

// whyUnscalable says why a weight takes no scale.
func (c *Checkpoint) whyUnscalable(weight string) string {
	if r := c.records[weight]; r != nil {
		return "is " + r.Stored + " and takes none"
	}
	return "is not there"
}

// attachScale finds the scale of an fp8 tensor: one float32, or one for each row of a
// matrix. It is an error if there are two scales, or one in another form.
func (c *Checkpoint) attachScale(r *record) error {
	var found []*record
	var names []string
	for _, name := range scaleNames(r.Name) {
		if s := c.records[name]; s != nil {
			s.Role = WeightScale
			found, names = append(found, s), append(names, name)
		}
	}
	switch {
	case len(found) == 0:
		return nil
	case len(found) > 1:
		return fault.New(ErrTwoScales, Scale{r.Name, names}, "%s has two scales: %s", r.Name, printable.ListNames(names))
	}
	s := found[0]
	if s.DType != dtype.F32 || s.Elements() != 1 && !scalesRows(s, r) {
		what := ""
		if n := s.Elements(); len(r.Shape) == 2 && n > int64(r.Shape[0]) {
			what = ", a scale for each block"
		}
		return fault.New(ErrUnappliedScale, Scale{r.Name, names},
			"%s is %s %s%s; weft applies one F32 scale to %s, or one to each of its rows: take such a repack, or one in bf16", s.Name, s.Stored, shapeText(s.Shape), what, r.Name)
	}
	r.scale, r.Scale = s, s.Name
	return nil
}

// scalesRows says whether a scale has one number for each row of a matrix: [rows] or
// [rows 1]. Both tensors must be row-major in the file.
func scalesRows(s, r *record) bool {
	if len(r.Shape) != 2 || r.Shape[0] == 0 || r.strided != nil || s.strided != nil || s.Elements() != int64(r.Shape[0]) {
		return false
	}
	return len(s.Shape) == 1 || len(s.Shape) == 2 && s.Shape[1] == 1
}

// markAuxiliaries sets the roles of markers, tokenizers and the scales of activations, and
// adds a notice about them.
func (c *Checkpoint) markAuxiliaries(names []string) {
	dropped, marked := 0, map[string]int{}
	for _, name := range names {
		i := strings.LastIndexByte(name, '.') + 1
		leaf, r := name[i:], c.records[name]
		w := c.records[name[:i]+"weight"]
		if (leaf == "scale_input" || leaf == "input_scale") && w != nil && isFP8(w.DType) {
			r.Role = InputScale
			dropped++
		}
		switch {
		case isMarker(r):
			r.Role = Marker
			marked[leaf]++
		case isTokenizer(r):
			r.Role = Tokenizer
			c.addNotice("%s is a tokenizer's file of %s, kept as a tensor", name, plural(int(r.Bytes), "byte"))
		}
	}
	if marked["scaled_fp8"] > 0 {
		c.addNotice("marker scaled_fp8: the fp8 weights of this file have scales")
	}
	if n := marked["comfy_quant"]; n > 0 {
		c.addNotice("%s comfy_quant: they say how the weights beside them are kept", plural(n, "marker"))
	}
	if dropped > 0 {
		c.addNotice("%s of activations dropped: weft does not quantize activations", plural(dropped, "scale"))
	}
}
