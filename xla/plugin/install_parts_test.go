package plugin

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// toolWheel makes a wheel with an executable and a text in dir.
func toolWheel(t *testing.T, dir string) Wheel {
	t.Helper()
	const file = "weft_fake_tool-2.0-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl"
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	for name, mode := range map[string]os.FileMode{"tool/bin/assembler": 0o755, "tool/license.txt": 0o644} {
		h := &zip.FileHeader{Name: name}
		h.SetMode(mode)
		w, err := z.CreateHeader(h)
		if err == nil {
			_, err = w.Write([]byte(name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, file), buf.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(buf.Bytes())
	return Wheel{Name: "weft-fake-tool", Version: "2.0", File: file, SHA256: hex.EncodeToString(sum[:]), Bytes: int64(buf.Len()), Take: []string{"tool/bin/*", "tool/license.txt"}}
}

// An engine of several wheels: an install that ends between two of them goes on where it was, what
// is to be executed can be, and nothing is left behind.
func TestSeveralWheels(t *testing.T) {
	wheels, o := setup(t)
	pin := fakeWheel(t, wheels, 1<<20)
	pin.Wheels, pin.Unpacked = append(pin.Wheels, toolWheel(t, wheels)), 2<<20
	o.Pin = &pin
	var fetched []string
	o.Fetch = func(ctx context.Context, w Wheel, dir string, p func(int64)) (string, error) {
		fetched = append(fetched, w.Name)
		if len(fetched) == 2 {
			return "", errors.New("the line went dead")
		}
		return copyFrom(wheels)(ctx, w, dir, p)
	}
	var begun []Progress
	o.Progress = func(p Progress) {
		if p.Folder != "" {
			begun = append(begun, p)
		}
	}
	if _, err := Install(t.Context(), "fake", o); !errors.Is(err, ErrInstall) || !strings.Contains(err.Error(), "went dead") || len(List()) != 0 {
		t.Fatal(err, List())
	}
	i, err := Install(t.Context(), "fake", o)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(fetched, " "); got != "weft-fake-engine weft-fake-tool weft-fake-tool" {
		t.Errorf("fetched %s", got)
	}
	if len(begun) != 2 || begun[0].Kept != 0 || begun[1].Kept != pin.Wheels[0].Bytes || begun[1].Unpacked != 2<<20 || begun[1].Total != pin.Wheels[0].Bytes+pin.Wheels[1].Bytes {
		t.Errorf("%+v", begun)
	}
	root := filepath.Dir(filepath.Dir(i.Path))
	for name, mode := range map[string]os.FileMode{"tool/bin/assembler": 0o755, "tool/license.txt": 0o644} {
		if st, err := os.Stat(filepath.Join(root, name)); err != nil || st.Mode().Perm() != mode {
			t.Errorf("%s: %v %v", name, st, err)
		}
	}
	if l := leavings(t); len(l) > 0 {
		t.Errorf("left: %v", l)
	}
	// A wheel that waits and was changed meanwhile is fetched again.
	os.RemoveAll(root)
	fetched = nil
	if _, err := Install(t.Context(), "fake", o); err == nil {
		t.Fatal("installed without its second wheel")
	}
	waiting := filepath.Join(Root(), keptPrefix+engineFolder(pin), pin.Wheels[0].File)
	if err := os.WriteFile(waiting, []byte("changed"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Install(t.Context(), "fake", o); err != nil || strings.Join(fetched, " ") != "weft-fake-engine weft-fake-tool weft-fake-engine weft-fake-tool" {
		t.Errorf("%v, fetched %v", err, fetched)
	}
}

func TestPlatformsOfWheels(t *testing.T) {
	w := Wheel{File: "nvidia_nvvm-13.5.37-py3-none-manylinux2010_x86_64.manylinux_2_12_x86_64.whl"}
	python, abi, platforms, err := w.pipTags()
	if err != nil || python != "py3" || abi != "none" || strings.Join(platforms, " ") != "manylinux2010_x86_64 manylinux_2_12_x86_64" {
		t.Error(python, abi, platforms, err)
	}
}
