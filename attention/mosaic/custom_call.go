package mosaic

import (
	"encoding/base64"
	"encoding/json"
)

// Call is the target name of the custom call that libtpu compiles as a Mosaic kernel.
const Call = "tpu_custom_call"

// Config returns the backend_config of the custom call, in JSON as libtpu reads it. The
// caller has made sure that Check finds nothing wrong with s; Config panics otherwise.
func (s Kernel) Config() string {
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
