package tokenizer

import (
	"encoding/binary"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// modelSpec writes SentencePiece models for tests.
type modelSpec struct {
	algorithm    uint64
	pieces       []spPiece
	byteFallback bool
	suffix       bool
	noDummy      bool
	keepBlanks   bool
	charsmap     []byte
	extra        []byte // at the end of the trainer's settings
}

func (m modelSpec) bytes() []byte {
	var out []byte
	field := func(to []byte, n protowire.Number, b []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(to, n, protowire.BytesType), b)
	}
	number := func(to []byte, n protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(to, n, protowire.VarintType), v)
	}
	pieces := m.pieces
	if m.byteFallback {
		for i := range 256 {
			pieces = append(pieces, spPiece{fmt.Sprintf("<0x%02X>", i), 0, pieceByte})
		}
	}
	for _, p := range pieces {
		b := field(nil, 1, []byte(p.text))
		b = protowire.AppendFixed32(protowire.AppendTag(b, 2, protowire.Fixed32Type), math.Float32bits(p.score))
		b = number(b, 3, p.kind)
		out = field(out, 1, b)
	}
	trainer := number(nil, 3, m.algorithm)
	trainer = number(trainer, 35, protowire.EncodeBool(m.byteFallback))
	trainer = number(trainer, 24, protowire.EncodeBool(m.suffix))
	out = field(out, 2, append(trainer, m.extra...))
	n := number(nil, 3, protowire.EncodeBool(!m.noDummy))
	n = number(n, 4, protowire.EncodeBool(!m.keepBlanks))
	if m.charsmap != nil {
		n = field(n, 2, m.charsmap)
	}
	return field(out, 3, n)
}

// smallCharsmap replaces "A" by "a", and "AB" by "x y".
func smallCharsmap() []byte {
	units := make([]uint32, 512)
	leaf := func(at, value uint32) { units[at] = value | 1<<31 }
	node := func(at uint32, label byte, offset uint32, hasLeaf bool) {
		units[at] = uint32(label) | offset<<10
		if hasLeaf {
			units[at] |= 1 << 8
		}
	}
	node(0, 0, 256, false)      // children at 256 ^ label
	node(256^'A', 'A', 9, true) // its place is 321; children at 321 ^ 9 = 328
	leaf(321^9, 0)
	node(328^'B', 'B', 3, true) // its place is 266; its value lies at 266 ^ 3 = 265
	leaf(266^3, 2)
	b := binary.LittleEndian.AppendUint32(nil, uint32(4*len(units)))
	for _, u := range units {
		b = binary.LittleEndian.AppendUint32(b, u)
	}
	return append(b, "a\x00x y\x00"...)
}

var unkPieces = []spPiece{{"<unk>", 0, pieceUnknown}, {"</s>", 0, pieceControl}}

func smallModels() [][]byte {
	words := append(unkPieces[:2:2],
		spPiece{"▁", -2, pieceNormal}, spPiece{"a", -3, pieceNormal}, spPiece{"b", -3.5, pieceNormal}, spPiece{"ab", -1, pieceUnused},
		spPiece{"▁a", -2.5, pieceNormal}, spPiece{"abb", -1.5, pieceNormal}, spPiece{"<img>", 0, pieceUserDefined})
	return [][]byte{
		modelSpec{algorithm: 1, pieces: words}.bytes(),
		modelSpec{algorithm: 2, pieces: words, byteFallback: true, keepBlanks: true}.bytes(),
		modelSpec{algorithm: 2, pieces: words, suffix: true, charsmap: smallCharsmap()}.bytes(),
		modelSpec{algorithm: 1, pieces: words, byteFallback: true, noDummy: true, charsmap: smallCharsmap()}.bytes(),
	}
}
