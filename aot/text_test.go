package aot

import (
	"errors"
	"testing"
)

// TestDevicesOfAProgram: how many devices run a program of somebody else's.
func TestDevicesOfAProgram(t *testing.T) {
	module := func(attributes string) []byte {
		return []byte("module @m attributes {" + attributes + "} {\n func.func @main() {\n // mhlo.num_replicas = 7 : i32\n } }")
	}
	for _, k := range []struct {
		what                 string
		program              []byte
		o                    TextOptions
		replicas, partitions int // 0: refused
	}{
		{"nothing", []byte("func.func @main() {}"), TextOptions{}, 1, 1},
		{"body", module(""), TextOptions{}, 1, 1},
		{"partitions", module("mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32"), TextOptions{}, 1, 8},
		{"replicas", module("mhlo.num_replicas = 4 : i32"), TextOptions{}, 4, 1},
		{"flag", module("mhlo.num_replicas = 4 : i32"), TextOptions{Replicas: 2}, 2, 1},
		{"both", module("mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 2 : i32"), TextOptions{}, 0, 0},
		{"too many", module("mhlo.num_partitions = 16 : i32"), TextOptions{}, 0, 0},
		{"zero", module("mhlo.num_partitions = 0 : i32"), TextOptions{}, 0, 0},
		{"huge", module("mhlo.num_partitions = 99999999999999999999 : i32"), TextOptions{}, 0, 0},
		{"negative", module(""), TextOptions{Partitions: -1}, 0, 0},
		{"empty", nil, TextOptions{}, 0, 0},
		{"bytecode", []byte("ML\xefR...mhlo.num_partitions..."), TextOptions{}, 0, 0},
		{"bytecode, said", []byte("ML\xefR...mhlo.num_partitions..."), TextOptions{Partitions: 8}, 1, 8},
	} {
		r := &TextReport{Form: form(k.program)}
		err := r.settle(k.program, slice(t, "cpu:8"), k.o)
		switch {
		case k.replicas == 0:
			if !errors.Is(err, ErrOptions) {
				t.Errorf("%s: %v", k.what, err)
			}
		case err != nil || r.Replicas != k.replicas || r.Partitions != k.partitions:
			t.Errorf("%s: %d replicas, %d partitions, %v", k.what, r.Replicas, r.Partitions, err)
		}
	}
}

// FuzzDevices: no bytes make a panic, or more devices than there are.
func FuzzDevices(f *testing.F) {
	f.Add([]byte("module @m attributes {mhlo.num_partitions = 8 : i32} {}"), 0, 0)
	f.Add([]byte("ML\xefR"), 1, 8)
	on := slice(f, "v5e-8")
	f.Fuzz(func(t *testing.T, program []byte, replicas, partitions int) {
		r := &TextReport{Form: form(program)}
		err := r.settle(program, on, TextOptions{Replicas: replicas, Partitions: partitions})
		if err == nil && (r.Replicas < 1 || r.Partitions < 1 || r.Replicas > 8 || r.Partitions > 8 || r.Replicas*r.Partitions > 8) {
			t.Errorf("%d replicas, %d partitions of 8 devices", r.Replicas, r.Partitions)
		}
	})
}
