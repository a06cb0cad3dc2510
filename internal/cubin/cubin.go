// Package cubin reads what NVIDIA's assembler says of the kernels in its object files: how
// many registers a thread takes, and how many bytes it spills. They tell without a GPU
// whether a kernel's blocks fit it.
//
// The files are ELF files whose sections of attributes have no published form. So this
// package reads little of them, and gives an error if it finds another format.
package cubin

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Kernel is what one kernel takes.
type Kernel struct {
	Name      string
	Registers int // of a thread
	// FrameBytes is a thread's frame in local memory: spilled registers, and arrays that the
	// program indexes.
	FrameBytes  int
	SharedBytes int // that the object file asks for; a launch may ask for more
	CodeBytes   int
}

// The machine of NVIDIA's object files, which package elf does not name.
const machineCUDA = elf.Machine(190)

// Attributes of kernels, and the form of those that have a size and a value.
const (
	formSized      = 0x04
	attrFrameSize  = 0x11
	attrRegisters  = 0x2f
	attrHeaderSize = 4
)

// Find returns the object files that lie in data, such as a serialised executable, from each
// one's first byte to the end of data.
func Find(data []byte) [][]byte {
	var out [][]byte
	for at := 0; ; {
		i := bytes.Index(data[at:], []byte(elf.ELFMAG))
		if i < 0 {
			return out
		}
		at += i
		if rest := data[at:]; len(rest) > 20 && elf.Machine(binary.LittleEndian.Uint16(rest[18:])) == machineCUDA {
			out = append(out, rest)
		}
		at += len(elf.ELFMAG)
	}
}

// Read returns the kernels of an object file, by name.
func Read(image []byte) ([]Kernel, error) {
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return nil, fmt.Errorf("cubin: %w", err)
	}
	defer f.Close()
	if f.Machine != machineCUDA {
		return nil, fmt.Errorf("cubin: an ELF file of machine %v", f.Machine)
	}
	symbols, err := f.Symbols()
	if err != nil {
		return nil, fmt.Errorf("cubin: %w", err)
	}
	kernels := map[string]*Kernel{}
	var names []string
	for _, s := range f.Sections {
		if name, ok := strings.CutPrefix(s.Name, ".text."); ok {
			kernels[name] = &Kernel{Name: name, CodeBytes: int(s.Size)}
			names = append(names, name)
		}
	}
	for _, s := range f.Sections {
		if name, ok := strings.CutPrefix(s.Name, ".nv.shared."); ok && kernels[name] != nil {
			kernels[name].SharedBytes = int(s.Size)
		}
		if s.Name != ".nv.info" {
			continue
		}
		text, err := io.ReadAll(s.Open())
		if err != nil {
			return nil, fmt.Errorf("cubin: %w", err)
		}
		if err := readAttributes(text, symbols, kernels); err != nil {
			return nil, err
		}
	}
	slices.Sort(names)
	var out []Kernel
	for _, n := range names {
		if kernels[n].Registers == 0 {
			return nil, fmt.Errorf("cubin: nothing says how many registers %s takes", n)
		}
		out = append(out, *kernels[n])
	}
	return out, nil
}

// readAttributes reads the attributes of all kernels: each has a form, a number and, by its form,
// a value of two bytes or a size and as many bytes.
func readAttributes(text []byte, symbols []elf.Symbol, kernels map[string]*Kernel) error {
	for len(text) > 0 {
		if len(text) < attrHeaderSize {
			return fmt.Errorf("cubin: attributes end within one")
		}
		form, attr, size := text[0], text[1], int(binary.LittleEndian.Uint16(text[2:]))
		text = text[attrHeaderSize:]
		if form != formSized {
			continue
		}
		if len(text) < size {
			return fmt.Errorf("cubin: attribute %#x has %d bytes of %d", attr, len(text), size)
		}
		if (attr == attrRegisters || attr == attrFrameSize) && size == 8 {
			symbol, value := int(binary.LittleEndian.Uint32(text)), int(binary.LittleEndian.Uint32(text[4:]))
			if symbol < 1 || symbol > len(symbols) { // package elf leaves the first, empty symbol out
				return fmt.Errorf("cubin: attribute %#x is of symbol %d of %d", attr, symbol, len(symbols))
			}
			if k := kernels[symbols[symbol-1].Name]; k != nil && attr == attrRegisters {
				k.Registers = value
			} else if k != nil {
				k.FrameBytes = value
			}
		}
		text = text[size:]
	}
	return nil
}
