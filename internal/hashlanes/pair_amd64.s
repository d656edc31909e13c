// The kernel for two messages takes their steps in turn, with the instructions for
// SHA-256 (FIPS 180-4): each of them waits for the one before, but not for the other
// message's.

#include "textflag.h"

DATA flip<>+0(SB)/8, $0x0405060700010203
DATA flip<>+8(SB)/8, $0x0c0d0e0f08090a0b
GLOBL flip<>(SB), RODATA|NOPTR, $16

// The state of a message is in two registers, A, B, E, F and C, D, G, H: X1 and X2,
// X3 and X4. ROUNDS takes the four rounds from 4*i on; the registers w contain their
// words.
#define ROUNDS(i, w1, w2) \
	MOVO        w1, X0;           \
	PADDD       (i*16)(AX), X0;   \
	MOVO        w2, X13;          \
	PADDD       (i*16)(AX), X13;  \
	SHA256RNDS2 X0, X1, X2;       \
	PSHUFD      $0x0e, X0, X14;   \
	MOVO        X13, X0;          \
	SHA256RNDS2 X0, X3, X4;       \
	MOVO        X14, X0;          \
	SHA256RNDS2 X0, X2, X1;       \
	PSHUFD      $0x0e, X13, X0;   \
	SHA256RNDS2 X0, X4, X3

// WORDS replaces the four words in a by those 16 later; b, c and d contain the ones
// between.
#define WORDS(a, b, c, d) \
	MOVO       d, X15;     \
	SHA256MSG1 b, a;       \
	PALIGNR    $4, c, X15; \
	PADDD      X15, a;     \
	SHA256MSG2 d, a

#define STEP(i, a1, b1, c1, d1, a2, b2, c2, d2) \
	ROUNDS(i, a1, a2);     \
	WORDS(a1, b1, c1, d1); \
	WORDS(a2, b2, c2, d2)

// func sha256pair(state *[2][8]uint32, first, second *byte, n int)
TEXT ·sha256pair(SB), NOSPLIT, $64-32
	MOVQ    state+0(FP), DI
	MOVQ    first+8(FP), SI
	MOVQ    second+16(FP), DX
	MOVQ    n+24(FP), CX
	LEAQ    ·roots(SB), AX
	MOVOU   (DI), X1
	MOVOU   16(DI), X2
	MOVOU   32(DI), X3
	MOVOU   48(DI), X4
	PSHUFD  $0xb1, X1, X1
	PSHUFD  $0x1b, X2, X2
	MOVO    X1, X0
	PALIGNR $8, X2, X1
	PBLENDW $0xf0, X0, X2
	PSHUFD  $0xb1, X3, X3
	PSHUFD  $0x1b, X4, X4
	MOVO    X3, X0
	PALIGNR $8, X4, X3
	PBLENDW $0xf0, X0, X4

block:
	MOVOU  X1, 0(SP)
	MOVOU  X2, 16(SP)
	MOVOU  X3, 32(SP)
	MOVOU  X4, 48(SP)
	MOVOU  flip<>(SB), X15
	MOVOU  (SI), X5
	MOVOU  16(SI), X6
	MOVOU  32(SI), X7
	MOVOU  48(SI), X8
	MOVOU  (DX), X9
	MOVOU  16(DX), X10
	MOVOU  32(DX), X11
	MOVOU  48(DX), X12
	PSHUFB X15, X5
	PSHUFB X15, X6
	PSHUFB X15, X7
	PSHUFB X15, X8
	PSHUFB X15, X9
	PSHUFB X15, X10
	PSHUFB X15, X11
	PSHUFB X15, X12
	STEP(0, X5, X6, X7, X8, X9, X10, X11, X12)
	STEP(1, X6, X7, X8, X5, X10, X11, X12, X9)
	STEP(2, X7, X8, X5, X6, X11, X12, X9, X10)
	STEP(3, X8, X5, X6, X7, X12, X9, X10, X11)
	STEP(4, X5, X6, X7, X8, X9, X10, X11, X12)
	STEP(5, X6, X7, X8, X5, X10, X11, X12, X9)
	STEP(6, X7, X8, X5, X6, X11, X12, X9, X10)
	STEP(7, X8, X5, X6, X7, X12, X9, X10, X11)
	STEP(8, X5, X6, X7, X8, X9, X10, X11, X12)
	STEP(9, X6, X7, X8, X5, X10, X11, X12, X9)
	STEP(10, X7, X8, X5, X6, X11, X12, X9, X10)
	STEP(11, X8, X5, X6, X7, X12, X9, X10, X11)
	ROUNDS(12, X5, X9)
	ROUNDS(13, X6, X10)
	ROUNDS(14, X7, X11)
	ROUNDS(15, X8, X12)
	MOVOU  0(SP), X0
	PADDD  X0, X1
	MOVOU  16(SP), X0
	PADDD  X0, X2
	MOVOU  32(SP), X0
	PADDD  X0, X3
	MOVOU  48(SP), X0
	PADDD  X0, X4
	ADDQ   $64, SI
	ADDQ   $64, DX
	DECQ   CX
	JNZ    block

	PSHUFD  $0x1b, X1, X1
	PSHUFD  $0xb1, X2, X2
	MOVO    X1, X0
	PBLENDW $0xf0, X2, X1
	PALIGNR $8, X0, X2
	PSHUFD  $0x1b, X3, X3
	PSHUFD  $0xb1, X4, X4
	MOVO    X3, X0
	PBLENDW $0xf0, X4, X3
	PALIGNR $8, X0, X4
	MOVOU   X1, (DI)
	MOVOU   X2, 16(DI)
	MOVOU   X3, 32(DI)
	MOVOU   X4, 48(DI)
	RET
