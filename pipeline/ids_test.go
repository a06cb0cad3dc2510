package pipeline

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"weft/checkpoint"
	"weft/models"
	_ "weft/models/all"
	"weft/tensor"
)

const pipelinesDir = "../testdata/pipelines/"

// readRequest reads the texts of a folder's request: the prompt, and a negative prompt if there is
// one.
func readRequest(t *testing.T, folder string) []string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(pipelinesDir, folder, "request.json"))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Prompt   string
		Negative *string `json:"negative_prompt"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Negative == nil {
		return []string{doc.Prompt}
	}
	return []string{doc.Prompt, *doc.Negative}
}

// Every prompt becomes the ids that the release's tokenizer makes of it, within the template and
// padded, for each of a release's encoders; and the mask says which are no padding.
func TestIDsAreTheReleases(t *testing.T) {
	for _, folder := range []string{"wan21_t2v", "cosmos25_t2w", "hunyuan_video", "cogvideox_2b", "cogvideox_5b", "ltx_090", "ltx_095_i2v",
		"cogvideox_5b_i2v", "cogvideox15_5b", "cogvideox15_5b_i2v", "hunyuan_i2v", "hunyuan_i2v_33ch", "hunyuan15_t2v", "hunyuan15_i2v"} {
		t.Run(folder, func(t *testing.T) {
			p, err := Open(pipelinesDir+folder, OpenOptions{Need: []Part{TextEncoder, Tokenizer}})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			want, _, err := checkpoint.LoadFile(t.Context(), pipelinesDir+folder+"/values.safetensors")
			if err != nil {
				t.Fatal(err)
			}
			rows := p.Settings.Count("text_len")
			var prompts []*prompt
			for _, text := range readRequest(t, folder) {
				read, err := p.readPrompt("the prompt", text, rows, models.VideoFacts{Width: 48, Height: 32, Frames: 9, FPS: 24})
				if err != nil {
					t.Fatal(err)
				}
				prompts = append(prompts, read)
			}
			compared := 0
			for i, name := range []string{"", "_2"}[:len(p.texts)] {
				b, err := p.texts[i].newBatch(prompts, i, rows)
				if err != nil {
					t.Fatal(err)
				}
				ids, mask := b.tensors()
				for what, got := range map[string]*tensor.Tensor{"ids" + name: ids, "mask" + name: mask} {
					if w := want[what]; w != nil {
						compared++
						if !slices.Equal(got.Shape, w.Shape) || !slices.Equal(got.Data, w.Data) {
							t.Errorf("%s are %v %v, want %v %v", what, got.Shape, got, w.Shape, w)
						}
					}
				}
			}
			if compared == 0 && folder != "wan21_t2v" {
				t.Error("nothing was compared")
			}
		})
	}
}
