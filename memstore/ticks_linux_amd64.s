#include "textflag.h"

// func readTicks() uint64
TEXT ·readTicks(SB), NOSPLIT, $0-8
	RDTSC
	SHLQ $32, DX
	ORQ DX, AX
	MOVQ AX, ret+0(FP)
	RET
