//go:build !linux

package checkpoint

// vector is a scatter read: it reads one range of a file into many pieces of memory.
type vector struct{ pieces [][]byte }

func (v *vector) reset() { v.pieces = v.pieces[:0] }

func (v *vector) add(b []byte) { v.pieces = append(v.pieces, b) }

// read fills the pieces from offset off.
func (v *vector) read(f *file, off, _ int64) error {
	for _, b := range v.pieces {
		if err := f.readAt(b, off); err != nil {
			return err
		}
		off += int64(len(b))
	}
	return nil
}
