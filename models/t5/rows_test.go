package t5_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"weft"
	"weft/dtype"
	"weft/internal/modeltest"
	"weft/models"
	"weft/request"
	"weft/tensor"
)

// rowsOf looks ids up in a table.
func rowsOf(t *testing.T, table, ids *tensor.Tensor) *tensor.Tensor {
	t.Helper()
	numbers, err := ids.Int64s()
	if err != nil {
		t.Fatal(err)
	}
	width := table.Shape[1] * table.DType.Size()
	out := tensor.New(table.DType, append(slices.Clone(ids.Shape), table.Shape[1])...)
	for i, id := range numbers {
		copy(out.Data[i*width:][:width], table.Data[int(id)*width:])
	}
	return out
}

// The rows of the table in place of ids give the same bytes, on every kind of split, and the
// table is not read.
func TestRowsInPlaceOfIDs(t *testing.T) {
	m := modeltest.Open(t, umt5)
	in := modeltest.Tensors(t, umt5+"/inputs.safetensors")
	name := m.Stored(m.Features().TokenTable)
	table := modeltest.Tensors(t, umt5+"/model.safetensors")[name]
	given := map[string]*tensor.Tensor{"rows": rowsOf(t, table, in["ids"]), "mask": in["mask"]}
	for _, mesh := range []string{"", "tp=2", "sp=2", "dp=2", "tp=2,sp=2"} {
		o := weft.Options{Device: "reference", Request: request.Must("--mesh=" + mesh)}
		want := modeltest.Forward(t, m, map[string]*tensor.Tensor{"ids": in["ids"], "mask": in["mask"]}, o)
		r, err := m.Start(t.Context(), given, o)
		if err != nil {
			t.Fatal(mesh, err)
		}
		defer r.Close()
		got, err := r.Forward(t.Context())
		if err != nil {
			t.Fatal(mesh, err)
		}
		for _, out := range []string{"out", "out_zeroed_pads"} {
			if !bytes.Equal(got[out].Data, want[out].Data) {
				t.Errorf("%s: %s differs", mesh, out)
			}
		}
		e, _ := m.Checkpoint.Lookup(name)
		var whole int64
		for _, e := range m.Checkpoint.Entries() {
			whole += e.Bytes
		}
		if read := r.Report().BytesRead; read > whole-e.Bytes {
			t.Errorf("%s: %d bytes read of %d, of which the table has %d", mesh, read, whole, e.Bytes)
		}
	}
	for _, wrong := range []map[string]*tensor.Tensor{
		{"rows": given["rows"], "ids": in["ids"]},
		{"rows": tensor.New(dtype.F32, 1, 4, 63)},
		{"rows": tensor.New(dtype.F32, 4, 64)},
		{"rows": tensor.New(dtype.I32, 1, 4, 64)},
		{"rows": tensor.New(dtype.F32, 1, 4, 64), "mask": tensor.New(dtype.I32, 1, 5)},
		{"rows": tensor.New(dtype.F32, 1, 4, 64), "mask": tensor.New(dtype.F32, 1, 4)},
	} {
		if _, err := m.Request(wrong); !errors.Is(err, models.ErrInputs) {
			t.Errorf("%v: %v", wrong, err)
		}
	}
}

// Encoders are told by the shapes of their tensors, under every publisher's names.
func TestConfigsOfShapes(t *testing.T) {
	for _, preset := range []string{"umt5-xxl", "t5-v1.1-xxl"} {
		m, err := models.ByName(preset)
		if err != nil {
			t.Fatal(err)
		}
		shapes := map[string][]int{}
		for _, p := range m.Params(0) {
			shapes[p.Name] = p.Shape
		}
		found, err := models.FromShapes(shapes)
		if err != nil || len(found) != 1 || found[0].Name() != preset {
			t.Errorf("%s: %v %v", preset, found, err)
		}
		for name := range shapes {
			less := map[string][]int{}
			for n, s := range shapes {
				if n != name {
					less[n] = s
				}
			}
			if _, err := models.FromShapes(less); err != nil { // what is missing is for the caller to find
				t.Errorf("without %s: %v", name, err)
			}
			break
		}
	}
	if found, err := models.FromShapes(map[string][]int{"token_embedding.weight": {8, 4}}); err != nil || len(found) > 0 {
		t.Errorf("a table alone: %v %v", found, err)
	}
}
