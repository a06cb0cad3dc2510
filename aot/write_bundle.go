package aot

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"weft/fault"
	"weft/internal/userfile"
)

// CheckWritable says whether Write may make dir: before an hour of compiling. A
// folder that is there takes force, and is then a bundle with nothing else in it: no
// other is replaced. Errors are userfile's: exists, output, disk-full.
func CheckWritable(dir string, force bool) error {
	return userfile.CheckFolder(userfile.Output{Path: dir, Force: force}, checkBundleAlone)
}

// checkBundleAlone refuses a folder that has no bundle in it, or more than a bundle.
func checkBundleAlone(dir string) error {
	path := filepath.Join(dir, ManifestName)
	text, err := userfile.Read(path, maxManifest)
	if err != nil {
		return fault.New(ErrBundle, nil, "it is no bundle of compiled programs (no %s in it)", ManifestName)
	}
	m, err := parseManifest(text, path)
	if err != nil {
		return err
	}
	own := map[string]bool{ManifestName: true}
	for _, p := range m.Programs {
		own[p.Text.Name], own[p.Executable.Name] = true, true
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !own[e.Name()] {
			return fault.New(ErrBundle, nil, "%s in it is no part of the bundle", e.Name())
		}
	}
	return nil
}

// Write writes the bundle of a compilation: a folder with each program's text and
// executable, and the manifest. It appears whole or not at all, and a bundle that
// stood there is kept until the new one is whole. Errors are those of CheckWritable.
func (c *Compilation) Write(dir string, force bool) error {
	m, err := c.newManifest()
	if err != nil {
		return err
	}
	return userfile.WriteFolder(userfile.Output{Path: dir, Force: force}, checkBundleAlone, func(temp string) error {
		for _, name := range c.Step.Graph.ProgramNames() {
			code, err := c.Compiled[name].Serialize()
			if err != nil {
				return err
			}
			text := []byte(c.Texts[name])
			f := File{Program: name, Text: newBlob(fileName(name)+".mlir", text), Executable: newBlob(fileName(name)+".bin", code)}
			for b, data := range map[Blob][]byte{f.Text: text, f.Executable: code} {
				if err := userfile.WriteFile(filepath.Join(temp, b.Name), data); err != nil {
					return err
				}
			}
			m.Programs = append(m.Programs, f)
		}
		text, err := json.MarshalIndent(m, "", "  ")
		if err != nil {
			return err
		}
		return userfile.WriteFile(filepath.Join(temp, ManifestName), append(text, '\n'))
	})
}

// fileName makes a file's name of a program's name.
func fileName(program string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, program)
}
