package wanvae_test

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft"
	"weft/internal/modeltest"
	"weft/models"
	"weft/request"
	"weft/tensor"
)

// Releases have the autoencoder as a .pth, here in bf16.
func TestTorchCheckpoint(t *testing.T) {
	in := modeltest.Tensors(t, dir+"/inputs.safetensors")
	want := modeltest.Tensors(t, dir+"/expected.safetensors")[fixture.Want]
	for _, path := range []string{dir + "/release", dir + "/release/Wan2.1_VAE.pth"} {
		out := modeltest.Forward(t, modeltest.Open(t, path), in, weft.Options{Device: "reference", Request: request.Must("--mesh tp=2")})
		modeltest.Close(t, path, out["out"], want, 1e-4)
	}
}

// In a release the autoencoder lies beside the transformer's config.json. Named
// as a file it is what its tensors are; a folder is what its config says, and the
// tensors then do not fit.
func TestBesideTheTransformersConfig(t *testing.T) {
	m, err := models.ByName("wan2.1-vae")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "config.json"), []byte(`{"_class_name":"WanModel","model_type":"t2v","dim":1536,"ffn_dim":8960,"num_heads":12,"num_layers":30,"freq_dim":256,"in_dim":16,"out_dim":16,"text_len":512,"eps":1e-6}`), 0o644); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "vae.safetensors")
	hollow(t, file, m.Params(0))
	got := modeltest.Open(t, file)
	if got.Name() != "wan2.1-vae" || !strings.Contains(strings.Join(got.Notices, "\n"), "config.json describes wan2.1-t2v-1.3b: identified as wan2.1-vae") {
		t.Errorf("%s: %q", got.Name(), got.Notices)
	}
	if _, err := weft.Open(folder); err == nil || !strings.Contains(err.Error(), "describes wan2.1-t2v-1.3b, and the tensors beside it are those of wan2.1-vae") || !strings.Contains(err.Error(), "825 tensors missing") {
		t.Errorf("the folder: %v", err)
	}
	// Other shapes are no preset's.
	wider := m.Params(0)
	for i := range wider {
		wider[i].Shape[0]++
	}
	hollow(t, file, wider)
	if _, err := weft.Open(file); err == nil {
		t.Error("tensors of other shapes pass for the autoencoder")
	}
}

// hollow writes a checkpoint of zeros that takes no room on the disk.
func hollow(t *testing.T, path string, params []models.Param) {
	t.Helper()
	type entry struct {
		DType   string `json:"dtype"`
		Shape   []int  `json:"shape"`
		Offsets [2]int `json:"data_offsets"`
	}
	header, at := map[string]entry{}, 0
	for _, p := range params {
		n := 2 * tensor.Elements(p.Shape)
		header[p.Name] = entry{"BF16", p.Shape, [2]int{at, at + n}}
		at += n
	}
	text, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	b := append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, int64(len(b)+at)); err != nil {
		t.Fatal(err)
	}
}
