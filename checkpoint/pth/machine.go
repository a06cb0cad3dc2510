package pth

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"weft/internal/printable"
)

// The values of a pickle: nil, bool, int64, float64, string, and these. Bytes and
// integers beyond 64 bits are opaque.
type (
	tuple  []any
	list   struct{ items []any }
	dict   struct{ keys, values []any }
	global struct{ module, name string }
	mark   struct{}
	// opaque is a value that is not a tensor and that the machine does not interpret. The
	// values in holds, from which it was made, may be tensors.
	opaque struct {
		is    string // what it is, in words
		holds []any
	}
	// refused is a tensor of a kind that weft does not read; is names the kind.
	refused struct{ is string }
	// storage is the meaning of a persistent id: the entry of the zip that has the data.
	storage struct {
		class    string // "FloatStorage"
		key      string
		location string // "cpu", "cuda:0", "meta"
		numel    int64
	}
)

const (
	// maxValues bounds the values that a pickle makes, each of at most some hundred bytes.
	// A tensor takes about 30 values, so a state dict may have 60,000 tensors.
	maxValues = 2_000_000
	// freeValues is how many values any file may make. A larger number needs a larger file,
	// by one byte for each value. Only a compressed pickle makes more.
	freeValues = 100_000
	// maxReferences bounds the unknown references that an error lists.
	maxReferences = 100
	// maxNumber bounds the text of a number.
	maxNumber = 64
)

// machine interprets a pickle. Its memory is bounded by the length of the pickle and by
// maxValues: every instruction takes at least one byte and adds at most one value, and a
// value refers to other values and never copies them.
type machine struct {
	b      []byte
	pos    int
	stack  []any
	memo   map[uint64]any
	values int // made so far
	limit  int // of values
	spare  int // values that may still be copied from one container to another
	// foreign are the references that are not in the list, in the order of the pickle.
	foreign []string
	err     error
}

// pickleError is a reason and the place of the instruction at fault. limit is set where
// the pickle exceeds a bound.
type pickleError struct {
	pos    int
	reason string
	limit  *Limit
}

func (e *pickleError) Error() string { return fmt.Sprintf("pickle byte %d: %s", e.pos, e.reason) }

// foreignError lists the references of a pickle that are not in the list.
type foreignError struct{ names []string }

func (e *foreignError) Error() string {
	return "refers to " + strings.Join(e.names, ", ")
}

// unpickle interprets a pickle of a file of size bytes up to its STOP and gives the value
// on top of the stack. A reference to anything outside of the list is an error wherever it
// is, even after the STOP.
func unpickle(b []byte, size int64) (any, error) {
	m := newMachine(b, size)
	v := m.runToStop()
	if m.err == nil && m.pos < len(b) {
		rest := newMachine(b[m.pos:], size)
		rest.runToStop()
		m.foreign = append(m.foreign, rest.foreign...)
		m.err = &pickleError{pos: m.pos, reason: fmt.Sprintf("%d bytes after the end of the pickle", len(b)-m.pos)}
	}
	if len(m.foreign) > 0 {
		return nil, &foreignError{m.foreign}
	}
	return v, m.err
}

// newMachine makes a machine for a pickle in a file of size bytes.
func newMachine(b []byte, size int64) *machine {
	return &machine{b: b, memo: map[uint64]any{}, spare: len(b), limit: int(min(maxValues, freeValues+size))}
}

// runToStop interprets instructions to the STOP.
func (m *machine) runToStop() any {
	for m.err == nil {
		at := m.pos
		op := m.takeBytes(1)
		if m.err != nil {
			break
		}
		if op[0] == '.' {
			return m.pop()
		}
		m.runInstruction(op[0])
		if e, ok := m.err.(*pickleError); ok && e.pos < 0 {
			e.pos = at
		}
	}
	return nil
}

func (m *machine) fail(format string, args ...any) {
	if m.err == nil {
		m.err = &pickleError{pos: -1, reason: fmt.Sprintf(format, args...)}
	}
}

// takeBytes gives the next n bytes.
func (m *machine) takeBytes(n uint64) []byte {
	if m.err != nil || n > uint64(len(m.b)-m.pos) {
		if m.err == nil {
			m.err = &pickleError{pos: m.pos, reason: fmt.Sprintf("%d bytes needed, %d left", n, len(m.b)-m.pos)}
		}
		return make([]byte, min(n, 8))
	}
	m.pos += int(n)
	return m.b[m.pos-int(n) : m.pos]
}

// takeLine gives the text up to the next line feed.
func (m *machine) takeLine() string {
	i := bytes.IndexByte(m.b[m.pos:], '\n')
	if i < 0 {
		m.fail("line without an end")
		return ""
	}
	return strings.TrimSuffix(string(m.takeBytes(uint64(i + 1))[:i]), "\r")
}

// takeNumber reads n bytes, little-endian.
func (m *machine) takeNumber(n int) uint64 {
	var b [8]byte
	copy(b[:], m.takeBytes(uint64(n)))
	return binary.LittleEndian.Uint64(b[:])
}

func (m *machine) push(v any) {
	m.countValue()
	m.stack = append(m.stack, v)
}

// countValue counts a value that is pushed on the stack or remembered, up to the limit.
func (m *machine) countValue() {
	if m.values++; m.values > m.limit && m.err == nil {
		m.err = &pickleError{pos: -1, reason: fmt.Sprintf("more than %d values", m.limit),
			limit: &Limit{What: "values of the pickle", Have: int64(m.values), Limit: int64(m.limit)}}
	}
}

// noteReference makes a reference to a function or class. If it is not in the list, it is
// added to foreign.
func (m *machine) noteReference(module, name string) global {
	g := global{module, name}
	if text := printable.ClipName(module + "." + name); !isKnownReference(g) && len(m.foreign) < maxReferences && !slices.Contains(m.foreign, text) {
		m.foreign = append(m.foreign, text)
	}
	return g
}

func (m *machine) pop() any {
	if len(m.stack) == 0 {
		m.fail("nothing on the stack")
		return nil
	}
	v := m.stack[len(m.stack)-1]
	m.stack = m.stack[:len(m.stack)-1]
	return v
}

func (m *machine) top() any {
	if len(m.stack) == 0 {
		m.fail("nothing on the stack")
		return nil
	}
	return m.stack[len(m.stack)-1]
}

// popMark removes everything above the last mark, and the mark.
func (m *machine) popMark() []any {
	for i := len(m.stack) - 1; i >= 0; i-- {
		if _, ok := m.stack[i].(mark); ok {
			items := append([]any{}, m.stack[i+1:]...)
			m.stack = m.stack[:i]
			return items
		}
	}
	m.fail("no mark on the stack")
	return nil
}

func (m *machine) popN(n int) tuple {
	if len(m.stack) < n {
		m.fail("%d values needed on the stack, %d there", n, len(m.stack))
		return make(tuple, n)
	}
	items := append(tuple{}, m.stack[len(m.stack)-n:]...)
	m.stack = m.stack[:len(m.stack)-n]
	return items
}

// runInstruction runs one instruction. The letters are those of Python's pickletools.
func (m *machine) runInstruction(op byte) {
	switch op {
	case 0x80: // PROTO
		if v := m.takeNumber(1); v > 5 {
			m.fail("protocol %d; 5 is the newest known", v)
		}
	case 0x95: // FRAME
		m.takeBytes(8)
	case '(':
		m.push(mark{})
	case '0':
		m.pop()
	case '1':
		m.popMark()
	case '2':
		m.push(m.top())
	case 'N':
		m.push(nil)
	case 0x88, 0x89: // NEWTRUE, NEWFALSE
		m.push(op == 0x88)
	case 'c': // GLOBAL
		module := m.takeLine()
		name := m.takeLine()
		if m.err == nil {
			m.push(m.noteReference(module, name))
		}
	case 0x93: // STACK_GLOBAL
		v := m.popN(2)
		module, ok1 := v[0].(string)
		name, ok2 := v[1].(string)
		if !ok1 || !ok2 {
			m.fail("a reference whose name is no text")
			return
		}
		m.push(m.noteReference(module, name))
	case 0x82, 0x83, 0x84: // EXT1, 2, 4: a number that a registry gives a meaning
		m.push(m.noteReference("copyreg", fmt.Sprintf("extension_%d", m.takeNumber(1<<(op-0x82)))))
	case 'i': // INST
		module := m.takeLine()
		name := m.takeLine()
		if m.err == nil {
			m.push(m.resultOfCall(m.noteReference(module, name), tuple(m.popMark())))
		}
	case 'o': // OBJ
		items := m.popMark()
		if len(items) == 0 {
			m.fail("an object without a class")
			return
		}
		m.push(m.resultOfCall(items[0], tuple(items[1:])))
	case 'R', 0x81: // REDUCE, NEWOBJ
		v := m.popN(2)
		m.push(m.resultOfCall(v[0], v[1]))
	case 0x92: // NEWOBJ_EX
		v := m.popN(3)
		m.push(m.resultOfCall(v[0], v[1]))
	case 'b': // BUILD: the state of an object, such as the version of a module
		state := m.pop()
		if o, ok := m.top().(*opaque); ok {
			o.holds = append(o.holds, state)
		}
	case 'P': // PERSID
		m.takeLine()
		m.fail("a persistent id that is text")
	case 'Q': // BINPERSID
		m.push(m.readStorageID(m.pop()))
	default:
		if !m.runScalar(op) && !m.runContainer(op) && !m.runMemo(op) {
			m.fail("unknown instruction %#02x", op)
		}
	}
}

// runScalar runs the instructions that push numbers and text; false is another instruction.
func (m *machine) runScalar(op byte) bool {
	switch op {
	case 'J':
		m.push(int64(int32(m.takeNumber(4))))
	case 'K':
		m.push(int64(m.takeNumber(1)))
	case 'M':
		m.push(int64(m.takeNumber(2)))
	case 'I', 'L': // INT, LONG
		m.push(decodeIntegerLine(m.takeLine()))
	case 0x8a: // LONG1
		m.push(decodeLong(m.takeBytes(m.takeNumber(1))))
	case 0x8b: // LONG4
		m.push(decodeLong(m.takeBytes(m.takeNumber(4))))
	case 'F':
		text := m.takeLine()
		v, err := strconv.ParseFloat(text[:min(len(text), maxNumber)], 64)
		if err != nil || len(text) > maxNumber {
			m.fail("bad float")
		}
		m.push(v)
	case 'G':
		m.push(math.Float64frombits(binary.BigEndian.Uint64(append(make([]byte, 0, 8), m.takeBytes(8)...))))
	case 'X': // BINUNICODE
		m.push(string(m.takeBytes(m.takeNumber(4))))
	case 0x8c: // SHORT_BINUNICODE
		m.push(string(m.takeBytes(m.takeNumber(1))))
	case 0x8d: // BINUNICODE8
		m.push(string(m.takeBytes(m.takeNumber(8))))
	case 'U': // SHORT_BINSTRING
		m.push(string(m.takeBytes(m.takeNumber(1))))
	case 'T': // BINSTRING
		m.push(string(m.takeBytes(m.takeNumber(4))))
	case 'V': // UNICODE
		text := m.takeLine()
		if strings.Contains(text, `\`) {
			m.fail("text with escapes")
		}
		m.push(text)
	case 'B': // BINBYTES
		m.takeBytes(m.takeNumber(4))
		m.push(&opaque{is: "bytes"})
	case 'C': // SHORT_BINBYTES
		m.takeBytes(m.takeNumber(1))
		m.push(&opaque{is: "bytes"})
	case 0x8e, 0x96: // BINBYTES8, BYTEARRAY8
		m.takeBytes(m.takeNumber(8))
		m.push(&opaque{is: "bytes"})
	default:
		return false
	}
	return true
}

// decodeIntegerLine reads the text of INT or LONG; "00" and "01" are how bools were written.
func decodeIntegerLine(text string) any {
	switch text {
	case "00":
		return false
	case "01":
		return true
	}
	if len(text) > maxNumber {
		return &opaque{is: "a number"}
	}
	v, err := strconv.ParseInt(strings.TrimSuffix(text, "L"), 10, 64)
	if err != nil {
		return &opaque{is: "a number"}
	}
	return v
}

// decodeLong reads an integer in two's complement. Integers of more than 8 bytes are
// opaque.
func decodeLong(b []byte) any {
	if len(b) > 8 {
		return &opaque{is: "a number"}
	}
	var v uint64
	for i, c := range b {
		v |= uint64(c) << (8 * i)
	}
	if n := len(b); n > 0 && n < 8 && b[n-1]&0x80 != 0 {
		v |= math.MaxUint64 << (8 * n)
	}
	return int64(v)
}

// runContainer runs the instructions that build tuples, lists, dicts and sets; false is
// another instruction.
func (m *machine) runContainer(op byte) bool {
	switch op {
	case ')':
		m.push(tuple{})
	case 't':
		m.push(tuple(m.popMark()))
	case 0x85, 0x86, 0x87: // TUPLE1, 2, 3
		m.push(m.popN(int(op - 0x84)))
	case ']':
		m.push(&list{})
	case 'l':
		m.push(&list{m.popMark()})
	case '}':
		m.push(&dict{})
	case 'd':
		pairs := m.popMark()
		m.push(&dict{})
		m.setItems(pairs)
	case 'a': // APPEND
		m.appendItems(m.pop())
	case 'e', 0x90: // APPENDS, ADDITEMS
		m.appendItems(m.popMark()...)
	case 's': // SETITEM
		m.setItems(m.popN(2))
	case 'u': // SETITEMS
		m.setItems(m.popMark())
	case 0x8f: // EMPTY_SET
		m.push(&opaque{is: "a set"})
	case 0x91: // FROZENSET
		m.push(&opaque{"a set", m.popMark()})
	default:
		return false
	}
	return true
}

// appendItems appends to the list or opaque value on top of the stack.
func (m *machine) appendItems(v ...any) {
	switch top := m.top().(type) {
	case *list:
		top.items = append(top.items, v...)
	case *opaque:
		top.holds = append(top.holds, v...)
	default:
		m.fail("items for what is no list")
	}
}

// setItems adds pairs of key and value to the dict or opaque value on top of the stack.
func (m *machine) setItems(pairs []any) {
	if len(pairs)%2 != 0 {
		m.fail("a key without a value")
		return
	}
	switch top := m.top().(type) {
	case *dict:
		top.addPairs(pairs)
	case *opaque:
		top.holds = append(top.holds, pairs...)
	default:
		m.fail("items for what is no dict")
	}
}

func (d *dict) addPairs(pairs []any) {
	for i := 0; i+1 < len(pairs); i += 2 {
		d.keys, d.values = append(d.keys, pairs[i]), append(d.values, pairs[i+1])
	}
}

// runMemo runs the instructions that remember values and recall them; false is another
// instruction.
func (m *machine) runMemo(op byte) bool {
	m.countValue()
	switch op {
	case 'q':
		m.memo[m.takeNumber(1)] = m.top()
	case 'r':
		m.memo[m.takeNumber(4)] = m.top()
	case 0x94: // MEMOIZE
		m.memo[uint64(len(m.memo))] = m.top()
	case 'p':
		i, err := strconv.ParseUint(m.takeLine(), 10, 64)
		if err != nil {
			m.fail("bad memo number")
		}
		m.memo[i] = m.top()
	case 'h':
		m.pushRemembered(m.takeNumber(1))
	case 'j':
		m.pushRemembered(m.takeNumber(4))
	case 'g':
		i, err := strconv.ParseUint(m.takeLine(), 10, 64)
		if err != nil {
			m.fail("bad memo number")
		}
		m.pushRemembered(i)
	default:
		return false
	}
	return true
}

func (m *machine) pushRemembered(i uint64) {
	v, ok := m.memo[i]
	if !ok {
		m.fail("nothing remembered as %d", i)
	}
	m.push(v)
}

// readStorageID reads a persistent id as torch writes it: ('storage', class, key,
// location, elements).
func (m *machine) readStorageID(id any) any {
	t, ok := id.(tuple)
	if !ok || len(t) < 5 || t[0] != "storage" {
		m.fail("a persistent id that is no storage")
		return nil
	}
	class, ok1 := t[1].(global)
	key, ok2 := t[2].(string)
	location, ok3 := t[3].(string)
	numel, ok4 := t[4].(int64)
	if !ok1 || !ok2 || !ok3 || !ok4 {
		m.fail("a storage's id is not as torch writes it")
		return nil
	}
	return storage{class.name, key, location, numel}
}
