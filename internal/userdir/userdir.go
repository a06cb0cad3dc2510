// Package userdir is where the user's own folders are: those that engines and
// compiled programs are kept in unless others are named.
package userdir

import (
	"os"
	"path/filepath"
	"runtime"

	"github.com/adrg/xdg"

	"weft/fault"
)

// ErrNoHome: nothing says where the user's folders are.
var ErrNoHome = fault.NewKind("no-home")

// NoHome says what was looked at, and what names a folder in its place.
type NoHome struct {
	Home     string `json:"home"` // HOME, which is not set or leads to no folder
	Variable string `json:"variable"`
}

// Data is weft's folder for data. Error: ErrNoHome; instead is the variable that
// names a folder in its place.
func Data(instead string) (string, error) { return of("XDG_DATA_HOME", xdg.DataHome, instead) }

// Cache is weft's folder for what can be made again; else it is Data.
func Cache(instead string) (string, error) { return of("XDG_CACHE_HOME", xdg.CacheHome, instead) }

// of is weft's folder in dir, which xdg has from the variable or from HOME. Where
// neither leads anywhere xdg takes the root folder, which is nobody's own.
func of(variable, dir, instead string) (string, error) {
	if home := os.Getenv("HOME"); runtime.GOOS != "windows" && !filepath.IsAbs(os.Getenv(variable)) {
		if st, err := os.Stat(home); err != nil || !st.IsDir() || !filepath.IsAbs(home) {
			return "", fault.New(ErrNoHome, NoHome{home, instead}, "HOME is %q, which is no folder: name one in %s", home, instead)
		}
	}
	return filepath.Join(dir, "weft"), nil
}
