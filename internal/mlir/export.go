package mlir

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"weft/fault"
)

// The file that jax.export's serialize() writes is a flatbuffer whose root is a
// table "Exported". Its fields, by their place in the schema:
const (
	exportVersion    = 0  // uint16
	exportDevicesOld = 6  // int16, before November 2025
	exportPlatforms  = 9  // [string]
	exportProgram    = 13 // [byte], bytecode
	exportConvention = 14 // uint16
	exportDevices    = 18 // uint32
)

// maxPlatforms bounds the platforms of an export; JAX knows four.
const maxPlatforms = 64

// flat reads a flatbuffer. Every offset is held against the bytes that are there,
// and all of them point forwards, so that nothing is gone through twice.
type flat struct {
	b     []byte
	field string // that is read
	err   error
}

func (f *flat) fail(at int, format string, args ...any) {
	if f.err == nil {
		f.err = fault.New(ErrDamaged, Damage{Export, f.field, at}, "the jax.export file is damaged: %s, byte %d: %s", f.field, at, fmt.Sprintf(format, args...))
	}
}

// bytesAt are the n bytes at an offset.
func (f *flat) bytesAt(at, n int) []byte {
	switch {
	case f.err != nil:
	case at < 0 || at > len(f.b):
		f.fail(min(max(at, 0), len(f.b)), "an offset points to byte %d, the file has %d", at, len(f.b))
	case n < 0 || n > len(f.b)-at:
		f.fail(at, "%d bytes are needed, %d are left", n, len(f.b)-at)
	}
	if f.err != nil {
		return make([]byte, min(max(n, 0), 8))
	}
	return f.b[at : at+n]
}

func (f *flat) uint16At(at int) int { return int(binary.LittleEndian.Uint16(f.bytesAt(at, 2))) }

func (f *flat) uint32At(at int) int { return int(binary.LittleEndian.Uint32(f.bytesAt(at, 4))) }

// table is a table's place and the places of its fields, 0 for one that it has not.
type table struct {
	at     int
	vtable int
	fields int
}

func (f *flat) rootTable() table {
	f.field = "root table"
	t := table{at: f.uint32At(0)}
	t.vtable = t.at - int(int32(f.uint32At(t.at)))
	size := f.uint16At(t.vtable)
	if f.err == nil && (size < 4 || size%2 != 0) {
		f.fail(t.vtable, "a list of fields of %d bytes", size)
	}
	f.bytesAt(t.vtable, size)
	t.fields = (size - 4) / 2
	return t
}

// fieldPlace is where a field's value stands, or 0.
func (f *flat) fieldPlace(t table, id int, name string) int {
	f.field = name
	if f.err != nil || id >= t.fields {
		return 0
	}
	offset := f.uint16At(t.vtable + 4 + 2*id)
	if offset == 0 {
		return 0
	}
	return t.at + offset
}

// vectorAt gives the place of a vector's first element and how many there are, of
// size bytes each.
func (f *flat) vectorAt(at, size int) (first, n int) {
	if at == 0 || f.err != nil {
		return 0, 0
	}
	start := at + f.uint32At(at)
	n = f.uint32At(start)
	if f.err == nil && n > (len(f.b)-start-4)/size {
		f.fail(start, "%d elements of %d bytes, %d bytes are left", n, size, len(f.b)-start-4)
	}
	if f.err != nil {
		return 0, 0
	}
	return start + 4, n
}

// readExport reads m.Code, an export's whole file, and leaves the bytecode in its place.
func (m *Module) readExport(file []byte) error {
	f := &flat{b: file}
	t := f.rootTable()
	version := 0
	if at := f.fieldPlace(t, exportVersion, "serialization_version"); at > 0 {
		version = f.uint16At(at)
	}
	inside := bytes.Contains(file, bytecodeMagic)
	if !inside && (f.err != nil || version < 1 || version > 1000 || t.fields <= exportProgram) {
		return notAProgram("a binary file of a form that is not known here")
	}
	if at := f.fieldPlace(t, exportDevicesOld, "nr_devices_short"); at > 0 {
		m.Devices = int(int16(f.uint16At(at)))
	}
	if at := f.fieldPlace(t, exportDevices, "nr_devices"); at > 0 {
		m.Devices = f.uint32At(at)
	}
	if f.err == nil && (m.Devices < 1 || m.Devices > maxDevices) {
		f.fail(0, "%d is no number of devices", m.Devices)
	}
	if at := f.fieldPlace(t, exportConvention, "calling_convention_version"); at > 0 {
		m.Convention = f.uint16At(at)
	}
	first, n := f.vectorAt(f.fieldPlace(t, exportPlatforms, "platforms"), 4)
	if n > maxPlatforms {
		f.fail(first, "%d platforms, %d are the most", n, maxPlatforms)
	}
	for i := range n {
		if f.err != nil {
			break
		}
		at, length := f.vectorAt(first+4*i, 1)
		m.Platforms = append(m.Platforms, string(f.bytesAt(at, length)))
	}
	at, n := f.vectorAt(f.fieldPlace(t, exportProgram, "mlir_module_serialized"), 1)
	code := f.bytesAt(at, n)
	if f.err == nil && !bytes.HasPrefix(code, bytecodeMagic) {
		f.fail(at, "the program, of %d bytes, is no bytecode", n)
	}
	if f.err != nil {
		return f.err
	}
	m.Code = code
	return m.readBytecode(at)
}
