package checkpoint

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/dtype"
)

const fixture = "../testdata/wan21_t2v"

// Rewriting a file of the reference gives its bytes: same order, same header, same padding.
func TestGoldenRewrite(t *testing.T) {
	for _, name := range []string{
		"model.safetensors", "model_bf16.safetensors", "inputs.safetensors", "expected.safetensors",
		"diffusers/diffusion_pytorch_model-00001-of-00003.safetensors",
		"../primitives/inputs.safetensors", "../schedulers/expected.safetensors",
	} {
		path := filepath.Join(fixture, name)
		all, meta, err := LoadFile(context.Background(), path)
		if err != nil {
			t.Fatal(err)
		}
		copied := filepath.Join(t.TempDir(), "copy.safetensors")
		if err := Write(copied, all, meta, WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(copied)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: the copy differs", name)
		}
	}
}

// The bf16 file is the f32 file exactly, both ways.
func TestGoldenBF16(t *testing.T) {
	ctx := context.Background()
	full := mustOpen(t, fixture) // the folder: model.safetensors among others
	half := mustOpen(t, filepath.Join(fixture, "model_bf16.safetensors"))
	if len(full.Entries()) != 69 || len(half.Entries()) != 69 || countBytes(full) != 2*countBytes(half) {
		t.Fatalf("%d and %d tensors, %d and %d bytes", len(full.Entries()), len(half.Entries()), countBytes(full), countBytes(half))
	}
	for _, e := range full.Entries() {
		for _, as := range []dtype.DType{dtype.F32, dtype.BF16, dtype.F64, dtype.F16} {
			a, err := full.Load(ctx, e.Name, as)
			if err != nil {
				t.Fatal(err)
			}
			b, err := half.Load(ctx, e.Name, as)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(a.Data, b.Data) {
				t.Errorf("%s as %v differs", e.Name, as)
			}
		}
	}
	if b, _, err := full.ConfigJSON(); err != nil || !bytes.Contains(b, []byte("num_layers")) {
		t.Errorf("config %q, %v", b, err)
	}
}

// The diffusers copy is in three shards with an index, under other names.
func TestGoldenSharded(t *testing.T) {
	ctx := context.Background()
	full := mustOpen(t, fixture)
	dir := filepath.Join(fixture, "diffusers")
	for _, path := range []string{dir, filepath.Join(dir, "diffusion_pytorch_model.safetensors.index.json")} {
		c := mustOpen(t, path)
		if len(c.Entries()) != 69 || len(c.Files()) != 3 || len(c.Notices()) != 0 || countBytes(c) != countBytes(full) {
			t.Fatalf("%d tensors, files %q, notices %q, %d bytes", len(c.Entries()), c.Files(), c.Notices(), countBytes(c))
		}
		for diffusers, official := range map[string]string{
			"blocks.1.attn1.to_q.weight":        "blocks.1.self_attn.q.weight",
			"blocks.0.attn2.to_out.0.bias":      "blocks.0.cross_attn.o.bias",
			"blocks.1.ffn.net.0.proj.weight":    "blocks.1.ffn.0.weight",
			"patch_embedding.weight":            "patch_embedding.weight",
			"proj_out.weight":                   "head.head.weight",
			"condition_embedder.time_proj.bias": "time_projection.1.bias",
		} {
			a, err := full.Load(ctx, official, dtype.Invalid)
			if err != nil {
				t.Fatal(err)
			}
			b, err := c.Load(ctx, diffusers, dtype.Invalid)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(a.Data, b.Data) {
				t.Errorf("%s differs from %s", diffusers, official)
			}
		}
		if b, _, err := c.ConfigJSON(); err != nil || !bytes.Contains(b, []byte("WanTransformer3DModel")) {
			t.Errorf("config %q, %v", b, err)
		}
	}
	if _, err := Open("../testdata"); err == nil || !strings.Contains(err.Error(), "these folders have one: ../testdata/") {
		t.Errorf("a folder of folders: %v", err)
	}
}

// wan14B lists the tensors of Wan2.1 14B, official names, as released: six shards of bf16.
func wan14B() []Entry {
	const dim, ffn = 5120, 13824
	var all []Entry
	add := func(name string, shape ...int) {
		all = append(all, Entry{Name: name, DType: dtype.BF16, Shape: shape})
	}
	add("patch_embedding.weight", dim, 16, 1, 2, 2)
	add("patch_embedding.bias", dim)
	for i := range 40 {
		b := fmt.Sprintf("blocks.%d.", i)
		for _, a := range []string{"self_attn.", "cross_attn."} {
			for _, p := range []string{"q", "k", "v", "o"} {
				add(b+a+p+".weight", dim, dim)
				add(b+a+p+".bias", dim)
			}
			add(b+a+"norm_q.weight", dim)
			add(b+a+"norm_k.weight", dim)
		}
		add(b+"ffn.0.weight", ffn, dim)
		add(b+"ffn.0.bias", ffn)
		add(b+"ffn.2.weight", dim, ffn)
		add(b+"ffn.2.bias", dim)
		add(b+"norm3.weight", dim)
		add(b+"norm3.bias", dim)
		add(b+"modulation", 1, 6, dim)
	}
	for name, shape := range map[string][]int{
		"text_embedding.0.weight": {dim, 4096}, "text_embedding.2.weight": {dim, dim}, "time_embedding.0.weight": {dim, 256},
		"time_embedding.2.weight": {dim, dim}, "time_projection.1.weight": {6 * dim, dim}, "head.head.weight": {64, dim},
	} {
		add(name, shape...)
		add(strings.TrimSuffix(name, "weight")+"bias", shape[0])
	}
	add("head.modulation", 1, 2, dim)
	return all
}

// sparse14B writes the 14B model in six shards with an index and no data.
func sparse14B(t testing.TB) string {
	t.Helper()
	all := wan14B()
	dir := t.TempDir()
	var index strings.Builder
	index.WriteString(`{"metadata":{"total_size":28576983168},"weight_map":{`)
	per := (len(all) + 5) / 6
	for s := range 6 {
		part := all[s*per : min(len(all), (s+1)*per)]
		name := fmt.Sprintf("diffusion_pytorch_model-%05d-of-00006.safetensors", s+1)
		if err := CreateSparse(filepath.Join(dir, name), part...); err != nil {
			t.Fatal(err)
		}
		for i, e := range part {
			if s+i > 0 {
				index.WriteByte(',')
			}
			fmt.Fprintf(&index, "%q:%q", e.Name, name)
		}
	}
	index.WriteString("}}")
	put(t, dir, "diffusion_pytorch_model.safetensors.index.json", []byte(index.String()))
	return dir
}

// Opening a 14B model reads 1095 headers and nothing else.
func TestOpen14B(t *testing.T) {
	dir := sparse14B(t)
	c := mustOpen(t, dir)
	if len(c.Entries()) != 1095 || countElements(c) != 14288491584 || countBytes(c) != 28576983168 || len(c.Notices()) != 0 {
		t.Errorf("%d tensors, %d elements, %d bytes, notices %q", len(c.Entries()), countElements(c), countBytes(c), c.Notices())
	}
	if c.BytesRead() != 0 {
		t.Errorf("%d bytes of data read", c.BytesRead())
	}
}

func BenchmarkOpen14B(b *testing.B) {
	dir := sparse14B(b)
	b.ReportAllocs()
	for b.Loop() {
		c, err := Open(dir)
		if err != nil {
			b.Fatal(err)
		}
		c.Close()
	}
}
