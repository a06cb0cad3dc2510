package all_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weft"
	"weft/models"
)

// Inputs names all that an example of the model has, and all that the fixtures feed.
func TestInputsNamesWhatIsRead(t *testing.T) {
	for _, name := range models.Presets() {
		m, err := models.ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Inputs()) == 0 || len(slices.Compact(slices.Sorted(slices.Values(m.Inputs())))) != len(m.Inputs()) {
			t.Errorf("%s: inputs %q", name, m.Inputs())
		}
	}
	files, err := filepath.Glob("../../testdata/*/inputs.safetensors")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		m, err := weft.Open(filepath.Dir(file))
		if err != nil {
			continue // pieces of models, which have no model's inputs
		}
		given, err := weft.ReadTensors(file)
		if err != nil {
			t.Fatal(err)
		}
		example, err := m.Example(2, nil, 1)
		if err != nil {
			t.Fatal(err)
		}
		for name := range example {
			given[name] = example[name]
		}
		for name := range given {
			if !slices.Contains(m.Inputs(), name) {
				t.Errorf("%s: %s is not among %q", m.Name(), name, m.Inputs())
			}
		}
		m.Close()
	}
}

// What a family's source looks at by name is what its Inputs name.
func TestInputsNamesWhatTheSourceLooksAt(t *testing.T) {
	looked := regexp.MustCompile(`(?:inputs\[|[^a-zA-Z][nN]eed\()"([a-z0-9_]+)"`)
	listed := regexp.MustCompile(`(?s)Inputs(?:: +| = )\[\]string\{(.*?)\}`)
	folders, err := filepath.Glob("../*")
	if err != nil {
		t.Fatal(err)
	}
	families := 0
	for _, dir := range folders {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		source := ""
		for _, f := range files {
			if !strings.HasSuffix(f, "_test.go") {
				b, err := os.ReadFile(f)
				if err != nil {
					t.Fatal(err)
				}
				source += string(b)
			}
		}
		names := ""
		for _, list := range listed.FindAllStringSubmatch(source, -1) {
			names += list[1]
		}
		if names == "" {
			continue // no family
		}
		families++
		for _, use := range looked.FindAllStringSubmatch(source, -1) {
			if !strings.Contains(names, `"`+use[1]+`"`) {
				t.Errorf("%s looks at %s: Inputs does not name it", dir, use[1])
			}
		}
	}
	if families < 8 {
		t.Errorf("%d families", families)
	}
}
