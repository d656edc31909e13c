// The kernels below process one block of 64 bytes of several messages at a time,
// one message in each 32-bit lane of the registers: each step of MD5 (RFC 1321) and
// SHA-256 (FIPS 180-4) is one sequence of instructions for all of them.
//
// A register with word w of all messages is made from 16 bytes of each: one register
// for messages 0, 4, 8 and 12, one for 1, 5, 9 and 13, and so on; the four 4 by 4
// matrices of words that these contain are then transposed.

#include "textflag.h"

DATA sines<>+0(SB)/8, $0xe8c7b756d76aa478
DATA sines<>+8(SB)/8, $0xc1bdceee242070db
DATA sines<>+16(SB)/8, $0x4787c62af57c0faf
DATA sines<>+24(SB)/8, $0xfd469501a8304613
DATA sines<>+32(SB)/8, $0x8b44f7af698098d8
DATA sines<>+40(SB)/8, $0x895cd7beffff5bb1
DATA sines<>+48(SB)/8, $0xfd9871936b901122
DATA sines<>+56(SB)/8, $0x49b40821a679438e
DATA sines<>+64(SB)/8, $0xc040b340f61e2562
DATA sines<>+72(SB)/8, $0xe9b6c7aa265e5a51
DATA sines<>+80(SB)/8, $0x02441453d62f105d
DATA sines<>+88(SB)/8, $0xe7d3fbc8d8a1e681
DATA sines<>+96(SB)/8, $0xc33707d621e1cde6
DATA sines<>+104(SB)/8, $0x455a14edf4d50d87
DATA sines<>+112(SB)/8, $0xfcefa3f8a9e3e905
DATA sines<>+120(SB)/8, $0x8d2a4c8a676f02d9
DATA sines<>+128(SB)/8, $0x8771f681fffa3942
DATA sines<>+136(SB)/8, $0xfde5380c6d9d6122
DATA sines<>+144(SB)/8, $0x4bdecfa9a4beea44
DATA sines<>+152(SB)/8, $0xbebfbc70f6bb4b60
DATA sines<>+160(SB)/8, $0xeaa127fa289b7ec6
DATA sines<>+168(SB)/8, $0x04881d05d4ef3085
DATA sines<>+176(SB)/8, $0xe6db99e5d9d4d039
DATA sines<>+184(SB)/8, $0xc4ac56651fa27cf8
DATA sines<>+192(SB)/8, $0x432aff97f4292244
DATA sines<>+200(SB)/8, $0xfc93a039ab9423a7
DATA sines<>+208(SB)/8, $0x8f0ccc92655b59c3
DATA sines<>+216(SB)/8, $0x85845dd1ffeff47d
DATA sines<>+224(SB)/8, $0xfe2ce6e06fa87e4f
DATA sines<>+232(SB)/8, $0x4e0811a1a3014314
DATA sines<>+240(SB)/8, $0xbd3af235f7537e82
DATA sines<>+248(SB)/8, $0xeb86d3912ad7d2bb
GLOBL sines<>(SB), RODATA|NOPTR, $256

DATA ·roots+0(SB)/8, $0x71374491428a2f98
DATA ·roots+8(SB)/8, $0xe9b5dba5b5c0fbcf
DATA ·roots+16(SB)/8, $0x59f111f13956c25b
DATA ·roots+24(SB)/8, $0xab1c5ed5923f82a4
DATA ·roots+32(SB)/8, $0x12835b01d807aa98
DATA ·roots+40(SB)/8, $0x550c7dc3243185be
DATA ·roots+48(SB)/8, $0x80deb1fe72be5d74
DATA ·roots+56(SB)/8, $0xc19bf1749bdc06a7
DATA ·roots+64(SB)/8, $0xefbe4786e49b69c1
DATA ·roots+72(SB)/8, $0x240ca1cc0fc19dc6
DATA ·roots+80(SB)/8, $0x4a7484aa2de92c6f
DATA ·roots+88(SB)/8, $0x76f988da5cb0a9dc
DATA ·roots+96(SB)/8, $0xa831c66d983e5152
DATA ·roots+104(SB)/8, $0xbf597fc7b00327c8
DATA ·roots+112(SB)/8, $0xd5a79147c6e00bf3
DATA ·roots+120(SB)/8, $0x1429296706ca6351
DATA ·roots+128(SB)/8, $0x2e1b213827b70a85
DATA ·roots+136(SB)/8, $0x53380d134d2c6dfc
DATA ·roots+144(SB)/8, $0x766a0abb650a7354
DATA ·roots+152(SB)/8, $0x92722c8581c2c92e
DATA ·roots+160(SB)/8, $0xa81a664ba2bfe8a1
DATA ·roots+168(SB)/8, $0xc76c51a3c24b8b70
DATA ·roots+176(SB)/8, $0xd6990624d192e819
DATA ·roots+184(SB)/8, $0x106aa070f40e3585
DATA ·roots+192(SB)/8, $0x1e376c0819a4c116
DATA ·roots+200(SB)/8, $0x34b0bcb52748774c
DATA ·roots+208(SB)/8, $0x4ed8aa4a391c0cb3
DATA ·roots+216(SB)/8, $0x682e6ff35b9cca4f
DATA ·roots+224(SB)/8, $0x78a5636f748f82ee
DATA ·roots+232(SB)/8, $0x8cc7020884c87814
DATA ·roots+240(SB)/8, $0xa4506ceb90befffa
DATA ·roots+248(SB)/8, $0xc67178f2bef9a3f7
GLOBL ·roots(SB), RODATA|NOPTR, $256

// The order of bytes that turns big-endian words into little-endian ones.
DATA swapped<>+0(SB)/8, $0x0405060700010203
DATA swapped<>+8(SB)/8, $0x0c0d0e0f08090a0b
GLOBL swapped<>(SB), RODATA|NOPTR, $16

// AVX-512: 16 messages. Z16 to Z31 are the words of the block.

// LOAD starts registers w0 to w3 with the block of a message; ADD puts the block of
// another into a further quarter of them.
#define LOAD(message, w0, w1, w2, w3) \
	MOVQ    (8*message)(SI), AX \
	VMOVDQU32 (AX)(R8*1), w0   \
	VMOVDQU32 16(AX)(R8*1), w1 \
	VMOVDQU32 32(AX)(R8*1), w2 \
	VMOVDQU32 48(AX)(R8*1), w3

#define ADD(message, quarter, w0, w1, w2, w3) \
	MOVQ         (8*message)(SI), AX \
	VINSERTI32X4 $quarter, (AX)(R8*1), w0, w0   \
	VINSERTI32X4 $quarter, 16(AX)(R8*1), w1, w1 \
	VINSERTI32X4 $quarter, 32(AX)(R8*1), w2, w2 \
	VINSERTI32X4 $quarter, 48(AX)(R8*1), w3, w3

#define TRANSPOSE(w0, w1, w2, w3) \
	VPUNPCKLDQ  w1, w0, Z12 \
	VPUNPCKHDQ  w1, w0, Z13 \
	VPUNPCKLDQ  w3, w2, Z14 \
	VPUNPCKHDQ  w3, w2, Z15 \
	VPUNPCKLQDQ Z14, Z12, w0 \
	VPUNPCKHQDQ Z14, Z12, w1 \
	VPUNPCKLQDQ Z15, Z13, w2 \
	VPUNPCKHQDQ Z15, Z13, w3

// WORDS fills the registers with the next block of all messages.
#define WORDS \
	LOAD(0, X16, X20, X24, X28) \
	LOAD(1, X17, X21, X25, X29) \
	LOAD(2, X18, X22, X26, X30) \
	LOAD(3, X19, X23, X27, X31) \
	ADD(4, 1, Z16, Z20, Z24, Z28) \
	ADD(5, 1, Z17, Z21, Z25, Z29) \
	ADD(6, 1, Z18, Z22, Z26, Z30) \
	ADD(7, 1, Z19, Z23, Z27, Z31) \
	ADD(8, 2, Z16, Z20, Z24, Z28) \
	ADD(9, 2, Z17, Z21, Z25, Z29) \
	ADD(10, 2, Z18, Z22, Z26, Z30) \
	ADD(11, 2, Z19, Z23, Z27, Z31) \
	ADD(12, 3, Z16, Z20, Z24, Z28) \
	ADD(13, 3, Z17, Z21, Z25, Z29) \
	ADD(14, 3, Z18, Z22, Z26, Z30) \
	ADD(15, 3, Z19, Z23, Z27, Z31) \
	TRANSPOSE(Z16, Z17, Z18, Z19) \
	TRANSPOSE(Z20, Z21, Z22, Z23) \
	TRANSPOSE(Z24, Z25, Z26, Z27) \
	TRANSPOSE(Z28, Z29, Z30, Z31)

// MD5. Z0 to Z3 are the state.

#define a Z0
#define b Z1
#define c Z2
#define d Z3
#define t Z4

// STEP sets a to b + (a + f(b, c, d) + word + sine <<< shift). f is a table of the
// eight results for the bits of d, b and c.
#define STEP(f, a, b, c, d, word, i, shift) \
	VPADDD.BCST (4*i)(DI), a, a \
	VMOVDQA32   d, t    \
	VPADDD      word, a, a \
	VPTERNLOGD  $f, c, b, t \
	VPADDD      t, a, a \
	VPROLD      $shift, a, a \
	VPADDD      b, a, a

#define F 0xb8 // b ? c : d
#define G 0xca // d ? b : c
#define H 0x96 // b ^ c ^ d
#define I 0x65 // c ^ (b | ^d)

// func md5x16(state *uint32, messages **byte, n int)
TEXT ·md5x16(SB), NOSPLIT, $0-24
	MOVQ state+0(FP), DX
	MOVQ messages+8(FP), SI
	MOVQ n+16(FP), CX
	LEAQ sines<>(SB), DI
	XORQ R8, R8
	VMOVDQU32 (DX), a
	VMOVDQU32 64(DX), b
	VMOVDQU32 128(DX), c
	VMOVDQU32 192(DX), d

block:
	WORDS

	STEP(F, a, b, c, d, Z16, 0, 7)
	STEP(F, d, a, b, c, Z17, 1, 12)
	STEP(F, c, d, a, b, Z18, 2, 17)
	STEP(F, b, c, d, a, Z19, 3, 22)
	STEP(F, a, b, c, d, Z20, 4, 7)
	STEP(F, d, a, b, c, Z21, 5, 12)
	STEP(F, c, d, a, b, Z22, 6, 17)
	STEP(F, b, c, d, a, Z23, 7, 22)
	STEP(F, a, b, c, d, Z24, 8, 7)
	STEP(F, d, a, b, c, Z25, 9, 12)
	STEP(F, c, d, a, b, Z26, 10, 17)
	STEP(F, b, c, d, a, Z27, 11, 22)
	STEP(F, a, b, c, d, Z28, 12, 7)
	STEP(F, d, a, b, c, Z29, 13, 12)
	STEP(F, c, d, a, b, Z30, 14, 17)
	STEP(F, b, c, d, a, Z31, 15, 22)
	STEP(G, a, b, c, d, Z17, 16, 5)
	STEP(G, d, a, b, c, Z22, 17, 9)
	STEP(G, c, d, a, b, Z27, 18, 14)
	STEP(G, b, c, d, a, Z16, 19, 20)
	STEP(G, a, b, c, d, Z21, 20, 5)
	STEP(G, d, a, b, c, Z26, 21, 9)
	STEP(G, c, d, a, b, Z31, 22, 14)
	STEP(G, b, c, d, a, Z20, 23, 20)
	STEP(G, a, b, c, d, Z25, 24, 5)
	STEP(G, d, a, b, c, Z30, 25, 9)
	STEP(G, c, d, a, b, Z19, 26, 14)
	STEP(G, b, c, d, a, Z24, 27, 20)
	STEP(G, a, b, c, d, Z29, 28, 5)
	STEP(G, d, a, b, c, Z18, 29, 9)
	STEP(G, c, d, a, b, Z23, 30, 14)
	STEP(G, b, c, d, a, Z28, 31, 20)
	STEP(H, a, b, c, d, Z21, 32, 4)
	STEP(H, d, a, b, c, Z24, 33, 11)
	STEP(H, c, d, a, b, Z27, 34, 16)
	STEP(H, b, c, d, a, Z30, 35, 23)
	STEP(H, a, b, c, d, Z17, 36, 4)
	STEP(H, d, a, b, c, Z20, 37, 11)
	STEP(H, c, d, a, b, Z23, 38, 16)
	STEP(H, b, c, d, a, Z26, 39, 23)
	STEP(H, a, b, c, d, Z29, 40, 4)
	STEP(H, d, a, b, c, Z16, 41, 11)
	STEP(H, c, d, a, b, Z19, 42, 16)
	STEP(H, b, c, d, a, Z22, 43, 23)
	STEP(H, a, b, c, d, Z25, 44, 4)
	STEP(H, d, a, b, c, Z28, 45, 11)
	STEP(H, c, d, a, b, Z31, 46, 16)
	STEP(H, b, c, d, a, Z18, 47, 23)
	STEP(I, a, b, c, d, Z16, 48, 6)
	STEP(I, d, a, b, c, Z23, 49, 10)
	STEP(I, c, d, a, b, Z30, 50, 15)
	STEP(I, b, c, d, a, Z21, 51, 21)
	STEP(I, a, b, c, d, Z28, 52, 6)
	STEP(I, d, a, b, c, Z19, 53, 10)
	STEP(I, c, d, a, b, Z26, 54, 15)
	STEP(I, b, c, d, a, Z17, 55, 21)
	STEP(I, a, b, c, d, Z24, 56, 6)
	STEP(I, d, a, b, c, Z31, 57, 10)
	STEP(I, c, d, a, b, Z22, 58, 15)
	STEP(I, b, c, d, a, Z29, 59, 21)
	STEP(I, a, b, c, d, Z20, 60, 6)
	STEP(I, d, a, b, c, Z27, 61, 10)
	STEP(I, c, d, a, b, Z18, 62, 15)
	STEP(I, b, c, d, a, Z25, 63, 21)

	VPADDD    (DX), a, a
	VPADDD    64(DX), b, b
	VPADDD    128(DX), c, c
	VPADDD    192(DX), d, d
	VMOVDQU32 a, (DX)
	VMOVDQU32 b, 64(DX)
	VMOVDQU32 c, 128(DX)
	VMOVDQU32 d, 192(DX)
	ADDQ $64, R8
	DECQ CX
	JNZ  block
	VZEROUPPER
	RET

#undef a
#undef b
#undef c
#undef d
#undef t
#undef STEP
#undef F
#undef G
#undef H
#undef I

// SHA-256. Z0 to Z7 are the state.

// CHANGED sets w0 to the word of the message schedule 16 steps later.
#define CHANGED(w0, w1, w9, w14) \
	VPRORD     $7, w1, Z8  \
	VPRORD     $18, w1, Z9 \
	VPSRLD     $3, w1, Z10 \
	VPTERNLOGD $0x96, Z10, Z9, Z8 \
	VPADDD     w9, w0, w0 \
	VPADDD     Z8, w0, w0 \
	VPRORD     $17, w14, Z8 \
	VPRORD     $19, w14, Z9 \
	VPSRLD     $10, w14, Z10 \
	VPTERNLOGD $0x96, Z10, Z9, Z8 \
	VPADDD     Z8, w0, w0

// STEP is step i with its word: 0x96 is the table of x ^ y ^ z, 0xca of e ? f : g,
// 0xe8 of the majority.
#define STEP(a, b, c, d, e, f, g, h, word, i) \
	VPADDD.BCST (4*i)(DI), h, h \
	VPRORD      $6, e, Z8 \
	VPRORD      $11, e, Z9 \
	VPRORD      $25, e, Z10 \
	VMOVDQA32   e, Z11 \
	VPADDD      word, h, h \
	VPTERNLOGD  $0x96, Z10, Z9, Z8 \
	VPTERNLOGD  $0xca, g, f, Z11 \
	VPADDD      Z8, h, h \
	VPADDD      Z11, h, h \
	VPRORD      $2, a, Z8 \
	VPRORD      $13, a, Z9 \
	VPRORD      $22, a, Z10 \
	VMOVDQA32   a, Z11 \
	VPADDD      h, d, d \
	VPTERNLOGD  $0x96, Z10, Z9, Z8 \
	VPTERNLOGD  $0xe8, c, b, Z11 \
	VPADDD      Z8, h, h \
	VPADDD      Z11, h, h

// func sha256x16(state *uint32, messages **byte, n int)
TEXT ·sha256x16(SB), NOSPLIT, $0-24
	MOVQ state+0(FP), DX
	MOVQ messages+8(FP), SI
	MOVQ n+16(FP), CX
	LEAQ ·roots(SB), DI
	XORQ R8, R8
	VMOVDQU32 (DX), Z0
	VMOVDQU32 64(DX), Z1
	VMOVDQU32 128(DX), Z2
	VMOVDQU32 192(DX), Z3
	VMOVDQU32 256(DX), Z4
	VMOVDQU32 320(DX), Z5
	VMOVDQU32 384(DX), Z6
	VMOVDQU32 448(DX), Z7

block:
	WORDS
	VBROADCASTI32X4 swapped<>(SB), Z8
	VPSHUFB Z8, Z16, Z16
	VPSHUFB Z8, Z17, Z17
	VPSHUFB Z8, Z18, Z18
	VPSHUFB Z8, Z19, Z19
	VPSHUFB Z8, Z20, Z20
	VPSHUFB Z8, Z21, Z21
	VPSHUFB Z8, Z22, Z22
	VPSHUFB Z8, Z23, Z23
	VPSHUFB Z8, Z24, Z24
	VPSHUFB Z8, Z25, Z25
	VPSHUFB Z8, Z26, Z26
	VPSHUFB Z8, Z27, Z27
	VPSHUFB Z8, Z28, Z28
	VPSHUFB Z8, Z29, Z29
	VPSHUFB Z8, Z30, Z30
	VPSHUFB Z8, Z31, Z31

	STEP(Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z16, 0)
	STEP(Z7, Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z17, 1)
	STEP(Z6, Z7, Z0, Z1, Z2, Z3, Z4, Z5, Z18, 2)
	STEP(Z5, Z6, Z7, Z0, Z1, Z2, Z3, Z4, Z19, 3)
	STEP(Z4, Z5, Z6, Z7, Z0, Z1, Z2, Z3, Z20, 4)
	STEP(Z3, Z4, Z5, Z6, Z7, Z0, Z1, Z2, Z21, 5)
	STEP(Z2, Z3, Z4, Z5, Z6, Z7, Z0, Z1, Z22, 6)
	STEP(Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z0, Z23, 7)
	STEP(Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z24, 8)
	STEP(Z7, Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z25, 9)
	STEP(Z6, Z7, Z0, Z1, Z2, Z3, Z4, Z5, Z26, 10)
	STEP(Z5, Z6, Z7, Z0, Z1, Z2, Z3, Z4, Z27, 11)
	STEP(Z4, Z5, Z6, Z7, Z0, Z1, Z2, Z3, Z28, 12)
	STEP(Z3, Z4, Z5, Z6, Z7, Z0, Z1, Z2, Z29, 13)
	STEP(Z2, Z3, Z4, Z5, Z6, Z7, Z0, Z1, Z30, 14)
	STEP(Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z0, Z31, 15)
	CHANGED(Z16, Z17, Z25, Z30)
	STEP(Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z16, 16)
	CHANGED(Z17, Z18, Z26, Z31)
	STEP(Z7, Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z17, 17)
	CHANGED(Z18, Z19, Z27, Z16)
	STEP(Z6, Z7, Z0, Z1, Z2, Z3, Z4, Z5, Z18, 18)
	CHANGED(Z19, Z20, Z28, Z17)
	STEP(Z5, Z6, Z7, Z0, Z1, Z2, Z3, Z4, Z19, 19)
	CHANGED(Z20, Z21, Z29, Z18)
	STEP(Z4, Z5, Z6, Z7, Z0, Z1, Z2, Z3, Z20, 20)
	CHANGED(Z21, Z22, Z30, Z19)
	STEP(Z3, Z4, Z5, Z6, Z7, Z0, Z1, Z2, Z21, 21)
	CHANGED(Z22, Z23, Z31, Z20)
	STEP(Z2, Z3, Z4, Z5, Z6, Z7, Z0, Z1, Z22, 22)
	CHANGED(Z23, Z24, Z16, Z21)
	STEP(Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z0, Z23, 23)
	CHANGED(Z24, Z25, Z17, Z22)
	STEP(Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z24, 24)
	CHANGED(Z25, Z26, Z18, Z23)
	STEP(Z7, Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z25, 25)
	CHANGED(Z26, Z27, Z19, Z24)
	STEP(Z6, Z7, Z0, Z1, Z2, Z3, Z4, Z5, Z26, 26)
	CHANGED(Z27, Z28, Z20, Z25)
	STEP(Z5, Z6, Z7, Z0, Z1, Z2, Z3, Z4, Z27, 27)
	CHANGED(Z28, Z29, Z21, Z26)
	STEP(Z4, Z5, Z6, Z7, Z0, Z1, Z2, Z3, Z28, 28)
	CHANGED(Z29, Z30, Z22, Z27)
	STEP(Z3, Z4, Z5, Z6, Z7, Z0, Z1, Z2, Z29, 29)
	CHANGED(Z30, Z31, Z23, Z28)
	STEP(Z2, Z3, Z4, Z5, Z6, Z7, Z0, Z1, Z30, 30)
	CHANGED(Z31, Z16, Z24, Z29)
	STEP(Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z0, Z31, 31)
	CHANGED(Z16, Z17, Z25, Z30)
	STEP(Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z16, 32)
	CHANGED(Z17, Z18, Z26, Z31)
	STEP(Z7, Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z17, 33)
	CHANGED(Z18, Z19, Z27, Z16)
	STEP(Z6, Z7, Z0, Z1, Z2, Z3, Z4, Z5, Z18, 34)
	CHANGED(Z19, Z20, Z28, Z17)
	STEP(Z5, Z6, Z7, Z0, Z1, Z2, Z3, Z4, Z19, 35)
	CHANGED(Z20, Z21, Z29, Z18)
	STEP(Z4, Z5, Z6, Z7, Z0, Z1, Z2, Z3, Z20, 36)
	CHANGED(Z21, Z22, Z30, Z19)
	STEP(Z3, Z4, Z5, Z6, Z7, Z0, Z1, Z2, Z21, 37)
	CHANGED(Z22, Z23, Z31, Z20)
	STEP(Z2, Z3, Z4, Z5, Z6, Z7, Z0, Z1, Z22, 38)
	CHANGED(Z23, Z24, Z16, Z21)
	STEP(Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z0, Z23, 39)
	CHANGED(Z24, Z25, Z17, Z22)
	STEP(Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z24, 40)
	CHANGED(Z25, Z26, Z18, Z23)
	STEP(Z7, Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z25, 41)
	CHANGED(Z26, Z27, Z19, Z24)
	STEP(Z6, Z7, Z0, Z1, Z2, Z3, Z4, Z5, Z26, 42)
	CHANGED(Z27, Z28, Z20, Z25)
	STEP(Z5, Z6, Z7, Z0, Z1, Z2, Z3, Z4, Z27, 43)
	CHANGED(Z28, Z29, Z21, Z26)
	STEP(Z4, Z5, Z6, Z7, Z0, Z1, Z2, Z3, Z28, 44)
	CHANGED(Z29, Z30, Z22, Z27)
	STEP(Z3, Z4, Z5, Z6, Z7, Z0, Z1, Z2, Z29, 45)
	CHANGED(Z30, Z31, Z23, Z28)
	STEP(Z2, Z3, Z4, Z5, Z6, Z7, Z0, Z1, Z30, 46)
	CHANGED(Z31, Z16, Z24, Z29)
	STEP(Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z0, Z31, 47)
	CHANGED(Z16, Z17, Z25, Z30)
	STEP(Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z16, 48)
	CHANGED(Z17, Z18, Z26, Z31)
	STEP(Z7, Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z17, 49)
	CHANGED(Z18, Z19, Z27, Z16)
	STEP(Z6, Z7, Z0, Z1, Z2, Z3, Z4, Z5, Z18, 50)
	CHANGED(Z19, Z20, Z28, Z17)
	STEP(Z5, Z6, Z7, Z0, Z1, Z2, Z3, Z4, Z19, 51)
	CHANGED(Z20, Z21, Z29, Z18)
	STEP(Z4, Z5, Z6, Z7, Z0, Z1, Z2, Z3, Z20, 52)
	CHANGED(Z21, Z22, Z30, Z19)
	STEP(Z3, Z4, Z5, Z6, Z7, Z0, Z1, Z2, Z21, 53)
	CHANGED(Z22, Z23, Z31, Z20)
	STEP(Z2, Z3, Z4, Z5, Z6, Z7, Z0, Z1, Z22, 54)
	CHANGED(Z23, Z24, Z16, Z21)
	STEP(Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z0, Z23, 55)
	CHANGED(Z24, Z25, Z17, Z22)
	STEP(Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z24, 56)
	CHANGED(Z25, Z26, Z18, Z23)
	STEP(Z7, Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z25, 57)
	CHANGED(Z26, Z27, Z19, Z24)
	STEP(Z6, Z7, Z0, Z1, Z2, Z3, Z4, Z5, Z26, 58)
	CHANGED(Z27, Z28, Z20, Z25)
	STEP(Z5, Z6, Z7, Z0, Z1, Z2, Z3, Z4, Z27, 59)
	CHANGED(Z28, Z29, Z21, Z26)
	STEP(Z4, Z5, Z6, Z7, Z0, Z1, Z2, Z3, Z28, 60)
	CHANGED(Z29, Z30, Z22, Z27)
	STEP(Z3, Z4, Z5, Z6, Z7, Z0, Z1, Z2, Z29, 61)
	CHANGED(Z30, Z31, Z23, Z28)
	STEP(Z2, Z3, Z4, Z5, Z6, Z7, Z0, Z1, Z30, 62)
	CHANGED(Z31, Z16, Z24, Z29)
	STEP(Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z0, Z31, 63)

	VPADDD (DX), Z0, Z0
	VPADDD 64(DX), Z1, Z1
	VPADDD 128(DX), Z2, Z2
	VPADDD 192(DX), Z3, Z3
	VPADDD 256(DX), Z4, Z4
	VPADDD 320(DX), Z5, Z5
	VPADDD 384(DX), Z6, Z6
	VPADDD 448(DX), Z7, Z7
	VMOVDQU32 Z0, (DX)
	VMOVDQU32 Z1, 64(DX)
	VMOVDQU32 Z2, 128(DX)
	VMOVDQU32 Z3, 192(DX)
	VMOVDQU32 Z4, 256(DX)
	VMOVDQU32 Z5, 320(DX)
	VMOVDQU32 Z6, 384(DX)
	VMOVDQU32 Z7, 448(DX)
	ADDQ $64, R8
	DECQ CX
	JNZ  block
	VZEROUPPER
	RET

#undef LOAD
#undef ADD
#undef TRANSPOSE
#undef WORDS
#undef CHANGED
#undef STEP

// MD5 with AVX2: 8 messages. Y0 to Y3 are the state; the words of the block are on the stack.

#define a Y0
#define b Y1
#define c Y2
#define d Y3
#define t Y4
#define u Y5

// WORDS stores the words k to k+3 of the block.
#define WORDS(k) \
	VMOVDQU     (4*k)(R8), X6 \
	VMOVDQU     (4*k)(R9), X7 \
	VMOVDQU     (4*k)(R10), X8 \
	VMOVDQU     (4*k)(R11), X9 \
	VINSERTI128 $1, (4*k)(R12), Y6, Y6 \
	VINSERTI128 $1, (4*k)(R13), Y7, Y7 \
	VINSERTI128 $1, (4*k)(AX), Y8, Y8 \
	VINSERTI128 $1, (4*k)(BX), Y9, Y9 \
	VPUNPCKLDQ  Y7, Y6, Y10 \
	VPUNPCKHDQ  Y7, Y6, Y11 \
	VPUNPCKLDQ  Y9, Y8, Y12 \
	VPUNPCKHDQ  Y9, Y8, Y13 \
	VPUNPCKLQDQ Y12, Y10, Y6 \
	VPUNPCKHQDQ Y12, Y10, Y7 \
	VPUNPCKLQDQ Y13, Y11, Y8 \
	VPUNPCKHQDQ Y13, Y11, Y9 \
	VMOVDQU     Y6, (32*k)(SP) \
	VMOVDQU     Y7, (32*k+32)(SP) \
	VMOVDQU     Y8, (32*k+64)(SP) \
	VMOVDQU     Y9, (32*k+96)(SP)

// F, G, H and I set t to the function of RFC 1321 of that name.
#define F(b, c, d) \
	VPXOR c, d, t \
	VPAND b, t, t \
	VPXOR d, t, t

#define G(b, c, d) \
	VPXOR b, c, t \
	VPAND d, t, t \
	VPXOR c, t, t

#define H(b, c, d) \
	VPXOR c, d, t \
	VPXOR b, t, t

#define I(b, c, d) \
	VPXOR Y15, d, t \
	VPOR  b, t, t \
	VPXOR c, t, t

// STEP sets a to b + (a + f(b, c, d) + word + sine <<< shift).
#define STEP(f, a, b, c, d, word, i, shift) \
	VPBROADCASTD (4*i)(DI), u \
	VPADDD       (32*word)(SP), a, a \
	VPADDD       u, a, a \
	f(b, c, d) \
	VPADDD       t, a, a \
	VPSRLD       $(32-shift), a, u \
	VPSLLD       $shift, a, a \
	VPOR         u, a, a \
	VPADDD       b, a, a

// func md5x8(state *uint32, messages **byte, n int)
TEXT ·md5x8(SB), NOSPLIT, $512-24
	MOVQ state+0(FP), DX
	MOVQ messages+8(FP), SI
	MOVQ n+16(FP), CX
	LEAQ sines<>(SB), DI
	MOVQ (SI), R8
	MOVQ 8(SI), R9
	MOVQ 16(SI), R10
	MOVQ 24(SI), R11
	MOVQ 32(SI), R12
	MOVQ 40(SI), R13
	MOVQ 48(SI), AX
	MOVQ 56(SI), BX
	VPCMPEQD Y15, Y15, Y15
	VMOVDQU (DX), a
	VMOVDQU 64(DX), b
	VMOVDQU 128(DX), c
	VMOVDQU 192(DX), d

block:
	WORDS(0)
	WORDS(4)
	WORDS(8)
	WORDS(12)

	STEP(F, a, b, c, d, 0, 0, 7)
	STEP(F, d, a, b, c, 1, 1, 12)
	STEP(F, c, d, a, b, 2, 2, 17)
	STEP(F, b, c, d, a, 3, 3, 22)
	STEP(F, a, b, c, d, 4, 4, 7)
	STEP(F, d, a, b, c, 5, 5, 12)
	STEP(F, c, d, a, b, 6, 6, 17)
	STEP(F, b, c, d, a, 7, 7, 22)
	STEP(F, a, b, c, d, 8, 8, 7)
	STEP(F, d, a, b, c, 9, 9, 12)
	STEP(F, c, d, a, b, 10, 10, 17)
	STEP(F, b, c, d, a, 11, 11, 22)
	STEP(F, a, b, c, d, 12, 12, 7)
	STEP(F, d, a, b, c, 13, 13, 12)
	STEP(F, c, d, a, b, 14, 14, 17)
	STEP(F, b, c, d, a, 15, 15, 22)
	STEP(G, a, b, c, d, 1, 16, 5)
	STEP(G, d, a, b, c, 6, 17, 9)
	STEP(G, c, d, a, b, 11, 18, 14)
	STEP(G, b, c, d, a, 0, 19, 20)
	STEP(G, a, b, c, d, 5, 20, 5)
	STEP(G, d, a, b, c, 10, 21, 9)
	STEP(G, c, d, a, b, 15, 22, 14)
	STEP(G, b, c, d, a, 4, 23, 20)
	STEP(G, a, b, c, d, 9, 24, 5)
	STEP(G, d, a, b, c, 14, 25, 9)
	STEP(G, c, d, a, b, 3, 26, 14)
	STEP(G, b, c, d, a, 8, 27, 20)
	STEP(G, a, b, c, d, 13, 28, 5)
	STEP(G, d, a, b, c, 2, 29, 9)
	STEP(G, c, d, a, b, 7, 30, 14)
	STEP(G, b, c, d, a, 12, 31, 20)
	STEP(H, a, b, c, d, 5, 32, 4)
	STEP(H, d, a, b, c, 8, 33, 11)
	STEP(H, c, d, a, b, 11, 34, 16)
	STEP(H, b, c, d, a, 14, 35, 23)
	STEP(H, a, b, c, d, 1, 36, 4)
	STEP(H, d, a, b, c, 4, 37, 11)
	STEP(H, c, d, a, b, 7, 38, 16)
	STEP(H, b, c, d, a, 10, 39, 23)
	STEP(H, a, b, c, d, 13, 40, 4)
	STEP(H, d, a, b, c, 0, 41, 11)
	STEP(H, c, d, a, b, 3, 42, 16)
	STEP(H, b, c, d, a, 6, 43, 23)
	STEP(H, a, b, c, d, 9, 44, 4)
	STEP(H, d, a, b, c, 12, 45, 11)
	STEP(H, c, d, a, b, 15, 46, 16)
	STEP(H, b, c, d, a, 2, 47, 23)
	STEP(I, a, b, c, d, 0, 48, 6)
	STEP(I, d, a, b, c, 7, 49, 10)
	STEP(I, c, d, a, b, 14, 50, 15)
	STEP(I, b, c, d, a, 5, 51, 21)
	STEP(I, a, b, c, d, 12, 52, 6)
	STEP(I, d, a, b, c, 3, 53, 10)
	STEP(I, c, d, a, b, 10, 54, 15)
	STEP(I, b, c, d, a, 1, 55, 21)
	STEP(I, a, b, c, d, 8, 56, 6)
	STEP(I, d, a, b, c, 15, 57, 10)
	STEP(I, c, d, a, b, 6, 58, 15)
	STEP(I, b, c, d, a, 13, 59, 21)
	STEP(I, a, b, c, d, 4, 60, 6)
	STEP(I, d, a, b, c, 11, 61, 10)
	STEP(I, c, d, a, b, 2, 62, 15)
	STEP(I, b, c, d, a, 9, 63, 21)

	VPADDD  (DX), a, a
	VPADDD  64(DX), b, b
	VPADDD  128(DX), c, c
	VPADDD  192(DX), d, d
	VMOVDQU a, (DX)
	VMOVDQU b, 64(DX)
	VMOVDQU c, 128(DX)
	VMOVDQU d, 192(DX)
	ADDQ $64, R8
	ADDQ $64, R9
	ADDQ $64, R10
	ADDQ $64, R11
	ADDQ $64, R12
	ADDQ $64, R13
	ADDQ $64, AX
	ADDQ $64, BX
	DECQ CX
	JNZ  block
	VZEROUPPER
	RET
