package checkpoint

import (
	"cmp"
	"slices"
	"strings"

	"weft/fault"
	"weft/internal/bystander"
	"weft/internal/printable"
)

// Want is a tensor that a model needs.
type Want struct {
	Name  string
	Shape []int
}

// RequireOptions change what Require looks for.
type RequireOptions struct {
	// Alias gives the checkpoint's name for a wanted name; nil leaves names as they are.
	Alias func(name string) string
	// Ignore lists the kinds of unused tensors that this model allows, besides those that
	// every model allows.
	Ignore []bystander.Kind
	// Model names the model in messages; "" is "the model".
	Model string
	// Prefix is the prefix of the model's own names in this checkpoint. Tensors whose
	// names lack it belong to another model.
	Prefix string
}

// Passed is a group of tensors of one known kind that a model does not use.
type Passed struct {
	Kind  string   // in words: "a text encoder"
	Globs []string // that match their names
	Names []string
}

// String is a line for people: "168 tensors of a text encoder
// (text_encoders.umt5xxl.*) passed over".
func (p Passed) String() string {
	some := p.Names[0]
	if len(p.Names) > 1 {
		common := p.Names[0]
		for _, name := range p.Names[1:] {
			for !strings.HasPrefix(name, common) {
				common = common[:len(common)-1]
			}
		}
		if i := strings.LastIndexByte(common, '.'); i > 0 {
			some = common[:i] + ".*"
		} else {
			some = strings.Join(p.Globs, ", ")
		}
	}
	return plural(len(p.Names), "tensor") + " of " + p.Kind + " (" + some + ") passed over"
}

// Require checks that the checkpoint has every tensor that a model needs and none that is
// unknown. The error lists every missing tensor, every tensor of another shape and every
// unexpected one; passed groups the unused tensors that are allowed. No tensor data is
// read.
func Require(c *Checkpoint, want []Want, o RequireOptions) (passed []Passed, err error) {
	var faults, shapes fault.List
	var missing, unexpected []string
	used := map[*record]bool{}
	for _, w := range want {
		key := w.Name
		if o.Alias != nil {
			key = o.Alias(w.Name)
		}
		r := c.findRecord(key)
		if r == nil {
			missing = append(missing, key)
			continue
		}
		used[r] = true
		faults.Add(r.unusable)
		if !slices.Equal(r.Shape, w.Shape) {
			shapes.Add(fault.New(ErrShape, Shape{File: r.File, Tensor: key, Want: w.Shape, Have: r.Shape},
				"tensor %s has shape %s; %s needs %s", key, shapeText(r.Shape), cmp.Or(o.Model, "the model"), shapeText(w.Shape)))
		}
	}
	for _, name := range c.names {
		r := c.records[name]
		switch {
		case r.Role != Weight || used[r]:
		default:
			kind, pattern, known := o.findBystander(r)
			if !known {
				unexpected = append(unexpected, name)
				continue
			}
			i := slices.IndexFunc(passed, func(p Passed) bool { return p.Kind == kind })
			if i < 0 {
				i, passed = len(passed), append(passed, Passed{Kind: kind})
			}
			passed[i].Names = append(passed[i].Names, name)
			if !slices.Contains(passed[i].Globs, pattern) {
				passed[i].Globs = append(passed[i].Globs, pattern)
			}
		}
	}
	if len(missing) > 0 {
		faults.Add(fault.New(ErrMissingTensors, Tensors{missing}, "%s missing of %d needed by %s: %s",
			plural(len(missing), "tensor"), len(want), cmp.Or(o.Model, "the model"), printable.ListNames(missing)))
	}
	faults.Add(shapes.Err())
	if len(unexpected) > 0 {
		faults.Add(fault.New(ErrUnexpectedTensors, Tensors{unexpected}, "%s that %s does not use: %s",
			plural(len(unexpected), "tensor"), cmp.Or(o.Model, "the model"), printable.ListNames(unexpected)))
	}
	return passed, faults.Err()
}

// findBystander finds the kind of a tensor that the model does not use. A tensor with the
// model's own prefix is looked up by its name without the prefix, any other by its whole
// key and then by its name.
func (o RequireOptions) findBystander(r *record) (kind, pattern string, known bool) {
	if bare, own := strings.CutPrefix(r.Name, o.Prefix); own {
		return bystander.FindGlob(o.Ignore, bare)
	}
	if kind, pattern, known = bystander.FindGlob(nil, r.Key); !known {
		kind, pattern, known = bystander.FindGlob(nil, r.Name)
	}
	return kind, pattern, known
}
