package checkpoint

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"weft/dtype"
	"weft/internal/userfile"
	"weft/tensor"
)

func small(v byte) map[string]*tensor.Tensor {
	return map[string]*tensor.Tensor{"a": {DType: dtype.U8, Shape: []int{2}, Data: []byte{v, v}}}
}

func TestWriteExists(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out.safetensors")
	if err := Write(path, small(1), nil, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	err := Write(path, small(2), nil, WriteOptions{})
	if f := fieldsOf[Path](t, err, ErrExists); f.Path != path {
		t.Errorf("%+v", f)
	}
	load := func() byte {
		all, _, err := LoadFile(context.Background(), path)
		if err != nil {
			t.Fatal(err)
		}
		return all["a"].Data[0]
	}
	if load() != 1 {
		t.Error("replaced without force")
	}
	if err := Write(path, small(2), nil, WriteOptions{Force: true}); err != nil || load() != 2 {
		t.Error(err)
	}
	if err := Write(dir, small(2), nil, WriteOptions{Force: true}); !errors.Is(err, ErrExists) {
		t.Error(err)
	}
	if err := CreateSparse(path, Entry{Name: "a", DType: dtype.U8}); !errors.Is(err, ErrExists) {
		t.Error(err)
	}
	if left := entriesOf(t, dir); len(left) != 1 {
		t.Errorf("left in the folder: %q", left)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm()&0o444 != 0o444 && st.Mode().Perm()&0o400 == 0 {
		t.Errorf("mode %v", st.Mode())
	}
}

func entriesOf(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

func TestWriteRefuses(t *testing.T) {
	ok := tensor.New(dtype.F32, 2)
	for _, test := range []struct {
		name    string
		tensors map[string]*tensor.Tensor
		kind    error
	}{
		{"metadata's name", map[string]*tensor.Tensor{metadataKey: ok}, ErrName},
		{"bad UTF-8", map[string]*tensor.Tensor{"\xff": ok}, ErrName},
		{"too little data", map[string]*tensor.Tensor{"a": {DType: dtype.F32, Shape: []int{3}, Data: make([]byte, 11)}}, ErrSizeMismatch},
		{"no dtype", map[string]*tensor.Tensor{"a": {Shape: []int{1}}}, ErrDType},
		{"negative dim", map[string]*tensor.Tensor{"a": {DType: dtype.F32, Shape: []int{-1}}}, ErrSizeOverflow},
	} {
		dir := t.TempDir()
		if err := Write(filepath.Join(dir, "x"), test.tensors, nil, WriteOptions{}); !errors.Is(err, test.kind) {
			t.Errorf("%s: error %v, want %v", test.name, err, test.kind)
		}
		if left := entriesOf(t, dir); len(left) != 0 {
			t.Errorf("%s: left %q", test.name, left)
		}
	}
	if err := Write(filepath.Join(t.TempDir(), "no", "x"), small(1), nil, WriteOptions{}); err == nil {
		t.Error("wrote into a folder that is not there")
	}
	err := CreateSparse(filepath.Join(t.TempDir(), "x"), Entry{Name: "a", DType: dtype.U8}, Entry{Name: "a", DType: dtype.U8})
	if !errors.Is(err, ErrDuplicateTensor) {
		t.Error(err)
	}
	huge := Entry{DType: dtype.F64, Shape: []int{1 << 59}}
	err = CreateSparse(filepath.Join(t.TempDir(), "x"), huge, Entry{Name: "a", DType: dtype.F64, Shape: []int{1 << 59}})
	if !errors.Is(err, ErrSizeOverflow) {
		t.Error(err)
	}
}

// The data begins at a multiple of 8, and the file has the reference's order.
func TestLayout(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.safetensors")
	if err := CreateSparse(path,
		Entry{Name: "b", DType: dtype.U8, Shape: []int{3}}, Entry{Name: "z", DType: dtype.F64, Shape: []int{1}},
		Entry{Name: "a", DType: dtype.BF16, Shape: []int{3}}, Entry{Name: "c", Stored: "F4", Shape: []int{4}}); err != nil {
		t.Fatal(err)
	}
	c := mustOpen(t, path)
	base := int64(-1)
	for _, test := range []struct {
		name string
		off  int64
	}{{"z", 0}, {"a", 8}, {"b", 14}, {"c", 17}} {
		e, _ := c.Lookup(test.name)
		if base < 0 {
			base = e.Offset
		}
		if e.Offset-base != test.off {
			t.Errorf("%s at %d, want %d", test.name, e.Offset-base, test.off)
		}
	}
	if base%8 != 0 {
		t.Errorf("data at %d", base)
	}
	if e, _ := c.Lookup("c"); e.DType != dtype.Invalid || e.Stored != "F4" || e.Bytes != 2 {
		t.Errorf("%+v", e)
	}
}

// Writers that race without force: one wins, the others are told.
func TestWriteRace(t *testing.T) {
	for range 20 {
		dir := t.TempDir()
		path := filepath.Join(dir, "out.safetensors")
		var wg sync.WaitGroup
		errs := make([]error, 6)
		for i := range errs {
			wg.Go(func() { errs[i] = Write(path, small(byte(i)), nil, WriteOptions{}) })
		}
		wg.Wait()
		won := -1
		for i, err := range errs {
			switch {
			case err == nil && won < 0:
				won = i
			case err == nil:
				t.Error("two writers won")
			case !errors.Is(err, ErrExists):
				t.Error(err)
			}
		}
		all, _, err := LoadFile(context.Background(), path)
		if err != nil || int(all["a"].Data[0]) != won {
			t.Errorf("writer %d won, %v, %v", won, all, err)
		}
		if left := entriesOf(t, dir); len(left) != 1 {
			t.Errorf("left %q", left)
		}
	}
}

// killEnv makes the test binary a writer that goes on until it is killed.
const killEnv = "WEFT_CHECKPOINT_WRITER"

func TestMain(m *testing.M) {
	if path := os.Getenv(killEnv); path != "" {
		writeForEver(path)
	}
	os.Exit(m.Run())
}

// generation is a file all of whose values are n.
func generation(n uint32) map[string]*tensor.Tensor {
	all := map[string]*tensor.Tensor{}
	for i := range 8 {
		v := tensor.New(dtype.U32, 1<<15)
		for k := range v.Elements() {
			binary.LittleEndian.PutUint32(v.Data[4*k:], n)
		}
		all["t"+strconv.Itoa(i)] = v
	}
	return all
}

func writeForEver(path string) {
	os.Stdout.WriteString("!")
	for n := uint32(1); ; n++ {
		if err := Write(path, generation(n), nil, WriteOptions{Force: true}); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
	}
}

// A writer killed at any moment leaves no file, or a whole one.
func TestKilledWriter(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "out.safetensors")
	rounds := 30
	if testing.Short() {
		rounds = 5
	}
	absent, whole, leftovers := 0, 0, 0
	for round := range rounds {
		if round%5 == 0 {
			os.Remove(path)
		}
		child := exec.Command(exe)
		child.Env = append(os.Environ(), killEnv+"="+path)
		var stderr bytes.Buffer
		child.Stderr = &stderr
		stdout, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		stdout.Read(make([]byte, 1)) // it has begun
		if round == rounds-1 {
			for start := time.Now(); !there(path) && time.Since(start) < time.Minute; {
				time.Sleep(time.Millisecond)
			}
		}
		time.Sleep(time.Duration(rand.IntN(60_000)) * time.Microsecond)
		child.Process.Kill()
		child.Wait()
		if stderr.Len() > 0 {
			t.Fatalf("the writer failed: %s", &stderr)
		}
		if len(entriesOf(t, dir)) > 2 {
			t.Errorf("leftovers pile up: %q", entriesOf(t, dir))
		}
		for _, name := range entriesOf(t, dir) {
			if strings.HasSuffix(name, userfile.TempSuffix) {
				leftovers++
			}
		}
		all, _, err := LoadFile(context.Background(), path)
		if errors.Is(err, os.ErrNotExist) {
			absent++
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		whole++
		first := binary.LittleEndian.Uint32(all["t0"].Data)
		for name, v := range generation(first) {
			if all[name] == nil || !bytes.Equal(all[name].Data, v.Data) {
				t.Fatalf("the file mixes generations")
			}
		}
	}
	t.Logf("%d absent, %d whole, %d leftovers", absent, whole, leftovers)
	if whole == 0 {
		t.Error("no writer lived long enough to write")
	}
}

func there(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
