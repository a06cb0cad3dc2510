package weft

import (
	"bytes"
	"testing"

	"weft/dtype"
	"weft/phases"
	"weft/request"
)

// The text phase is compared on what generate gives the encoder: the rows of the table that the
// tokens look up, and not the tokens, whose table would be on the devices then.
func TestTextPhaseReadsRows(t *testing.T) {
	m, err := Open("testdata/umt5")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	ids, err := m.Example(2, nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	numbers, err := ids["ids"].Int64s()
	if err != nil {
		t.Fatal(err)
	}
	tensors, err := ReadTensors("testdata/umt5/model.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []dtype.DType{dtype.F32, dtype.BF16} {
		table, err := tensors[m.Stored(m.Features().TokenTable)].As(d)
		if err != nil {
			t.Fatal(err)
		}
		in, err := m.phaseInputs(t.Context(), phases.Text, nil, VerifyOptions{Options: Options{Request: request.Request{Batch: 2, DType: d}}})
		if err != nil {
			t.Fatal(err)
		}
		rows := in["rows"]
		if in["ids"] != nil || in["mask"] == nil || rows == nil || rows.DType != d || rows.Shape[2] != table.Shape[1] || rows.Elements() != len(numbers)*table.Shape[1] {
			t.Fatalf("%v: inputs %v", d, in)
		}
		size := table.Shape[1] * d.Size()
		for i, id := range numbers {
			if !bytes.Equal(rows.Data[i*size:(i+1)*size], table.Data[int(id)*size:int(id+1)*size]) {
				t.Fatalf("%v: row %d is not that of token %d", d, i, id)
			}
		}
		if r, err := m.Request(in); err != nil || !r.TextRows {
			t.Errorf("%v: %+v, %v", d, r, err)
		}
	}
}
