// Package mlir reads what a StableHLO program says of itself before any compiler
// sees it: how many devices it is for, whether Shardy's annotations are in it, which
// platforms it was lowered for and which custom calls it makes. Programs come as
// text, as MLIR bytecode, or as the file that jax.export's serialize() writes, which
// is a flatbuffer around bytecode.
//
// Nothing here checks that a program is valid: that is the compiler's part. Every
// offset and count is held against the bytes that are there, so memory stays within a
// small multiple of the file's size.
package mlir

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weft/fault"
)

// Kinds of errors.
var (
	// ErrFormat: the bytes are no StableHLO program, but something else.
	ErrFormat = fault.NewKind("program-format")
	// ErrDamaged: the bytes begin as a program and cannot be read to their end.
	ErrDamaged = fault.NewKind("program-damaged")
)

// Format are the fields of ErrFormat.
type Format struct {
	Is string `json:"is"` // what the bytes look like
}

// Damage are the fields of ErrDamaged. Byte is the offset in the file.
type Damage struct {
	Form string `json:"form"`
	Part string `json:"part"`
	Byte int    `json:"byte"`
}

// The forms a program comes in.
const (
	Text     = "text"
	Bytecode = "bytecode"
	Export   = "jax.export"
)

// Module is what a program says of itself.
type Module struct {
	Form string
	// Code is the program as a compiler takes it: the text, or the bytecode alone.
	Code []byte
	// Producer is what wrote the bytecode, such as StableHLO_v1.15.0.
	Producer string
	// Replicas and Partitions are the module's attributes mhlo.num_replicas and
	// mhlo.num_partitions; 0 where it has none. An attribute whose value is no positive
	// 32-bit integer is in Illegal, as written.
	Replicas, Partitions int
	Illegal              []string
	// Shardy says whether annotations of Shardy are in it: its dialect, or the
	// frontend attributes that carry it (xla.sdy.*). GSPMD says whether mhlo.sharding is.
	Shardy, GSPMD bool
	// Counts are the numbers of devices that meshes and shardings name, each once.
	Counts []Count
	// Uncounted are meshes and shardings whose number of devices was not found: those
	// that name none ("{replicated}") and those in a form that is not known here.
	Uncounted []string
	// Calls are the targets of its custom calls, each once, in alphabetical order.
	Calls []string
	// Members is the largest device number in a collective's replica groups, plus 1;
	// 0 where none is written out.
	Members int
	// Platforms, Devices and Convention are what an export's own file says: the
	// platforms it was lowered for, its number of devices and its calling convention.
	Platforms  []string
	Devices    int
	Convention int
}

// Count is a number of devices and what in the program names it.
type Count struct {
	What    string // "mesh of 2x4", `sharding "{devices=[8,1]<=[8]}"`
	Devices int
}

var bytecodeMagic = []byte("ML\xefR")

// Read reads a program. Errors: ErrFormat, ErrDamaged.
func Read(program []byte) (*Module, error) {
	m := &Module{Code: program}
	var err error
	switch {
	case bytes.HasPrefix(program, bytecodeMagic):
		m.Form = Bytecode
		err = m.readBytecode(0)
	case looksLikeText(program):
		m.Form = Text
		err = m.scanText(program)
	default:
		if what := foreignFormat(program); what != "" {
			return nil, notAProgram(what)
		}
		m.Form = Export
		err = m.readExport(program)
	}
	if err != nil {
		return nil, err
	}
	slices.Sort(m.Calls)
	m.Calls = slices.Compact(m.Calls)
	slices.SortStableFunc(m.Counts, func(a, b Count) int { return cmp.Compare(b.Devices, a.Devices) })
	m.Counts = slices.CompactFunc(m.Counts, func(a, b Count) bool { return a.Devices == b.Devices })
	slices.Sort(m.Uncounted)
	m.Uncounted = slices.Compact(m.Uncounted)
	return m, nil
}

func notAProgram(what string) error {
	return fault.New(ErrFormat, Format{what}, "%s, no StableHLO program: want StableHLO as text or portable bytecode, or the file of jax.export's serialize()", what)
}

// foreignFormats are files that people have beside their programs, by how they begin.
var foreignFormats = []struct{ magic, what string }{
	{"HloModule", "HLO text (write the program as StableHLO: it begins with \"module\")"},
	{"PK\x03\x04", "a zip archive (unpack it first)"},
	{"\x1f\x8b", "gzip (unpack it first)"},
	{"\x28\xb5\x2f\xfd", "zstd (unpack it first)"},
	{"\xfd7zXZ", "xz (unpack it first)"},
	{"BZh", "bzip2 (unpack it first)"},
	{"\x89HDF", "HDF5"},
	{"GGUF", "GGUF"},
	{"\x7fELF", "an ELF file"},
	{"BC\xc0\xde", "LLVM bitcode"},
	{"\xff\xfe", "text in UTF-16 (write it as UTF-8)"},
	{"\xfe\xff", "text in UTF-16 (write it as UTF-8)"},
	{"\x80\x02", "a Python pickle"}, {"\x80\x03", "a Python pickle"}, {"\x80\x04", "a Python pickle"}, {"\x80\x05", "a Python pickle"},
}

func foreignFormat(b []byte) string {
	for _, f := range foreignFormats {
		if bytes.HasPrefix(b, []byte(f.magic)) {
			return f.what
		}
	}
	if len(b) > 9 && b[8] == '{' && bytes.Equal(b[4:8], []byte{0, 0, 0, 0}) {
		return "safetensors"
	}
	return ""
}

// looksLikeText tells text from the binary forms by the bytes that text never holds.
// It need not be UTF-8 for that: a stray byte is the compiler's to report.
func looksLikeText(b []byte) bool {
	if foreignFormat(b) != "" || bytes.HasPrefix(bytecodeMagic, b) {
		return false
	}
	for _, c := range b[:min(len(b), 512)] {
		if c < ' ' && !strings.ContainsRune("\t\n\f\r", rune(c)) {
			return false
		}
	}
	return true
}

// addAttribute notes one of the module's own attributes.
func (m *Module) addAttribute(name string, value int64, written string) {
	n := &m.Partitions
	switch name {
	case "mhlo.num_replicas":
		n = &m.Replicas
	case "mhlo.num_partitions":
	default:
		return
	}
	if value < 1 || value > maxDevices {
		m.Illegal = append(m.Illegal, name+" = "+written)
		return
	}
	*n = int(value)
}

// maxDevices bounds what is taken for a number of devices; no machine has more.
const maxDevices = 1 << 20

// addCount notes a mesh or a sharding of so many devices; 0 is a number not found.
func (m *Module) addCount(devices int, what string) {
	if devices == 0 {
		m.Uncounted = append(m.Uncounted, shorten(what))
	} else {
		m.Counts = append(m.Counts, Count{shorten(what), devices})
	}
}

// shorten keeps a message readable whatever a file says.
func shorten(s string) string {
	if len(s) > 80 {
		s = s[:77] + "..."
	}
	return s
}

// axis is a mesh's axis.
type axis struct {
	name string
	size int64
}

// addMesh notes a mesh. One without axes is of a single device, or of none.
func (m *Module) addMesh(axes []axis) {
	m.Shardy = true
	n, sizes := 1, []string{}
	for _, a := range axes {
		if a.size < 1 || a.size > maxDevices || n*int(a.size) > maxDevices {
			n = 0
			break
		}
		n *= int(a.size)
		sizes = append(sizes, fmt.Sprintf("%s=%d", strconv.Quote(a.name), a.size))
	}
	m.addCount(n, "mesh <["+strings.Join(sizes, ", ")+"]>")
}

// noteString notes an attribute by name that has a string for its value.
func (m *Module) noteString(name, value string) error {
	switch {
	case name == "mhlo.sharding":
		m.GSPMD = true
		m.addCount(gspmdDevices(value), "sharding "+strconv.Quote(value))
	case name == "call_target_name":
		m.addCall(value)
	case strings.HasPrefix(name, "xla.sdy."):
		m.Shardy = true
		return m.scanText([]byte(value))
	}
	return nil
}

// maxCalls bounds the targets kept.
const maxCalls = 1 << 12

func (m *Module) addCall(target string) {
	if len(m.Calls) < maxCalls {
		m.Calls = append(m.Calls, target)
	}
}
