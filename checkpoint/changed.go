package checkpoint

import (
	"fmt"
	"os"

	"weft/fault"
)

// CheckUnchanged reports every file, of those that have the parts, that is no longer what was
// opened: its size or its time of writing differs, or another file has its name. A caller who
// reads the same tensors again and again asks this before and after, because Read itself
// notices only a file that became shorter. Error: ErrFileChanged, one for each file, with the
// first tensor of the parts that is in it.
func (c *Checkpoint) CheckUnchanged(parts []Part) error {
	var l fault.List
	seen := map[*file]bool{}
	for _, p := range parts {
		r := c.findRecord(p.Name)
		if r == nil || seen[r.file] {
			continue
		}
		seen[r.file] = true
		if what := r.file.describeChange(); what != "" {
			l.Add(fault.New(ErrFileChanged, FileChanged{File: r.File, Tensor: p.Name, Change: what},
				"tensor %s: %s changed while it was in use: %s; open the checkpoint again", p.Name, r.File, what))
		}
	}
	return l.Err()
}

// describeChange says how the file differs from what was opened; "" if it does not.
func (f *file) describeChange() string {
	now, err := f.f.Stat()
	if err != nil {
		return err.Error()
	}
	if now.Size() != f.size {
		return fmt.Sprintf("it had %d bytes and has %d", f.size, now.Size())
	}
	if !now.ModTime().Equal(f.opened.ModTime()) {
		return fmt.Sprintf("it was written at %s, after it was opened", now.ModTime().Format("2006-01-02 15:04:05.000"))
	}
	named, err := os.Stat(f.path)
	if err != nil {
		return err.Error()
	}
	if !os.SameFile(named, now) {
		return "another file has its name"
	}
	return ""
}
