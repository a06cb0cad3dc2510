package checkpoint

import (
	"fmt"
	"strings"
)

// sprintLine formats one line.
func sprintLine(format string, args ...any) string {
	return strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")
}
