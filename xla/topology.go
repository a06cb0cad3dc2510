package xla

import (
	"path/filepath"
	"strings"

	"weft/xla/plugin"
)

// device is what the plugin drives, by its pin or by its file's name where
// it has none; there is no client yet to ask.
func (p *Plugin) device() string {
	if pin, err := plugin.Lookup(p.engine.Name); err == nil {
		return pin.Device
	}
	base := strings.ToLower(filepath.Base(p.engine.Path))
	switch {
	case strings.Contains(base, "tpu"):
		return "tpu"
	case strings.Contains(base, "cuda"), strings.Contains(base, "gpu"):
		return "cuda"
	}
	return "cpu"
}
