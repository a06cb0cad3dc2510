package mosaic

import (
	"encoding/base64"
	"encoding/json"
)

// Call is the custom call's target.
const Call = "tpu_custom_call"

// Config is the backend_config of the custom call, as libtpu takes it, of a spec
// that Check has nothing against.
func (s Spec) Config() string {
	text, err := s.Text()
	if err != nil {
		panic("mosaic: " + err.Error())
	}
	c := map[string]any{"custom_call_config": map[string]any{
		"body": base64.StdEncoding.EncodeToString([]byte(text)), "serialization_format": 1, "needs_layout_passes": true,
	}}
	out, err := json.Marshal(c)
	if err != nil {
		panic("mosaic: " + err.Error())
	}
	return string(out)
}
