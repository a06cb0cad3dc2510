package fault

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
)

// ErrInternal is a fault of weft's own: a panic that was caught. The fields are Internal.
var ErrInternal = NewKind("internal")

// Internal says where a panic came from.
type Internal struct {
	Panic string `json:"panic"`
	At    string `json:"at"` // file.go:123
}

// Recover, deferred, makes an ErrInternal of a panic of the function that defers
// it. It stands at the top of a command and of goroutines, whose panics would end
// the process with a dump that tells its user nothing.
func Recover(err *error) {
	if r := recover(); r != nil {
		*err = Panicked(r)
	}
}

// Panicked is the ErrInternal of a value that recover gave. It is called by the
// deferred function itself, so that the panic's place is still known.
func Panicked(r any) error {
	f := Internal{Panic: fmt.Sprint(r), At: panickedAt()}
	return New(ErrInternal, f, "weft failed inside itself at %s (%s): this is a mistake in weft; please report it with the command line", f.At, f.Panic)
}

// panickedAt is the first place of weft's own below the panic, or of anyone's.
func panickedAt() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	first, after := "an unknown place", false
	for {
		f, more := frames.Next()
		switch {
		case strings.HasPrefix(f.Function, "runtime."):
			after = after || f.Function == "runtime.gopanic"
		case after:
			at := fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
			if strings.HasPrefix(f.Function, "weft/") || strings.HasPrefix(f.Function, "weft.") || strings.HasPrefix(f.Function, "main.") {
				return at
			}
			if first == "an unknown place" {
				first = at
			}
		}
		if !more {
			return first
		}
	}
}
