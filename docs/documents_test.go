// Package docs_test holds the documents against the code: what they name has to exist.
package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = ".."

var (
	codeFence   = regexp.MustCompile("(?ms)^```.*?^```$")
	codeSpan    = regexp.MustCompile("`([^`\n]+)`")
	nameAndFile = regexp.MustCompile("`([A-Za-z_.]+)`\\s+\\(`([\\w./-]+\\.go)`")
	goName      = regexp.MustCompile(`^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$`)
	treePath    = regexp.MustCompile(`^[\w.-]+(/[\w.-]+)*$`)
	flagName    = regexp.MustCompile(`(?:^|[\s\[(])--([a-z][a-z-]+)`)
	packageRow  = regexp.MustCompile("(?m)^\\| ((?:root )?`[^|]*`) \\|")
)

// goTree is what the Go files of the module declare.
type goTree struct {
	declared map[string][]string // a name, and the files that declare it, with types' members as Type.member too
	packages map[string]bool     // folders with Go files that are no tests, from the root
	files    map[string]bool     // every file and folder, from the root
	made     []string            // folders of .gitignore: commands make them
	strings  map[string]bool     // string literals outside tests, among them the names of flags
}

// TestDocumentsNameWhatExists looks up each file, each Go name and each flag that a document names. A function that is
// named with its file has to be declared in that file.
func TestDocumentsNameWhatExists(t *testing.T) {
	tree := readTree(t)
	seen := 0
	for file := range tree.files {
		if !isChecked(file) {
			continue
		}
		t.Run(file, func(t *testing.T) {
			raw, err := os.ReadFile(filepath.Join(root, file))
			if err != nil {
				t.Fatal(err)
			}
			for _, fault := range tree.checkDocument(file, string(raw), &seen) {
				t.Error(fault)
			}
		})
	}
	if seen < 500 {
		t.Errorf("only %d names were looked up; the documents have more", seen)
	}
}

// TestPackageTableIsComplete compares the table of ARCHITECTURE.md with the packages of the module.
func TestPackageTableIsComplete(t *testing.T) {
	tree := readTree(t)
	raw, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(raw), "\n## Packages\n")
	table, _, _ := strings.Cut(after, "\n## ")
	if !found {
		t.Fatal("ARCHITECTURE.md has no section Packages")
	}
	listed := map[string]bool{}
	for _, row := range packageRow.FindAllStringSubmatch(table, -1) {
		for _, span := range codeSpan.FindAllStringSubmatch(row[1], -1) {
			listed[span[1]] = true
		}
	}
	delete(listed, "weft") // the root's own name
	delete(listed, "models/FAMILY")
	for name := range listed {
		if !tree.packages[name] {
			t.Errorf("the table lists %q, which is no package", name)
		}
	}
	for name := range tree.packages {
		if name != "." && !listed[name] && !isListedTogether(tree, name) {
			t.Errorf("the table lacks package %q", name)
		}
	}
}

// isListedTogether says whether a package is a family, which the table lists as models/FAMILY, or an example.
func isListedTogether(tree *goTree, name string) bool {
	return tree.files[name+"/family.go"] || strings.HasPrefix(name, "examples/")
}

// TestChecksFindWhatIsWrong shows that each check can fail.
func TestChecksFindWhatIsWrong(t *testing.T) {
	tree := readTree(t)
	for _, c := range []struct{ text, want string }{
		{"`docs/nothing.go`", "docs/nothing.go"},
		{"`nothing.go`", "nothing.go"},
		{"`mesh.Nothing`", "mesh.Nothing"},
		{"`Nothing.Parse`", "Nothing.Parse"},
		{"`parseNothing`", "parseNothing"},
		{"`Parse` (`mesh/axis_names.go`)", "mesh/axis_names.go"},
		{"`weft plan --no-such-flag`", "--no-such-flag"},
	} {
		var seen int
		faults := tree.checkDocument("x.md", c.text, &seen)
		if len(faults) != 1 || !strings.Contains(faults[0], c.want) {
			t.Errorf("%s: faults %q, want one with %s", c.text, faults, c.want)
		}
	}
	for _, text := range []string{"`mesh/parse.go`", "`parse.go`", "`mesh.Parse`", "`Parse` (`mesh/parse.go`)", "`weft plan --mesh tp=2`", "`tp`", "`ffn.2`"} {
		var seen int
		if faults := tree.checkDocument("x.md", text, &seen); len(faults) != 0 {
			t.Errorf("%s: faults %q, want none", text, faults)
		}
	}
}

// isChecked says whether a file describes what is. The changelog and dated results describe what was.
func isChecked(file string) bool {
	return path.Ext(file) == ".md" && file != "CHANGELOG.md" && !strings.Contains(file, "/results/") && !strings.Contains(file, "testdata/")
}

func (g *goTree) checkDocument(file, text string, seen *int) (faults []string) {
	say := func(format string, args ...any) { faults = append(faults, file+": "+fmt.Sprintf(format, args...)) }
	for _, m := range flagName.FindAllStringSubmatch(strings.ReplaceAll(text, "`", " "), -1) {
		*seen++
		if !g.strings[m[1]] {
			say("no flag --%s is declared", m[1])
		}
	}
	text = codeFence.ReplaceAllString(text, "")
	for _, m := range nameAndFile.FindAllStringSubmatch(text, -1) {
		if name := lastTwo(m[1]); isCode(m[1]) && !g.declaresIn(name, m[2]) && g.hasFile(path.Dir(file), m[2]) && len(g.declared[name]) > 0 {
			say("%s is not declared in %s, but in %s", m[1], m[2], strings.Join(g.declared[name], ", "))
		}
	}
	for _, m := range codeSpan.FindAllStringSubmatch(text, -1) {
		name := strings.TrimSuffix(m[1], "()")
		switch {
		case hasPlaceholder(name):
			continue
		case path.Ext(name) == ".go" || g.isPath(name):
			if !g.hasFile(path.Dir(file), name) && !g.isMade(name) {
				say("no file %s", name)
			}
		case isCode(name):
			if !g.declares(name) && !g.strings[name] { // a string: a class that a config.json names
				say("nothing declares %s", name)
			}
		default:
			continue
		}
		*seen++
	}
	return faults
}

// hasPlaceholder says whether a name has a part in capitals that a reader fills in, as in form_NAME.go.
func hasPlaceholder(name string) bool {
	return strings.Contains(name, "NAME") || strings.Contains(name, "FAMILY") || strings.Contains(name, "*")
}

// isPath says whether a span is a path of this tree: its first folder is one.
func (g *goTree) isPath(name string) bool {
	first, _, nested := strings.Cut(name, "/")
	return nested && treePath.MatchString(name) && g.files[first]
}

// hasFile looks for a path from the root and from the document's folder; a name without a folder may be anywhere below.
func (g *goTree) hasFile(folder, name string) bool {
	if g.files[name] || g.files[path.Join(folder, name)] {
		return true
	}
	if strings.Contains(name, "/") {
		return false
	}
	for file := range g.files {
		if path.Base(file) == name && (folder == "." || strings.HasPrefix(file, folder+"/")) {
			return true
		}
	}
	return false
}

// isMade says whether a path is in a folder that git ignores.
func (g *goTree) isMade(name string) bool {
	return slices.ContainsFunc(g.made, func(folder string) bool { return name == folder || strings.HasPrefix(name, folder+"/") })
}

// isCode says whether a span is written as a Go name of more than one lower-case word.
func isCode(name string) bool {
	if !goName.MatchString(name) || strings.Contains(name, "_") || strings.ToUpper(name) == name {
		return false
	}
	return strings.ToLower(name) != name
}

// declares looks for each part of a name: package.Name, Type.Member, package.Type.Member, or a name of any package.
func (g *goTree) declares(name string) bool {
	first, rest, dotted := strings.Cut(name, ".")
	if !dotted {
		return len(g.declared[name]) > 0
	}
	if len(g.declared[name]) > 0 {
		return true
	}
	for _, file := range g.declared[rest] {
		if folder := path.Dir(file); path.Base(folder) == first || folder == "." && first == "weft" {
			return true
		}
	}
	return false
}

// lastTwo strips the package from package.Type.Member.
func lastTwo(name string) string {
	parts := strings.Split(name, ".")
	if len(parts) == 2 && strings.ToLower(parts[0]) == parts[0] {
		return parts[1]
	}
	return strings.Join(parts[max(0, len(parts)-2):], ".")
}

func (g *goTree) declaresIn(name, file string) bool {
	return slices.ContainsFunc(g.declared[name], func(at string) bool { return at == file || strings.HasSuffix(at, "/"+file) })
}

// readTree parses every Go file below the root.
func readTree(t *testing.T) *goTree {
	t.Helper()
	g := &goTree{declared: map[string][]string{}, packages: map[string]bool{}, files: map[string]bool{}, strings: map[string]bool{}}
	ignored, err := os.ReadFile(filepath.Join(root, ".gitignore"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Fields(string(ignored)) {
		g.made = append(g.made, strings.Trim(line, "/"))
	}
	err = filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		file := filepath.ToSlash(strings.TrimPrefix(strings.TrimPrefix(at, root), string(filepath.Separator)))
		if strings.HasPrefix(d.Name(), ".") && file != "" && d.IsDir() {
			return fs.SkipDir
		}
		g.files[file] = true
		if path.Ext(file) != ".go" || strings.Contains(file, "testdata/") {
			return nil
		}
		return g.addFile(at, file)
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *goTree) addFile(at, file string) error {
	f, err := parser.ParseFile(token.NewFileSet(), at, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	if !strings.HasSuffix(file, "_test.go") {
		g.packages[path.Dir(file)] = true
	}
	names := map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			names[n.Name.Name] = true
			if n.Recv != nil {
				names[receiverType(n.Recv.List[0].Type)+"."+n.Name.Name] = true
			}
		case *ast.TypeSpec:
			names[n.Name.Name] = true
			for _, member := range membersOf(n.Type) {
				names[member], names[n.Name.Name+"."+member] = true, true
			}
		case *ast.ValueSpec:
			for _, name := range n.Names {
				names[name.Name] = true
			}
		case *ast.BasicLit:
			if n.Kind == token.STRING && !strings.HasSuffix(file, "_test.go") {
				g.strings[strings.Trim(n.Value, "\"`")] = true
			}
		}
		return true
	})
	for _, name := range slices.Sorted(maps.Keys(names)) {
		g.declared[name] = append(g.declared[name], file)
	}
	return nil
}

func receiverType(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiverType(e.X)
	case *ast.IndexExpr:
		return receiverType(e.X)
	case *ast.IndexListExpr:
		return receiverType(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// membersOf lists the fields of a struct and the methods of an interface.
func membersOf(e ast.Expr) (members []string) {
	var list *ast.FieldList
	switch e := e.(type) {
	case *ast.StructType:
		list = e.Fields
	case *ast.InterfaceType:
		list = e.Methods
	default:
		return nil
	}
	for _, field := range list.List {
		for _, name := range field.Names {
			members = append(members, name.Name)
		}
	}
	return members
}
