package cubin

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/klauspost/compress/snappy"
)

// A serialised executable of XLA's CUDA plugin is a file of records in the Riegeli format, and so is
// one of its records. A file has blocks of 64 KiB, each with a header of its own within whatever lies there.
const (
	blockBytes       = 64 << 10
	blockHeaderBytes = 24
	chunkHeaderBytes = 40
	// simpleChunk marks a chunk whose records lie one after another.
	simpleChunk = 'r'
	// The compressions of a chunk that were seen.
	notCompressed = 0
	bySnappy      = 's'
)

// riegeliSignature begins the first chunk's header, behind the first block's.
var riegeliSignature = []byte{0x83, 0xaf, 0x70, 0xd1, 0x0d, 0x88, 0x4a, 0x3f}

// Images returns the object files in a serialised executable, each from its first byte to the end of
// the record that holds it.
func Images(serialized []byte) ([][]byte, error) {
	at := bytes.Index(serialized, riegeliSignature)
	if at < 0 {
		return Find(serialized), nil
	}
	values, err := readRecords(serialized[at:])
	if err != nil {
		return nil, err
	}
	var out [][]byte
	for _, v := range values {
		inner, err := Images(v)
		if err != nil {
			return nil, err
		}
		out = append(out, inner...)
	}
	return out, nil
}

// readRecords returns the records of each chunk of a file, joined.
func readRecords(file []byte) ([][]byte, error) {
	var plain []byte
	for block := range slices.Chunk(file, blockBytes) {
		plain = append(plain, block[min(blockHeaderBytes, len(block)):]...)
	}
	var out [][]byte
	for len(plain) >= chunkHeaderBytes {
		size, kind := binary.LittleEndian.Uint64(plain[8:]), plain[24]
		plain = plain[chunkHeaderBytes:]
		if size > uint64(len(plain)) {
			return out, fmt.Errorf("cubin: a chunk of %d bytes where %d are left", size, len(plain))
		}
		if kind == simpleChunk {
			v, err := readChunk(plain[:size])
			if err != nil {
				return nil, err
			}
			out = append(out, v)
		}
		plain = plain[size:]
	}
	return out, nil
}

// readChunk returns the records of one chunk, joined: a byte for the compression, the size of a list of
// sizes, that list, and the records.
func readChunk(data []byte) ([]byte, error) {
	if len(data) == 0 {
		return nil, nil
	}
	sizes, n := binary.Uvarint(data[1:])
	if n <= 0 || sizes > uint64(len(data)-1-n) {
		return nil, fmt.Errorf("cubin: a chunk of %d bytes with %d bytes of sizes", len(data), sizes)
	}
	values := data[1+n+int(sizes):]
	switch data[0] {
	case notCompressed:
		return values, nil
	case bySnappy:
		want, n := binary.Uvarint(values)
		const most = 1 << 30
		if n <= 0 || want > most {
			return nil, fmt.Errorf("cubin: records of %d bytes", want)
		}
		out, err := snappy.Decode(nil, values[n:])
		if err == nil && uint64(len(out)) != want {
			err = fmt.Errorf("%d bytes, not %d", len(out), want)
		}
		if err != nil {
			return nil, fmt.Errorf("cubin: records by snappy: %w", err)
		}
		return out, nil
	}
	return nil, fmt.Errorf("cubin: a chunk is compressed by %q, which is not read", data[0])
}
