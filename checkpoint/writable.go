package checkpoint

import (
	"os"
	"path/filepath"

	"weft/fault"
)

// ErrOutput: an output file that cannot be made.
var ErrOutput = fault.NewKind("output")

// CheckWritable says early what Write would say at the end: ErrExists for a file
// that is there and not to be replaced, ErrOutput for a folder that is not.
func CheckWritable(path string, force bool) error {
	dir := filepath.Dir(path)
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return fault.New(ErrOutput, Path{path}, "cannot write %s: %s is no folder", path, dir)
	}
	return mayWrite(path, force)
}
