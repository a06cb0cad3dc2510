package main

import (
	"errors"

	"github.com/spf13/cobra"

	"weft"
	"weft/checkpoint"
	"weft/dtype"
	"weft/fault"
	"weft/mesh"
	"weft/models"
	"weft/sharding"
)

type inspected struct {
	Name       string         `json:"name"`
	DType      string         `json:"dtype"`
	Shape      []int          `json:"shape"`
	Bytes      int64          `json:"bytes"`
	Spec       *sharding.Spec `json:"spec,omitempty"`
	LocalShape []int          `json:"local_shape,omitempty"`
	LocalBytes *int64         `json:"local_bytes,omitempty"`
	Role       string         `json:"role,omitempty"`
	Rule       string         `json:"rule,omitempty"`
}

type dtypeTotal struct {
	DType    string `json:"dtype"`
	Tensors  int    `json:"tensors"`
	Elements int64  `json:"elements"`
	Bytes    int64  `json:"bytes"`
}

type inspection struct {
	Path           string       `json:"path"`
	Model          string       `json:"model,omitempty"`
	Mesh           string       `json:"mesh,omitempty"`
	Tensors        []inspected  `json:"tensors"`
	DTypes         []dtypeTotal `json:"dtypes"`
	Elements       int64        `json:"elements"`
	TotalBytes     int64        `json:"total_bytes"`
	TotalAsBF16    int64        `json:"total_bytes_as_bf16"`
	TotalAsF32     int64        `json:"total_bytes_as_f32"`
	BytesPerDevice []int64      `json:"bytes_per_device,omitempty"`
	Notes          []string     `json:"notes"`
	// Settings are how the model's release is run, where it is a generator.
	Settings map[string]models.Setting `json:"settings,omitempty"`
}

func (a *app) inspect() *cobra.Command {
	var meshText, release string
	c := &cobra.Command{
		Use:   "inspect CHECKPOINT [--mesh M]",
		Short: "List a checkpoint's tensors and how a mesh would hold them",
		Long: `inspect reads headers only. With a mesh it shows each tensor's spec, the shape one
device holds and its bytes as stored, and what every device holds in all. Sizes
are in powers of 1000: 1 GB is 10^9 bytes.`,
		Example: `  weft inspect testdata/wan21_t2v
  weft inspect testdata/wan21_t2v --mesh dp=1,tp=4,sp=1`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			doc, err := inspect(args[0], meshText, release)
			if err != nil {
				return err
			}
			return a.print(doc, func() { a.showInspection(doc) })
		},
	}
	releaseFlag(c, &release)
	c.Flags().StringVar(&meshText, "mesh", "", "how devices are arranged: dp=1,tp=4,sp=1")
	return c
}

func inspect(path, meshText, release string) (*inspection, error) {
	if meshText == "" && release == "" {
		c, err := checkpoint.Open(path)
		if err != nil {
			return nil, err
		}
		defer c.Close()
		doc := listTensors(c, path)
		if raw, where, err := c.ConfigJSON(); err == nil && raw != nil {
			_, notes, err := models.Describe(raw, where)
			doc.Notes = append(doc.Notes, notes...)
			if !errors.Is(err, models.ErrUnknownModel) {
				for _, v := range fault.Violations(err) {
					doc.Notes = append(doc.Notes, "no model can be made of this: "+v.Error())
				}
			}
		}
		return doc, nil
	}
	on, err := weft.ParseMesh(meshText)
	if err != nil {
		return nil, err
	}
	m, err := weft.OpenAs(path, release)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	doc := listTensors(m.Checkpoint, path)
	doc.Model, doc.Mesh = m.Name(), on.String()
	doc.Notes = append(append([]string{}, m.Notices...), m.Settings.Notes...)
	doc.Settings = m.Settings.Taken()
	if s, ok := m.Model.(interface{ CheckSplit(*mesh.Mesh) error }); ok {
		if err := s.CheckSplit(on); err != nil {
			return nil, err
		}
	}
	return doc, doc.place(m, on)
}

func listTensors(c *checkpoint.Checkpoint, path string) *inspection {
	doc := &inspection{Path: path, Tensors: []inspected{}, DTypes: []dtypeTotal{}, Notes: append([]string{}, c.Notices()...)}
	index := map[string]int{}
	for _, e := range c.Entries() {
		t := inspected{Name: e.Name, DType: e.Stored, Shape: append([]int{}, e.Shape...), Bytes: e.Bytes}
		if e.Role != checkpoint.Weight {
			t.Role = e.Role.String()
		}
		doc.Tensors = append(doc.Tensors, t)
		i, ok := index[e.Stored]
		if !ok {
			i = len(doc.DTypes)
			index[e.Stored] = i
			doc.DTypes = append(doc.DTypes, dtypeTotal{DType: e.Stored})
		}
		d := &doc.DTypes[i]
		d.Tensors++
		d.Elements += e.Elements()
		d.Bytes += e.Bytes
		doc.Elements += e.Elements()
		doc.TotalBytes += e.Bytes
	}
	doc.TotalAsBF16 = doc.Elements * int64(dtype.BF16.Size())
	doc.TotalAsF32 = doc.Elements * int64(dtype.F32.Size())
	return doc
}

// place adds specs and local sizes, as stored.
func (doc *inspection) place(m *weft.Model, on *mesh.Mesh) error {
	assigned, err := models.Specs(m.Model, on, 0)
	if err != nil {
		return err
	}
	specs := map[string]models.ParamSpec{}
	for _, l := range models.List(m.Model, assigned, models.Torch, false) {
		specs[m.Stored(l.Path)] = l
	}
	var perDevice int64
	for i := range doc.Tensors {
		t := &doc.Tensors[i]
		l, ok := specs[t.Name]
		if !ok {
			continue
		}
		local, err := l.Local(on)
		if err != nil {
			return err
		}
		n := int64(1)
		for _, s := range local {
			n *= int64(s)
		}
		whole := int64(1)
		for _, s := range t.Shape {
			whole *= int64(s)
		}
		bytes := int64(0)
		if whole > 0 {
			bytes = t.Bytes / whole * n
		}
		spec := l.Spec.Canonical(on, len(l.Shape))
		t.Spec, t.LocalShape, t.LocalBytes, t.Rule = &spec, local, &bytes, l.Rule
		perDevice += bytes
	}
	for range on.NumDevices() {
		doc.BytesPerDevice = append(doc.BytesPerDevice, perDevice)
	}
	return nil
}

func (a *app) showInspection(doc *inspection) {
	for _, t := range doc.Tensors {
		line := padRight(t.Name, 38) + " " + padRight(t.DType, 8) + " " + padRight(shapeText(t.Shape), 14)
		if t.Spec != nil {
			line += " " + padRight(t.Spec.String(), 10) + " " + padRight(shapeText(t.LocalShape), 12) + " " + weft.Bytes(*t.LocalBytes)
		} else {
			line += " " + weft.Bytes(t.Bytes)
		}
		a.say("%s", line)
	}
	a.say("")
	for _, d := range doc.DTypes {
		a.say("%-8s %6d tensors  %14d elements  %s", d.DType, d.Tensors, d.Elements, weft.Bytes(d.Bytes))
	}
	a.say("total    %s as stored, %s in bf16, %s in f32", weft.Bytes(doc.TotalBytes), weft.Bytes(doc.TotalAsBF16), weft.Bytes(doc.TotalAsF32))
	if doc.BytesPerDevice != nil {
		a.say("mesh %s: %s on each of %d devices", doc.Mesh, weft.Bytes(doc.BytesPerDevice[0]), len(doc.BytesPerDevice))
	}
	if len(doc.Settings) > 0 {
		a.say("settings:")
		a.showSettings(doc.Settings)
	}
	for _, n := range doc.Notes {
		a.say("note: %s", n)
	}
}
