package mosaic

import (
	"encoding/base64"
	"encoding/json"
)

// Config is the backend_config of the custom call, as libtpu takes it.
func (s Spec) Config() (string, error) {
	text, err := s.Text()
	if err != nil {
		return "", err
	}
	c := map[string]any{"custom_call_config": map[string]any{
		"body": base64.StdEncoding.EncodeToString([]byte(text)), "serialization_format": 1, "needs_layout_passes": true,
	}}
	out, err := json.Marshal(c)
	return string(out), err
}
