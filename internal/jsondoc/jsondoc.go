// Package jsondoc writes the documents of --json and of the explorer's server,
// byte for byte the same.
package jsondoc

import (
	"encoding/json"
	"io"
)

// Write writes v as one indented document; < and & stay as they are.
func Write(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
