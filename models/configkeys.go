package models

import (
	"fmt"
	"slices"
)

// Key is one key of a configuration: its name, where its value goes, and what values are
// allowed. A value that is there when the key is read stays where the configuration does
// not have the key. If that value is outside of the bound the key must be there.
type Key struct {
	names []string // the key's, and others that publishers write for it
	read  func(r *ConfigReader, name string)
	wrong func() string // what is wrong with the declaration of the key, or ""
}

// Also returns a key that some configurations have under another name.
func (k Key) Also(name string) Key {
	k.names = append(slices.Clone(k.names), name)
	return k
}

// Read reads keys in order.
func (c *ConfigReader) Read(keys ...Key) {
	for _, k := range keys {
		name := ""
		for i, n := range k.names {
			if here := c.Has(n); i == 0 || here && !c.Gives(name) {
				name = n
			}
		}
		k.read(c, name)
	}
}

// Int is a whole number.
func Int(name string, to *int, b Bound) Key {
	return Key{[]string{name}, func(r *ConfigReader, name string) { *to = r.Int(name, *to, b) }, func() string { return b.wrong(*to) }}
}

// OptionalInt is a whole number that may be absent or null, and is 0 then.
func OptionalInt(name string, to *int, b Bound) Key {
	return Key{[]string{name}, func(r *ConfigReader, name string) { *to = r.OptionalInt(name, b) }, func() string { return b.wrong(*to) }}
}

// Ints is an array of as many whole numbers as to has.
func Ints(name string, to []int, b Bound) Key {
	read := func(r *ConfigReader, name string) {
		var fallback []int
		if !slices.ContainsFunc(to, func(n int) bool { return n < b.Least || n > b.Most }) {
			fallback = slices.Clone(to)
		}
		copy(to, r.Ints(name, fallback, len(to), b))
	}
	return Key{[]string{name}, read, func() string { return b.wrong(to...) }}
}

// IntList is an array of any number of whole numbers.
func IntList(name string, to *[]int, b Bound) Key {
	return Key{[]string{name}, func(r *ConfigReader, name string) { *to = r.Ints(name, *to, -1, b) }, func() string { return b.wrong(*to...) }}
}

// Float is a number.
func Float(name string, to *float64, s Span) Key {
	return Key{[]string{name}, func(r *ConfigReader, name string) { *to = r.Float(name, *to, s) }, func() string { return s.wrong(*to) }}
}

// Floats is an array of as many numbers as to has.
func Floats(name string, to []float64, s Span) Key {
	return Key{[]string{name}, func(r *ConfigReader, name string) { copy(to, r.Floats(name, slices.Clone(to), len(to), s)) }, func() string { return s.wrong(to...) }}
}

// FloatList is an array of any number of numbers.
func FloatList(name string, to *[]float64, s Span) Key {
	return Key{[]string{name}, func(r *ConfigReader, name string) { *to = r.Floats(name, *to, -1, s) }, func() string { return s.wrong(*to...) }}
}

// Bool is true or false.
func Bool(name string, to *bool) Key {
	return Key{[]string{name}, func(r *ConfigReader, name string) { *to = r.Bool(name, *to) }, nothingWrong}
}

// BoolList is an array of true and false.
func BoolList(name string, to *[]bool) Key {
	return Key{[]string{name}, func(r *ConfigReader, name string) { *to = r.Bools(name) }, nothingWrong}
}

// String is a text. Whoever declares it checks it.
func String(name string, to *string) Key {
	return Key{[]string{name}, func(r *ConfigReader, name string) { *to = r.String(name, *to) }, nothingWrong}
}

// StringList is an array of texts.
func StringList(name string, to *[]string) Key {
	return Key{[]string{name}, func(r *ConfigReader, name string) { *to = r.Strings(name) }, nothingWrong}
}

// Fixed is a key whose only allowed value is want, as ConfigReader.Fixed says.
func Fixed(name string, want any, why string) Key {
	wrong := func() string {
		switch want.(type) {
		case nil, bool, string, int, float64:
		default:
			return fmt.Sprintf("a value of type %T is never equal to one of JSON", want)
		}
		if why == "" {
			return "nothing says which models have the value"
		}
		return ""
	}
	return Key{[]string{name}, func(r *ConfigReader, name string) { r.Fixed(name, want, why) }, wrong}
}

// FixedKeys are several keys that the same models have: name, value, name, value.
func FixedKeys(why string, namesAndValues ...any) []Key {
	var keys []Key
	for pair := range slices.Chunk(namesAndValues, 2) {
		keys = append(keys, Fixed(pair[0].(string), pair[1], why))
	}
	return keys
}

// Metadata are keys that no program depends on.
func Metadata(names ...string) Key {
	return Key{names, func(r *ConfigReader, _ string) { r.Metadata(names...) }, nothingWrong}
}

// Beside are keys that begin with a prefix and describe other models.
func Beside(prefixes ...string) Key {
	return Key{nil, func(r *ConfigReader, _ string) { r.Beside(prefixes...) }, nothingWrong}
}

func nothingWrong() string { return "" }

// wrong says what is wrong with a bound or with the values that hold where a
// configuration does not have the key; 0 stands for none.
func (b Bound) wrong(fallback ...int) string {
	switch {
	case b.Why == "":
		return "its bound has no reason"
	case b.Least > b.Most:
		return fmt.Sprintf("its bound from %d to %d holds no number", b.Least, b.Most)
	}
	for _, n := range fallback {
		if n != 0 && (n < b.Least || n > b.Most) {
			return fmt.Sprintf("its default %d is outside of its bound from %d to %d", n, b.Least, b.Most)
		}
	}
	return ""
}

// wrong is Bound.wrong for a span.
func (s Span) wrong(fallback ...float64) string {
	switch {
	case s.Why == "":
		return "its span has no reason"
	case !(s.Above < s.Most):
		return fmt.Sprintf("its span above %g and up to %g holds no number", s.Above, s.Most)
	}
	for _, x := range fallback {
		if x != 0 && !(x > s.Above && x <= s.Most) {
			return fmt.Sprintf("its default %g is outside of its span above %g and up to %g", x, s.Above, s.Most)
		}
	}
	return ""
}
