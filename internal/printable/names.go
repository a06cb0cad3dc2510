package printable

import (
	"fmt"
	"strings"
)

// maxNames bounds the names that a message spells out; an error's fields carry all of them.
const maxNames = 8

// ListNames prints names for a message: all names of a short list, or the first ones and
// the number of the others. It escapes nothing.
func ListNames(names []string) string {
	if len(names) <= maxNames {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNames], ", "), len(names)-maxNames)
}

// ClipName shortens a name for a message to 200 bytes and dots. It escapes nothing.
func ClipName(name string) string {
	const longest = 200
	if len(name) <= longest {
		return name
	}
	return name[:longest] + "..."
}
