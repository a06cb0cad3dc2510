package pth

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// The values of a pickle: nil, bool, int64, float64, string, and these. Bytes,
// integers beyond 64 bits and everything that is built by a function this package
// does not know are opaque.
type (
	tuple  []any
	list   struct{ items []any }
	dict   struct{ keys, values []any }
	global struct{ module, name string }
	opaque struct{}
	mark   struct{}
	// storage is what a persistent id names: the entry of the zip with the data.
	storage struct {
		class string // "FloatStorage"
		key   string
		numel int64
	}
)

// machine interprets a pickle. Every instruction takes at least a byte and adds at
// most one value, and a value refers to others, never copies them: memory is
// bounded by the length of the pickle.
type machine struct {
	b     []byte
	pos   int
	stack []any
	memo  map[uint64]any
	spare int // values that may still be copied from one container to another
	err   error
}

// pickleError is a reason and the instruction it applies to.
type pickleError struct {
	pos    int
	reason string
}

func (e *pickleError) Error() string { return fmt.Sprintf("pickle byte %d: %s", e.pos, e.reason) }

// unpickle runs a pickle to its STOP and gives what is then on the stack.
func unpickle(b []byte) (any, error) {
	m := &machine{b: b, memo: map[uint64]any{}, spare: len(b)}
	for m.err == nil {
		at := m.pos
		op := m.take(1)
		if m.err != nil {
			break
		}
		if op[0] == '.' {
			v := m.pop()
			return v, m.err
		}
		m.step(op[0])
		if e, ok := m.err.(*pickleError); ok && e.pos < 0 {
			e.pos = at
		}
	}
	return nil, m.err
}

func (m *machine) fail(format string, args ...any) {
	if m.err == nil {
		m.err = &pickleError{-1, fmt.Sprintf(format, args...)}
	}
}

// take gives the next n bytes.
func (m *machine) take(n uint64) []byte {
	if m.err != nil || n > uint64(len(m.b)-m.pos) {
		if m.err == nil {
			m.err = &pickleError{m.pos, fmt.Sprintf("%d bytes needed, %d left", n, len(m.b)-m.pos)}
		}
		return make([]byte, min(n, 8))
	}
	m.pos += int(n)
	return m.b[m.pos-int(n) : m.pos]
}

// line gives the text up to the next line feed.
func (m *machine) line() string {
	i := bytes.IndexByte(m.b[m.pos:], '\n')
	if i < 0 {
		m.fail("line without an end")
		return ""
	}
	return strings.TrimSuffix(string(m.take(uint64(i + 1))[:i]), "\r")
}

// number reads n bytes, little-endian.
func (m *machine) number(n int) uint64 {
	var b [8]byte
	copy(b[:], m.take(uint64(n)))
	return binary.LittleEndian.Uint64(b[:])
}

func (m *machine) push(v any) { m.stack = append(m.stack, v) }

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

// popMark takes everything above the last mark, and the mark.
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

// step runs one instruction. The letters are those of Python's pickletools.
func (m *machine) step(op byte) {
	switch op {
	case 0x80: // PROTO
		if v := m.number(1); v > 5 {
			m.fail("protocol %d; 5 is the newest known", v)
		}
	case 0x95: // FRAME
		m.take(8)
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
		module := m.line()
		m.push(global{module, m.line()})
	case 0x93: // STACK_GLOBAL
		v := m.popN(2)
		module, _ := v[0].(string)
		name, _ := v[1].(string)
		m.push(global{module, name})
	case 'R', 0x81: // REDUCE, NEWOBJ
		v := m.popN(2)
		m.push(m.call(v[0], v[1]))
	case 0x92: // NEWOBJ_EX
		m.popN(3)
		m.push(opaque{})
	case 'b': // BUILD: the state of an object, such as the version of a module
		m.pop()
	case 'Q': // BINPERSID
		m.push(m.persistent(m.pop()))
	default:
		if !m.scalar(op) && !m.container(op) && !m.memoize(op) {
			m.fail("unknown instruction %#02x", op)
		}
	}
}

// scalar runs the instructions that push numbers and text.
func (m *machine) scalar(op byte) bool {
	switch op {
	case 'J':
		m.push(int64(int32(m.number(4))))
	case 'K':
		m.push(int64(m.number(1)))
	case 'M':
		m.push(int64(m.number(2)))
	case 'I', 'L': // INT, LONG
		m.push(integerLine(m.line()))
	case 0x8a: // LONG1
		m.push(long(m.take(m.number(1))))
	case 0x8b: // LONG4
		m.push(long(m.take(m.number(4))))
	case 'F':
		v, err := strconv.ParseFloat(m.line(), 64)
		if err != nil {
			m.fail("bad float")
		}
		m.push(v)
	case 'G':
		m.push(math.Float64frombits(binary.BigEndian.Uint64(append(make([]byte, 0, 8), m.take(8)...))))
	case 'X': // BINUNICODE
		m.push(string(m.take(m.number(4))))
	case 0x8c: // SHORT_BINUNICODE
		m.push(string(m.take(m.number(1))))
	case 0x8d: // BINUNICODE8
		m.push(string(m.take(m.number(8))))
	case 'U': // SHORT_BINSTRING
		m.push(string(m.take(m.number(1))))
	case 'T': // BINSTRING
		m.push(string(m.take(m.number(4))))
	case 'V': // UNICODE
		m.push(m.line())
	case 'B': // BINBYTES
		m.take(m.number(4))
		m.push(opaque{})
	case 'C': // SHORT_BINBYTES
		m.take(m.number(1))
		m.push(opaque{})
	case 0x8e, 0x96: // BINBYTES8, BYTEARRAY8
		m.take(m.number(8))
		m.push(opaque{})
	default:
		return false
	}
	return true
}

// integerLine reads the text of INT or LONG; "00" and "01" are how bools were written.
func integerLine(text string) any {
	switch text {
	case "00":
		return false
	case "01":
		return true
	}
	v, err := strconv.ParseInt(strings.TrimSuffix(text, "L"), 10, 64)
	if err != nil {
		return opaque{}
	}
	return v
}

// long reads two's complement of any length.
func long(b []byte) any {
	if len(b) > 8 {
		return opaque{}
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

// container runs the instructions that build tuples, lists, dicts and sets.
func (m *machine) container(op byte) bool {
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
		d := &dict{}
		d.add(m.popMark())
		m.push(d)
	case 'a': // APPEND
		v := m.pop()
		if l, ok := m.top().(*list); ok {
			l.items = append(l.items, v)
		}
	case 'e': // APPENDS
		v := m.popMark()
		if l, ok := m.top().(*list); ok {
			l.items = append(l.items, v...)
		}
	case 's': // SETITEM
		v := m.popN(2)
		if d, ok := m.top().(*dict); ok {
			d.add(v)
		}
	case 'u': // SETITEMS
		v := m.popMark()
		if d, ok := m.top().(*dict); ok {
			d.add(v)
		}
	case 0x8f: // EMPTY_SET
		m.push(opaque{})
	case 0x90: // ADDITEMS
		m.popMark()
	case 0x91: // FROZENSET
		m.popMark()
		m.push(opaque{})
	default:
		return false
	}
	return true
}

func (d *dict) add(pairs []any) {
	for i := 0; i+1 < len(pairs); i += 2 {
		d.keys, d.values = append(d.keys, pairs[i]), append(d.values, pairs[i+1])
	}
}

// memoize runs the instructions that remember and recall values.
func (m *machine) memoize(op byte) bool {
	switch op {
	case 'q':
		m.memo[m.number(1)] = m.top()
	case 'r':
		m.memo[m.number(4)] = m.top()
	case 0x94: // MEMOIZE
		m.memo[uint64(len(m.memo))] = m.top()
	case 'p':
		i, err := strconv.ParseUint(m.line(), 10, 64)
		if err != nil {
			m.fail("bad memo number")
		}
		m.memo[i] = m.top()
	case 'h':
		m.recall(m.number(1))
	case 'j':
		m.recall(m.number(4))
	case 'g':
		i, err := strconv.ParseUint(m.line(), 10, 64)
		if err != nil {
			m.fail("bad memo number")
		}
		m.recall(i)
	default:
		return false
	}
	return true
}

func (m *machine) recall(i uint64) {
	v, ok := m.memo[i]
	if !ok {
		m.fail("nothing remembered as %d", i)
	}
	m.push(v)
}

// persistent reads torch's id of a storage: ('storage', class, key, location, elements).
func (m *machine) persistent(id any) any {
	t, ok := id.(tuple)
	if !ok || len(t) < 5 || t[0] != "storage" {
		return opaque{}
	}
	class, ok1 := t[1].(global)
	key, ok2 := t[2].(string)
	numel, ok3 := t[4].(int64)
	if !ok1 || !ok2 || !ok3 {
		m.fail("a storage's id is not as torch writes it")
	}
	return storage{class.name, key, numel}
}
