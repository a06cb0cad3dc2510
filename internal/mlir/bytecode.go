package mlir

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"weft/fault"
)

// The layout is that of the MLIR project's description of its bytecode, versions 0
// to 6: a header, then sections, of which each stands once.

// Numbers of sections.
const (
	sectionStrings = iota
	sectionDialects
	sectionAttributes
	sectionOffsets
	sectionIR
	sectionResources
	sectionResourceOffsets
	sectionDialectVersions
	sectionProperties
	sectionCount
)

var sectionNames = [sectionCount]string{"string section", "dialect section", "attribute section", "attribute offset section",
	"program section", "resource section", "resource offset section", "dialect version section", "properties section"}

// Versions of the format that changed what is read here.
const (
	versionDialects   = 1 // dialects have versions
	versionIsolated   = 2 // the inside of an operation may be a section
	versionUseLists   = 3
	versionOpCount    = 4 // the number of operation names is written
	versionRegistered = 5 // operation names have a flag
	versionNewest     = 6
)

// maxEntries bounds each table of a program; one of a whole model's training step
// has some 100,000 attributes.
const maxEntries = 1 << 22

// cursor reads a part of a file. The first failure stays: what is read after it is zero.
type cursor struct {
	form, part string
	b          []byte
	base       int // offset of b in the file
	at         int
	err        error
}

func (c *cursor) fail(format string, args ...any) {
	if c.err == nil {
		at := c.base + c.at
		c.err = fault.New(ErrDamaged, Damage{c.form, c.part, at}, "the %s is damaged: %s, byte %d: %s", c.form, c.part, at, fmt.Sprintf(format, args...))
		c.at = len(c.b)
	}
}

func (c *cursor) bytesLeft() int { return len(c.b) - c.at }

func (c *cursor) hasMore() bool { return c.err == nil && c.at < len(c.b) }

func (c *cursor) readByte() byte {
	if c.bytesLeft() < 1 {
		c.fail("it ends where a byte should be")
		return 0
	}
	c.at++
	return c.b[c.at-1]
}

// readVarint reads a number whose first byte's lowest set bit says how many bytes follow.
func (c *cursor) readVarint() uint64 {
	if c.bytesLeft() < 1 {
		c.fail("it ends where a number should be")
		return 0
	}
	n := bits.TrailingZeros8(c.b[c.at]) + 1 // 9 for a zero byte
	if c.bytesLeft() < n {
		c.fail("a number of %d bytes, %d are left", n, c.bytesLeft())
		return 0
	}
	var w [8]byte
	if n == 9 {
		copy(w[:], c.b[c.at+1:c.at+9])
	} else {
		copy(w[:], c.b[c.at:c.at+n])
	}
	c.at += n
	v := binary.LittleEndian.Uint64(w[:])
	if n < 9 {
		v >>= n
	}
	return v
}

func (c *cursor) readSigned() int64 {
	v := c.readVarint()
	return int64(v>>1) ^ -int64(v&1)
}

// readFlagged reads a number whose lowest bit is a flag.
func (c *cursor) readFlagged() (uint64, bool) {
	v := c.readVarint()
	return v >> 1, v&1 != 0
}

// readCount reads the number of things that follow, of one byte each at the least.
func (c *cursor) readCount(of string) int {
	n := c.readVarint()
	if n > uint64(c.bytesLeft()) || n > maxEntries {
		c.fail("%d %s, %d bytes are left and %d are the most", n, of, c.bytesLeft(), maxEntries)
		return 0
	}
	return int(n)
}

// readIndex reads the number of one of n things.
func (c *cursor) readIndex(n int, of string) int {
	i := c.readVarint()
	if i >= uint64(n) {
		c.fail("%s %d of %d", of, i, n)
		return 0
	}
	return int(i)
}

// takePart gives the next n bytes as a cursor of their own.
func (c *cursor) takePart(n uint64, part string) *cursor {
	if n > uint64(c.bytesLeft()) {
		c.fail("%s of %d bytes, %d are left", part, n, c.bytesLeft())
		n = 0
	}
	sub := &cursor{form: c.form, part: part, b: c.b[c.at : c.at+int(n)], base: c.base + c.at, err: c.err}
	c.at += int(n)
	return sub
}

// readSection reads a section's head and gives its content.
func (c *cursor) readSection(start int) (id int, content *cursor) {
	b := c.readByte()
	id = int(b & 0x7f)
	if id >= sectionCount {
		c.fail("section %d is not known", id)
		id = 0
	}
	n := c.readVarint()
	if b&0x80 != 0 {
		a := c.readVarint()
		if a == 0 || a&(a-1) != 0 || a > 1<<20 {
			c.fail("an alignment of %d", a)
			a = 1
		}
		for c.err == nil && uint64(c.base+c.at-start)%a != 0 {
			if p := c.readByte(); p != 0xcb {
				c.fail("padding of 0x%02x", p)
			}
		}
	}
	return id, c.takePart(n, sectionNames[id])
}

// bytecode is a file's tables.
type bytecode struct {
	m        *Module
	version  uint64
	sections [sectionCount]*cursor
	strings  []string
	dialects []string
	ops      []opName
	// properties are operations' own attributes, of those that have them apart.
	properties []*cursor
	noted      map[namedText]bool
	attrs      []entry
	types      []entry
}

type opName struct{ dialect, name string }

// entry is an attribute or a type, as it is encoded.
type entry struct {
	dialect int32
	custom  bool // in its dialect's own encoding, else as text
	at, n   int32
}

// readBytecode reads m.Code, which stands at an offset in the file.
func (m *Module) readBytecode(base int) error {
	c := &cursor{form: "bytecode", part: "header", b: m.Code, base: base, at: len(bytecodeMagic)}
	f := &bytecode{m: m, noted: map[namedText]bool{}}
	if f.version = c.readVarint(); f.version > versionNewest {
		c.fail("version %d is not known; %d is the newest", f.version, versionNewest)
	}
	end := bytes.IndexByte(c.b[c.at:], 0)
	if end < 0 {
		c.fail("the producer's name has no end")
	} else {
		m.Producer = string(c.b[c.at : c.at+end])
		c.at += end + 1
	}
	for c.hasMore() {
		id, content := c.readSection(base)
		if f.sections[id] != nil {
			c.fail("a second %s", sectionNames[id])
		}
		f.sections[id] = content
	}
	for _, id := range []int{sectionStrings, sectionDialects, sectionAttributes, sectionOffsets, sectionIR} {
		if f.sections[id] == nil {
			c.fail("there is no %s", sectionNames[id])
		}
	}
	if c.err != nil {
		return c.err
	}
	for _, read := range []func() error{f.readStrings, f.readDialects, f.readOffsets, f.readAttributes, f.readModule} {
		if err := read(); err != nil {
			return err
		}
	}
	return nil
}

// readStrings reads the table of strings: their sizes, the last one's first, then
// their bytes, each with a zero at its end.
func (f *bytecode) readStrings() error {
	c := f.sections[sectionStrings]
	sizes := make([]uint64, c.readCount("strings"))
	total := uint64(0)
	for i := range slices.Backward(sizes) {
		sizes[i] = c.readVarint()
		if sizes[i] == 0 || sizes[i] > uint64(len(c.b)) {
			c.fail("a string of %d bytes", sizes[i])
			break
		}
		total += sizes[i]
	}
	if total != uint64(c.bytesLeft()) {
		c.fail("strings of %d bytes, %d are left", total, c.bytesLeft())
	}
	for _, n := range sizes {
		if c.err != nil {
			return c.err
		}
		f.strings = append(f.strings, string(c.b[c.at:c.at+int(n)-1]))
		c.at += int(n)
	}
	return c.err
}

func (f *bytecode) readDialects() error {
	c := f.sections[sectionDialects]
	for range c.readCount("dialects") {
		name, versioned := c.readVarint(), false
		if f.version >= versionDialects {
			name, versioned = name>>1, name&1 != 0
		}
		if name >= uint64(len(f.strings)) {
			c.fail("string %d of %d", name, len(f.strings))
			return c.err
		}
		if versioned {
			if id, _ := c.readSection(c.base); id != sectionDialectVersions {
				c.fail("section %d where a dialect's version should be", id)
			}
		}
		f.dialects = append(f.dialects, f.strings[name])
	}
	if f.version >= versionOpCount {
		c.readVarint() // the number of operations, of which the groups tell too
	}
	for c.hasMore() {
		dialect := c.readIndex(len(f.dialects), "dialect")
		for range c.readCount("operation names") {
			name := c.readVarint()
			if f.version >= versionRegistered {
				name >>= 1
			}
			if name >= uint64(len(f.strings)) {
				c.fail("string %d of %d", name, len(f.strings))
			}
			if c.err != nil {
				return c.err
			}
			f.ops = append(f.ops, opName{f.dialects[dialect], f.strings[name]})
			if f.dialects[dialect] == "sdy" {
				f.m.Shardy = true
			}
		}
	}
	return c.err
}

// readOffsets reads where each attribute and each type stands: groups of one
// dialect, of sizes with a flag.
func (f *bytecode) readOffsets() error {
	c := f.sections[sectionOffsets]
	counts := [2]int{c.readCount("attributes"), c.readCount("types")}
	at, all := 0, len(f.sections[sectionAttributes].b)
	for i, table := range []*[]entry{&f.attrs, &f.types} {
		for len(*table) < counts[i] && c.err == nil {
			dialect := c.readIndex(len(f.dialects), "dialect")
			n := c.readCount("entries")
			if n == 0 || n > counts[i]-len(*table) {
				c.fail("a group of %d entries, %d are left", n, counts[i]-len(*table))
			}
			for range n {
				size, custom := c.readFlagged()
				if size > uint64(all-at) {
					c.fail("an entry of %d bytes, %d are left", size, all-at)
				}
				if c.err != nil {
					return c.err
				}
				*table = append(*table, entry{int32(dialect), custom, int32(at), int32(size)})
				at += int(size)
			}
		}
	}
	if c.bytesLeft() > 0 {
		c.fail("%d bytes after the last entry", c.bytesLeft())
	}
	return c.err
}

// openEntry gives an entry's bytes.
func (f *bytecode) openEntry(e entry) *cursor {
	s := f.sections[sectionAttributes]
	return &cursor{form: s.form, part: s.part, b: s.b[e.at : e.at+e.n], base: s.base + int(e.at)}
}

// Codes of the encodings that are read, of the dialects builtin, vhlo and sdy.
var (
	codeDictionary = map[string]uint64{"builtin": 1, "vhlo": 6}
	codeString     = map[string]uint64{"builtin": 2, "vhlo": 14}
	codeInteger    = map[string]uint64{"builtin": 8, "vhlo": 9}
	codeTensor     = map[string]uint64{"builtin": 18, "vhlo": 15}
	// codeTypedString is a string with a type after it.
	codeTypedString = map[string]uint64{"builtin": 3}
)

const (
	sdyMeshAxis = 1
	sdyMesh     = 2
)

// readCode gives an entry's bytes behind its code, where it has one.
func (f *bytecode) readCode(e entry) (dialect string, code uint64, c *cursor) {
	dialect = f.dialects[e.dialect]
	c = f.openEntry(e)
	if !e.custom || c.bytesLeft() == 0 {
		return dialect, ^uint64(0), c
	}
	return dialect, c.readVarint(), c
}

func hasCode(codes map[string]uint64, dialect string, code uint64) bool {
	want, ok := codes[dialect]
	return ok && want == code
}

// readAttributes goes through all attributes: a file has none that its program does
// not use.
func (f *bytecode) readAttributes() error {
	for i, e := range f.attrs {
		dialect, code, c := f.readCode(e)
		switch {
		case !e.custom: // as text, with a zero at its end
			if err := f.m.scanText(bytes.TrimRight(c.b, "\x00")); err != nil {
				return err
			}
		case hasCode(codeDictionary, dialect, code):
			if err := f.eachPair(i, func(name string, value entry) error { return f.noteNamed(name, value) }); err != nil {
				return err
			}
		case dialect == "sdy" && code == sdyMesh:
			f.m.Shardy = true
			if err := f.readMesh(c); err != nil {
				return err
			}
		case dialect == "sdy":
			f.m.Shardy = true
		}
		if c.err != nil {
			return c.err
		}
	}
	return nil
}

// eachPair goes through a dictionary.
func (f *bytecode) eachPair(attr int, each func(name string, value entry) error) error {
	_, _, c := f.readCode(f.attrs[attr])
	for range c.readCount("pairs") {
		name, value := c.readIndex(len(f.attrs), "attribute"), c.readIndex(len(f.attrs), "attribute")
		if c.err != nil {
			return c.err
		}
		if s, ok := f.stringValue(f.attrs[name]); ok {
			if err := each(s, f.attrs[value]); err != nil {
				return err
			}
		}
	}
	return c.err
}

// stringValue is a string attribute's value.
func (f *bytecode) stringValue(e entry) (string, bool) {
	if i := f.stringIndex(e); i >= 0 {
		return f.strings[i], true
	}
	return "", false
}

// stringIndex is the number of a string attribute's string; -1 of any other.
func (f *bytecode) stringIndex(e entry) int {
	dialect, code, c := f.readCode(e)
	if !hasCode(codeString, dialect, code) && !hasCode(codeTypedString, dialect, code) {
		return -1
	}
	i := c.readIndex(len(f.strings), "string")
	if c.err != nil {
		return -1
	}
	return i
}

// noteNamed notes an attribute that has a name.
func (f *bytecode) noteNamed(name string, value entry) error {
	switch {
	case name == "replica_groups" || name == "source_target_pairs":
		f.noteMembers(value)
	case name == "mhlo.sharding" || name == "call_target_name":
	case strings.HasPrefix(name, "sdy.") || strings.HasPrefix(name, "xla.sdy."):
		f.m.Shardy = true
	default:
		return nil
	}
	// A dictionary of frontend attributes is an entry of its own, and comes by itself.
	i := f.stringIndex(value)
	class, _, _ := strings.Cut(name, "xla.sdy.")
	if key := (namedText{class, i}); i >= 0 && !f.noted[key] {
		f.noted[key] = true // a file may name one long text a million times
		return f.m.noteString(name, f.strings[i])
	}
	return nil
}

// namedText is an attribute's name, "" for those of xla.sdy, and its string's number.
type namedText struct {
	name  string
	index int
}

// noteMembers notes the device numbers of a collective: a tensor of int64.
func (f *bytecode) noteMembers(e entry) {
	dialect, code, c := f.readCode(e)
	if !hasCode(codeTensor, dialect, code) {
		return
	}
	c.readVarint() // the type
	data := c.takePart(c.readVarint(), "replica groups")
	if c.err != nil || len(data.b)%8 != 0 {
		return
	}
	for i := 0; i < len(data.b); i += 8 {
		if v := int64(binary.LittleEndian.Uint64(data.b[i:])); v >= 0 && v < maxDevices {
			f.m.Members = max(f.m.Members, int(v)+1)
		}
	}
}

// readMesh reads a mesh of Shardy's: its axes, each an attribute of a name and a size,
// and the order of its devices.
func (f *bytecode) readMesh(c *cursor) error {
	var axes []axis
	n := c.readCount("axes")
	if n > maxAxes {
		c.fail("%d axes, %d are the most", n, maxAxes)
	}
	for range n {
		e := c.readIndex(len(f.attrs), "attribute")
		if c.err != nil {
			return c.err
		}
		dialect, code, a := f.readCode(f.attrs[e])
		if dialect != "sdy" || code != sdyMeshAxis {
			f.m.addCount(0, "a mesh whose axes are in a form that is not known here")
			return nil
		}
		name := a.readIndex(len(f.strings), "string")
		size := a.readSigned()
		if a.err != nil {
			return a.err
		}
		axes = append(axes, axis{f.strings[name], size})
	}
	if c.err == nil && len(axes) == 0 {
		f.m.addCount(0, "a mesh without axes")
		return nil
	}
	if c.err == nil {
		f.m.addMesh(axes)
	}
	return c.err
}

// integerValue is an integer attribute's value, of up to 64 bits.
func (f *bytecode) integerValue(e entry) (int64, bool) {
	dialect, code, c := f.readCode(e)
	if !hasCode(codeInteger, dialect, code) {
		return 0, false
	}
	t := c.readIndex(len(f.types), "type")
	if c.err != nil || len(f.types) == 0 {
		return 0, false
	}
	width := f.integerWidth(f.types[t])
	if width == 0 || width > 64 {
		return 0, false
	}
	var n int64
	if width <= 8 {
		n = int64(c.readByte())
	} else {
		n = c.readSigned()
	}
	unused := 64 - width // bits above the sign
	return n << unused >> unused, c.err == nil
}

// vhloWidths are the bits of vhlo's integer types, by their codes.
var vhloWidths = map[uint64]int{31: 2, 10: 4, 11: 8, 12: 16, 13: 32, 14: 64, 32: 2, 15: 4, 16: 8, 17: 16, 18: 32, 19: 64}

// integerWidth is the bits of an integer type; 0 of any other.
func (f *bytecode) integerWidth(e entry) int {
	dialect, code, c := f.readCode(e)
	switch {
	case dialect == "vhlo" && e.custom:
		return vhloWidths[code]
	case dialect == "builtin" && e.custom && code == 0:
		return int(min(c.readVarint()>>2, 1<<20)) // the lowest bits are the signedness
	case dialect == "builtin" && e.custom && code == 1:
		return 64 // index
	}
	return 0
}

// readModule reads the attributes of the one operation that the program is, and goes
// through those inside it.
func (f *bytecode) readModule() error {
	if c := f.sections[sectionProperties]; c != nil {
		for range c.readCount("properties") {
			f.properties = append(f.properties, c.takePart(c.readVarint(), c.part))
			if c.err != nil {
				return c.err
			}
		}
	}
	c := f.sections[sectionIR]
	f.readBlock(c, 0)
	return c.err
}

// maxDepth bounds operations within operations.
const maxDepth = 1000

// The bits of an operation's mask that say what follows its name and location.
const (
	opAttributes = 1 << iota
	opResults
	opOperands
	opSuccessors
	opRegions
	opUseLists
	opProperties
)

// readBlock reads a block: its arguments, then its operations.
func (f *bytecode) readBlock(c *cursor, depth int) {
	n, arguments := c.readFlagged()
	if arguments {
		count := c.readCount("arguments")
		for range count {
			if f.version < versionOpCount {
				c.readVarint()
				c.readVarint()
			} else if _, location := c.readFlagged(); location {
				c.readVarint()
			}
		}
		if f.version >= versionUseLists && c.readByte() != 0 {
			f.skipUseLists(c, count)
		}
	}
	if n > uint64(c.bytesLeft()) {
		c.fail("%d operations, %d bytes are left", n, c.bytesLeft())
	}
	for range n {
		if c.err != nil {
			return
		}
		f.readOperation(c, depth)
	}
}

// readOperation reads an operation and what is inside it.
func (f *bytecode) readOperation(c *cursor, depth int) {
	op, properties, attrs, results := opName{}, (*cursor)(nil), -1, 0
	if i := c.readIndex(len(f.ops), "operation name"); c.err == nil {
		op = f.ops[i]
	}
	mask := c.readByte()
	c.readIndex(len(f.attrs), "attribute")
	if mask&opAttributes != 0 {
		attrs = c.readIndex(len(f.attrs), "attribute")
	}
	if mask&opProperties != 0 {
		if i := c.readIndex(len(f.properties), "properties"); c.err == nil {
			properties = f.properties[i]
		}
	}
	skip := func(what string) int {
		n := c.readCount(what)
		for range n {
			c.readVarint()
		}
		return n
	}
	if mask&opResults != 0 {
		results = skip("results")
	}
	if mask&opOperands != 0 {
		skip("operands")
	}
	if mask&opSuccessors != 0 {
		skip("successors")
	}
	if mask&opUseLists != 0 && f.version >= versionUseLists {
		f.skipUseLists(c, results)
	}
	if c.err == nil {
		c.err = f.noteOperation(op, attrs, properties, depth)
	}
	if mask&opRegions == 0 {
		return
	}
	regions, isolated := c.readFlagged()
	if depth >= maxDepth {
		c.fail("operations nested more than %d deep", maxDepth)
	}
	if regions > uint64(c.bytesLeft()) {
		c.fail("%d regions, %d bytes are left", regions, c.bytesLeft())
	}
	inside := c
	for i := uint64(0); i < regions && c.err == nil; i++ {
		if isolated && f.version >= versionIsolated && i == 0 {
			// The regions of one operation stand in one section.
			id, content := c.readSection(f.sections[sectionIR].base)
			if id != sectionIR {
				c.fail("section %d where an operation's inside should be", id)
			}
			inside = content
			inside.part = c.part
		}
		if blocks := inside.readCount("blocks"); blocks > 0 {
			inside.readVarint() // the number of values
			for range blocks {
				f.readBlock(inside, depth+1)
			}
		}
		if inside.err != nil {
			c.err, c.at = inside.err, len(c.b)
		}
	}
}

// skipUseLists passes over the orders of the uses of n values.
func (f *bytecode) skipUseLists(c *cursor, n int) {
	lists := 1
	if n > 1 {
		lists = c.readCount("orders")
	}
	for range lists {
		if n > 1 {
			c.readVarint()
		}
		uses, _ := c.readFlagged()
		if uses > uint64(c.bytesLeft()) {
			c.fail("an order of %d uses, %d bytes are left", uses, c.bytesLeft())
		}
		for range uses {
			if c.err != nil {
				return
			}
			c.readVarint()
		}
	}
}

// noteOperation takes what an operation says: the outermost module's attributes, a custom
// call's target, the devices of a collective.
func (f *bytecode) noteOperation(op opName, attrs int, properties *cursor, depth int) error {
	if depth == 0 && op.dialect == "builtin" && op.name == "module" && attrs >= 0 {
		return f.noteModule(attrs)
	}
	if properties == nil || op.dialect != "vhlo" && op.dialect != "stablehlo" {
		return nil
	}
	call := strings.HasPrefix(op.name, "custom_call")
	if !call && !isCollective(op.name) {
		return nil
	}
	// Properties are attributes in the order of their names. A call's target is the
	// third, behind api_version and backend_config.
	c := *properties
	for i := 0; c.hasMore(); i++ {
		v := c.readVarint()
		if c.err != nil || v >= uint64(len(f.attrs)) {
			continue
		}
		if !call {
			f.noteMembers(f.attrs[v])
		} else if s, ok := f.stringValue(f.attrs[v]); ok && i == 2 {
			f.m.addCall(s)
		}
	}
	return nil
}

// isCollective tells whether an operation of a name, with a version behind it in
// vhlo, is among devices.
func isCollective(name string) bool {
	for _, c := range []string{"all_gather", "all_reduce", "all_to_all", "collective_broadcast", "collective_permute", "reduce_scatter"} {
		if strings.HasPrefix(name, c) {
			return true
		}
	}
	return false
}

func (f *bytecode) noteModule(attrs int) error {
	return f.eachPair(attrs, func(name string, value entry) error {
		if !strings.HasPrefix(name, "mhlo.num_") {
			return nil
		}
		n, ok := f.integerValue(value)
		written := fmt.Sprint(n)
		if !ok {
			n, written = -1, "a value in a form that is not known here"
		}
		f.m.addAttribute(name, n, written)
		return nil
	})
}
