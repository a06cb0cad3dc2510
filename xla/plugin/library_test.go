package plugin

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"weft/fault"
)

// smallELF is a shared library of one segment, without a list of sections.
func smallELF() []byte {
	b := make([]byte, 64+56+8)
	copy(b, elf.ELFMAG)
	b[elf.EI_CLASS], b[elf.EI_DATA], b[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1
	le := binary.LittleEndian
	le.PutUint16(b[16:], uint16(elf.ET_DYN))
	le.PutUint16(b[18:], uint16(machines[runtime.GOARCH]))
	le.PutUint32(b[20:], 1)
	le.PutUint64(b[32:], 64) // segments
	le.PutUint16(b[52:], 64)
	le.PutUint16(b[54:], 56)
	le.PutUint16(b[56:], 1)
	le.PutUint32(b[64:], uint32(elf.PT_LOAD))
	le.PutUint64(b[64+32:], uint64(len(b)))
	return b
}

// TestCheckLibrary: what is no plugin is said by what it is.
func TestCheckLibrary(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("libraries have another form here")
	}
	dir := t.TempDir()
	write := func(b []byte) string {
		path := filepath.Join(dir, "x.so")
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if err := CheckLibrary(write(smallELF())); err != nil {
		t.Error(err)
	}
	other := elf.EM_AARCH64
	if runtime.GOARCH == "arm64" {
		other = elf.EM_X86_64
	}
	change := func(at int, with ...byte) []byte {
		b := smallELF()
		copy(b[at:], with)
		return b
	}
	for is, b := range map[string][]byte{
		"empty":                       nil,
		"a text":                      []byte("hello\nworld\n"),
		"a script":                    []byte("#!/bin/sh\n"),
		"a wheel":                     []byte("PK\x03\x04rest of it"),
		"Git LFS":                     []byte("version https://git-lfs.github.com/spec/v1\n"),
		"unknown form":                {0, 1, 2, 3, 0xff},
		"a head of 64":                smallELF()[:40],
		"another class":               change(elf.EI_CLASS, byte(elf.ELFCLASS32)),
		"another byte order":          change(elf.EI_DATA, byte(elf.ELFDATA2MSB)),
		"an ELF file for":             change(18, byte(other), byte(other>>8)),
		"an executable":               change(16, byte(elf.ET_EXEC), 0),
		"an object file":              change(16, byte(elf.ET_REL), 0),
		"cut short":                   smallELF()[:100],
		"needs 128 bytes and has 127": smallELF()[:127],
		"damaged":                     change(32, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
	} {
		err := CheckLibrary(write(b))
		l, ok := fault.Fields[Library](err)
		if !errors.Is(err, ErrLibrary) || !ok || !strings.Contains(l.Is, strings.TrimPrefix(is, "a wheel")) {
			t.Errorf("%s: %v", is, err)
		}
		if strings.HasPrefix(is, "needs") && (l.NeedBytes != 128 || l.HaveBytes != 127) {
			t.Errorf("%s: %+v", is, l)
		}
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o644); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(pipe, link); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for path, is := range map[string]string{pipe: "a named pipe", link: "a named pipe", dir: "a folder", os.DevNull: "a device", self: "an executable"} {
		err := CheckLibrary(path)
		if l, _ := fault.Fields[Library](err); !errors.Is(err, ErrLibrary) || l.Is != is {
			t.Errorf("%s: %v", path, err)
		}
		if path != self { // it is not read either
			if _, err := Examine(path); !errors.Is(err, ErrLibrary) {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	if err := CheckLibrary(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// FuzzCheckELF: no file makes a panic.
func FuzzCheckELF(f *testing.F) {
	f.Add(smallELF())
	if self, err := os.Open("/proc/self/exe"); err == nil {
		head := make([]byte, 4096)
		n, _ := self.Read(head)
		self.Close()
		f.Add(head[:n])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if bytes.HasPrefix(b, []byte(elf.ELFMAG)) {
			checkELF(bytes.NewReader(b), b[:min(len(b), 512)], int64(len(b)))
		}
	})
}
