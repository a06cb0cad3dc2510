package checkpoint

import (
	"fmt"
	"strings"
)

// sprintLine formats a text and makes it one line with single blanks.
func sprintLine(format string, args ...any) string {
	return strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")
}
