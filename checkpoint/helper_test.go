package checkpoint

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"weft/fault"
)

// fileBytes builds a safetensors file from a header's text and data.
func fileBytes(header string, data ...byte) []byte {
	return fileAnnouncing(uint64(len(header)), header, data...)
}

// fileAnnouncing is fileBytes with a header length of its own.
func fileAnnouncing(n uint64, header string, data ...byte) []byte {
	b := binary.LittleEndian.AppendUint64(nil, n)
	return append(append(b, header...), data...)
}

// f32s encodes numbers.
func f32s(v ...float32) []byte {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

// floats decodes numbers.
func floats(b []byte) []float32 {
	v := make([]float32, len(b)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return v
}

// put writes a file into dir and gives its path.
func put(t testing.TB, dir, name string, b []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// sha is the first 16 hex digits of b's SHA-256.
func sha(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])[:16]
}

// openBytes opens b as a file.
func openBytes(t testing.TB, b []byte, opts ...Option) (*Checkpoint, error) {
	t.Helper()
	c, err := Open(put(t, t.TempDir(), "m.safetensors", b), opts...)
	if c != nil {
		t.Cleanup(func() { c.Close() })
	}
	return c, err
}

// mustOpen opens path.
func mustOpen(t testing.TB, path string, opts ...Option) *Checkpoint {
	t.Helper()
	c, err := Open(path, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// fieldsOf fails unless err has the kind and the fields, and gives these.
func fieldsOf[F any](t testing.TB, err error, kind error) F {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("error is %v, want kind %v", err, kind)
	}
	f, ok := fault.Fields[F](err)
	if !ok {
		t.Fatalf("error %v has no fields %T", err, f)
	}
	return f
}

// allocated is how many bytes of the heap f asks for, at best of three.
func allocated(f func()) uint64 {
	least := uint64(math.MaxUint64)
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}
