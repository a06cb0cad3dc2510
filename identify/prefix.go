package identify

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"weft/checkpoint"
	"weft/internal/bystander"
	"weft/models"
)

// keys are the names of a checkpoint's weights, and the prefixes that many of them
// share.
type keys struct {
	names    []string
	prefixes []string // the longest lists first; "" before all
}

const (
	// leastShare is the part of all names that a model's prefix is in, at the least: a
	// small model beside a large one has more.
	leastShare = 20
	// maxPrefixParts bounds the dots of a prefix: text_encoders.umt5xxl.transformer. has 3.
	maxPrefixParts = 5
	// sampled is how many names say whether a prefix can be a model's.
	sampled = 24
)

func newKeys(c *checkpoint.Checkpoint) *keys {
	k := &keys{}
	count := map[string]int{}
	for _, e := range c.Entries() {
		if e.Role != checkpoint.Weight {
			continue
		}
		k.names = append(k.names, e.Name)
		at := 0
		for range maxPrefixParts {
			i := strings.IndexByte(e.Name[at:], '.')
			if i < 0 {
				break
			}
			at += i + 1
			count[e.Name[:at]]++
		}
	}
	maps.DeleteFunc(count, func(_ string, n int) bool { return n*leastShare < len(k.names) })
	k.prefixes = append([]string{""}, slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
	})...)
	return k
}

// namesUnder returns the names that begin with a prefix. The names are sorted.
func (k *keys) namesUnder(prefix string) []string {
	lo, _ := slices.BinarySearch(k.names, prefix)
	hi := lo
	for hi < len(k.names) && strings.HasPrefix(k.names[hi], prefix) {
		hi++
	}
	return k.names[lo:hi]
}

// prefixOf returns the prefix that a model's names have in the checkpoint: the one
// under which most of its parameters are found. Of equally good prefixes it returns the
// shortest, and one that holds a copy of the model, as trainers keep, comes last. found
// is false if no prefix has any of the parameters.
func (k *keys) prefixOf(mm models.Model, parameters map[string]bool) (prefix string, found bool) {
	best := 0
	for _, p := range k.prefixes {
		names := k.namesUnder(p)
		hits := 0
		for i := range min(sampled, len(names)) {
			if parameters[mm.Official(names[i*len(names)/min(sampled, len(names))][len(p):])] {
				hits++
			}
		}
		if hits == 0 {
			continue
		}
		if hits == min(sampled, len(names)) && p == "" {
			return "", true
		}
		n := 0
		for _, name := range names {
			if parameters[mm.Official(name[len(p):])] {
				n++
			}
		}
		if n > best || n == best && isCopy(prefix) && !isCopy(p) {
			prefix, best = p, n
		}
	}
	return prefix, best > 0
}

// isCopy reports whether a prefix belongs to something that is stored beside a model,
// such as a copy of its weights.
func isCopy(prefix string) bool {
	_, known := bystander.Find(nil, prefix+"x")
	return known
}
