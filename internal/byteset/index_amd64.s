#include "textflag.h"

DATA lowerHalf<>+0(SB)/8, $0x0f0f0f0f0f0f0f0f
GLOBL lowerHalf<>(SB), RODATA|NOPTR, $8

// func index(b *byte, n int, halves *[32]byte) int
TEXT ·index(SB), NOSPLIT, $0-32
	MOVQ b+0(FP), SI
	MOVQ n+8(FP), CX
	MOVQ halves+16(FP), DX
	VBROADCASTI128 (DX), Y0
	VBROADCASTI128 16(DX), Y1
	VPBROADCASTQ lowerHalf<>(SB), Y2
	VPXOR Y3, Y3, Y3
	LEAQ -32(CX), R8 // position of the last block
	XORQ AX, AX

block:
	VMOVDQU (SI)(AX*1), Y4
	VPSRLW $4, Y4, Y5
	VPAND Y2, Y4, Y4
	VPAND Y2, Y5, Y5
	VPSHUFB Y4, Y0, Y4
	VPSHUFB Y5, Y1, Y5
	VPAND Y4, Y5, Y4
	VPCMPEQB Y3, Y4, Y4
	VPMOVMSKB Y4, R9
	XORL $0xffffffff, R9
	JNZ found
	ADDQ $32, AX
	CMPQ AX, R8
	JLE block
	CMPQ AX, CX
	JEQ none
	MOVQ R8, AX // the last block overlaps the one before
	JMP block

found:
	BSFL R9, R9
	ADDQ R9, AX

none:
	VZEROUPPER
	MOVQ AX, ret+24(FP)
	RET
