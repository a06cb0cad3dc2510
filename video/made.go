package video

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Made is what made a video. It stands in the file as the comment, in JSON.
type Made struct {
	Weft      string          `json:"weft"` // the version
	Model     string          `json:"model"`
	ModelHash string          `json:"model_hash,omitempty"`
	Seed      uint64          `json:"seed"`
	Settings  json.RawMessage `json:"settings,omitempty"` // a document
}

// encodeComment makes the JSON, in a line of ASCII: containers disagree on what other text is.
func (m Made) encodeComment() (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(m); err != nil {
		return "", err
	}
	var out []byte
	for _, r := range string(bytes.TrimSpace(b.Bytes())) {
		switch {
		case r < utf8.RuneSelf:
			out = append(out, byte(r))
		case r < 0x10000:
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			r -= 0x10000
			out = fmt.Appendf(out, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		}
	}
	return string(out), nil
}
