package cubin

import (
	"os"
	"strings"
	"testing"
)

// executable is what XLA's CUDA plugin 0.116 made of attention's kernel alone for an H100, with 4096
// queries and keys, 10 heads of 128 and blocks of 128 x 64 of a first version of the kernel.
func executable(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/attention_h100.exe")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A serialised executable gives up its object file, and that what its kernel takes. ptxas -v said the
// same of the registers.
func TestExecutable(t *testing.T) {
	images, err := Images(executable(t))
	if err != nil || len(images) != 1 {
		t.Fatal(len(images), err)
	}
	kernels, err := Read(images[0])
	if err != nil || len(kernels) != 1 {
		t.Fatal(kernels, err)
	}
	k := kernels[0]
	if !strings.HasPrefix(k.Name, "weft_attention_bf16_b1_q4096_k4096") || k.FrameBytes != 0 || k.Registers < 100 || k.Registers > 255 || k.CodeBytes < 4096 {
		t.Errorf("%+v", k)
	}
}

// What is no executable, or a cut one, is an error or holds nothing; it never panics.
func TestDamagedExecutables(t *testing.T) {
	whole := executable(t)
	for n := 0; n < len(whole); n += 97 {
		if images, err := Images(whole[:n]); err == nil && len(images) > 0 {
			t.Errorf("%d of %d bytes hold an object file", n, len(whole))
		}
	}
	if images, err := Images([]byte("nothing of the kind")); err != nil || len(images) != 0 {
		t.Error(images, err)
	}
	image, err := Images(whole)
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < len(image[0]); n += 101 {
		_, _ = Read(image[0][:n])
	}
	if _, err := Read([]byte("\x7fELF")); err == nil {
		t.Error("four bytes are an object file")
	}
}

func FuzzImages(f *testing.F) {
	whole := executable(f)
	f.Add(whole)
	f.Add(whole[:200])
	f.Fuzz(func(t *testing.T, data []byte) {
		images, err := Images(data)
		if err != nil {
			return
		}
		for _, image := range images {
			_, _ = Read(image)
		}
	})
}
