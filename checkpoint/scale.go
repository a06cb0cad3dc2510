package checkpoint

import (
	"slices"
	"strings"

	"weft/dtype"
	"weft/fault"
)

// markerName is the empty tensor by which repackaged files say that their fp8 weights have scales.
const markerName = "scaled_fp8"

// scaleNames gives the names under which the scale of a tensor may be:
// "x.weight" has "x.weight_scale" or "x.scale_weight".
func scaleNames(name string) [2]string {
	i := strings.LastIndexByte(name, '.') + 1
	return [2]string{name + "_scale", name[:i] + "scale_" + name[i:]}
}

// scaledName turns a scale's name back into the name of the tensor it scales. Only
// weights are asked about: other names that end in "_scale" are parameters.
func scaledName(name string) (string, bool) {
	i := strings.LastIndexByte(name, '.') + 1
	switch name[i:] {
	case "weight_scale", "scale_weight":
		return name[:i] + "weight", true
	}
	return "", false
}

// assignRoles finds scales and markers. An fp8 value without its scale is off by
// a factor of hundreds and looks like a bad model, so what cannot be applied is
// an error here, before anything is read.
func (c *Checkpoint) assignRoles() error {
	var faults fault.List
	names := slices.Clone(c.keys())
	for _, name := range names {
		if r := c.records[name]; isFP8(r.DType) {
			faults.Add(c.attachScale(r))
		}
	}
	for _, name := range names {
		r := c.records[name]
		weight, is := scaledName(name)
		if is && r.Role == Weight {
			faults.Add(fault.New(ErrUnappliedScale, Scale{weight, []string{name}},
				"%s scales %s, which %s; nothing would apply it", name, weight, c.whyNot(weight)))
		}
	}
	c.markInputs(names)
	return faults.Err()
}

func isFP8(d dtype.DType) bool { return d == dtype.F8E4M3 || d == dtype.F8E5M2 }

// whyNot says why a weight takes no scale.
func (c *Checkpoint) whyNot(weight string) string {
	if r := c.records[weight]; r != nil {
		return "is " + r.Stored + " and takes none"
	}
	return "is not there"
}

// attachScale ties an fp8 tensor to its scale, a float32 scalar.
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
		return fault.New(ErrTwoScales, Scale{r.Name, names}, "%s has two scales: %s", r.Name, nameList(names))
	}
	s := found[0]
	if s.DType != dtype.F32 || s.Elements() != 1 {
		return fault.New(ErrUnappliedScale, Scale{r.Name, names},
			"%s is %s %s; weft applies a scale that is one F32 number", s.Name, s.Stored, shapeText(s.Shape))
	}
	r.scale, r.Scale = s, s.Name
	return nil
}

// markInputs sets apart the scales of activations and the marker.
func (c *Checkpoint) markInputs(names []string) {
	dropped := 0
	for _, name := range names {
		i := strings.LastIndexByte(name, '.') + 1
		leaf, r := name[i:], c.records[name]
		w := c.records[name[:i]+"weight"]
		if (leaf == "scale_input" || leaf == "input_scale") && w != nil && isFP8(w.DType) {
			r.Role = InputScale
			dropped++
		}
		if name == markerName {
			r.Role = Marker
			c.notice("marker %s: the fp8 weights of this file have scales", markerName)
		}
	}
	if dropped > 0 {
		c.notice("%s of activations dropped: weft does not quantize activations", plural(dropped, "scale"))
	}
}
