package pjrt

import (
	"runtime"
	"testing"
)

// XLA's threads take denormal numbers for zeros (bits 6 and 15). Go code that they call does not, and
// they do again afterwards.
func TestGoFloatMode(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const flags, ofXLA = 0x3f, 0x9fc0
	before := floatMode()
	defer setFloatMode(before)
	setFloatMode(ofXLA)
	var during uint32
	if got := withGoFloatMode(func() uintptr { during = floatMode(); return 7 }); got != 7 {
		t.Errorf("gave %d, want 7", got)
	}
	if after := floatMode(); during&^flags != goFloatMode || after&^flags != ofXLA {
		t.Errorf("%x during a call and %x after it, want %x and %x", during, after, goFloatMode, ofXLA)
	}
}
