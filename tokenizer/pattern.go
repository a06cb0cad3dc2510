package tokenizer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"weft/fault"
)

// pattern is a regular expression in the dialect of tokenizer.json. It is Oniguruma's:
// the first alternative that matches wins, and it has look-ahead and possessive repeats,
// which package regexp lacks. Syntax that this package does not know is refused when the
// pattern is read.
//
// A pattern is compiled to a program, which runs with a stack of places to backtrack to.
// A repeat of one set of characters, of which tokenizers' patterns mostly consist, is one
// instruction and one entry on the stack, so the usual patterns take time in proportion to
// the text. A pattern that takes longer is stopped after a number of steps (see maxSteps).
type pattern struct {
	text string
	prog []instruction
}

type instruction struct {
	op         opcode
	set        *runeSet
	min, max   int // of a repeat; max < 0 is no limit
	possessive bool
	negative   bool
	x, y       int // targets: a split tries x and then y, a jump goes to x, a look-around goes on at x
}

type opcode uint8

const (
	opMatch opcode = iota
	opSet
	opRepeat
	opSplit
	opJump
	opLookAhead
	opLookBehind
	opAtomic
	opTextStart
	opTextEnd
	opLineStart
	opLineEnd
	opWordEdge
)

// The limits on what a pattern may cost. maxSteps bounds the steps on a text of n bytes.
const (
	maxInstructions = 20000
	maxNesting      = 50
	maxRepeat       = 1000
)

func maxSteps(n int) int { return 1<<16 + 2000*n }

// node is a node of the syntax tree of a pattern.
type node struct {
	kind       nodeKind
	set        *runeSet
	subs       []*node
	min, max   int
	possessive bool
	negative   bool
	op         opcode // of an assertion
}

type nodeKind uint8

const (
	nodeEmpty nodeKind = iota
	nodeSet
	nodeSequence
	nodeChoice
	nodeRepeat
	nodeLook
	nodeLookBehind
	nodeAtomic
	nodeAssert
)

// canBeEmpty says whether a node matches without taking a character.
func (n *node) canBeEmpty() bool {
	switch n.kind {
	case nodeSet:
		return false
	case nodeSequence:
		return !slices.ContainsFunc(n.subs, func(s *node) bool { return !s.canBeEmpty() })
	case nodeChoice:
		return slices.ContainsFunc(n.subs, (*node).canBeEmpty)
	case nodeRepeat:
		return n.min == 0 || n.subs[0].canBeEmpty()
	case nodeAtomic:
		return n.subs[0].canBeEmpty()
	}
	return true
}

// compilePattern compiles a pattern that splits or replaces text. A pattern that can match
// the empty text is refused. The error says which part is not supported.
func compilePattern(text string) (*pattern, error) {
	p := &patternParser{src: []rune(text)}
	root := p.parseChoice(0, false)
	if p.err == nil && p.pos < len(p.src) {
		p.fail("a closing parenthesis without an opening one")
	}
	if p.err != nil {
		return nil, p.err
	}
	if root.canBeEmpty() {
		return nil, fmt.Errorf("pattern %q can match the empty text, which is not supported", text)
	}
	c := &pattern{text: text}
	if !c.emitNode(root) || !c.addInstruction(instruction{op: opMatch}) {
		return nil, fmt.Errorf("pattern %.80q becomes more than %d instructions", text, maxInstructions)
	}
	return c, nil
}

// mustPattern compiles a pattern of this package, and panics where it is wrong.
func mustPattern(text string) *pattern {
	p, err := compilePattern(text)
	if err != nil {
		panic(err)
	}
	return p
}

// addInstruction appends an instruction; it is false when the program is too long.
func (p *pattern) addInstruction(in instruction) bool {
	p.prog = append(p.prog, in)
	return len(p.prog) <= maxInstructions
}

// emitNode appends the instructions of a node; it is false when the program is too long.
func (p *pattern) emitNode(n *node) bool {
	switch n.kind {
	case nodeSet:
		return p.addInstruction(instruction{op: opSet, set: n.set})
	case nodeSequence:
		for _, s := range n.subs {
			if !p.emitNode(s) {
				return false
			}
		}
	case nodeChoice:
		var jumps []int
		for i, s := range n.subs {
			last := i == len(n.subs)-1
			split := len(p.prog)
			if !last && !p.addInstruction(instruction{op: opSplit, x: split + 1}) || !p.emitNode(s) {
				return false
			}
			if !last {
				jumps = append(jumps, len(p.prog))
				if !p.addInstruction(instruction{op: opJump}) {
					return false
				}
				p.prog[split].y = len(p.prog)
			}
		}
		for _, j := range jumps {
			p.prog[j].x = len(p.prog)
		}
	case nodeRepeat:
		return p.emitRepeat(n)
	case nodeLook, nodeAtomic:
		op := opLookAhead
		if n.kind == nodeAtomic {
			op = opAtomic
		}
		at := len(p.prog)
		if !p.addInstruction(instruction{op: op, negative: n.negative}) || !p.emitNode(n.subs[0]) || !p.addInstruction(instruction{op: opMatch}) {
			return false
		}
		p.prog[at].x = len(p.prog)
	case nodeLookBehind:
		return p.addInstruction(instruction{op: opLookBehind, set: n.set, negative: n.negative})
	case nodeAssert:
		return p.addInstruction(instruction{op: n.op, negative: n.negative})
	}
	return true
}

func (p *pattern) emitRepeat(n *node) bool {
	sub := n.subs[0]
	if sub.kind == nodeSet {
		return p.addInstruction(instruction{op: opRepeat, set: sub.set, min: n.min, max: n.max, possessive: n.possessive})
	}
	if n.possessive {
		plain := *n
		plain.possessive = false
		return p.emitNode(&node{kind: nodeAtomic, subs: []*node{&plain}})
	}
	for range n.min {
		if !p.emitNode(sub) {
			return false
		}
	}
	if n.max < 0 {
		split := len(p.prog)
		if !p.addInstruction(instruction{op: opSplit, x: split + 1}) || !p.emitNode(sub) || !p.addInstruction(instruction{op: opJump, x: split}) {
			return false
		}
		p.prog[split].y = len(p.prog)
		return true
	}
	var splits []int
	for range n.max - n.min {
		splits = append(splits, len(p.prog))
		if !p.addInstruction(instruction{op: opSplit, x: len(p.prog) + 1}) || !p.emitNode(sub) {
			return false
		}
	}
	for _, s := range splits {
		p.prog[s].y = len(p.prog)
	}
	return true
}

// matcher runs a pattern over one text.
type matcher struct {
	p     *pattern
	text  string
	stack []frame
	steps int
}

// frame is a place to backtrack to: an instruction and a position. For a repeat, low is
// the lowest position: it gives back one character at a time down to there. It is -1 for
// all others.
type frame struct {
	pc, pos, low int
}

// findMatches calls visit for the parts of text that match, from left to right. The text
// must be valid UTF-8.
func (p *pattern) findMatches(text string, visit func(start, end int)) error {
	m := matcher{p: p, text: text, steps: maxSteps(len(text))}
	for at := 0; at < len(text); {
		end := m.matchFrom(0, at)
		if m.steps < 0 {
			return fault.New(ErrEncode, Untokenizable{"pattern too slow"}, "pattern %.80q takes more than %d steps on a text of %d bytes", p.text, maxSteps(len(text)), len(text))
		}
		if end < 0 {
			_, n := utf8.DecodeRuneInString(text[at:])
			at += n
			continue
		}
		visit(at, end)
		at = end
	}
	return nil
}

// matchFrom runs the program from an instruction and a position on. It gives the end of
// the match, or -1 if there is none.
func (m *matcher) matchFrom(pc, pos int) int {
	base := len(m.stack)
	defer func() { m.stack = m.stack[:base] }()
	prog, text := m.p.prog, m.text
	for {
		if m.steps--; m.steps < 0 {
			return -1
		}
		in := &prog[pc]
		ok := true
		switch in.op {
		case opMatch:
			return pos
		case opSet:
			r, n := decodeRune(text, pos)
			if ok = n > 0 && in.set.contains(r); ok {
				pos += n
				pc++
			}
		case opRepeat:
			start, low, count := pos, pos, 0
			for in.max < 0 || count < in.max {
				r, n := decodeRune(text, pos)
				if n == 0 || !in.set.contains(r) {
					break
				}
				pos += n
				if count++; count == in.min {
					low = pos
				}
			}
			m.steps -= (pos - start) >> 2
			if ok = count >= in.min; ok {
				pc++
				if pos > low && !in.possessive {
					m.stack = append(m.stack, frame{pc, pos, low})
				}
			}
		case opSplit:
			m.stack = append(m.stack, frame{in.y, pos, -1})
			pc = in.x
		case opJump:
			pc = in.x
		case opLookAhead:
			if ok = m.matchFrom(pc+1, pos) >= 0 != in.negative; ok {
				pc = in.x
			}
		case opAtomic:
			end := m.matchFrom(pc+1, pos)
			if ok = end >= 0; ok {
				pos, pc = end, in.x
			}
		default:
			if ok = m.checkAssertion(in, pos); ok {
				pc++
			}
		}
		if ok {
			continue
		}
		if len(m.stack) == base {
			return -1
		}
		f := &m.stack[len(m.stack)-1]
		pc, pos = f.pc, f.pos
		if f.low >= 0 {
			_, n := utf8.DecodeLastRuneInString(text[:pos])
			pos -= n
			if f.pos = pos; pos > f.low {
				continue
			}
		}
		m.stack = m.stack[:len(m.stack)-1]
	}
}

func decodeRune(text string, pos int) (rune, int) {
	if pos >= len(text) {
		return 0, 0
	}
	if c := text[pos]; c < utf8.RuneSelf {
		return rune(c), 1
	}
	return utf8.DecodeRuneInString(text[pos:])
}

func (m *matcher) checkAssertion(in *instruction, pos int) bool {
	before, _ := utf8.DecodeLastRuneInString(m.text[:pos])
	after, _ := utf8.DecodeRuneInString(m.text[pos:])
	first, last := pos == 0, pos == len(m.text)
	switch in.op {
	case opTextStart:
		return first
	case opTextEnd:
		return last
	case opLineStart:
		return first || before == '\n' && !last
	case opLineEnd:
		return last || after == '\n'
	case opWordEdge:
		edge := (!first && wordSet.contains(before)) != (!last && wordSet.contains(after))
		return edge != in.negative
	case opLookBehind:
		return (!first && in.set.contains(before)) != in.negative
	}
	return false
}

// runeSet is a set of characters. ASCII characters are looked up in a bitmap.
type runeSet struct {
	ascii   [2]uint64
	ranges  []rune // pairs: first, last
	tables  []*unicode.RangeTable
	without []*unicode.RangeTable // everything but these
	subs    []*runeSet
	negated bool
	folded  bool // a character is in the set if it is in another case
}

func (s *runeSet) contains(r rune) bool {
	if r < utf8.RuneSelf {
		return s.ascii[r>>6]>>(r&63)&1 != 0
	}
	return s.containsWide(r)
}

func (s *runeSet) containsWide(r rune) bool {
	in := s.lookUp(r)
	if s.folded && !in {
		for other := unicode.SimpleFold(r); other != r && !in; other = unicode.SimpleFold(other) {
			in = s.lookUp(other)
		}
	}
	return in != s.negated
}

func (s *runeSet) lookUp(r rune) bool {
	for i := 0; i < len(s.ranges); i += 2 {
		if s.ranges[i] <= r && r <= s.ranges[i+1] {
			return true
		}
	}
	for _, t := range s.tables {
		if unicode.Is(t, r) {
			return true
		}
	}
	for _, t := range s.without {
		if !unicode.Is(t, r) {
			return true
		}
	}
	for _, sub := range s.subs {
		if sub.contains(r) {
			return true
		}
	}
	return false
}

// fillBitmap fills the bitmap. It is called when all other fields are set.
func (s *runeSet) fillBitmap() *runeSet {
	for r := rune(0); r < utf8.RuneSelf; r++ {
		if s.containsWide(r) {
			s.ascii[r>>6] |= 1 << (r & 63)
		}
	}
	return s
}

var (
	spaceSet  = (&runeSet{tables: []*unicode.RangeTable{unicode.White_Space}}).fillBitmap()
	digitSet  = (&runeSet{tables: findTables("Nd")}).fillBitmap()
	numberSet = (&runeSet{tables: findTables("N")}).fillBitmap()
	letterSet = (&runeSet{tables: slices.Concat(findTables("L"), findTables("M"), findTables("Nd"), findTables("Pc"),
		[]*unicode.RangeTable{unicode.Nl, unicode.Other_Alphabetic})}).fillBitmap()
	// To Oniguruma, the numbers of category No are parts of words if they are in Latin-1,
	// and not otherwise.
	wordSet   = (&runeSet{subs: []*runeSet{letterSet}, ranges: []rune{0xb2, 0xb3, 0xb9, 0xb9, 0xbc, 0xbe}}).fillBitmap()
	hexSet    = (&runeSet{ranges: []rune{'0', '9', 'a', 'f', 'A', 'F'}}).fillBitmap()
	anySet    = (&runeSet{ranges: []rune{'\n', '\n'}, negated: true}).fillBitmap()
	shortSets = map[rune]*runeSet{'s': spaceSet, 'd': digitSet, 'w': wordSet, 'h': hexSet}
)

func invertSet(s *runeSet) *runeSet {
	return (&runeSet{subs: []*runeSet{s}, negated: true}).fillBitmap()
}

func singleRune(r rune, fold bool) *runeSet {
	return (&runeSet{ranges: []rune{r, r}, folded: fold}).fillBitmap()
}

// patternParser parses a pattern. It keeps the first error and stops there.
type patternParser struct {
	src []rune
	pos int
	err error
}

func (p *patternParser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("pattern %q: %s at character %d is not supported", string(p.src), fmt.Sprintf(format, args...), p.pos+1)
		p.pos = len(p.src)
	}
}

func (p *patternParser) hasMore() bool { return p.err == nil && p.pos < len(p.src) }

func (p *patternParser) nextIs(text string) bool {
	return p.err == nil && strings.HasPrefix(string(p.src[p.pos:min(len(p.src), p.pos+len(text))]), text)
}

func (p *patternParser) takeText(text string) bool {
	if !p.nextIs(text) {
		return false
	}
	p.pos += len(text) // callers pass ASCII alone, so bytes are characters
	return true
}

// parseChoice parses alternatives up to a closing parenthesis or the end. With fold, case
// does not matter.
func (p *patternParser) parseChoice(depth int, fold bool) *node {
	if depth > maxNesting {
		p.fail("nesting deeper than %d", maxNesting)
	}
	n := &node{kind: nodeChoice, subs: []*node{p.parseSequence(depth, fold)}}
	for p.takeText("|") {
		n.subs = append(n.subs, p.parseSequence(depth, fold))
	}
	if len(n.subs) == 1 {
		return n.subs[0]
	}
	return n
}

// foldedPairs are pairs of letters that match a single character if case does not matter:
// ss matches ß, and fi matches ﬁ. This package does not do that, so they are refused.
var foldedPairs = []string{"ss", "ff", "fi", "fl", "st"}

func (p *patternParser) parseSequence(depth int, fold bool) *node {
	n := &node{kind: nodeSequence}
	var letters strings.Builder
	for p.hasMore() && !p.nextIs("|") && !p.nextIs(")") {
		start := p.pos
		sub := p.parseAtom(depth, fold)
		if fold && p.pos == start+1 {
			letters.WriteString(strings.ToLower(string(p.src[start:p.pos])))
		} else {
			letters.WriteByte(' ')
		}
		n.subs = append(n.subs, p.parseQuantifiers(sub))
	}
	for _, pair := range foldedPairs {
		if strings.Contains(letters.String(), pair) {
			p.fail("%q in any case", pair)
		}
	}
	if len(n.subs) == 1 {
		return n.subs[0]
	}
	return n
}

// parseQuantifiers parses the repeats that may follow an atom: ?, *, +, {n,m}, each of them
// possessive with another +.
func (p *patternParser) parseQuantifiers(sub *node) *node {
	for p.hasMore() {
		low, high, braces := 0, -1, false
		switch {
		case p.takeText("?"):
			high = 1
		case p.takeText("*"):
		case p.takeText("+"):
			low = 1
		default:
			var ok bool
			if low, high, ok = p.parseBraces(); !ok {
				return sub
			}
			braces = true
		}
		if low > maxRepeat || high > maxRepeat {
			p.fail("a repeat of more than %d", maxRepeat)
		}
		if high >= 0 && low > high {
			p.fail("a repeat of %d to %d", low, high)
		}
		if p.nextIs("?") {
			p.fail("a repeat that takes as little as it can")
		}
		if sub.kind != nodeSet && sub.canBeEmpty() {
			p.fail("a repeat of what may be empty")
		}
		sub = &node{kind: nodeRepeat, subs: []*node{sub}, min: low, max: high}
		if !braces && p.takeText("+") {
			sub.possessive = true
		}
		if !braces && (p.nextIs("?") || p.nextIs("*") || p.nextIs("+") || p.nextIs("{")) {
			p.fail("a repeat of a repeat")
		}
	}
	return sub
}

// parseBraces parses {n}, {n,}, {,m} or {n,m}. Braces around anything else are text.
func (p *patternParser) parseBraces() (low, high int, ok bool) {
	if !p.nextIs("{") {
		return 0, 0, false
	}
	end := slices.Index(p.src[p.pos:], '}')
	if end < 0 {
		return 0, 0, false
	}
	from, to, comma := strings.Cut(string(p.src[p.pos+1:p.pos+end]), ",")
	if from == "" && to == "" || strings.Trim(from+to, "0123456789") != "" {
		return 0, 0, false
	}
	low, _ = strconv.Atoi(from)
	switch high, _ = strconv.Atoi(to); {
	case !comma:
		high = low
	case to == "":
		high = -1
	}
	p.pos += end + 1
	return low, high, true
}

func (p *patternParser) parseAtom(depth int, fold bool) *node {
	set := func(s *runeSet) *node { return &node{kind: nodeSet, set: s} }
	switch r := p.src[p.pos]; r {
	case '(':
		return p.parseGroup(depth, fold)
	case '[':
		return set(p.parseClass(depth, fold))
	case '\\':
		return p.parseEscape(fold)
	case '.':
		p.pos++
		return set(anySet)
	case '^':
		p.pos++
		return &node{kind: nodeAssert, op: opLineStart}
	case '$':
		p.pos++
		return &node{kind: nodeAssert, op: opLineEnd}
	case '?', '*', '+':
		p.fail("%q without anything to repeat", r)
		return &node{}
	default:
		p.checkFold(r, fold)
		p.pos++
		return set(singleRune(r, fold))
	}
}

func (p *patternParser) checkFold(r rune, fold bool) {
	if fold && r >= utf8.RuneSelf && unicode.IsLetter(r) {
		p.fail("%q in any case", r)
	}
}

// parseGroup parses what begins with a parenthesis.
func (p *patternParser) parseGroup(depth int, fold bool) *node {
	n := &node{kind: nodeEmpty}
	wrap := func(kind nodeKind, negative bool) {
		n = &node{kind: kind, negative: negative, subs: []*node{p.parseChoice(depth+1, fold)}}
	}
	behind := func(negative bool) {
		at := p.pos
		sub := p.parseChoice(depth+1, fold)
		if sub.kind == nodeChoice && !slices.ContainsFunc(sub.subs, func(s *node) bool { return s.kind != nodeSet }) {
			union := &runeSet{}
			for _, s := range sub.subs {
				union.subs = append(union.subs, s.set)
			}
			sub = &node{kind: nodeSet, set: union.fillBitmap()}
		}
		if sub.kind != nodeSet {
			p.pos = at
			p.fail("a look-behind at more than one character")
		}
		n = &node{kind: nodeLookBehind, set: sub.set, negative: negative}
	}
	switch {
	case p.takeText("(?:"):
		n = p.parseChoice(depth+1, fold)
	case p.takeText("(?i:"):
		n = p.parseChoice(depth+1, true)
	case p.takeText("(?-i:"):
		n = p.parseChoice(depth+1, false)
	case p.takeText("(?="):
		wrap(nodeLook, false)
	case p.takeText("(?!"):
		wrap(nodeLook, true)
	case p.takeText("(?<="):
		behind(false)
	case p.takeText("(?<!"):
		behind(true)
	case p.takeText("(?>"):
		wrap(nodeAtomic, false)
	case p.takeText("(?i)"):
		return p.parseChoice(depth+1, true) // up to the end of the group around it
	case p.nextIs("(?"):
		p.fail("the group %q", string(p.src[p.pos:min(len(p.src), p.pos+4)]))
		return n
	default:
		p.pos++
		n = p.parseChoice(depth+1, fold)
	}
	if !p.takeText(")") {
		p.fail("a group without an end")
	}
	if n.kind == nodeRepeat || n.kind == nodeSet {
		// What follows repeats the group, and never makes a repeat possessive.
		n = &node{kind: nodeSequence, subs: []*node{n}}
	}
	return n
}

// parseEscape parses a backslash and what follows it, outside of brackets.
func (p *patternParser) parseEscape(fold bool) *node {
	if p.pos+1 < len(p.src) {
		op := map[rune]opcode{'A': opTextStart, 'z': opTextEnd, 'b': opWordEdge, 'B': opWordEdge}
		if r := p.src[p.pos+1]; op[r] != 0 {
			p.pos += 2
			return &node{kind: nodeAssert, op: op[r], negative: r == 'B'}
		}
	}
	s, r := p.parseEscapedSet(fold)
	if s == nil {
		p.checkFold(r, fold)
		s = singleRune(r, fold)
	}
	return &node{kind: nodeSet, set: s}
}

var escapedRunes = map[rune]rune{'n': '\n', 't': '\t', 'r': '\r', 'f': '\f', 'v': '\v', 'a': 7, 'e': 27}

// parseEscapedSet parses an escape that stands for a set or, where it gives no set, for a
// character.
func (p *patternParser) parseEscapedSet(fold bool) (*runeSet, rune) {
	if p.pos+1 >= len(p.src) {
		p.fail("a backslash at the end")
		return spaceSet, 0
	}
	r := p.src[p.pos+1]
	if s, ok := shortSets[unicode.ToLower(r)]; ok {
		p.pos += 2
		if unicode.IsUpper(r) {
			s = invertSet(s)
		}
		return s, 0
	}
	switch {
	case r == 'p' || r == 'P':
		return p.parseProperty(r == 'P', fold), 0
	case r == 'x' || r == 'u':
		return p.parseCodePoint()
	case escapedRunes[r] != 0:
		p.pos += 2
		return nil, escapedRunes[r]
	case r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)):
		p.fail(`\%c`, r)
		return spaceSet, 0
	}
	p.pos += 2
	return nil, r
}

// parseCodePoint parses \xHH, \x{H...} or \uHHHH.
func (p *patternParser) parseCodePoint() (*runeSet, rune) {
	digits, skip := 2, 0
	rest := p.src[p.pos+2:]
	switch {
	case p.src[p.pos+1] == 'u':
		digits = 4
	case len(rest) > 0 && rest[0] == '{':
		rest, skip = rest[1:], 2
		digits = slices.Index(rest, '}')
	}
	if digits > 0 && digits <= min(8, len(rest)) {
		if v, err := strconv.ParseUint(string(rest[:digits]), 16, 32); err == nil && v <= unicode.MaxRune && (v < 0x80 || digits != 2 || skip > 0) {
			p.pos += 2 + digits + skip
			return nil, rune(v)
		}
	}
	p.fail("the escape")
	return spaceSet, 0
}

// parseProperty parses \p{Name}, \p{^Name} or \P{Name}: a general category or a script.
func (p *patternParser) parseProperty(negated, fold bool) *runeSet {
	end := slices.Index(p.src[p.pos:], '}')
	if end < 4 || p.src[p.pos+2] != '{' {
		p.fail("a property without braces")
		return spaceSet
	}
	name := string(p.src[p.pos+3 : p.pos+end])
	if rest, ok := strings.CutPrefix(name, "^"); ok {
		name, negated = rest, !negated
	}
	tables := findTables(name)
	if tables == nil {
		p.fail("the property %q", name)
		return spaceSet
	}
	p.pos += end + 1
	s := (&runeSet{tables: tables, folded: fold}).fillBitmap()
	if negated {
		return invertSet(s)
	}
	return s
}

var longCategories = map[string]string{
	"letter": "L", "mark": "M", "number": "N", "punctuation": "P", "symbol": "S", "separator": "Z",
	"uppercase_letter": "Lu", "lowercase_letter": "Ll", "titlecase_letter": "Lt", "decimal_number": "Nd",
}

// findTables finds a category or a script by the name that a pattern gives it.
// Oniguruma ignores case in names. The category C is not supported, because it contains
// the unassigned characters, and those differ between versions of Unicode.
func findTables(name string) []*unicode.RangeTable {
	if long, ok := longCategories[strings.ToLower(name)]; ok {
		name = long
	}
	for _, tables := range []map[string]*unicode.RangeTable{unicode.Categories, unicode.Scripts} {
		for key, t := range tables {
			if strings.EqualFold(key, name) && key != "C" && key != "Cn" && key != "LC" {
				return withAdditions(key, t)
			}
		}
	}
	return nil
}

// parseClass parses a set in brackets. A set in brackets within it is added to it.
func (p *patternParser) parseClass(depth int, fold bool) *runeSet {
	s := &runeSet{folded: fold}
	p.pos++
	s.negated = p.takeText("^")
	if depth > maxNesting {
		p.fail("nesting deeper than %d", maxNesting)
	}
	for first := true; p.hasMore(); first = false {
		r := p.src[p.pos]
		switch {
		case r == ']' && !first:
			p.pos++
			return s.fillBitmap()
		case r == '[' && p.nextIs("[:"):
			p.fail("a bracket of POSIX")
			continue
		case r == '[':
			s.subs = append(s.subs, p.parseClass(depth+1, fold))
			continue
		case p.nextIs("&&"):
			p.fail("an intersection of sets")
			continue
		}
		sub, low, ok := p.parseClassRune(fold)
		if !ok {
			s.subs = append(s.subs, sub)
			continue
		}
		high := low
		if p.nextIs("-") && p.pos+1 < len(p.src) && p.src[p.pos+1] != ']' {
			p.pos++
			if _, high, ok = p.parseClassRune(fold); !ok {
				p.fail("a range that ends in a set")
			}
			if high < low {
				p.fail("a range from %q to %q", low, high)
			}
		}
		s.ranges = append(s.ranges, low, high)
	}
	p.fail("a set without an end")
	return spaceSet
}

// parseClassRune parses a character of a set, or an escape that is a set itself.
func (p *patternParser) parseClassRune(fold bool) (*runeSet, rune, bool) {
	r := p.src[p.pos]
	if r != '\\' {
		p.checkFold(r, fold)
		p.pos++
		return nil, r, true
	}
	if p.pos+1 < len(p.src) && p.src[p.pos+1] == 'b' {
		p.pos += 2
		return nil, '\b', true
	}
	sub, r := p.parseEscapedSet(fold)
	return sub, r, sub == nil
}
