package modeltest

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"weft/internal/peer/params"
	"weft/models"
)

// Names reads a file that maps the names of a model's tensors. It gives, for each official
// name, the name in diffusers, which is the same where the file has none. prefix, which the
// official checkpoints have, is removed from both.
func Names(t testing.TB, file, prefix string) map[string]string {
	t.Helper()
	names := map[string]string{}
	for _, e := range readEntries(t, file) {
		other := e.Diffusers
		if other == "" {
			other = e.PT
		}
		names[strings.TrimPrefix(e.PT, prefix)] = strings.TrimPrefix(other, prefix)
	}
	return names
}

// Mapping compares a preset's names and shapes with a file that maps names: every entry
// must be a parameter under the names of both publishers, and every parameter an entry.
func Mapping(t testing.TB, preset, file, prefix string) {
	t.Helper()
	m, err := models.ByName(preset)
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]models.Param{}
	for _, p := range m.Params(0) {
		byName[p.Name] = p
	}
	found := map[string]bool{}
	for _, e := range readEntries(t, file) {
		name := strings.TrimPrefix(e.PT, prefix)
		p, ok := byName[name]
		path, err := params.Path(m, p)
		if !ok || err != nil || !slices.Equal(p.Shape, e.Shape) || path != e.Flax {
			t.Errorf("%s: %s is %v (%s) here, %v (%s) in the mapping: %v", preset, name, p.Shape, path, e.Shape, e.Flax, err)
		}
		for _, other := range []string{name, e.Diffusers} {
			if got := m.Official(other); other != "" && got != name {
				t.Errorf("%s: %s is called %s here, %s in the mapping", preset, other, got, name)
			}
		}
		found[name] = true
	}
	for name := range byName {
		if !found[name] {
			t.Errorf("%s: the mapping has no %s", preset, name)
		}
	}
}

type entry struct {
	Flax      string  `json:"jax"`
	PT        string  `json:"pt"`
	Shape     []int   `json:"pt_shape"`
	Diffusers string  `json:"pt_diffusers"`
	I         numbers `json:"i"` // the values of {i}
}

// numbers is a list of numbers, which JSON has as a range, "0-39", or as a list.
type numbers []int

func (n *numbers) UnmarshalJSON(raw []byte) error {
	var lo, hi int
	if _, err := fmt.Sscanf(string(raw), `"%d-%d"`, &lo, &hi); err != nil {
		return json.Unmarshal(raw, (*[]int)(n))
	}
	for i := lo; i <= hi; i++ {
		*n = append(*n, i)
	}
	return nil
}

// readEntries reads the entries of a mapping. An entry of repeated layers gives one entry
// for each layer.
func readEntries(t testing.TB, file string) []entry {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var mapping struct{ Entries []entry }
	if err := json.Unmarshal(raw, &mapping); err != nil {
		t.Fatal(err)
	}
	out := []entry{}
	for _, e := range mapping.Entries {
		if e.I == nil {
			e.I = numbers{0} // nothing is repeated
		}
		for _, i := range e.I {
			one := e
			for _, s := range []*string{&one.Flax, &one.PT, &one.Diffusers} {
				*s = strings.ReplaceAll(*s, "{i}", fmt.Sprint(i))
			}
			out = append(out, one)
		}
	}
	return out
}
