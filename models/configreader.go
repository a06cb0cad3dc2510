package models

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"weft/fault"
	"weft/internal/jsontext"
	"weft/internal/printable"
)

// A ConfigReader reads one configuration: an object of JSON that a person wrote or
// a publisher released. Every family reads its own with these methods. A call of one
// names a key, the value to use where the key is absent, and the bound of the value
// with the reason for it.
//
// A reader collects all violations, so that one error reports all of them. After a
// violation a method returns a value with which it is safe to continue. Finish names
// the keys that no method asked for, because a mistyped key would otherwise mean its
// default without anyone noticing.
type ConfigReader struct {
	keys   map[string]any
	within string        // "text_config." for a nested object
	outer  *ConfigReader // of the object that has this one, nil for the whole
	asked  map[string]bool
	beside []string        // prefixes of keys that describe other models
	found  *configFindings // shared with the objects inside
}

// configFindings holds the violations that reading a configuration found.
type configFindings struct {
	faults fault.List
	count  int
	wrong  map[string]bool // keys with a wrong value: no other value is compared with these
	inside []*ConfigReader
}

// Bound is the range of a whole number of a configuration, and the reason for it.
type Bound struct {
	Least, Most int
	Why         string
}

// Span is the range of a number: more than Above and at most Most. Why is the reason.
type Span struct {
	Above, Most float64
	Why         string
}

// Bounds that families share. They are far above those of any model that exists, and
// so small that neither a product of a few of them overflows nor a list of as many
// names fills the memory.
var (
	LayerBound   = Bound{1, 1024, "every layer is a set of tensors of its own, and no model has a tenth as many"}
	HeadBound    = Bound{1, 1024, "attention is split by heads, and no model has a tenth as many"}
	WidthBound   = Bound{1, 1 << 18, "no model is wider, and products of widths must stay countable"}
	ChannelBound = Bound{1, 1 << 14, "latents have tens of channels"}
	PatchBound   = Bound{1, 64, "a patch is a few latents across"}
	VocabBound   = Bound{1, 1 << 24, "a vocabulary is a table with a row for each token"}
	RowBound     = Bound{1, 1 << 20, "text is padded to this many rows"}
	SizeBound    = Bound{1, 1 << 16, "it counts pixels, latents or frames"}

	Positive   = Span{0, 1e9, "it multiplies or divides"}
	SmallSpan  = Span{0, 0.5, "it keeps a norm from dividing by zero, and must not outweigh what it is added to"}
	RatioSpan  = Span{0, 64, "it is how many times as wide a hidden layer is"}
	ThetaSpan  = Span{0, 1e11, "it is the base of the rotary frequencies"}
	StatsSpan  = Span{-1e6, 1e6, "it is a latent channel's mean or deviation"}
	ShareSpan  = Span{0, 1, "it is a share of a whole"}
	sequenceOf = 1 << 16 // elements of an array, at most
)

// ConfigValue are the fields of a violation.
type ConfigValue struct {
	Key     string `json:"key"`
	Value   string `json:"value,omitempty"`
	Want    string `json:"want"`
	Why     string `json:"why,omitempty"`
	Nearest string `json:"nearest,omitempty"`
}

// ReadConfig begins to read a configuration. Error: ErrConfig for bytes that are
// not one JSON object by the letter, or have a key twice.
func ReadConfig(raw []byte) (*ConfigReader, error) {
	keys, wrong := jsontext.ParseObject(raw, jsontext.Options{Keys: true})
	if wrong != nil {
		return nil, fault.New(ErrConfig, nil, "cannot be read as one object of JSON: %s", wrong)
	}
	return &ConfigReader{keys: keys, asked: map[string]bool{}, found: &configFindings{wrong: map[string]bool{}}}, nil
}

// Metadata declares keys that no program depends on.
func (c *ConfigReader) Metadata(keys ...string) {
	for _, k := range keys {
		c.asked[k] = true
	}
}

// Beside declares prefixes of keys that describe other models, for a configuration of
// several models.
func (c *ConfigReader) Beside(prefixes ...string) { c.beside = append(c.beside, prefixes...) }

// commonMetadata are keys that any publisher may write and no program depends on.
var commonMetadata = []string{"_class_name", "_diffusers_version", "_name_or_path", "_commit_hash", "_library", "architectures",
	"torch_dtype", "dtype", "transformers_version", "id2label", "label2id", "problem_type", "output_attentions", "output_hidden_states",
	"return_dict", "use_cache", "chunk_size_feed_forward", "dropout", "attention_dropout", "initializer_range", "initializer_factor",
	"bos_token_id", "eos_token_id", "pad_token_id", "is_encoder_decoder", "is_decoder", "gradient_checkpointing",
	// What transformers 4 writes into every configuration: how text is generated.
	"add_cross_attention", "bad_words_ids", "begin_suppress_tokens", "cross_attention_hidden_size", "decoder_start_token_id", "diversity_penalty",
	"do_sample", "early_stopping", "encoder_no_repeat_ngram_size", "exponential_decay_length_penalty", "finetuning_task", "forced_bos_token_id",
	"forced_eos_token_id", "length_penalty", "max_length", "min_length", "no_repeat_ngram_size", "num_beam_groups", "num_beams", "num_return_sequences",
	"output_scores", "prefix", "pruned_heads", "remove_invalid_values", "repetition_penalty", "return_dict_in_generate", "sep_token_id", "suppress_tokens",
	"task_specific_params", "temperature", "tf_legacy_loss", "tie_encoder_decoder", "tie_word_embeddings", "tokenizer_class", "top_k", "top_p",
	"torchscript", "typical_p", "use_bfloat16"}

// Has says whether a key is there and not null.
func (c *ConfigReader) Has(key string) bool {
	c.asked[key] = true
	return c.keys[key] != nil
}

// Gives says whether a key is there; it may be null.
func (c *ConfigReader) Gives(key string) bool {
	c.asked[key] = true
	_, there := c.keys[key]
	return there
}

// Class returns _class_name, or "" where it is absent or no text, which is no violation here.
func (c *ConfigReader) Class() string {
	class, _ := c.keys["_class_name"].(string)
	return class
}

// OK says whether nothing was wrong so far.
func (c *ConfigReader) OK() bool { return c.found.count == 0 }

// Sound says whether the values of keys were right so far, so that other values can be
// compared with them. A key may be a product of several: "num_heads x head_dim".
func (c *ConfigReader) Sound(keys ...string) bool {
	for _, key := range keys {
		for part := range strings.SplitSeq(key, " x ") {
			if c.found.wrong[c.within+strings.SplitN(part, "[", 2)[0]] {
				return false
			}
		}
	}
	return true
}

// Refuse adds a violation of kind ErrConfig, for numbers that do not fit each other.
func (c *ConfigReader) Refuse(format string, args ...any) {
	c.addViolation(fault.New(ErrConfig, nil, format, args...))
}

// Unsupported adds a violation of kind ErrVariant, for a model that weft does not run.
func (c *ConfigReader) Unsupported(format string, args ...any) {
	c.addViolation(fault.New(ErrVariant, nil, format, args...))
}

// addViolation adds a violation to those that reading found; nil adds none.
func (c *ConfigReader) addViolation(err error) {
	if err != nil {
		c.found.count++
		c.found.faults.Add(err)
	}
}

// rejectValue adds the violation that a key's value is wrong. want is what it must be,
// why the reason and nearest the nearest right value; both may be "".
func (c *ConfigReader) rejectValue(key, want, why, nearest string) {
	whole, index, element := strings.Cut(key, "[")
	c.found.wrong[c.within+whole] = true
	f := ConfigValue{Key: c.within + key, Want: want, Why: why, Nearest: nearest}
	v, there := c.keys[whole]
	if list, ok := v.([]any); ok && element {
		i, _ := strconv.Atoi(strings.TrimSuffix(index, "]"))
		v = list[i]
	}
	text := " is missing"
	if there {
		f.Value = showConfigValue(v)
		text = " is " + f.Value
	}
	text += ": want " + want
	if why != "" {
		text += " (" + why + ")"
	}
	if nearest != "" {
		text += "; nearest: " + nearest
	}
	c.addViolation(fault.New(ErrConfig, f, "%s%s", f.Key, text))
}

// showConfigValue returns a value as JSON, cut where it is long.
func showConfigValue(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return "unreadable"
	}
	text := printable.Text(string(raw))
	if len(text) > 80 {
		return strings.ToValidUTF8(text[:77], "") + "..."
	}
	return text
}

// Int returns a whole number within a bound. A fallback outside of the bound means that
// the key must be there. A number such as 5120.0 is whole too.
func (c *ConfigReader) Int(key string, fallback int, b Bound) int {
	c.asked[key] = true
	v, there := c.keys[key]
	if !there && fallback >= b.Least && fallback <= b.Most {
		return fallback
	}
	return c.checkInt(key, v, b)
}

// checkInt returns the whole number v. Where v is none or is outside of the bound, it
// adds a violation and returns the bound's least number.
func (c *ConfigReader) checkInt(key string, v any, b Bound) int {
	want := fmt.Sprintf("a whole number from %d to %d", b.Least, b.Most)
	number, ok := v.(json.Number)
	if !ok {
		c.rejectValue(key, want, b.Why, "")
		return b.Least
	}
	x, _ := number.Float64() // finite: the document was read
	if x != math.Trunc(x) {
		c.rejectValue(key, want, b.Why, "")
		return b.Least
	}
	if near := min(max(x, float64(b.Least)), float64(b.Most)); near != x {
		c.rejectValue(key, want, b.Why, strconv.Itoa(int(near)))
		return b.Least
	}
	return int(x)
}

// OptionalInt is Int for a key that may be absent or null; it returns 0 then.
func (c *ConfigReader) OptionalInt(key string, b Bound) int {
	if !c.Has(key) {
		return 0
	}
	return c.checkInt(key, c.keys[key], b)
}

// Float returns a number within a span. A fallback outside of the span means that the key must be there.
func (c *ConfigReader) Float(key string, fallback float64, s Span) float64 {
	c.asked[key] = true
	v, there := c.keys[key]
	if !there && fallback > s.Above && fallback <= s.Most {
		return fallback
	}
	return c.checkFloat(key, v, s)
}

// OptionalFloat is Float for a key that may be absent or null; it returns 0 then.
func (c *ConfigReader) OptionalFloat(key string, s Span) float64 {
	if !c.Has(key) {
		return 0
	}
	return c.checkFloat(key, c.keys[key], s)
}

// checkFloat returns the number v. Where v is none or is outside of the span, it adds
// a violation and returns the span's greatest number.
func (c *ConfigReader) checkFloat(key string, v any, s Span) float64 {
	number, ok := v.(json.Number)
	x := math.NaN()
	if ok {
		x, _ = number.Float64()
	}
	if !(x > s.Above && x <= s.Most) {
		c.rejectValue(key, fmt.Sprintf("a number above %g and up to %g", s.Above, s.Most), s.Why, "")
		return s.Most
	}
	return x
}

// Bool returns true or false.
func (c *ConfigReader) Bool(key string, fallback bool) bool {
	c.asked[key] = true
	v, there := c.keys[key]
	if !there {
		return fallback
	}
	b, ok := v.(bool)
	if !ok {
		c.rejectValue(key, "true or false", "", "")
	}
	return b
}

// String returns a text; null is "".
func (c *ConfigReader) String(key, fallback string) string {
	c.asked[key] = true
	v, there := c.keys[key]
	if !there {
		return fallback
	}
	s, ok := v.(string)
	if !ok && v != nil {
		c.rejectValue(key, "a text", "", "")
	}
	return s
}

// readList returns the elements of an array of n, or of any number for n < 0, and
// whether the key is there and not null. It returns nil for a wrong value.
func (c *ConfigReader) readList(key string, n int, of string) ([]any, bool) {
	if !c.Has(key) {
		return nil, false
	}
	l, ok := c.keys[key].([]any)
	switch {
	case !ok || n >= 0 && len(l) != n:
		want := "an array of " + of
		if n >= 0 {
			want = fmt.Sprintf("an array of %d %s", n, of)
		}
		c.rejectValue(key, want, "", "")
		return nil, true
	case len(l) > sequenceOf:
		c.rejectValue(key, fmt.Sprintf("an array of at most %d %s", sequenceOf, of), "", "")
		return nil, true
	}
	return l, true
}

// Ints returns an array of n whole numbers, or of any number of them for n < 0.
func (c *ConfigReader) Ints(key string, fallback []int, n int, b Bound) []int {
	l, there := c.readList(key, n, "whole numbers")
	if !there {
		if fallback == nil && n > 0 {
			c.rejectValue(key, fmt.Sprintf("an array of %d whole numbers", n), "", "")
			return slices.Repeat([]int{b.Least}, n)
		}
		return fallback
	}
	out := make([]int, 0, len(l))
	for i, v := range l {
		out = append(out, c.checkInt(fmt.Sprintf("%s[%d]", key, i), v, b))
	}
	for len(out) < n {
		out = append(out, b.Least)
	}
	return out
}

// Three is Ints for three numbers.
func (c *ConfigReader) Three(key string, fallback [3]int, b Bound) [3]int {
	return [3]int(c.Ints(key, fallback[:], 3, b))
}

// Floats returns an array of n numbers, or of any number of them for n < 0.
func (c *ConfigReader) Floats(key string, fallback []float64, n int, s Span) []float64 {
	l, there := c.readList(key, n, "numbers")
	if !there {
		return fallback
	}
	out := make([]float64, 0, len(l))
	for i, v := range l {
		out = append(out, c.checkFloat(fmt.Sprintf("%s[%d]", key, i), v, s))
	}
	for len(out) < n {
		out = append(out, s.Most)
	}
	return out
}

// Bools returns an array of true and false.
func (c *ConfigReader) Bools(key string) []bool {
	l, _ := c.readList(key, -1, "true and false")
	var out []bool
	for i, v := range l {
		b, ok := v.(bool)
		if !ok {
			c.rejectValue(fmt.Sprintf("%s[%d]", key, i), "true or false", "", "")
		}
		out = append(out, b)
	}
	return out
}

// Strings returns an array of texts; nil where the key is absent or null.
func (c *ConfigReader) Strings(key string) []string {
	l, _ := c.readList(key, -1, "texts")
	var out []string
	if l != nil {
		out = []string{}
	}
	for i, v := range l {
		s, ok := v.(string)
		if !ok {
			c.rejectValue(fmt.Sprintf("%s[%d]", key, i), "a text", "", "")
		}
		out = append(out, s)
	}
	return out
}

// Object returns a reader of an object within this one, or nil where the key is absent
// or null. Both readers collect their violations in one list.
func (c *ConfigReader) Object(key string) *ConfigReader {
	if !c.Has(key) {
		return nil
	}
	keys, ok := c.keys[key].(map[string]any)
	if !ok {
		c.rejectValue(key, "an object", "", "")
		return nil
	}
	for _, r := range c.found.inside {
		if r.within == c.within+key+"." {
			return r
		}
	}
	inside := &ConfigReader{keys: keys, within: c.within + key + ".", outer: c, asked: map[string]bool{}, found: c.found}
	c.found.inside = append(c.found.inside, inside)
	return inside
}

// ObjectOr returns a reader of an object within this one, or this one where there is none.
func (c *ConfigReader) ObjectOr(key string) *ConfigReader {
	if inside := c.Object(key); inside != nil {
		return inside
	}
	return c
}

// Outer returns the reader of the object that has this one, or the reader itself where it
// reads the whole configuration.
func (c *ConfigReader) Outer() *ConfigReader {
	if c.outer == nil {
		return c
	}
	return c.outer
}

// Fixed reports any value but want for a key, because the programs implement only that
// value. The key may be absent. null is refused too, unless want is nil. why says which
// models have the value. want is a bool, a string, an int, a float64 or nil.
func (c *ConfigReader) Fixed(key string, want any, why string) {
	c.asked[key] = true
	v, there := c.keys[key]
	if !there || sameConfigValue(v, want) {
		return
	}
	c.addViolation(fault.New(ErrVariant, ConfigValue{Key: c.within + key, Value: showConfigValue(v), Want: showConfigValue(want), Why: why},
		"%s%s is %s: %s has %s, which is all that is run", c.within, key, showConfigValue(v), why, showConfigValue(want)))
}

// sameConfigValue says whether a value of JSON equals a Go value as Fixed takes it.
func sameConfigValue(v, want any) bool {
	if number, ok := v.(json.Number); ok {
		x, _ := number.Float64()
		switch w := want.(type) {
		case int:
			return x == float64(w)
		case float64:
			return x == w
		}
		return false
	}
	switch want.(type) {
	case nil, bool, string:
		return v == want
	}
	return false
}

// Multiply returns the product of numbers and checks its bound. Messages call it what,
// which names its keys: "num_attention_heads x attention_head_dim".
func (c *ConfigReader) Multiply(what string, b Bound, factors ...int) int {
	product := 1
	for _, f := range factors {
		if f < 0 || f > 0 && product > math.MaxInt/f {
			product = math.MaxInt
			break
		}
		product *= f
	}
	if !c.Sound(what) {
		return b.Least
	}
	if product < b.Least || product > b.Most {
		for part := range strings.SplitSeq(what, " x ") {
			c.found.wrong[c.within+part] = true
		}
		c.Refuse("%s of %s is %d: want %d to %d (%s)", what, strings.Trim(strings.ReplaceAll(fmt.Sprint(factors), " ", " x "), "[]"), product, b.Least, b.Most, b.Why)
		return b.Least
	}
	return product
}

// Scale returns width times ratio, rounded down, and checks its bound. Messages call it
// what.
func (c *ConfigReader) Scale(what string, b Bound, width int, ratio float64) int {
	x := float64(width) * ratio
	if !c.Sound(what) {
		return b.Least
	}
	if !(x >= float64(b.Least) && x <= float64(b.Most)) {
		c.Refuse("%s, %g times %d, makes a width of %g: want %d to %d (%s)", what, ratio, width, x, b.Least, b.Most, b.Why)
		return b.Least
	}
	return int(x)
}

// MultipleOf reports a number that is not a multiple of another. why says why it must be.
func (c *ConfigReader) MultipleOf(key string, n, of int, why string) {
	if of > 0 && n%of != 0 && c.Sound(key) {
		c.Refuse("%s%s is %d: want a multiple of %d (%s); nearest: %s", c.within, key, n, of, why, Nearest(n, of))
	}
}

// Divide reports a width that does not divide into the number of heads or, where the
// heads' channels rotate in pairs, that makes heads of an odd width.
func (c *ConfigReader) Divide(key string, width int, headsKey string, heads int, pairs bool) {
	step, want := heads, "heads have a whole width"
	if pairs {
		step, want = 2*heads, "heads have an even whole width, since channels turn in pairs"
	}
	if step > 0 && width%step != 0 && c.Sound(key, headsKey) {
		c.Refuse("%s%s %d over %s %d: %s; nearest: %s", c.within, key, width, headsKey, heads, want, Nearest(width, step))
	}
}

// Agree reports two numbers that must be equal and are not. why says why they must be.
func (c *ConfigReader) Agree(key string, n int, other string, m int, why string) {
	if n != m && c.Sound(key, other) {
		c.Refuse("%s%s %d and %s %d: %s, so they must be equal; set either to the other's", c.within, key, n, other, m, why)
	}
}

// Finish ends the reading. It returns all violations as one error or, where there are
// none, notes that name the keys that nothing read. A key that differs from a known
// one only in case is an error, because the known one was probably meant.
func (c *ConfigReader) Finish() (notes []string, err error) {
	readers := append([]*ConfigReader{c}, c.found.inside...)
	var unknown []string
	for _, r := range readers {
		r.Metadata(commonMetadata...)
		folded := map[string]string{}
		for k := range r.asked {
			folded[strings.ToLower(k)] = k
		}
		for _, key := range slices.Sorted(maps.Keys(r.keys)) {
			if r.asked[key] {
				continue
			}
			if known, ok := folded[strings.ToLower(key)]; ok {
				c.addViolation(fault.New(ErrConfig, ConfigValue{Key: r.within + key, Value: showConfigValue(r.keys[key]), Want: r.within + known},
					"key %q is %q in another case: spell it %[2]q, or take it out", r.within+key, r.within+known))
				continue
			}
			if !slices.ContainsFunc(r.beside, func(prefix string) bool { return strings.HasPrefix(key, prefix) }) {
				unknown = append(unknown, printable.Text(r.within+key))
			}
		}
	}
	if err := c.found.faults.Err(); err != nil {
		return nil, err
	}
	if len(unknown) > 0 {
		more := ""
		if n := len(unknown); n > 20 {
			unknown, more = unknown[:20], fmt.Sprintf(" and %d more", n-20)
		}
		notes = append(notes, "keys of the config that are not read: "+strings.Join(unknown, ", ")+more)
	}
	return notes, nil
}
