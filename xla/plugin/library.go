package plugin

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"

	"weft/fault"
	"weft/internal/userfile"
)

// ErrLibrary: a file that cannot be loaded as a PJRT plugin.
var ErrLibrary = fault.NewKind("plugin-load")

// Library are the fields of ErrLibrary. NeedBytes and HaveBytes are of a file that was
// cut short, else 0.
type Library struct {
	Plugin    string `json:"plugin"`
	Is        string `json:"is"` // what the file is instead
	NeedBytes int64  `json:"need_bytes,omitempty"`
	HaveBytes int64  `json:"have_bytes,omitempty"`
}

const entryPoint = "GetPjrtApi"

// CheckLibrary says what a file is that the loader would refuse, wait on for ever, or
// take half of: nothing is loaded, and none of its code runs. Errors: ErrLibrary.
func CheckLibrary(path string) error {
	bad := func(l Library) error {
		l.Plugin = path
		return fault.New(ErrLibrary, l, "plugin %s is %s; want a PJRT plugin: a shared library for %s/%s that exports %s", path, l.Is, runtime.GOOS, runtime.GOARCH, entryPoint)
	}
	failed := func(err error) error {
		return fault.New(ErrLibrary, Library{Plugin: path}, "plugin %s: %w", path, err)
	}
	st, err := os.Stat(path)
	if err != nil {
		return failed(err)
	}
	if !st.Mode().IsRegular() {
		return bad(Library{Is: userfile.NameFileType(st.Mode())})
	}
	f, err := os.Open(path)
	if err != nil {
		return failed(err)
	}
	defer f.Close()
	head := make([]byte, 512)
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return failed(err)
	}
	if head = head[:n]; !bytes.HasPrefix(head, []byte(elf.ELFMAG)) {
		if runtime.GOOS == "darwin" && n > 0 { // its libraries have another form
			return nil
		}
		return bad(Library{Is: contentName(head)})
	}
	if l := checkELF(f, head, st.Size()); l.Is != "" {
		return bad(l)
	}
	return nil
}

// contentName names the kind of a file that is not ELF, from its first bytes.
func contentName(head []byte) string {
	for _, k := range []struct{ magic, is string }{
		{"PK\x03\x04", "a zip archive, such as a wheel (unpack the .so from it)"},
		{"\x1f\x8b", "a gzip file (unpack the .so from it)"},
		{"\xfd7zXZ", "an xz file (unpack the .so from it)"},
		{"\x28\xb5\x2f\xfd", "a zstd file (unpack the .so from it)"},
		{"!<arch>", "a static library or a package"},
		{"version https://git-lfs", "a pointer of Git LFS (git lfs pull brings the file)"},
		{"MZ", "a Windows library"},
		{"\xcf\xfa\xed\xfe", "a macOS library"}, {"\xca\xfe\xba\xbe", "a macOS library"},
		{"#!", "a script"}, {"<", "a text of markup"},
	} {
		if bytes.HasPrefix(head, []byte(k.magic)) {
			return k.is
		}
	}
	if len(head) == 0 {
		return "empty"
	}
	for len(head) >= utf8.UTFMax { // a rune may be cut at the end
		r, n := utf8.DecodeRune(head)
		if r == utf8.RuneError || r < ' ' && !strings.ContainsRune("\t\r\n\f", r) {
			return "a file of unknown form"
		}
		head = head[n:]
	}
	return "a text"
}

// machines are the ELF machines by Go's name for them.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// checkELF says what an ELF file is, where it is not a whole shared library of this
// machine that exports the entry point; Is is "" where it is.
func checkELF(f io.ReaderAt, head []byte, size int64) Library {
	const headSize = 64 // of the 64-bit form
	if len(head) < headSize {
		return Library{Is: fmt.Sprintf("an ELF file that was cut short: %d bytes of a head of %d", len(head), headSize), NeedBytes: headSize, HaveBytes: int64(len(head))}
	}
	if c := elf.Class(head[elf.EI_CLASS]); c != elf.ELFCLASS64 {
		return Library{Is: "an ELF file of another class (a 32-bit one)"}
	}
	if elf.Data(head[elf.EI_DATA]) != elf.ELFDATA2LSB {
		return Library{Is: "an ELF file of another byte order"}
	}
	e := struct {
		kind, machine            uint16
		segments, sections       int64 // offsets of the tables
		segmentSize, segmentsNum int64
		sectionSize, sectionsNum int64
	}{binary.LittleEndian.Uint16(head[16:]), binary.LittleEndian.Uint16(head[18:]), int64(binary.LittleEndian.Uint64(head[32:])), int64(binary.LittleEndian.Uint64(head[40:])), int64(binary.LittleEndian.Uint16(head[54:])), int64(binary.LittleEndian.Uint16(head[56:])), int64(binary.LittleEndian.Uint16(head[58:])), int64(binary.LittleEndian.Uint16(head[60:]))}
	if want, ok := machines[runtime.GOARCH]; ok && elf.Machine(e.machine) != want {
		return Library{Is: fmt.Sprintf("an ELF file for %s", machineName(elf.Machine(e.machine)))}
	}
	switch elf.Type(e.kind) {
	case elf.ET_DYN:
	case elf.ET_EXEC:
		return Library{Is: "an executable"}
	case elf.ET_REL:
		return Library{Is: "an object file, not linked into a library"}
	default:
		return Library{Is: fmt.Sprintf("an ELF file of type %v", elf.Type(e.kind))}
	}
	const segmentSize = 56 // of the 64-bit form
	if e.segmentsNum > 0 && e.segmentSize != segmentSize || e.segments < 0 || e.sections < 0 {
		return Library{Is: "an ELF file whose head is damaged"}
	}
	need := max(e.segments+e.segmentSize*e.segmentsNum, e.sections+e.sectionSize*e.sectionsNum)
	if need <= size {
		table := make([]byte, e.segmentSize*e.segmentsNum)
		if _, err := f.ReadAt(table, e.segments); err != nil && err != io.EOF {
			return Library{Is: "an ELF file whose head is damaged"}
		}
		for s := range slices.Chunk(table, segmentSize) {
			offset, bytes := int64(binary.LittleEndian.Uint64(s[8:])), int64(binary.LittleEndian.Uint64(s[32:]))
			if offset < 0 || bytes < 0 || offset+bytes < 0 {
				return Library{Is: "an ELF file whose head is damaged"}
			}
			if elf.ProgType(binary.LittleEndian.Uint32(s)) == elf.PT_LOAD {
				need = max(need, offset+bytes)
			}
		}
	}
	if need > size {
		return Library{Is: fmt.Sprintf("an ELF library that was cut short: it needs %d bytes and has %d", need, size), NeedBytes: need, HaveBytes: size}
	}
	lib, err := elf.NewFile(f)
	if err != nil {
		return Library{Is: fmt.Sprintf("a damaged ELF file (%v)", err)}
	}
	defer lib.Close()
	if flags, err := lib.DynValue(elf.DT_FLAGS_1); err == nil && len(flags) > 0 && elf.DynFlag1(flags[0])&elf.DF_1_PIE != 0 {
		return Library{Is: "an executable"}
	}
	symbols, err := lib.DynamicSymbols()
	if errors.Is(err, elf.ErrNoSymbols) && len(lib.Sections) == 0 {
		return Library{} // its list of sections was stripped; the loader needs none
	}
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return Library{Is: fmt.Sprintf("a damaged ELF file (%v)", err)}
	}
	if !slices.ContainsFunc(symbols, func(s elf.Symbol) bool { return s.Name == entryPoint && s.Section != elf.SHN_UNDEF }) {
		return Library{Is: "a shared library that exports no " + entryPoint}
	}
	return Library{}
}

func machineName(m elf.Machine) string {
	switch m {
	case elf.EM_X86_64:
		return "x86-64"
	case elf.EM_AARCH64:
		return "arm64 (aarch64)"
	}
	return strings.TrimPrefix(m.String(), "EM_")
}
