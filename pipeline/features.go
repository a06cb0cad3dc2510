package pipeline

import (
	"maps"

	"weft/checkpoint"
	"weft/tensor"
)

// features are what the text and the image became, under the names that weft sample reads:
// context and negative, and the conditions.
type features map[string]*tensor.Tensor

// selectConditions returns the features that are no texts.
func (f features) selectConditions() map[string]*tensor.Tensor {
	out := map[string]*tensor.Tensor{}
	for name, t := range f {
		if name != "context" && name != "negative" {
			out[name] = t
		}
	}
	return out
}

// write writes the features to a file.
func (f features) write(path string, force bool) error {
	all := map[string]*tensor.Tensor{}
	maps.Copy(all, f)
	return checkpoint.Write(path, all, map[string]string{"format": "pt"}, checkpoint.WriteOptions{Force: force})
}
