package cache

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("WEFT_CACHE_CHILD"); dir != "" {
		writeForEver(dir)
	}
	os.Exit(m.Run())
}

func key(i int) Key { return Material{Program: fmt.Append(nil, i)}.Key() }

func open1(t *testing.T, o Options) (*Cache, *[]error) {
	t.Helper()
	var warned []error
	o.Warn = func(err error) { warned = append(warned, err) }
	c, err := Open(filepath.Join(t.TempDir(), "cache"), o)
	if err != nil {
		t.Fatal(err)
	}
	return c, &warned
}

func TestGetPut(t *testing.T) {
	c, warned := open1(t, Options{})
	if _, ok := c.Get(key(1)); ok {
		t.Error("an empty cache has an entry")
	}
	for _, payload := range [][]byte{{}, {1}, bytes.Repeat([]byte("x"), 1<<20)} {
		c.Put(key(1), payload, 0)
		if got, ok := c.Get(key(1)); !ok || !bytes.Equal(got, payload) {
			t.Errorf("%d bytes came back as %d, %v", len(payload), len(got), ok)
		}
	}
	if got, want := c.Stats(), (Stats{Hits: 3, Misses: 1, Writes: 3}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if st, err := os.Stat(c.Folder()); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("the folder's mode is %v (%v)", st.Mode(), err)
	}
	files, _ := filepath.Glob(c.Folder() + "/*")
	if st, _ := os.Stat(files[0]); len(files) != 1 || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, mode %v", files, st.Mode())
	}
	if len(*warned) > 0 {
		t.Error(*warned)
	}
}

// TestBroken: every way of cutting or changing an entry is a miss, and goes away.
func TestBroken(t *testing.T) {
	c, warned := open1(t, Options{})
	payload := []byte("forty-two bytes of what might be a program")
	c.Put(key(1), payload, 0)
	path := c.entryPath(key(1))
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	try := func(b []byte) {
		n++
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, ok := c.Get(key(1)); ok {
			t.Errorf("%d bytes of %d taken", len(b), len(good))
		}
		if _, err := os.Stat(path); err == nil {
			t.Error("the broken entry is still there")
		}
	}
	for i := range good {
		try(good[:i])
		bad := bytes.Clone(good)
		bad[i] ^= 0x10
		try(bad)
	}
	try(append(bytes.Clone(good), 0))
	if len(*warned) != n || c.Stats().Failed != n {
		t.Errorf("%d warnings for %d broken entries", len(*warned), n)
	}
	c.Put(key(1), payload, 0)
	if got, ok := c.Get(key(1)); !ok || !bytes.Equal(got, payload) {
		t.Error("the entry was not replaced")
	}
}

// TestAnothers: a whole entry under a name that is not its own is not run, whoever put
// it there; it is replaced, and that is said.
func TestAnothers(t *testing.T) {
	plugin := func(i int) Key { return Material{Program: []byte("p"), PluginSHA256: fmt.Sprint(i)}.Key() }
	for what, k := range map[string]struct {
		own, other Key
		says       string
	}{
		"another program":   {key(1), key(2), "under another name"},
		"another's plugin":  {plugin(1), plugin(2), "another plugin"},
		"the format before": {key(1), Key{}, "header"},
	} {
		c, warned := open1(t, Options{})
		c.Put(k.own, []byte("mine"), 0)
		c.Put(k.other, []byte("other"), 0)
		if k.other == (Key{}) {
			if err := os.WriteFile(c.entryPath(k.own), append([]byte("WEFTXLA1\x04\x00\x00\x00\x00\x00\x00\x00"), bytes.Repeat([]byte{7}, 200)...), 0o600); err != nil {
				t.Fatal(err)
			}
		} else if err := os.Rename(c.entryPath(k.other), c.entryPath(k.own)); err != nil {
			t.Fatal(err)
		}
		if got, ok := c.Get(k.own); ok {
			t.Errorf("%s: %q is run", what, got)
		}
		if len(*warned) != 1 || !strings.Contains((*warned)[0].Error(), k.says) || !strings.Contains((*warned)[0].Error(), "replaced") {
			t.Errorf("%s: %v", what, *warned)
		}
		c.Put(k.own, []byte("mine"), 0)
		if got, ok := c.Get(k.own); !ok || string(got) != "mine" || len(*warned) != 1 {
			t.Errorf("%s: %q, %v after it was replaced, %v", what, got, ok, *warned)
		}
	}
}

// TestPipe: an entry that is no file is not waited on.
func TestPipe(t *testing.T) {
	c, warned := open1(t, Options{})
	if err := syscall.Mkfifo(c.entryPath(key(1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok := c.Get(key(1)); ok || len(*warned) != 1 {
		t.Errorf("a pipe: %v, %v", ok, *warned)
	}
	c.Put(key(1), []byte("a"), 0)
	if _, ok := c.Get(key(1)); !ok {
		t.Error("it was not replaced")
	}
}

// FuzzOpen: no bytes are taken but those that were written for the key.
func FuzzOpen(f *testing.F) {
	k := key(1)
	payload := []byte("a program")
	f.Add(append(k.entryHeader(payload), payload...))
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := k.openEntry(b)
		if err == nil && !bytes.Equal(b, append(k.entryHeader(got), got...)) {
			t.Errorf("%q gives %q", b, got)
		}
	})
}

// TestMinCompile keeps cheap programs out.
func TestMinCompile(t *testing.T) {
	c, _ := open1(t, Options{MinCompile: time.Second})
	c.Put(key(1), []byte("a"), 999*time.Millisecond)
	c.Put(key(2), []byte("b"), time.Second)
	if _, ok := c.Get(key(1)); ok {
		t.Error("a quick compile was kept")
	}
	if _, ok := c.Get(key(2)); !ok {
		t.Error("a slow compile was not kept")
	}
}

// TestEviction: what is no whole entry goes first, then the oldest; a hit makes
// an entry young; a writer's temporary file and a stranger's file stay.
func TestEviction(t *testing.T) {
	size := func(n int) int64 { return int64(headerSize + n) }
	c, warned := open1(t, Options{Limit: 5 * size(100)})
	payload := make([]byte, 100)
	age := func(name string, d time.Duration) {
		when := time.Now().Add(-d)
		if err := os.Chtimes(filepath.Join(c.Folder(), name), when, when); err != nil {
			t.Fatal(err)
		}
	}
	file := func(name string, n int) {
		if err := os.WriteFile(filepath.Join(c.Folder(), name), make([]byte, n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(c.Folder(), name))
		return err == nil
	}
	name := func(i int) string { return filepath.Base(c.entryPath(key(i))) }
	for i := range 4 {
		c.Put(key(i), payload, 0)
		age(name(i), time.Duration(10-i)*time.Hour)
	}
	// A data file without its companion, as another version may have left it, younger than all entries.
	orphan := strings.TrimSuffix(name(100), suffix) + "-data"
	file(orphan, 100)
	file(name(101), 30) // an entry cut short
	file(tempPrefix+"old", 50)
	age(tempPrefix+"old", time.Hour)
	file(tempPrefix+"new", 50)
	file("notes.txt", 10_000) // not the cache's, and not counted
	c.Put(key(4), payload, 0)
	for _, gone := range []string{orphan, name(101), tempPrefix + "old"} {
		if exists(gone) {
			t.Errorf("%s is still there", gone)
		}
	}
	for _, here := range []string{name(1), name(2), name(3), name(4), tempPrefix + "new", "notes.txt"} {
		if !exists(here) {
			t.Errorf("%s is gone", here)
		}
	}
	os.Remove(filepath.Join(c.Folder(), tempPrefix+"new"))
	c.Put(key(0), payload, 0)
	age(name(0), 10*time.Hour)
	if _, ok := c.Get(key(0)); !ok { // the oldest, used now
		t.Fatal("no entry 0")
	}
	c.Put(key(5), payload, 0)
	if !exists(name(0)) || exists(name(1)) {
		t.Error("the entry in use went before the oldest one")
	}
	// More than everything: refused, and nothing else is thrown out for it.
	c.Put(key(6), make([]byte, 1000), 0)
	if exists(name(6)) || !exists(name(0)) {
		t.Error("an entry over the limit was written")
	}
	if len(*warned) != 1 {
		t.Errorf("warnings: %v", *warned)
	}
}

// TestUnwritable: a failed write is a warning.
func TestUnwritable(t *testing.T) {
	c, warned := open1(t, Options{})
	os.RemoveAll(c.Folder())
	if err := os.WriteFile(c.Folder(), nil, 0o600); err != nil { // a file where the folder was
		t.Fatal(err)
	}
	c.Put(key(1), []byte("a"), 0)
	if _, ok := c.Get(key(1)); ok || len(*warned) < 1 {
		t.Errorf("got %v, warnings %v", ok, *warned)
	}
	// A folder that was cleared away is made again.
	os.Remove(c.Folder())
	c.Put(key(1), []byte("a"), 0)
	if _, ok := c.Get(key(1)); !ok {
		t.Error("not written after the folder was removed")
	}
	if _, err := Open(filepath.Join(c.entryPath(key(1)), "under-a-file"), Options{}); err == nil {
		t.Error("a cache opened under a file")
	}
}

// TestKey: every part of the material counts, and parts do not run together.
func TestKey(t *testing.T) {
	base := Material{Program: []byte("p"), Options: []byte("o"), XLAFlags: "f", Devices: []int{0, 1}, Platform: "cpu", PluginSHA256: "s", PluginVersion: "0.0.10",
		Threads: 2, CPU: "c"}
	seen := map[Key]string{base.Key(): "base"}
	add := func(what string, m Material) {
		if was, ok := seen[m.Key()]; ok {
			t.Errorf("%s has the key of %s", what, was)
		}
		seen[m.Key()] = what
	}
	v := reflect.ValueOf(&base).Elem()
	for i := range v.NumField() {
		changed := base
		f := reflect.ValueOf(&changed).Elem().Field(i)
		switch f.Kind() {
		case reflect.String:
			f.SetString(f.String() + "x")
		case reflect.Int:
			f.SetInt(f.Int() + 1)
		case reflect.Slice:
			if f.Type().Elem().Kind() == reflect.Uint8 {
				f.SetBytes([]byte("other"))
			} else {
				f.Set(reflect.ValueOf([]int{1, 0}))
			}
		}
		add(v.Type().Field(i).Name, changed)
	}
	m := base
	m.PluginVersion = "0.0.11.1"
	add("another plugin version", m)
	m = base
	m.Program, m.Options = []byte("po"), nil
	add("the same bytes, cut elsewhere", m)
	if again := base; base.Key() != again.Key() || CPU() == "" {
		t.Error("a key is not stable")
	}
}

// TestTwoWriters: any number at once, one name, always a whole entry.
func TestTwoWriters(t *testing.T) {
	c, warned := open1(t, Options{Limit: 1 << 20})
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 50 {
				c.Put(key(i%3), payloadOf(uint64(w*1000+i)), 0)
				if p, ok := c.Get(key(i % 3)); ok && !wholePayload(p) {
					t.Error("half an entry")
				}
			}
		})
	}
	wg.Wait()
	if c.Stats().Failed != 0 {
		t.Error(*warned)
	}
}

// payloadOf is many copies of one number.
func payloadOf(v uint64) []byte {
	var b []byte
	for range 4000 {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

func wholePayload(b []byte) bool {
	return len(b) == 32000 && bytes.Equal(b, payloadOf(binary.LittleEndian.Uint64(b)))
}

func writeForEver(dir string) {
	c, err := Open(dir, Options{Limit: 400_000})
	if err != nil {
		panic(err)
	}
	for i := uint64(0); ; i++ {
		c.Put(key(int(i%20)), payloadOf(i), 0)
		if i == 5 {
			fmt.Println("writing")
		}
	}
}

// TestKill: a writer killed at any moment leaves whole entries or none.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	rounds := 25
	if testing.Short() {
		rounds = 5
	}
	for range rounds {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "WEFT_CACHE_CHILD="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 16)); err != nil { // it has begun
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rng.IntN(20_000)) * time.Microsecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	c, err := Open(dir, Options{Limit: 400_000, Warn: func(err error) { t.Errorf("seed %d: %v", seed, err) }})
	if err != nil {
		t.Fatal(err)
	}
	hits := 0
	for i := range 20 {
		if p, ok := c.Get(key(i)); ok {
			if hits++; !wholePayload(p) {
				t.Errorf("seed %d: entry %d is not whole", seed, i)
			}
		}
	}
	if hits == 0 {
		t.Errorf("seed %d: nothing was written", seed)
	}
	// What the killed left does not stop writing, and goes once it is old.
	temps, _ := filepath.Glob(filepath.Join(dir, tempPrefix+"*"))
	for _, f := range temps {
		old := time.Now().Add(-time.Hour)
		_ = os.Chtimes(f, old, old)
	}
	for i := range 30 {
		c.Put(key(1000+i), payloadOf(1), 0)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, tempPrefix+"*")); len(left) != 0 {
		t.Errorf("%d of %d temporary files are left", len(left), len(temps))
	}
}
