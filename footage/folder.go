package footage

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"weft/fault"
	"weft/internal/jsontext"
	"weft/internal/printable"
	"weft/internal/userfile"
	"weft/picture"
)

// maxPicture bounds the file of a frame.
const maxPicture = 1 << 28

// folder is a video of pictures that lie in one folder.
type folder struct {
	dir   string
	names []string
}

// openFolder opens the pictures of a folder, in the order of the numbers in their names. Whatever
// is no picture by its name is not looked at.
func openFolder(dir string) (*Footage, error) {
	v := &Footage{Name: filepath.Base(filepath.Clean(dir))}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fault.New(userfile.ErrUnreadable, userfile.Path{Path: dir}, "the folder %s cannot be read: %v", printable.Text(dir), err)
	}
	in := &folder{dir: dir}
	var others []string
	for _, e := range entries {
		switch name := e.Name(); {
		case slices.Contains(pictureSuffixes, strings.ToLower(filepath.Ext(name))) && !strings.HasPrefix(name, ".") && !e.IsDir():
			in.names = append(in.names, name)
		case name != frameDocument && !strings.HasPrefix(name, "."):
			others = append(others, name)
		}
	}
	if len(others) > 0 {
		v.Notes = append(v.Notes, fmt.Sprintf("%s has %d entries that are no pictures by their names, such as %s: they are left out", printable.Text(v.Name), len(others), printable.ClipName(others[0])))
	}
	if v.Frames = len(in.names); v.Frames == 0 {
		return nil, fault.New(ErrFrames, File{Name: v.Name}, "the folder %s has no pictures (%s): a folder is a video by its frames", printable.Text(v.Name), strings.Join(pictureSuffixes, ", "))
	}
	if err := checkCount(v.Name, "a folder", v.Frames); err != nil {
		return nil, err
	}
	slices.SortFunc(in.names, compareNumbered)
	v.source = in
	if v.FPS, err = readFrameRate(filepath.Join(dir, frameDocument)); err != nil {
		return nil, err
	}
	return v, in.readHeaders(v)
}

// pictureSuffixes end the names of frames.
var pictureSuffixes = []string{".png", ".jpg", ".jpeg", ".webp"}

// frameDocument stands beside the frames that package video writes, and has their rate.
const frameDocument = "video.json"

// readHeaders reads the sizes of all frames, which have to be one, and the sum of their files.
func (in *folder) readHeaders(v *Footage) error {
	sum := sha256.New()
	var errs fault.List
	for i, name := range in.names {
		raw, err := userfile.Read(filepath.Join(in.dir, name), maxPicture)
		if err != nil {
			errs.Add(err)
			continue
		}
		h, err := picture.ReadHeader(raw, name)
		if err != nil {
			errs.Add(err)
			continue
		}
		own := sha256.Sum256(raw)
		sum.Write(own[:])
		width, height := h.UprightSize()
		if v.Width == 0 {
			v.Width, v.Height = width, height
		}
		if width != v.Width || height != v.Height {
			errs.Add(otherSize(v, i, width, height))
			break // those that follow would only say so again
		}
	}
	v.Sum = hex.EncodeToString(sum.Sum(nil))
	return errs.Err()
}

func (in *folder) frame(i int) (*picture.Image, error) {
	im, _, err := picture.Open(filepath.Join(in.dir, in.names[i]), 0)
	return im, err
}

// readFrameRate reads the rate out of the document beside the frames: 0 where there is none.
func readFrameRate(path string) (float64, error) {
	raw, err := userfile.Read(path, 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var doc struct {
		Rate struct{ Num, Den int }
	}
	if _, bad := jsontext.ParseObject(raw, jsontext.Options{Keys: true}); bad != nil {
		return 0, fault.New(ErrBroken, File{Name: frameDocument}, "%s: %v", printable.Text(path), bad)
	}
	if err := json.Unmarshal(raw, &doc); err != nil || doc.Rate.Num < 0 || doc.Rate.Den < 0 {
		return 0, fault.New(ErrBroken, File{Name: frameDocument}, "%s has no rate of frames", printable.Text(path))
	}
	if doc.Rate.Den == 0 {
		return 0, nil
	}
	return float64(doc.Rate.Num) / float64(doc.Rate.Den), nil
}

// compareNumbered orders names by their text, but numbers in them by their value: frame_9 comes
// before frame_10.
func compareNumbered(a, b string) int {
	full := cmp.Compare(a, b)
	for a != "" && b != "" {
		x, y := countDigits(a), countDigits(b)
		if x > 0 && y > 0 {
			m, n := strings.TrimLeft(a[:x], "0"), strings.TrimLeft(b[:y], "0")
			if c := cmp.Or(cmp.Compare(len(m), len(n)), cmp.Compare(m, n)); c != 0 {
				return c
			}
			a, b = a[x:], b[y:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Or(cmp.Compare(len(a), len(b)), full)
}

// countDigits is how many digits a text begins with.
func countDigits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}
