package lora

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"weft/checkpoint"
	"weft/dtype"
	"weft/fault"
	"weft/internal/printable"
	"weft/internal/userfile"
	"weft/request"
	"weft/tensor"
)

// file is an adapter's file.
type file struct {
	asked   request.LoRA
	c       *checkpoint.Checkpoint
	modules map[string]*module
	config  *config
}

// module has the keys of one module in a file; "" for those that it lacks.
type module struct {
	name string
	keys [otherForms]string // by role
	rank int
	// scale is alpha/rank of the file, without the caller's.
	scale float64
}

// openFile reads an adapter's headers and alphas and pairs its keys.
func openFile(ctx context.Context, asked request.LoRA) (*file, error) {
	if err := userfile.CheckRegular(asked.Path); err != nil {
		return nil, err
	}
	c, err := checkpoint.Open(asked.Path, checkpoint.Exact())
	if err != nil {
		return nil, err
	}
	f := &file{asked: asked, c: c, modules: map[string]*module{}}
	if err := fault.Join(f.readKeys(), f.readAlphas(ctx)); err != nil {
		_ = c.Close()
		return nil, err
	}
	return f, nil
}

// readKeys makes the modules and reports keys of other forms, and those that nothing pairs with.
func (f *file) readKeys() error {
	var unknown, others, single []string
	for _, e := range f.c.Entries() {
		name, r := splitKey(e.Key)
		switch {
		case r == noRole:
			unknown = append(unknown, e.Key)
			continue
		case r == otherForms:
			others = append(others, e.Key)
			continue
		}
		m := f.modules[name]
		if m == nil {
			m = &module{name: name, scale: 1}
			f.modules[name] = m
		}
		if m.keys[r] != "" {
			single = append(single, e.Key)
		}
		m.keys[r] = e.Key
	}
	for _, name := range f.moduleNames() {
		m := f.modules[name]
		switch {
		case m.keys[down] != "" && m.keys[up] == "":
			single = append(single, m.keys[down])
		case m.keys[up] != "" && m.keys[down] == "":
			single = append(single, m.keys[up])
		case m.keys[upBias] != "" && m.keys[up] == "":
			single = append(single, m.keys[upBias])
		case m.keys[alpha] != "" && m.keys[up] == "":
			single = append(single, m.keys[alpha])
		}
	}
	var l fault.List
	if len(f.modules) == 0 && len(others) == 0 {
		l.Add(fault.New(ErrKeys, Keys{f.asked.Path, unknown}, "%s is no LoRA: none of its keys ends as an adapter's do (lora_A, lora_down, diff): %s", f.asked.Path, printable.ListNames(unknown)))
	} else if len(unknown) > 0 {
		l.Add(fault.New(ErrKeys, Keys{f.asked.Path, unknown}, "%s: keys that no LoRA has: %s", f.asked.Path, printable.ListNames(unknown)))
	}
	if len(others) > 0 {
		l.Add(fault.New(ErrForm, Keys{f.asked.Path, others}, "%s has keys of another form of adapter (LoHa, LoKr, DoRA, OFT), of which weft merges none: %s", f.asked.Path, printable.ListNames(others)))
	}
	if len(single) > 0 {
		l.Add(fault.New(ErrKeys, Keys{f.asked.Path, single}, "%s: keys without those that they belong with, or a second time: %s", f.asked.Path, printable.ListNames(single)))
	}
	return l.Err()
}

func (f *file) moduleNames() []string { return slices.Sorted(maps.Keys(f.modules)) }

// shape is that of a module's tensor, nil where the module has none of the role.
func (f *file) shape(m *module, r role) []int {
	if m.keys[r] == "" {
		return nil
	}
	e, _ := f.c.Lookup(m.keys[r])
	return e.Shape
}

// readAlphas sets ranks and scales: of the key alpha, of the configuration, or 1 where the file has
// neither, as files without alphas mean it.
func (f *file) readAlphas(ctx context.Context) error {
	var l fault.List
	var err error
	if f.config, err = readConfig(f.asked.Path, f.c.Metadata()); err != nil {
		l.Add(err)
	}
	var with, without []string
	for _, name := range f.moduleNames() {
		m := f.modules[name]
		if m.keys[down] == "" || m.keys[up] == "" {
			continue
		}
		if shape := f.shape(m, down); len(shape) > 0 {
			m.rank = shape[0]
		}
		switch {
		case m.rank == 0: // a shape that the parameter is compared with later
		case m.keys[alpha] != "":
			with = append(with, name)
			a, err := f.readNumber(ctx, m.keys[alpha])
			l.Add(err)
			m.scale = a / float64(m.rank)
		case f.config != nil:
			m.scale = f.config.scaleOf(name, m.rank)
		default:
			without = append(without, name)
		}
	}
	if len(with) > 0 && len(without) > 0 {
		l.Add(fault.New(ErrAlpha, Keys{f.asked.Path, without}, "%s: %d modules have an alpha and %d lack theirs, so that nobody knows their scale: %s",
			f.asked.Path, len(with), len(without), printable.ListNames(without)))
	}
	if text, has := f.c.Metadata()[kohyaAlpha]; has && len(with) == 0 && len(without) > 0 && f.config == nil && text != "None" {
		l.Add(fault.New(ErrAlpha, Keys{f.asked.Path, without}, "%s was trained with alpha %.20s (%s), and its modules lack theirs: add the keys .alpha", f.asked.Path, text, kohyaAlpha))
	}
	return l.Err()
}

// readNumber reads a tensor of one element.
func (f *file) readNumber(ctx context.Context, key string) (float64, error) {
	e, _ := f.c.Lookup(key)
	if e.Elements() != 1 {
		return 1, fault.New(ErrAlpha, Keys{f.asked.Path, []string{key}}, "%s: %s has shape %v: want one number", f.asked.Path, key, e.Shape)
	}
	t, err := f.c.Load(ctx, key, dtype.F32)
	if err != nil {
		return 1, err
	}
	x, err := t.Float32s()
	if err != nil {
		return 1, err
	}
	if v := float64(x[0]); math.IsNaN(v) || math.IsInf(v, 0) {
		return 1, fault.New(ErrAlpha, Keys{f.asked.Path, []string{key}}, "%s: %s is %v: want a finite number", f.asked.Path, key, v)
	}
	return float64(x[0]), nil
}

// form says whose names the modules of the file have.
func (f *file) form() string {
	for _, name := range f.moduleNames() {
		switch {
		case strings.HasPrefix(name, "base_model.model."):
			return "PEFT"
		case f.modules[name].keys[up] == "":
			continue
		}
		if _, flat := flatName(name); flat {
			return "kohya"
		}
		for _, p := range []struct{ prefix, form string }{{"diffusion_model.", "ComfyUI"}, {"transformer.", "diffusers"}} {
			if strings.HasPrefix(name, p.prefix) {
				return p.form
			}
		}
	}
	return "the model"
}

// checkShapes compares a module's tensors with the places that they belong to, and reports ranks that
// differ.
func (f *file) checkShapes(m *module, at []place, bias []place) error {
	var l fault.List
	report := func(p place, format string, args ...any) {
		l.Add(fault.New(ErrShape, Shape{f.asked.Path, m.name, p.parameter, p.shape, f.shape(m, down), f.shape(m, up), f.shape(m, diff)},
			"%s: module %s, for %s %v: %s", f.asked.Path, m.name, p.parameter, p.shape, fmt.Sprintf(format, args...)))
	}
	if m.keys[up] != "" && len(at) > 0 {
		p, d, u := at[0], f.shape(m, down), f.shape(m, up)
		switch {
		case len(d) < 2 || len(u) < 2 || m.rank == 0 || tensor.Elements(u[1:]) == 0:
			report(p, "matrices of shapes %v and %v", d, u)
		case tensor.Elements(u[1:]) != m.rank:
			report(p, "the ranks differ: %d in %s %v, %d in %s %v", m.rank, m.keys[down], d, tensor.Elements(u[1:]), m.keys[up], u)
		case tensor.Elements(d[1:]) != p.columns() || u[0] != p.of:
			report(p, "%v and %v make a matrix of %d x %d: want %d x %d", d, u, u[0], tensor.Elements(d[1:]), p.of, p.columns())
		}
	}
	if d := f.shape(m, diff); m.keys[diff] != "" && len(at) > 0 {
		if p := at[0]; len(d) == 0 || d[0] != p.of || tensor.Elements(d[1:]) != p.columns() {
			report(p, "the difference has shape %v: want %v", d, append([]int{p.of}, p.shape[1:]...))
		}
	}
	for _, r := range []role{diffBias, upBias} {
		if d := f.shape(m, r); m.keys[r] != "" && len(bias) > 0 {
			if p := bias[0]; len(d) == 0 || tensor.Elements(d) != p.of*p.columns() {
				report(p, "%s has shape %v: want [%d]", m.keys[r], d, p.of)
			}
		}
	}
	return l.Err()
}
