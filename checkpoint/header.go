package checkpoint

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"strconv"
	"strings"

	"weft/dtype"
	"weft/fault"
	"weft/internal/jsontext"
	"weft/internal/printable"
)

// maxHeader is the largest header that the format allows.
const maxHeader = 100_000_000

// metadataKey is the only key of a header that does not name a tensor.
const metadataKey = "__metadata__"

// header is a parsed and validated safetensors header.
type header struct {
	meta    map[string]string
	tensors []tensorInfo
	data    int64 // where in the file the data begins
}

// tensorInfo is one tensor of a header. Begin and end count from the start of the data.
type tensorInfo struct {
	name, stored string
	dtype        dtype.DType
	shape        []int
	begin, end   int64
}

// readHeader reads the header of a file of the given size. The order of the checks
// matters: the announced length is compared with the number of bytes that remain before
// anything is allocated, and nothing is added to it before that, so that it cannot overflow.
func readHeader(r io.ReaderAt, file string, size int64) (*header, error) {
	var first [512]byte // a Git LFS pointer is shorter
	n, err := r.ReadAt(first[:min(size, int64(len(first)))], 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	head := first[:n]
	if err := refuseLFSPointer(head, file); err != nil {
		return nil, err
	}
	if n < 8 {
		return nil, fault.New(ErrHeaderTooSmall, Header{File: file, Need: 8, Have: int64(n)},
			"%s has %s; a safetensors file has at least 8, the length of its header", file, plural(n, "byte"))
	}
	length := binary.LittleEndian.Uint64(head)
	if length > maxHeader || n > 8 && head[8] != '{' {
		if err := refuseForeignFile(head, r, size, file); err != nil {
			return nil, err
		}
	}
	if length > maxHeader {
		return nil, fault.New(ErrHeaderTooLarge, Header{File: file, Need: length, Have: size - 8, Limit: maxHeader},
			"%s announces a header of %d bytes; the limit is %d", file, length, maxHeader)
	}
	if length > uint64(size-8) {
		return nil, fault.New(ErrHeaderTruncated, Header{File: file, Need: 8 + length, Have: size},
			"%s ends inside its header: %d bytes needed, %d there; fetch it again", file, 8+length, size)
	}
	text := make([]byte, length)
	if _, err := r.ReadAt(text, 8); err != nil {
		if err == io.EOF {
			return nil, fileChanged(file, 8+int64(length))
		}
		return nil, err
	}
	h, err := parseHeader(text, file)
	if err != nil {
		return nil, err
	}
	h.data = 8 + int64(length)
	return h, validateHeader(h, file, size-h.data)
}

// refuseLFSPointer gives an error if head begins with the text that Git LFS leaves in
// place of a file that was not fetched.
func refuseLFSPointer(head []byte, file string) error {
	if !bytes.HasPrefix(head, []byte("version https://git-lfs")) {
		return nil
	}
	var size int64
	for line := range strings.Lines(string(head)) {
		if text, ok := strings.CutPrefix(line, "size "); ok {
			size, _ = strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		}
	}
	return fault.New(ErrLFSPointer, LFSPointer{File: file, Size: size},
		"%s is a Git LFS pointer, not the file itself; fetch it with git lfs pull", file)
}

// parseHeader reads a header's JSON. The text begins with a brace and may end in white space.
func parseHeader(text []byte, file string) (*header, error) {
	h := &header{}
	p := headerParser{Scanner: jsontext.NewScanner(text), seen: map[string]bool{}, meta: map[string]string{}}
	p.Object(func(key string, at int) {
		if p.seen[key] {
			p.duplicate, p.tensor = true, key
			p.FailAt(at, "tensor %.200q twice", key)
			return
		}
		p.seen[key] = true
		if key == metadataKey {
			p.readMetadata()
			return
		}
		p.tensor = key
		if t := p.readTensorInfo(); p.OK() {
			t.name = key
			h.tensors = append(h.tensors, t)
		}
		if p.OK() {
			p.tensor = ""
		}
	})
	p.End()
	h.meta = p.meta
	return h, p.headerFault(file)
}

// headerParser reads a header's JSON: it adds to a scanner the meaning of the fields.
type headerParser struct {
	*jsontext.Scanner
	seen      map[string]bool
	meta      map[string]string
	tensor    string // the tensor being read
	duplicate bool   // the error is that tensor came twice
}

// headerFault gives the error of the header, or nil.
func (p *headerParser) headerFault(file string) error {
	switch {
	case p.OK():
		return nil
	case p.duplicate:
		return fault.New(ErrDuplicateTensor, Tensor{File: file, Tensor: p.tensor},
			"%s: tensor %.200q twice in the header", file, p.tensor)
	}
	where := ""
	if p.tensor != "" {
		where = " (tensor " + strconv.Quote(printable.ClipName(p.tensor)) + ")"
	}
	return fault.New(ErrHeaderSyntax, Syntax{File: file, Offset: p.Err().Pos, Tensor: p.tensor, Reason: p.Err().Reason},
		"%s: header byte %d%s: %s", file, p.Err().Pos, where, p.Err().Reason)
}

// readMetadata reads __metadata__, a map of strings to strings.
func (p *headerParser) readMetadata() {
	seen := map[string]bool{}
	p.Object(func(key string, at int) {
		p.RefuseRepeated(seen, key, at)
		if p.OK() && p.Peek() != '"' {
			p.Fail("metadata %.80q is no string", key)
		}
		p.meta[key] = p.Text()
	})
}

// readTensorInfo reads the object of one tensor, which has dtype, shape and data_offsets
// once each. Other fields are skipped, as the reference does, but a field that differs
// from one of the three only in case is an error.
func (p *headerParser) readTensorInfo() tensorInfo {
	var t tensorInfo
	seen := map[string]bool{}
	p.Object(func(key string, at int) {
		p.RefuseRepeated(seen, key, at)
		switch key {
		case "dtype":
			t.stored = p.Text()
			t.dtype, _, _ = storedType(t.stored)
		case "shape":
			t.shape = []int{}
			p.Array(func() {
				v := p.Whole("a dim")
				if v > math.MaxInt {
					p.Fail("a dim is %d; the largest here is %d", v, math.MaxInt)
				}
				t.shape = append(t.shape, int(v))
			})
		case "data_offsets":
			var v []int64
			p.Array(func() {
				if v = append(v, p.Whole("an offset")); len(v) > 2 {
					p.Fail("data_offsets has more than two numbers")
				}
			})
			if p.OK() && len(v) != 2 {
				p.Fail("data_offsets has %s; it needs two", plural(len(v), "number"))
			}
			if p.OK() {
				t.begin, t.end = v[0], v[1]
			}
		default:
			for _, known := range tensorFields {
				if strings.EqualFold(key, known) {
					p.FailAt(at, "field %q is written %q", key, known)
				}
			}
			p.Skip(0)
		}
	})
	for _, known := range tensorFields {
		if p.OK() && !seen[known] {
			p.Fail("no %s", known)
		}
	}
	return t
}

var tensorFields = []string{"dtype", "shape", "data_offsets"}
