package checkpoint

import (
	"slices"

	"weft/fault"
	"weft/internal/glob"
)

// Want is a tensor that a model needs.
type Want struct {
	Name  string
	Shape []int
}

// RequireOptions change how Require looks.
type RequireOptions struct {
	// Alias gives the checkpoint's name of a wanted one; nil is the same name.
	Alias func(name string) string
	// Ignore are globs of names that the model may leave unused.
	Ignore []string
}

// Require checks that the checkpoint has what a model needs, and nothing it does
// not know. The error lists every missing tensor, every tensor of another shape
// and every unexpected one; extra are the unused ones that Ignore allows. No
// tensor data is read.
func Require(c *Checkpoint, want []Want, o RequireOptions) (extra []string, err error) {
	var faults, shapes fault.List
	var missing, unexpected []string
	used := map[*record]bool{}
	for _, w := range want {
		key := w.Name
		if o.Alias != nil {
			key = o.Alias(w.Name)
		}
		r := c.find(key)
		if r == nil {
			missing = append(missing, key)
			continue
		}
		used[r] = true
		if !slices.Equal(r.Shape, w.Shape) {
			shapes.Add(fault.New(ErrShape, Shape{File: r.File, Tensor: key, Want: w.Shape, Have: r.Shape},
				"tensor %s has shape %s; the model needs %s", key, shapeText(r.Shape), shapeText(w.Shape)))
		}
	}
	for _, name := range c.names {
		r := c.records[name]
		switch {
		case r.Role != Weight || used[r]:
		case glob.Any(o.Ignore, name):
			extra = append(extra, name)
		default:
			unexpected = append(unexpected, name)
		}
	}
	if len(missing) > 0 {
		faults.Add(fault.New(ErrMissingTensors, Tensors{missing}, "%s missing of %d needed: %s",
			plural(len(missing), "tensor"), len(want), nameList(missing)))
	}
	faults.Add(shapes.Err())
	if len(unexpected) > 0 {
		faults.Add(fault.New(ErrUnexpectedTensors, Tensors{unexpected}, "%s that the model does not use: %s",
			plural(len(unexpected), "tensor"), nameList(unexpected)))
	}
	return extra, faults.Err()
}
