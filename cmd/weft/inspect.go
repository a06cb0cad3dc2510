package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"weft"
	"weft/checkpoint"
	"weft/dtype"
	"weft/fault"
	"weft/graph"
	"weft/mesh"
	"weft/models"
	"weft/request"
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
	// Stage is the pipeline stage whose devices hold the tensor, where there are several.
	Stage *int   `json:"stage,omitempty"`
	Role  string `json:"role,omitempty"`
	Rule  string `json:"rule,omitempty"`
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
	FSDP           []string     `json:"fsdp,omitempty"`
	HeldAs         string       `json:"held_as,omitempty"` // "stored", or the compute type
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

func (a *app) inspectCommand() *cobra.Command {
	var f requestFlags
	var release string
	c := &cobra.Command{
		Use:   "inspect CHECKPOINT [--mesh M]",
		Short: "List a checkpoint's tensors and how a mesh would hold them",
		Long: `inspect reads headers only. With a mesh it shows each tensor's spec, the shape one
device holds and its bytes as stored, and what every device holds in all: with
--dtype as forward holds it in that compute type. Sizes are in powers of 1000: 1 GB
is 10^9 bytes.`,
		Example: `  weft inspect testdata/wan21_t2v
  weft inspect testdata/wan21_t2v --mesh dp=1,tp=4,sp=1
  weft inspect testdata/wan21_t2v --mesh pp=2,dp=2 --fsdp dp --dtype bf16`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := f.parse()
			if err != nil {
				return asUsage(err, request.ErrOptions)
			}
			onMesh := f.text["mesh"] != ""
			for _, name := range []string{"fsdp", "dtype"} {
				if !onMesh && cmd.Flags().Changed(name) {
					return usageError("--%s without --mesh: it says how a mesh holds the tensors", name)
				}
			}
			doc, err := inspectCheckpoint(args[0], onMesh, weft.Options{Request: r}, release)
			if err != nil {
				return err
			}
			return a.printResult(doc, func() { a.showInspection(doc) })
		},
	}
	releaseFlag(c, &release)
	f.add(c, "mesh", "", "how devices are arranged: dp=1,tp=4,sp=1, or pp=2,fsdp=2")
	f.add(c, "fsdp", "", "keep each weight in shares over these axes: sp, or dp,sp")
	f.add(c, "dtype", "", "compute type that weights are held in: f32 or bf16; default as stored")
	completeFlag(c, "dtype", "f32", "bf16")
	return c
}

// inspectCheckpoint lists the tensors of the checkpoint at path. On the request's mesh it
// also says what each device holds of them.
func inspectCheckpoint(path string, onMesh bool, o weft.Options, release string) (*inspection, error) {
	if !onMesh {
		c, err := checkpoint.Open(path)
		if err != nil {
			return nil, err
		}
		defer c.Close()
		doc := listTensors(c, path)
		// A list needs no model; where one is known it is named, and else why it is not.
		m, err := weft.Identify(c, release)
		switch {
		case err == nil:
			doc.describeModel(m)
		case isOtherModel(err):
			doc.Notes = append(doc.Notes, "the model is not known: "+strings.ReplaceAll(err.Error(), "\n", "; "))
		default:
			return nil, err
		}
		return doc, nil
	}
	m, err := weft.OpenAs(path, release)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	held, err := m.Hold(o)
	if err != nil {
		return nil, err
	}
	doc := listTensors(m.Checkpoint, path)
	doc.describeModel(m)
	doc.Mesh, doc.FSDP, doc.HeldAs = held.Graph.Mesh.String(), o.FSDP, "stored"
	asHeld := o.DType != dtype.Invalid
	if asHeld {
		doc.BytesPerDevice, doc.HeldAs = held.Bytes, o.DType.String()
	}
	return doc, doc.placeTensors(m, held, asHeld)
}

// describeModel adds the name of the model that the tensors belong to, and the settings
// of its release.
func (doc *inspection) describeModel(m *weft.Model) {
	doc.Model, doc.Settings = m.Name(), m.Settings.Taken()
	doc.Notes = slices.Concat([]string{}, m.Notices, m.Settings.Notes)
}

// isOtherModel reports whether err means that the tensors are not those of the model
// that the config describes, or of any model that weft knows. The config itself could
// then be read.
func isOtherModel(err error) bool {
	if _, ok := fault.Fields[weft.Unidentified](err); ok {
		return true
	}
	for _, k := range []error{models.ErrUnknownModel, models.ErrVariant, checkpoint.ErrMissingTensors, checkpoint.ErrUnexpectedTensors, checkpoint.ErrShape, checkpoint.ErrTiedMismatch} {
		if errors.Is(err, k) {
			return true
		}
	}
	return false
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

// placeTensors adds each tensor's spec and the bytes that one device holds of it: in
// the stored type, or, with asHeld, in the type that the programs hold it in.
func (doc *inspection) placeTensors(m *weft.Model, held *weft.Held, asHeld bool) error {
	g := held.Graph
	tensors := make(map[string]*inspected, len(doc.Tensors))
	for i := range doc.Tensors {
		tensors[doc.Tensors[i].Name] = &doc.Tensors[i]
	}
	stages := g.StageOf()
	perDevice := make([]int64, g.Mesh.NumDevices())
	homes := g.Homes()
	for _, w := range g.Weights {
		home := homes[w.Name]
		if home == nil {
			continue // no program reads it
		}
		local, err := w.Spec.Local(home, w.Shape)
		if err != nil {
			return err
		}
		share := float64(countElements(local)) / float64(max(1, countElements(w.File)))
		for _, name := range m.StoredIn(w) {
			t := tensors[name]
			if t == nil {
				continue
			}
			t.placeOn(w, home, local)
			bytes := int64(math.Round(float64(t.Bytes) * share))
			if asHeld {
				bytes = int64(math.Round(float64(countElements(t.Shape))*share)) * int64(w.DType.Size())
			}
			t.LocalBytes = &bytes
			if stage := stages[w.Name]; g.Stages() > 1 {
				t.Stage = &stage
			}
			for _, d := range home.Devices() {
				perDevice[g.Mesh.PositionOf(d.ID)] += bytes
			}
		}
	}
	if doc.BytesPerDevice == nil {
		doc.BytesPerDevice = perDevice
	}
	return nil
}

// placeOn says how one device of a mesh holds the tensor. The tensor is a weight, or a
// piece of one, and local is the shape that a device holds of the weight. A weight that
// is a view of the tensor merges whole dims behind the first.
func (t *inspected) placeOn(w graph.Weight, on *mesh.Mesh, local []int) {
	spec := w.Spec
	t.LocalShape = slices.Clone(t.Shape)
	if len(t.Shape) == len(local) {
		copy(t.LocalShape, local)
	} else if len(local) > 0 {
		spec = sharding.Whole(len(t.Shape)).WithDim(0, spec.Dim(0)...)
		t.LocalShape[0] = local[0]
	}
	if len(w.Pieces) > 0 && len(w.File) > 0 && len(t.Shape) > 0 && t.Shape[0] != w.File[0] { // its share of the rows
		t.LocalShape[0] = t.Shape[0] * local[0] / w.File[0]
	}
	spec = spec.Canonical(on, len(t.Shape))
	t.Spec, t.Rule = &spec, w.Rule
}

func countElements(shape []int) int64 {
	n := int64(1)
	for _, s := range shape {
		n *= int64(s)
	}
	return n
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
	if doc.Model != "" {
		a.say("model %s", doc.Model)
	}
	for _, d := range doc.DTypes {
		a.say("%-8s %6d tensors  %14d elements  %s", d.DType, d.Tensors, d.Elements, weft.Bytes(d.Bytes))
	}
	a.say("total    %s as stored, %s in bf16, %s in f32", weft.Bytes(doc.TotalBytes), weft.Bytes(doc.TotalAsBF16), weft.Bytes(doc.TotalAsF32))
	if doc.BytesPerDevice != nil {
		a.say("mesh %s: %s", doc.Mesh, perDeviceText(doc.BytesPerDevice))
	}
	if len(doc.Settings) > 0 {
		a.say("settings:")
		a.showSettings(doc.Settings)
	}
	for _, n := range doc.Notes {
		a.say("note: %s", n)
	}
}

// perDeviceText says how many bytes each device holds. Neighbouring devices with the
// same number are listed together.
func perDeviceText(bytes []int64) string {
	var parts []string
	for from := 0; from < len(bytes); {
		to := from + 1
		for to < len(bytes) && bytes[to] == bytes[from] {
			to++
		}
		switch {
		case to-from == len(bytes):
			return fmt.Sprintf("%s on each of %d devices", weft.Bytes(bytes[0]), len(bytes))
		case to-from == 1:
			parts = append(parts, fmt.Sprintf("%s on device %d", weft.Bytes(bytes[from]), from))
		default:
			parts = append(parts, fmt.Sprintf("%s on each of devices %d to %d", weft.Bytes(bytes[from]), from, to-1))
		}
		from = to
	}
	return strings.Join(parts, ", ")
}
