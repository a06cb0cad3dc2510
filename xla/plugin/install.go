package plugin

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"weft/fault"
)

// Progress is how far an install has come.
type Progress struct {
	Name  string // of the engine
	Stage string // "wait" for another process, "fetch", "check", "unpack"
	Done  int64  // bytes
	Total int64
	// Folder is set in the first call of a fetch alone, before anything is fetched:
	// where the Total bytes of wheels go. Unpacked is what the engine takes in the end,
	// where that is far from Total; Kept is the part of Total that an install before this
	// one has left.
	Folder         string
	Unpacked, Kept int64
}

// Options of Install. The zero value is the usual install.
type Options struct {
	// Progress is called from time to time, from one goroutine at a time.
	Progress func(Progress)
	// Fetch brings a wheel into dir and returns its path. Nil means pip, with
	// the user's own index, proxy and certificates.
	Fetch func(ctx context.Context, w Wheel, dir string, progress func(done int64)) (string, error)
	// PipArgs are added to pip's arguments ("--no-index", "--find-links", DIR).
	PipArgs []string
	// Pin overrides the pin of that name.
	Pin *Pin
}

// reportProgress calls Progress if it is set.
func (o Options) reportProgress(p Progress) {
	if o.Progress != nil {
		o.Progress(p)
	}
}

// Install fetches the engine called name unless it is here. A process killed at
// any moment leaves no engine or a whole one: everything happens in a folder of
// its own, which is renamed into place at the end, under a lock.
func Install(ctx context.Context, name string, o Options) (Installed, error) {
	var pin Pin
	var err error
	if o.Pin != nil {
		pin = *o.Pin
	} else if pin, err = Lookup(name); err != nil {
		return Installed{}, err
	}
	e := Engine{Name: pin.Name, Wheel: wheelNames(pin)}
	switch {
	case pin.Unpinned != "":
		return Installed{}, fault.New(ErrNotPinned, e, "engine %s is not pinned: %s", pin.Name, pin.Unpinned)
	case pin.Platform != runtime.GOOS+"/"+runtime.GOARCH:
		return Installed{}, fault.New(ErrPlatform, e, "engine %s (%s) is built for %s, this is %s/%s; any other plugin file can be named in WEFT_PLUGIN",
			pin.Name, e.Wheel, pin.Platform, runtime.GOOS, runtime.GOARCH)
	}
	root, err := findRoot()
	if err != nil {
		return Installed{}, err
	}
	dir := filepath.Join(root, engineFolder(pin))
	if i, ok := readEngine(dir); ok {
		return i, nil
	}
	failed := func(err error) (Installed, error) {
		var f *fault.Error
		if errors.As(err, &f) {
			return Installed{}, err
		}
		return Installed{}, fault.New(ErrInstall, e, "installing engine %s in %s: %w", pin.Name, root, err)
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return failed(err)
	}
	// The lock is the kernel's: it goes when its process goes.
	lock := flock.New(filepath.Join(root, "."+engineFolder(pin)+".lock"))
	o.reportProgress(Progress{Name: pin.Name, Stage: "wait"})
	if ok, err := lock.TryLockContext(ctx, 100*time.Millisecond); err != nil || !ok {
		return failed(errors.Join(errors.New("waiting for another install"), err))
	}
	defer lock.Unlock()
	if i, ok := readEngine(dir); ok { // another process was first
		return i, nil
	}
	prefix := ".tmp-" + engineFolder(pin) + "-"
	if old, err := filepath.Glob(filepath.Join(root, prefix+"*")); err == nil {
		for _, d := range old { // left by a process that was killed; we hold the lock
			os.RemoveAll(d)
		}
	}
	tmp, err := os.MkdirTemp(root, prefix)
	if err != nil {
		return failed(err)
	}
	defer os.RemoveAll(tmp)
	out := filepath.Join(tmp, "out")
	kept := filepath.Join(root, keptPrefix+engineFolder(pin))
	begin := Progress{Name: pin.Name, Stage: "fetch", Folder: root, Unpacked: pin.Unpacked}
	for _, w := range pin.Wheels {
		begin.Total += w.Bytes
		if st, err := os.Stat(filepath.Join(kept, w.File)); err == nil {
			begin.Kept += st.Size()
		}
	}
	o.reportProgress(begin)
	for _, w := range pin.Wheels {
		if err := fetchWheel(ctx, o, pin, w, wheelFolders{tmp, kept, out}); err != nil {
			return failed(err)
		}
	}
	lib := filepath.Join(out, filepath.FromSlash(pin.Library))
	sum, n, err := hashFile(lib, nil)
	if err != nil {
		return failed(err)
	}
	m, err := json.MarshalIndent(manifest{pin, sum, n}, "", "  ")
	if err != nil {
		return failed(err)
	}
	if err := writeFile(filepath.Join(out, manifestName), m); err != nil {
		return failed(err)
	}
	// What stands at dir now is no whole engine; move it aside, where the next
	// install sweeps it up if we are killed before RemoveAll does.
	if _, err := os.Lstat(dir); err == nil {
		if err := os.Rename(dir, filepath.Join(tmp, "broken")); err != nil {
			return failed(err)
		}
	}
	if err := os.Rename(out, dir); err != nil {
		return failed(err)
	}
	syncDir(root)
	os.RemoveAll(kept)
	i, ok := readEngine(dir)
	if !ok {
		return failed(errors.New("the installed engine does not read back"))
	}
	return i, nil
}

// keptPrefix begins the name of the folder below Root in which the whole wheels of an engine
// wait until all are there. An install that ends early leaves it, and the next one goes on
// from it; it is removed with the engine's last file in place.
const keptPrefix = ".wheels-"

// wheelFolders are where a wheel passes: it is fetched below tmp, waits in kept once its
// hash is found right, and is unpacked into out.
type wheelFolders struct{ tmp, kept, out string }

// fetchWheel fetches one wheel, unless an earlier install has, checks its hash and unpacks
// the members that the pin takes.
func fetchWheel(ctx context.Context, o Options, pin Pin, w Wheel, at wheelFolders) error {
	e := Engine{Name: pin.Name, Wheel: w.Name + " " + w.Version, Want: w.SHA256}
	if len(w.SHA256) != 64 {
		return fault.New(ErrNotPinned, e, "wheel %s of engine %s has no pinned hash", w.Name, pin.Name)
	}
	check := func(file string) (string, error) {
		sum, _, err := hashFile(file, func(n int64) { o.reportProgress(Progress{Name: pin.Name, Stage: "check", Done: n, Total: w.Bytes}) })
		return sum, err
	}
	waiting := filepath.Join(at.kept, w.File)
	if sum, err := check(waiting); err == nil && sum == w.SHA256 {
		return unpackWheel(ctx, o, pin, w, waiting, at.out)
	}
	dir := filepath.Join(at.tmp, "wheel-"+w.Name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	fetch := o.Fetch
	if fetch == nil {
		fetch = func(ctx context.Context, w Wheel, dir string, progress func(int64)) (string, error) {
			return pipFetch(ctx, pin, w, dir, o.PipArgs, progress)
		}
	}
	file, err := fetch(ctx, w, dir, func(done int64) {
		o.reportProgress(Progress{Name: pin.Name, Stage: "fetch", Done: min(done, w.Bytes), Total: w.Bytes})
	})
	if err != nil {
		return err
	}
	// pip has checked the hash; it is checked again, because a plugin is code.
	sum, err := check(file)
	if err != nil {
		return err
	}
	if sum != w.SHA256 {
		os.Remove(file)
		e.Have = sum
		return fault.New(ErrBadHash, e, "wheel %s %s has SHA-256 %s, pinned is %s; the file was deleted", w.Name, w.Version, sum, w.SHA256)
	}
	if len(pin.Wheels) > 1 { // one wheel alone is unpacked at once
		if err := errors.Join(os.MkdirAll(at.kept, 0o755), os.Rename(file, waiting)); err != nil {
			return err
		}
		file = waiting
	}
	return unpackWheel(ctx, o, pin, w, file, at.out)
}

// unpackWheel unpacks the wanted members of a wheel into out.
func unpackWheel(ctx context.Context, o Options, pin Pin, w Wheel, file, out string) error {
	z, err := zip.OpenReader(file)
	if err != nil {
		return fault.New(ErrBadWheel, Engine{Name: pin.Name, Wheel: w.Name}, "wheel %s: %w", w.File, err)
	}
	defer z.Close()
	var members []*zip.File
	var total int64
	for _, f := range z.File {
		for _, pattern := range w.Take {
			if ok, _ := path.Match(pattern, f.Name); ok && !f.FileInfo().IsDir() {
				members = append(members, f)
				total += int64(f.UncompressedSize64)
				break
			}
		}
	}
	if len(members) == 0 {
		return fault.New(ErrBadWheel, Engine{Name: pin.Name, Wheel: w.Name}, "wheel %s holds none of %s", w.File, strings.Join(w.Take, " "))
	}
	var done int64
	for _, f := range members {
		if !filepath.IsLocal(filepath.FromSlash(f.Name)) {
			return fault.New(ErrBadWheel, Engine{Name: pin.Name, Wheel: w.Name}, "wheel %s has a member %q that leaves its folder", w.File, f.Name)
		}
		err := extractMember(ctx, f, filepath.Join(out, filepath.FromSlash(f.Name)), func(n int64) {
			o.reportProgress(Progress{Name: pin.Name, Stage: "unpack", Done: done + n, Total: total})
		})
		if err != nil {
			return err
		}
		done += int64(f.UncompressedSize64)
	}
	return nil
}

// extractMember writes one member of a wheel to a new file.
func extractMember(ctx context.Context, f *zip.File, to string, progress func(int64)) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	r, err := f.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	mode := os.FileMode(0o644)
	if f.Mode()&0o100 != 0 { // an assembler that a plugin starts
		mode = 0o755
	}
	w, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, &counted{r: r, ctx: ctx, each: progress}) // zip checks the member's CRC at its end
	return errors.Join(err, w.Sync(), w.Close())
}

// counted is a reader that reports every few megabytes how much was read, and that
// stops when its context ends.
type counted struct {
	r       io.Reader
	ctx     context.Context
	each    func(int64)
	n, last int64
}

func (c *counted) Read(p []byte) (int, error) {
	if c.ctx != nil {
		if err := c.ctx.Err(); err != nil {
			return 0, err
		}
	}
	n, err := c.r.Read(p)
	c.n += int64(n)
	if c.each != nil && (c.n-c.last >= 4<<20 || err == io.EOF) {
		c.last = c.n
		c.each(c.n)
	}
	return n, err
}

// hashFile returns the SHA-256 and the size of a file.
func hashFile(file string, progress func(int64)) (string, int64, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.CopyBuffer(h, &counted{r: f, each: progress}, make([]byte, 1<<20))
	return hex.EncodeToString(h.Sum(nil)), n, err
}

// syncDir makes a rename in a folder survive a power failure.
func syncDir(dir string) {
	if f, err := os.Open(dir); err == nil {
		_ = f.Sync()
		f.Close()
	}
}
