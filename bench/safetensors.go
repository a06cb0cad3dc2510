package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"

	"weft/fault"
)

type entry struct {
	DType   string `json:"dtype"`
	Shape   []int  `json:"shape"`
	Offsets [2]int `json:"data_offsets"`
}

func elements(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// writeTensors makes the tensors as it writes them, so that a checkpoint of any size takes little
// memory here: a child's peak memory, as the kernel counts it, is never below its parent's.
func writeTensors(path, dtype string, seed uint64, ps []param) (err error) {
	width := map[string]int{"F32": 4, "BF16": 2}[dtype]
	header := map[string]any{"__metadata__": map[string]string{"format": "pt"}}
	end := 0
	for _, p := range ps {
		n := width * elements(p.shape)
		header[p.name] = entry{dtype, p.shape, [2]int{end, end + n}}
		end += n
	}
	text, err := json.Marshal(header)
	if err != nil {
		return err
	}
	for len(text)%8 != 0 {
		text = append(text, ' ')
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	w := bufio.NewWriterSize(f, 1<<20)
	buf := append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)
	chunk := make([]float32, 1<<18)
	for _, p := range ps {
		for from, n := 0, elements(p.shape); from < n; from += len(chunk) {
			part := chunk[:min(len(chunk), n-from)]
			p.values(seed, from, part)
			for _, v := range part {
				if bits := math.Float32bits(v); width == 4 {
					buf = binary.LittleEndian.AppendUint32(buf, bits)
				} else {
					buf = binary.LittleEndian.AppendUint16(buf, uint16((bits+0x7fff+bits>>16&1)>>16)) // to nearest, ties to even
				}
			}
			if _, err := w.Write(buf); err != nil {
				return err
			}
			buf = buf[:0]
		}
	}
	return w.Flush()
}

// readTensor reads one F32 or BF16 tensor as float32.
func readTensor(path, name string) ([]int, []float32, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	bad := func(why string) ([]int, []float32, error) {
		return nil, nil, fault.New(ErrFile, nil, "%s: %s; a tensor %q of F32 or BF16 was expected", path, why, name)
	}
	if len(b) < 8 {
		return bad("too short")
	}
	size := binary.LittleEndian.Uint64(b)
	b = b[8:]
	if size > uint64(len(b)) {
		return bad("its header is cut short")
	}
	var header map[string]json.RawMessage
	var e entry
	if err := json.Unmarshal(b[:size], &header); err != nil {
		return bad("its header is no JSON")
	}
	if header[name] == nil || json.Unmarshal(header[name], &e) != nil {
		return bad("no such tensor")
	}
	b = b[size:]
	width := map[string]int{"F32": 4, "BF16": 2}[e.DType]
	n := elements(e.Shape)
	if width == 0 || e.Offsets[0] < 0 || e.Offsets[1] > len(b) || e.Offsets[1]-e.Offsets[0] != width*n {
		return bad("type " + e.DType + ", or offsets that do not fit")
	}
	b = b[e.Offsets[0]:e.Offsets[1]]
	out := make([]float32, n)
	for i := range out {
		if width == 4 {
			out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		} else {
			out[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(b[2*i:])) << 16)
		}
	}
	return e.Shape, out, nil
}
