package tokenizer

import (
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/text/unicode/norm"

	"weft/internal/jsontext"
)

// jsonReader reads a tokenizer.json.
type jsonReader struct {
	faults
	out  *Tokenizer
	line pipeline
}

// vocabulary is the large part of the file: the pieces of the model and their merges.
type vocabulary struct {
	ids    map[string]int32 // if vocab is an object of ids
	pieces []trieEntry      // if vocab is a list of pairs of a piece
	scores []float64        // and its score
	merges [][2]string
	has    map[string]bool // the fields that the model's object has
}

// parseTokenizerJSON reads the text of a tokenizer.json. The error lists every fault that
// was found.
func parseTokenizerJSON(path string, b []byte) (*Tokenizer, error) {
	r := &jsonReader{faults: faults{path: path}, out: &Tokenizer{Path: path}}
	s := jsontext.NewScanner(b)
	document := map[string]any{}
	var v vocabulary
	s.Space()
	s.Object(func(key string, at int) {
		if _, twice := document[key]; twice {
			s.FailAt(at, "key %.80q twice", key)
		}
		if key == "model" && s.Peek() == '{' {
			document[key] = v.scanModel(s)
		} else {
			document[key] = s.Value(jsontext.Options{})
		}
	})
	s.End()
	if err := s.Err(); err != nil {
		r.addMalformed("", "%v", err)
		return nil, r.err()
	}
	r.readDocument(r.objectAt(document, ""), &v)
	if err := r.err(); err != nil {
		return nil, err
	}
	r.out.encode = r.line.encode
	r.out.finishVocabulary()
	return r.out, nil
}

// scanModel reads the model's object. It gives the small fields as values, and reads the
// vocabulary and the merges straight into v, because they are most of the file.
func (v *vocabulary) scanModel(s *jsontext.Scanner) map[string]any {
	small := map[string]any{}
	v.has = map[string]bool{}
	s.Object(func(key string, at int) {
		s.RefuseRepeated(v.has, key, at)
		switch {
		case key == "vocab" && s.Peek() == '{':
			v.scanIDs(s)
		case key == "vocab" && s.Peek() == '[':
			v.scanScores(s)
		case key == "merges" && s.Peek() == '[':
			v.scanMerges(s)
		default:
			small[key] = s.Value(jsontext.Options{})
		}
	})
	return small
}

func (v *vocabulary) scanIDs(s *jsontext.Scanner) {
	v.ids = map[string]int32{}
	s.Object(func(piece string, at int) {
		id := s.Whole("an id")
		if id > maxID {
			s.FailAt(at, "id %d of %s; the largest is %d", id, quotePiece(piece), maxID)
		}
		before := len(v.ids)
		if v.ids[piece] = int32(id); len(v.ids) == before {
			s.FailAt(at, "the piece %s twice", quotePiece(piece))
		}
	})
}

func (v *vocabulary) scanScores(s *jsontext.Scanner) {
	s.Array(func() {
		at, n := s.Pos(), 0
		var e trieEntry
		var score float64
		s.Array(func() {
			switch n++; n {
			case 1:
				e.key = s.Text()
			case 2:
				number := s.Number()
				if score = parseScore(number); s.OK() && math.IsInf(score, 0) {
					s.Fail("%.40s is beyond the largest number", number)
				}
			default:
				s.Fail("a piece has a text and a score and nothing more")
			}
		})
		if s.OK() && n != 2 {
			s.FailAt(at, "a piece and its score expected")
		}
		e.value = int32(len(v.pieces))
		if len(e.key) > maxPieceBytes {
			s.FailAt(at, "a piece of %d bytes; at most %d", len(e.key), maxPieceBytes)
		}
		v.pieces, v.scores = append(v.pieces, e), append(v.scores, score)
	})
}

// parseScore gives the number that the tokenizers library makes of a JSON number. The
// library reads as many digits as 64 bits hold as one whole number, and multiplies or
// divides it by a power of ten. From 17 digits on the result is not always the nearest
// float64. It matters because the last bit of a score can decide between two ways to split
// a text.
func parseScore(number string) float64 {
	text, negative := strings.CutPrefix(number, "-")
	power := ""
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		text, power = text[:i], text[i+1:]
	}
	whole, fraction, _ := strings.Cut(text, ".")
	exponent, _ := strconv.Atoi(power) // the largest there is where it does not fit
	exponent = max(-1e6, min(exponent, 1e6))
	digits, full := uint64(0), false
	take := func(c byte) bool {
		d := uint64(c - '0')
		if full = full || digits > (math.MaxUint64-d)/10; !full {
			digits = digits*10 + d
		}
		return !full
	}
	for i := range len(whole) {
		if !take(whole[i]) {
			exponent++
		}
	}
	for i := range len(fraction) {
		if take(fraction[i]) {
			exponent--
		}
	}
	f := float64(digits)
	for ; exponent < -308 && f != 0; exponent += 308 {
		f /= 1e308
	}
	switch {
	case f == 0:
	case exponent > 308:
		f = math.Inf(1)
	case exponent >= 0:
		f *= powersOfTen[exponent]
	default:
		f /= powersOfTen[-exponent]
	}
	if negative {
		return -f
	}
	return f
}

// powersOfTen are the numbers nearest to the powers of ten.
var powersOfTen = func() (p [309]float64) {
	for n := range p {
		p[n], _ = strconv.ParseFloat("1e"+strconv.Itoa(n), 64)
	}
	return p
}()

// maxPieceBytes bounds the length of pieces. A piece is searched for at every place of a
// text, so this bounds the time that a text can take.
const maxPieceBytes = 1 << 14

// scanMerges reads merges, all in the form "a b" or all in the form ["a", "b"].
func (v *vocabulary) scanMerges(s *jsontext.Scanner) {
	pairs := 0
	s.Array(func() {
		at := s.Pos()
		var m [2]string
		if s.Peek() == '"' {
			var ok bool
			text := s.Text()
			if strings.HasPrefix(text, "#version") {
				return
			}
			if m, ok = splitMerge(text); s.OK() && !ok {
				s.FailAt(at, "a merge has two pieces with one blank between")
			}
		} else {
			n := 0
			s.Array(func() {
				if n++; n > 2 {
					s.Fail("a merge has two pieces")
					return
				}
				m[n-1] = s.Text()
			})
			if s.OK() && n != 2 {
				s.FailAt(at, "a merge has two pieces")
			}
			pairs++
		}
		v.merges = append(v.merges, m)
		if s.OK() && pairs != 0 && pairs != len(v.merges) {
			s.FailAt(at, "merges in two forms")
		}
	})
}

func itemPath(where string, i int) string { return fmt.Sprintf("%s[%d]", where, i) }

func (r *jsonReader) unknownType(o *fields, kind string) {
	if kind != "" {
		r.addUnsupported(o.pathOf("type"), "%.60q is not supported", kind)
	}
}

func (r *jsonReader) readDocument(o *fields, v *vocabulary) {
	if version := o.text("version", "1.0"); version != "1.0" {
		r.addUnsupported("version", "%.60q; 1.0 is known", version)
	}
	r.readTruncation(o)
	r.readPadding(o)
	if n, _ := o.take("normalizer"); n != nil {
		r.line.normalize = r.readNormalizer(n, "normalizer")
	}
	if p, _ := o.take("pre_tokenizer"); p != nil {
		r.line.words = r.readPreTokenizer(p, "pre_tokenizer")
	}
	p, _ := o.take("post_processor")
	r.readPostProcessor(p, "post_processor")
	d, _ := o.take("decoder")
	r.checkDecoder(d, "decoder")
	m, _ := o.take("model")
	model := r.objectAt(m, "model")
	r.readModel(model, v)
	tokens, _ := o.take("added_tokens")
	if r.out.ids != nil {
		r.readAddedTokens(tokens, max(len(v.ids), len(v.scores)))
	}
	o.close()
}

// readModel sets the model and the ids of its vocabulary.
func (r *jsonReader) readModel(o *fields, v *vocabulary) {
	if o.m == nil {
		return
	}
	kind, bare := "", false
	if _, typed := o.m["type"]; typed {
		kind = o.text("type")
	} else {
		// Files of early versions leave it out.
		kind, bare = "WordPiece or WordLevel", true
		if v.pieces != nil {
			kind = "Unigram"
		} else if v.has["merges"] {
			kind = "BPE"
		}
	}
	if kind != "BPE" && kind != "Unigram" {
		if kind != "" {
			where, text := "model.type", fmt.Sprintf("%.60q", kind)
			if bare {
				where, text = "model", kind
			}
			r.addUnsupported(where, "%s is not supported; BPE and Unigram are", text)
		}
		return
	}
	r.out.Kind = "tokenizer.json, " + kind
	if _, wrong := o.take("vocab"); wrong || !v.has["vocab"] || (kind == "BPE") != (v.ids != nil) {
		r.addMalformed("model.vocab", "pieces and their %s expected", map[bool]string{true: "ids, as an object", false: "scores, as a list"}[kind == "BPE"])
		return
	}
	if kind == "BPE" {
		r.readBPE(o, v)
	} else {
		r.readUnigram(o, v)
	}
	o.close()
}

func (r *jsonReader) readBPE(o *fields, v *vocabulary) {
	if _, wrong := o.take("merges"); wrong || !v.has["merges"] {
		r.addMalformed("model.merges", "a list expected")
	}
	b := &bpe{ids: v.ids, unknown: -1}
	if d, _ := o.take("dropout"); d != nil && fmt.Sprint(d) != "0" && fmt.Sprint(d) != "0.0" {
		r.addUnsupported("model.dropout", "%.40s leaves out merges at random", fmt.Sprint(d))
	}
	b.prefix = o.text("continuing_subword_prefix", "")
	b.suffix = o.text("end_of_word_suffix", "")
	b.fuseUnknown = o.flag("fuse_unk", false)
	b.ignoreMerges = o.flag("ignore_merges", false)
	if o.flag("byte_fallback", false) {
		b.bytes = newByteIDs(v.ids)
	}
	if u, _ := o.take("unk_token"); u != nil {
		text, ok := u.(string)
		id, known := v.ids[text]
		switch {
		case !ok:
			r.addMalformed("model.unk_token", "a string expected, found %s", describeJSON(u))
		case !known:
			r.addMalformed("model.unk_token", "%s is not in the vocabulary", quotePiece(text))
		default:
			b.unknown = id
		}
	}
	b.buildMerges(v.merges, &r.faults, func(i int) string { return itemPath("model.merges", i) })
	r.line.model = b.fillPlainIDs()
	r.out.ids = v.ids
}

func (r *jsonReader) readUnigram(o *fields, v *vocabulary) {
	if v.has["merges"] {
		r.addUnsupported("model.merges", "a Unigram model has none")
	}
	u := &unigram{scores: v.scores, unknown: -1, ids: make(map[string]int32, len(v.pieces))}
	lowest := 0.0
	for i, e := range v.pieces {
		u.ids[e.key] = e.value
		if i == 0 || v.scores[i] < lowest {
			lowest = v.scores[i]
		}
	}
	u.penalized = lowest - unknownPenalty
	if o.m["unk_id"] != nil {
		u.unknown = int32(o.wholeNumber("unk_id"))
		if int(u.unknown) >= len(v.pieces) {
			r.addMalformed("model.unk_id", "%d; the vocabulary has %d pieces", u.unknown, len(v.pieces))
		}
	}
	o.ignore("unk_id")
	if o.flag("byte_fallback", false) {
		u.bytes = newByteIDs(u.ids)
	}
	// A piece that is empty is in the vocabulary, but never in a text.
	u.trie = newTrie(slices.DeleteFunc(v.pieces, func(e trieEntry) bool { return e.key == "" }))
	r.line.model, r.out.ids = u, u.ids
}

// readAddedTokens sets the tokens that are searched for in the text. The tokenizers
// library gives a token the id that it has in the vocabulary, and numbers all others from
// the end of the vocabulary on. It does not read their ids from the file, so a file with
// other ids is refused.
func (r *jsonReader) readAddedTokens(v any, vocabulary int) {
	if v == nil {
		return
	}
	list, ok := v.([]any)
	if !ok {
		r.addMalformed("added_tokens", "a list expected, found %s", describeJSON(v))
		return
	}
	r.out.added = make(map[string]int32, len(list))
	next := int32(vocabulary)
	var tokens []addedToken
	place := map[string]int{}
	for i, v := range list {
		where := itemPath("added_tokens", i)
		o := r.objectAt(v, where)
		t := addedToken{
			id:         int32(o.wholeNumber("id")),
			content:    o.text("content"),
			singleWord: o.flag("single_word"),
			lstrip:     o.flag("lstrip"),
			rstrip:     o.flag("rstrip"),
			normalized: o.flag("normalized"),
			special:    o.flag("special"),
		}
		o.close()
		if t.content == "" {
			continue // as the tokenizers library does
		}
		if len(t.content) > maxPieceBytes {
			r.addUnsupported(where, "a token of %d bytes; at most %d", len(t.content), maxPieceBytes)
		}
		id, known := r.out.ids[t.content]
		if !known {
			id, known = r.out.added[t.content]
		}
		if !known {
			id = next
			next++
		}
		if id != t.id && o.m != nil {
			r.addUnsupported(where, "the token %s says id %d; by the vocabulary and its place in the list it has %d", quotePiece(t.content), t.id, id)
		}
		r.out.added[t.content] = id
		if at, twice := place[t.content]; twice {
			tokens[at] = t
			continue
		}
		place[t.content] = len(tokens)
		tokens = append(tokens, t)
	}
	r.sortAddedTokens(tokens)
}

// sortAddedTokens divides the tokens into those that are searched for in the text as it
// is given, and those that are searched for in the normalized text.
func (r *jsonReader) sortAddedTokens(tokens []addedToken) {
	var sets [2][]addedToken
	var keys [2][]string
	seen := map[string]string{}
	for _, t := range tokens {
		if t.special {
			r.out.special = append(r.out.special, Special{int(t.id), t.content})
		}
		key, set := t.content, 0
		if t.normalized {
			set = 1
			if r.line.normalize != nil {
				s, err := r.line.normalize(span{text: key, id: noID})
				if err != nil {
					r.addUnsupported("added_tokens", "%s cannot be normalized: %v", quotePiece(key), err)
				}
				key = s.text
			}
			if other, twice := seen[key]; twice {
				r.addUnsupported("added_tokens", "%s and %s are the same when normalized", quotePiece(other), quotePiece(t.content))
			}
			seen[key] = t.content
		}
		if key == "" {
			r.addUnsupported("added_tokens", "%s is empty when normalized", quotePiece(t.content))
			continue
		}
		sets[set], keys[set] = append(sets[set], t), append(keys[set], key)
	}
	r.line.verbatim = newAddedSet(sets[0], func(i int) string { return keys[0][i] })
	r.line.normalized = newAddedSet(sets[1], func(i int) string { return keys[1][i] })
}

func (r *jsonReader) readTruncation(o *fields) {
	v, _ := o.take("truncation")
	if v == nil {
		return
	}
	t := r.objectAt(v, "truncation")
	t.ignore("stride") // concerns the part that is cut off
	t.oneOf("strategy", []string{"LongestFirst", "OnlyFirst"})
	r.out.cut = &truncation{
		length: t.wholeNumber("max_length"),
		left:   t.oneOf("direction", []string{"Left", "Right"}, "Right") == "Left",
	}
	t.close()
}

// maxPadding bounds the length to which a file may pad texts.
const maxPadding = 1 << 20

func (r *jsonReader) readPadding(o *fields) {
	v, _ := o.take("padding")
	if v == nil {
		return
	}
	p := r.objectAt(v, "padding")
	p.ignore("pad_type_id", "pad_token")
	r.out.pad = &padding{
		multiple: p.wholeNumber("pad_to_multiple_of", 0),
		id:       p.wholeNumber("pad_id"),
		left:     p.oneOf("direction", []string{"Left", "Right"}) == "Left",
	}
	if fixed, ok := p.m["strategy"].(map[string]any); ok {
		p.ignore("strategy")
		f := r.objectAt(fixed, "padding.strategy")
		r.out.pad.fixed = f.wholeNumber("Fixed")
		f.close()
	} else {
		p.oneOf("strategy", []string{"BatchLongest"})
	}
	if n := max(r.out.pad.fixed, r.out.pad.multiple); n > maxPadding {
		r.addUnsupported("padding", "to %d tokens; at most %d", n, maxPadding)
	}
	p.close()
}

// decoders are the decoders of the tokenizers library. The ids do not depend on them, but
// any other name shows that the file is not what it seems to be.
var decoders = []string{"BPEDecoder", "ByteLevel", "WordPiece", "Metaspace", "CTC", "Sequence", "Replace", "Fuse", "Strip", "ByteFallback"}

func (r *jsonReader) checkDecoder(v any, where string) {
	if v == nil {
		return
	}
	o := r.objectAt(v, where)
	if o.oneOf("type", decoders) == "Sequence" {
		for i, sub := range o.list("decoders") {
			r.checkDecoder(sub, itemPath(o.pathOf("decoders"), i))
		}
	}
}

var forms = map[string]norm.Form{"NFC": norm.NFC, "NFD": norm.NFD, "NFKC": norm.NFKC, "NFKD": norm.NFKD}

func (r *jsonReader) readNormalizer(v any, where string) normalizer {
	o := r.objectAt(v, where)
	defer o.close()
	keep := func(s span) (span, error) { return s, nil }
	switch kind := o.text("type"); kind {
	case "Sequence":
		var all []normalizer
		for i, sub := range o.list("normalizers") {
			all = append(all, r.readNormalizer(sub, itemPath(o.pathOf("normalizers"), i)))
		}
		return inSequence(all)
	case "NFC", "NFD", "NFKC", "NFKD":
		return toForm(forms[kind])
	case "Lowercase":
		return mapRunes(lowerRune)
	case "StripAccents":
		return mapRunes(dropMarks)
	case "Nmt":
		return mapRunes(cleanNMT)
	case "Strip":
		return stripSpace(o.flag("strip_left"), o.flag("strip_right"))
	case "Prepend":
		return prependText(o.text("prepend"))
	case "Replace":
		with := o.text("content")
		if f := r.readFinder(o); f != nil {
			return replaceMatches(f, with)
		}
	case "ByteLevel":
		return func(s span) (span, error) { return spellBytes(s), nil }
	case "Precompiled":
		blob, err := base64.StdEncoding.DecodeString(o.text("precompiled_charsmap", ""))
		if err != nil {
			r.addMalformed(o.pathOf("precompiled_charsmap"), "not base64: %v", err)
			break
		}
		c, err := parseCharsmap(blob)
		if err != nil {
			r.addMalformed(o.pathOf("precompiled_charsmap"), "%v", err)
			break
		}
		if c == nil {
			break
		}
		return func(s span) (span, error) {
			e := newEditor(s)
			c.normalizeByGrapheme(e)
			return e.toSpan(), nil
		}
	default:
		r.unknownType(o, kind)
		o.m = nil
	}
	return keep
}

// readFinder reads a pattern: {"String": ...} or {"Regex": ...}.
func (r *jsonReader) readFinder(o *fields) finder {
	where := o.pathOf("pattern")
	v, _ := o.take("pattern")
	p := r.objectAt(v, where)
	if p.m == nil {
		return nil
	}
	defer p.close()
	if _, ok := p.m["String"]; ok {
		text := p.text("String")
		if text == "" {
			r.addUnsupported(where, "an empty string matches everywhere")
			return nil
		}
		return literal(text)
	}
	text := p.text("Regex")
	compiled, err := compilePattern(text)
	if err != nil {
		r.addUnsupported(where, "%v", err)
		return nil
	}
	return compiled
}

func (r *jsonReader) readPreTokenizer(v any, where string) preTokenizer {
	o := r.objectAt(v, where)
	defer o.close()
	switch kind := o.text("type"); kind {
	case "Sequence":
		var all []preTokenizer
		for i, sub := range o.list("pretokenizers") {
			all = append(all, r.readPreTokenizer(sub, itemPath(o.pathOf("pretokenizers"), i)))
		}
		return preTokenizeInSequence(all)
	case "Whitespace":
		return newSplitter(whitespaceWords{}, removed, true)
	case "WhitespaceSplit":
		return newSplitter(eachRune(spaceSet.contains), removed, false)
	case "BertPreTokenizer":
		return preTokenizeInSequence([]preTokenizer{
			newSplitter(eachRune(spaceSet.contains), removed, false),
			newSplitter(eachRune(isPunctuation), isolated, false),
		})
	case "Punctuation":
		return newSplitter(eachRune(isPunctuation), behavior(o.oneOf("behavior", behaviors, string(isolated))), false)
	case "Digits":
		b := contiguous
		if o.flag("individual_digits") {
			b = isolated
		}
		return newSplitter(eachRune(isNumeric), b, false)
	case "CharDelimiterSplit", "Delimiter":
		return newSplitter(literal(r.oneRune(o, "delimiter")), removed, false)
	case "FixedLength":
		n := o.wholeNumber("length", 5)
		if n < 1 {
			r.addMalformed(o.pathOf("length"), "%d; want 1 or more", n)
			n = 1
		}
		return fixedLengthWords(n)
	case "ByteLevel":
		o.ignore("trim_offsets")
		return byteLevelWords(o.flag("add_prefix_space"), o.flag("use_regex", true))
	case "Split":
		b := behavior(o.oneOf("behavior", behaviors))
		inverted := o.flag("invert")
		if f := r.readFinder(o); f != nil {
			return newSplitter(f, b, inverted)
		}
	case "Metaspace":
		return r.readMetaspace(o)
	default:
		r.unknownType(o, kind)
		o.m = nil
	}
	return func(in, out []span) ([]span, error) { return append(out, in...), nil }
}

// oneRune reads a string of one character.
func (r *jsonReader) oneRune(o *fields, key string) string {
	text := o.text(key)
	if o.m != nil && len([]rune(text)) != 1 {
		r.addMalformed(o.pathOf(key), "%s; one character expected", quotePiece(text))
		return " "
	}
	return text
}

func (r *jsonReader) readMetaspace(o *fields) preTokenizer {
	o.ignore("str_rep")
	replacement := r.oneRune(o, "replacement")
	scheme := o.oneOf("prepend_scheme", []string{"always", "first", "never"}, "always")
	if !o.flag("add_prefix_space", true) {
		// This is the older form of the scheme "never". The tokenizers library refuses a file
		// in which the two disagree; a scheme that is left out means "always".
		if scheme != "never" {
			r.addMalformed(o.where, "add_prefix_space is false and prepend_scheme %q", scheme)
		}
		scheme = "never"
	}
	return metaspaceWords(replacement, scheme, o.flag("split", true))
}
