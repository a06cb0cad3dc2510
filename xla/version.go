package xla

import (
	"fmt"

	"weft/fault"
	"weft/xla/internal/pjrt"
)

// The versions of the PJRT C API that weft knows: the least is that of the oldest plugin
// it was run with, the newest that of the header it was written from. Both belong to
// major version 0, in which functions and fields are only ever added.
const (
	apiMajor  = 0
	apiLeast  = 81
	apiNewest = 117
)

// checkVersion decides whether weft can use a plugin. A plugin of another major
// version, or of a minor version below the least that was tried, is refused: it may
// lack functions or lay its structs out differently. A plugin newer than the newest
// known version is used, with a note, because within a major version the API only
// grows.
func checkVersion(plugin string, v pjrt.Version) (note string, err error) {
	needed := fmt.Sprintf("%d.%d", apiMajor, apiLeast)
	if v.Major != apiMajor || v.Minor < apiLeast {
		return "", fault.New(ErrPluginVersion, PluginVersion{Plugin: plugin, Needed: needed, Have: v.String()},
			"plugin %s speaks PJRT API %v; weft needs %s or later within %d.x (known to %d.%d)", plugin, v, needed, apiMajor, apiMajor, apiNewest)
	}
	if v.Minor > apiNewest {
		note = fmt.Sprintf("plugin %s speaks PJRT API %v, newer than the %d.%d weft was written for; going on", plugin, v, apiMajor, apiNewest)
	}
	return note, nil
}
