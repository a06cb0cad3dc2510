package pjrt

// goFloatMode is how Go code computes: denormal numbers are numbers, and rounding is to the nearest.
const goFloatMode = 0x1f80

// floatMode reads the register MXCSR of this thread.
func floatMode() uint32

// setFloatMode writes the register MXCSR of this thread.
func setFloatMode(mode uint32)

// withGoFloatMode calls do as Go code computes, and gives the thread back as it was. XLA's threads take
// denormal numbers for zeros. Go code that runs on them would too, and so would threads that Go's
// runtime starts from them, whatever they run later.
func withGoFloatMode(do func() uintptr) uintptr {
	defer setFloatMode(floatMode())
	setFloatMode(goFloatMode)
	return do()
}
