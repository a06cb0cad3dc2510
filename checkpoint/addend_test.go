package checkpoint_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"weft/checkpoint"
	"weft/dtype"
	"weft/tensor"
)

// ramp adds to each element a value that depends on its index alone.
type ramp struct{ step float32 }

func (r ramp) of(i int64) float32 { return r.step * float32(i%251) }

func (r *ramp) AddTo(values []float32, at int64) error {
	for i := range values {
		values[i] += r.of(at + int64(i))
	}
	return nil
}

// Whatever part is read, as whatever type, each element is the one that is stored, widened to f32 and
// scaled, plus what belongs to its index, rounded once.
func TestAddWhileReading(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		rows, columns := rapid.IntRange(1, 40).Draw(t, "rows"), rapid.IntRange(1, 70).Draw(t, "columns")
		stored := rapid.SampledFrom([]dtype.DType{dtype.F32, dtype.BF16, dtype.F16, dtype.F8E4M3}).Draw(t, "stored")
		as := rapid.SampledFrom([]dtype.DType{dtype.F32, dtype.BF16, dtype.F16}).Draw(t, "as")
		w := tensor.New(stored, rows, columns)
		seed := rapid.Uint64().Draw(t, "seed")
		for i := range w.Data {
			seed = seed*6364136223846793005 + 1442695040888963407
			w.Data[i] = byte(seed>>56) & 0x3f // no NaN and no infinity in any type
		}
		all := map[string]*tensor.Tensor{"m.weight": w}
		if stored == dtype.F8E4M3 {
			scales := make([]float32, rapid.SampledFrom([]int{1, rows}).Draw(t, "scales"))
			for i := range scales {
				scales[i] = 0.5 + float32(i)/7
			}
			s, err := tensor.FromFloat32s(dtype.F32, scales, len(scales))
			if err != nil {
				t.Fatal(err)
			}
			all["m.weight_scale"] = s
		}
		n++
		path := filepath.Join(dir, "w"+string(rune('a'+n%26))+".safetensors")
		if err := checkpoint.Write(path, all, nil, checkpoint.WriteOptions{Force: true}); err != nil {
			t.Fatal(err)
		}
		c, err := checkpoint.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		whole, err := c.Load(context.Background(), "m.weight", dtype.F32)
		if err != nil {
			t.Fatal(err)
		}
		base, err := whole.Float32s()
		if err != nil {
			t.Fatal(err)
		}
		add := &ramp{0.25}
		// Two devices want one part, a third another, and a fourth the same without an addend.
		parts := make([]checkpoint.Part, 4)
		cut := func(name string, size int) [2]int {
			lo := rapid.IntRange(0, size-1).Draw(t, name)
			return [2]int{lo, rapid.IntRange(lo+1, size).Draw(t, name+" end")}
		}
		for i := range parts {
			slices := [][2]int{cut("rows", rows), cut("columns", columns)}
			parts[i] = checkpoint.Part{Name: "m.weight", As: as, Slices: slices, Add: add}
			if i%2 == 1 {
				parts[i].Slices = parts[i-1].Slices
			}
			if i == 3 {
				parts[i].Add = nil
			}
			s := parts[i].Slices
			parts[i].Dst = make([]byte, (s[0][1]-s[0][0])*(s[1][1]-s[1][0])*as.Size())
		}
		if _, err := c.Read(context.Background(), parts, checkpoint.ReadOptions{Workers: 2}); err != nil {
			t.Fatal(err)
		}
		for i, p := range parts {
			var want []float32
			for r := p.Slices[0][0]; r < p.Slices[0][1]; r++ {
				for k := p.Slices[1][0]; k < p.Slices[1][1]; k++ {
					v := base[r*columns+k]
					if p.Add != nil {
						v += add.of(int64(r*columns + k))
					}
					want = append(want, v)
				}
			}
			rounded := roundTo(t, as, want)
			if string(rounded) != string(p.Dst) {
				t.Fatalf("part %d, %v of %v read as %v: other bytes", i, p.Slices, stored, as)
			}
		}
	})
}

// roundTo gives numbers in a type.
func roundTo(t *rapid.T, as dtype.DType, values []float32) []byte {
	t.Helper()
	if as == dtype.F32 {
		b := make([]byte, 4*len(values))
		for i, v := range values {
			binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(v))
		}
		return b
	}
	x, err := tensor.FromFloat32s(as, values, len(values))
	if err != nil {
		t.Fatal(err)
	}
	return x.Data
}

// What cannot be added to is refused before anything is read.
func TestAddIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w.safetensors")
	ints := tensor.New(dtype.I32, 2, 2)
	if err := checkpoint.Write(path, map[string]*tensor.Tensor{"n": ints, "x": tensor.New(dtype.F32, 2, 2)}, nil, checkpoint.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	c, err := checkpoint.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for name, as := range map[string]dtype.DType{"n": dtype.I32, "x": dtype.F64} {
		part := checkpoint.Part{Name: name, As: as, Dst: make([]byte, 4*as.Size()), Add: &ramp{1}}
		if as == dtype.F64 {
			part.As, part.Dst = dtype.F8E4M3, part.Dst[:4]
		}
		if _, err := c.Read(context.Background(), []checkpoint.Part{part}, checkpoint.ReadOptions{}); !errors.Is(err, checkpoint.ErrConversion) {
			t.Errorf("%s: %v", name, err)
		}
	}
	failing := checkpoint.Part{Name: "x", As: dtype.F32, Dst: make([]byte, 16), Add: broken{}}
	if _, err := c.Read(context.Background(), []checkpoint.Part{failing}, checkpoint.ReadOptions{}); !errors.Is(err, errBroken) {
		t.Errorf("an addend that fails: %v", err)
	}
}

var errBroken = errors.New("broken")

type broken struct{}

func (broken) AddTo([]float32, int64) error { return errBroken }
