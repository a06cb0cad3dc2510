package plugin

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"weft/fault"
	"weft/internal/userdir"
	"weft/internal/userfile"
)

// rootVariable names the folder engines live in.
const rootVariable = "WEFT_ENGINE_DIR"

// Root returns the folder that engines are installed in: $WEFT_ENGINE_DIR, or
// weft/engines in the user's data folder; "" if the user has none.
func Root() string {
	dir, _ := findRoot()
	return dir
}

// findRoot is Root, but returns the reason if there is no folder: userdir.ErrNoHome.
func findRoot() (string, error) {
	if dir := os.Getenv(rootVariable); dir != "" {
		return dir, nil
	}
	dir, err := userdir.Data(rootVariable)
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "engines"), nil
}

// Installed is an engine that is on this machine. SHA256 is the hash of its library.
type Installed struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Path    string `json:"path"`
	SHA256  string `json:"sha256"`
	API     string `json:"api"`
}

// manifest is the last file that is written into an engine's folder. The folder is
// moved into place after that, so a folder with a manifest is complete.
type manifest struct {
	Pin    Pin    `json:"pin"`
	SHA256 string `json:"sha256"` // of the library
	Bytes  int64  `json:"bytes"`
}

const manifestName = "weft-engine.json"

// maxManifestBytes bounds the small files that describe a plugin.
const maxManifestBytes = 1 << 20

// engineFolder returns the name of an engine's folder below Root.
func engineFolder(p Pin) string { return p.Name + "-" + p.Version }

// readEngine returns the engine in dir, or false if there is no complete one.
func readEngine(dir string) (Installed, bool) {
	b, err := userfile.Read(filepath.Join(dir, manifestName), maxManifestBytes)
	if err != nil {
		return Installed{}, false
	}
	var m manifest
	if json.Unmarshal(b, &m) != nil || m.Pin.Library == "" || len(m.SHA256) != 64 {
		return Installed{}, false
	}
	lib := filepath.Join(dir, filepath.FromSlash(m.Pin.Library))
	st, err := os.Stat(lib)
	if err != nil || st.Size() != m.Bytes {
		return Installed{}, false
	}
	return Installed{m.Pin.Name, m.Pin.Version, lib, m.SHA256, m.Pin.API}, true
}

// List returns the engines that are installed, by name and version.
func List() []Installed {
	out := []Installed{}
	root, err := findRoot()
	if err != nil {
		return out
	}
	entries, _ := os.ReadDir(root)
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			if i, ok := readEngine(filepath.Join(root, e.Name())); ok {
				out = append(out, i)
			}
		}
	}
	sort.Slice(out, func(i, j int) bool {
		if out[i].Name != out[j].Name {
			return out[i].Name < out[j].Name
		}
		return out[i].Version < out[j].Version
	})
	return out
}

// Get returns the pinned version of an engine, if it is installed.
func Get(name string) (Installed, error) {
	p, err := Lookup(name)
	if err != nil {
		return Installed{}, err
	}
	if root, err := findRoot(); err == nil {
		if i, ok := readEngine(filepath.Join(root, engineFolder(p))); ok {
			return i, nil
		}
	}
	return Installed{}, fault.New(ErrNotInstalled, Engine{Name: name, Wheel: wheelNames(p)},
		"engine %s (%s) is not installed; install it with: weft engine install %s", name, wheelNames(p), name)
}

// Resolve turns what a user names, an engine or a file, into an engine. An
// empty name means $WEFT_PLUGIN, and the default engine where that is unset.
func Resolve(name string) (Installed, error) {
	if name == "" {
		if name = os.Getenv("WEFT_PLUGIN"); name == "" {
			name = Default
		}
	}
	_, unknown := Lookup(name)
	_, absent := os.Stat(name)
	isPath := strings.ContainsRune(name, os.PathSeparator) || strings.HasSuffix(name, ".so") || strings.HasSuffix(name, ".dylib")
	if unknown == nil || !isPath && absent != nil {
		return Get(name)
	}
	path, err := filepath.Abs(name)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		return Installed{}, fault.New(ErrNotInstalled, Engine{Name: name}, "plugin file %s: %w", name, err)
	}
	for _, i := range List() {
		if i.Path == path {
			return i, nil
		}
	}
	base := filepath.Base(path)
	return Installed{Name: strings.TrimSuffix(base, filepath.Ext(base)), Path: path}, nil
}

// wheelNames lists the wheels that an engine comes from.
func wheelNames(p Pin) string {
	var out []string
	for _, w := range p.Wheels {
		out = append(out, w.Name+" "+w.Version)
	}
	return strings.Join(out, ", ")
}

// writeFile writes data to path completely or not at all.
func writeFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp-*")
	if err != nil {
		return err
	}
	_, werr := f.Write(data)
	err = errors.Join(werr, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
