package xla

import (
	"fmt"

	"weft/fault"
	"weft/xla/internal/pjrt"
)

// The PJRT C API versions weft knows. The least is the oldest plugin it was run
// with; the newest is the header it was written against. Both are of major
// version 0, which promises that functions and fields are only ever added.
const (
	apiMajor  = 0
	apiLeast  = 81
	apiNewest = 117
)

// checkVersion refuses another major version, because its structs may differ, and a minor
// one below the least. One above the newest goes on with a note, because minor versions
// only add.
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
