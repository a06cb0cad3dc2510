#include "textflag.h"

// func floatMode() uint32
TEXT ·floatMode(SB), NOSPLIT, $8-4
	STMXCSR mode-8(SP)
	MOVL    mode-8(SP), AX
	MOVL    AX, ret+0(FP)
	RET

// func setFloatMode(mode uint32)
TEXT ·setFloatMode(SB), NOSPLIT, $0-4
	LDMXCSR mode+0(FP)
	RET
