// Package faulttest compares errors of package fault with those that a test expects.
package faulttest

import (
	"errors"
	"testing"

	"weft/fault"
)

// WantKinds checks that err has exactly the violations of these kinds, in order.
func WantKinds(t testing.TB, err error, kinds ...error) {
	t.Helper()
	got := fault.Violations(err)
	if len(got) != len(kinds) {
		t.Fatalf("%d violations, want %d:\n%v", len(got), len(kinds), err)
	}
	for i := range got {
		if !errors.Is(got[i], kinds[i]) {
			t.Errorf("violation %d is %q, want kind %v", i, got[i], kinds[i])
		}
	}
}
