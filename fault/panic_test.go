package fault_test

import (
	"errors"
	"strings"
	"testing"

	"weft/fault"
)

func panics(index int) (err error) {
	defer fault.Recover(&err)
	_ = []int{1, 2}[index]
	return nil
}

func TestRecover(t *testing.T) {
	if err := panics(1); err != nil {
		t.Error(err)
	}
	err := panics(5)
	if !errors.Is(err, fault.ErrInternal) {
		t.Fatal(err)
	}
	f, _ := fault.Fields[fault.Internal](err)
	if !strings.HasPrefix(f.At, "panic_test.go:") || !strings.Contains(f.Panic, "index out of range") || strings.Contains(err.Error(), "goroutine") {
		t.Errorf("%+v: %v", f, err)
	}
}
