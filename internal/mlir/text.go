package mlir

import (
	"bytes"
	"strconv"
	"strings"
)

// token is a word of MLIR text: a name with its sigil, a number, a string without
// its quotes and escapes, or one byte of punctuation.
type token struct {
	kind byte // 'n' name, '0' number, '"' string, 'l' location, else the byte itself; 0 at the end
	text string
}

// lexer splits MLIR text. Comments are passed over, and a location with all that is
// in it is one token: words there say nothing of the program.
type lexer struct {
	b  []byte
	at int
}

func (l *lexer) nextToken() token {
	t := l.nextWord()
	if t.kind == 'n' && t.text == "loc" {
		back := l.at
		if l.nextWord().kind == '(' {
			l.skipParens()
			return token{'l', ""}
		}
		l.at = back
	}
	return t
}

// skipParens goes behind the parenthesis that closes the one just read.
func (l *lexer) skipParens() {
	for depth := 1; depth > 0; {
		switch l.nextWord().kind {
		case '(':
			depth++
		case ')':
			depth--
		case 0:
			return
		}
	}
}

func (l *lexer) nextWord() token {
	for l.at < len(l.b) {
		c := l.b[l.at]
		switch {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			l.at++
		case c == '/' && l.at+1 < len(l.b) && l.b[l.at+1] == '/':
			if end := bytes.IndexByte(l.b[l.at:], '\n'); end >= 0 {
				l.at += end
			} else {
				l.at = len(l.b)
			}
		case c == '"':
			return token{'"', l.readQuoted()}
		case c >= '0' && c <= '9', c == '-' && l.at+1 < len(l.b) && l.b[l.at+1] >= '0' && l.b[l.at+1] <= '9':
			return token{'0', l.takeWhile(1, isNameByte)}
		case c == '@' && l.at+1 < len(l.b) && l.b[l.at+1] == '"':
			l.at++
			return token{'n', "@" + l.readQuoted()}
		case c == '@' || c == '#' || c == '%' || c == '!' || c == '^' || isNameByte(c):
			return token{'n', l.takeWhile(1, isNameByte)}
		default:
			l.at++
			return token{c, ""}
		}
	}
	return token{}
}

func isNameByte(c byte) bool {
	return c == '_' || c == '.' || c == '$' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// takeWhile reads n bytes and those after them that are in a set.
func (l *lexer) takeWhile(n int, in func(byte) bool) string {
	start := l.at
	for l.at += n; l.at < len(l.b) && in(l.b[l.at]); l.at++ {
	}
	return string(l.b[start:l.at])
}

// readQuoted reads a string. One that is never closed ends with the text: the compiler
// says what is wrong with it.
func (l *lexer) readQuoted() string {
	l.at++
	start, escaped := l.at, false
	for l.at < len(l.b) && l.b[l.at] != '"' {
		if l.b[l.at] == '\\' {
			escaped = true
			l.at++
		}
		l.at++
	}
	l.at = min(l.at, len(l.b))
	s := l.b[start:l.at]
	l.at = min(l.at+1, len(l.b))
	if !escaped {
		return string(s)
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			out = append(out, s[i])
			continue
		}
		i++
		switch s[i] {
		case 'n':
			out = append(out, '\n')
		case 't':
			out = append(out, '\t')
		default:
			if i+1 < len(s) {
				if v, err := strconv.ParseUint(string(s[i:i+2]), 16, 8); err == nil {
					out = append(out, byte(v))
					i++
					continue
				}
			}
			out = append(out, s[i])
		}
	}
	return string(out)
}

// scanText notes what a text says: a whole module, or an attribute alone.
func (m *Module) scanText(text []byte) error {
	l := lexer{b: text}
	var (
		last     token  // a name or a string, just before
		key      string // of the attribute whose value comes next
		depth    int    // of braces
		ofModule bool   // braces belong to a module, not to a function without one
		groups   int    // how deep in the angle brackets of replica groups
	)
	for t := l.nextToken(); t.kind != 0; t = l.nextToken() {
		value := key
		key = ""
		switch t.kind {
		case '{':
			depth++
		case '}':
			depth--
		case '=':
			key = last.text
		case '(':
			if last.kind == '"' && strings.HasPrefix(last.text, "sdy.") { // an operation in generic form
				m.Shardy = true
			}
		case '<':
			if groups > 0 || value == "\x00groups" {
				groups++
			} else if last.text == "mesh" || last.text == "#sdy.mesh" || value == "\x00mesh" {
				m.scanMesh(&l)
			}
		case '>':
			groups = max(0, groups-1)
		case '"':
			if value != "" {
				if err := m.noteString(value, t.text); err != nil {
					return err
				}
			} else if depth == 0 && t.text == "builtin.module" {
				ofModule = true
			}
		case '0':
			n, err := strconv.ParseInt(t.text, 0, 64)
			if groups > 0 && err == nil && n < maxDevices {
				m.Members = max(m.Members, int(n)+1)
			}
			if depth == 1 && ofModule && strings.HasPrefix(value, "mhlo.num_") {
				if err != nil {
					n = -1
				}
				m.addAttribute(value, n, t.text)
			}
		case 'n':
			name := t.text
			switch {
			case depth == 0 && (name == "module" || name == "builtin.module"):
				ofModule = true
			case depth == 0 && name == "func.func":
				ofModule = false
			case name == "dense" && (value == "replica_groups" || value == "source_target_pairs"):
				key = "\x00groups"
			case strings.HasPrefix(name, "sdy."), strings.HasPrefix(name, "#sdy."), strings.HasPrefix(name, "xla.sdy."):
				m.Shardy = true
			case name[0] == '@' && strings.HasSuffix(last.text, ".custom_call"):
				m.addCall(name[1:])
			}
			if name[0] == '@' && last.text == "sdy.mesh" { // sdy.mesh @name = <[...]>
				if l.nextToken().kind == '=' {
					key = "\x00mesh"
				}
			}
		}
		last = token{}
		if t.kind == 'n' || t.kind == '"' {
			last = t
		}
	}
	return nil
}

// scanMesh reads a mesh from behind its angle bracket: ["x"=2, "y"=4], and what
// follows up to the closing bracket.
func (m *Module) scanMesh(l *lexer) {
	start := l.at
	var axes []axis
	ok := l.nextToken().kind == '['
	for ok {
		t := l.nextToken()
		if t.kind == ']' || t.kind == ',' && len(axes) > 0 {
			if t.kind == ']' {
				break
			}
			t = l.nextToken()
		}
		equals, size := l.nextToken(), l.nextToken()
		n, err := strconv.ParseInt(size.text, 0, 64)
		ok = t.kind == '"' && equals.kind == '=' && size.kind == '0' && err == nil && len(axes) < maxAxes
		axes = append(axes, axis{t.text, n})
	}
	if !ok || len(axes) == 0 {
		m.Shardy = true
		m.addCount(0, "mesh "+strconv.Quote("<"+strings.TrimSpace(string(l.b[start:min(len(l.b), start+40)]))))
		l.at = start
		return
	}
	m.addMesh(axes)
}

// maxAxes bounds a mesh's axes.
const maxAxes = 64
