package lua

// The VM has registers: the slots of a function's frame. An instruction is 64
// bits, so that every one has room for three registers and for a jump or the
// number of a constant besides, and needs no companion:
//
//	bits  0-7  operation
//	bits  8-15 a
//	bits 16-23 b
//	bits 24-31 c
//	bits 32-63 d, signed
//
// R is a register, K a constant, U an upvalue. Comparisons and tests are jumps
// at the same time: half of the instructions of a loop would be jumps
// otherwise.
type instr uint64

type opcode uint8

const (
	opMove      opcode = iota // R[a] = R[b]
	opLoadK                   // R[a] = K[d]
	opLoadNil                 // R[a..b] = nil
	opLoadBool                // R[a] = b != 0; if c != 0 skip the next
	opGetUpval                // R[a] = U[b]
	opSetUpval                // U[b] = R[a]
	opGetGlobal               // R[a] = G[K[d]]
	opSetGlobal               // G[K[d]] = R[a]
	opGetField                // R[a] = R[b][K[d]], a string
	opGetInt                  // R[a] = R[b][d]
	opGetIndex                // R[a] = R[b][R[c]]
	opSetField                // R[a][K[d]] = R[b]
	opSetInt                  // R[a][d] = R[b]
	opSetIndex                // R[a][R[b]] = R[c]
	opNewTable                // R[a] = {}, sizes b and c in the form of packSize
	opSelf                    // R[a+1] = R[b]; R[a] = R[b][K[d]]
	opAdd                     // R[a] = R[b] + R[c]
	opSub
	opMul
	opDiv
	opMod
	opPow
	opAddK // R[a] = R[b] + K[d], or if c != 0 K[d] + R[b]
	opSubK
	opMulK
	opDivK
	opModK
	opPowK
	opUnm      // R[a] = -R[b]
	opNot      // R[a] = not R[b]
	opLen      // R[a] = #R[b]
	opConcat   // R[a] = R[b] .. ... .. R[c]
	opJmp      // jump
	opEq       // if (R[b] == R[c]) == (a != 0) jump
	opLt       // likewise <
	opLe       // likewise <=
	opEqK      // if (R[b] == K[c]) == (a != 0) jump
	opLtK      // likewise R[b] < K[c]
	opLeK      // likewise R[b] <= K[c]
	opGtK      // likewise K[c] < R[b]
	opGeK      // likewise K[c] <= R[b]
	opTest     // if truth of R[a] == (c != 0) jump
	opTestSet  // if truth of R[b] == (c != 0) { R[a] = R[b]; jump }
	opCall     // R[a..] = R[a](R[a+1..a+b-1]), c-1 results; b, c == 0: up to the top
	opTailCall // return R[a](R[a+1..a+b-1])
	opReturn   // return R[a..a+b-2]; b == 0: up to the top
	opReturn0  // return
	opReturn1  // return R[a]
	opForPrep  // check R[a..a+2]; jump to the opForLoop
	opForLoop  // R[a] += R[a+2]; if within R[a+1] { R[a+3] = R[a]; jump }
	opTForCall // R[a+3..a+2+c] = R[a](R[a+1], R[a+2])
	opTForLoop // if R[a+3] != nil { R[a+2] = R[a+3]; jump }
	opSetList  // R[a][d+i] = R[a+i] for i = 1..b; b == 0: up to the top
	opClose    // close upvalues from R[a] on
	opClosure  // R[a] = closure of proto d
	opVararg   // R[a..a+b-2] = ...; b == 0: all, and sets the top
)

func encode(op opcode, a, b, c, d int) instr {
	return instr(op) | instr(uint8(a))<<8 | instr(uint8(b))<<16 | instr(uint8(c))<<24 | instr(uint32(int32(d)))<<32
}

func (i instr) op() opcode { return opcode(i) }
func (i instr) a() uint8   { return uint8(i >> 8) }
func (i instr) b() uint8   { return uint8(i >> 16) }
func (i instr) c() uint8   { return uint8(i >> 24) }
func (i instr) d() int     { return int(int32(i >> 32)) }

func (i *instr) setOp(op opcode) { *i = *i&^0xff | instr(op) }
func (i *instr) setA(a int)      { *i = *i&^0xff00 | instr(uint8(a))<<8 }
func (i *instr) setB(b int)      { *i = *i&^0xff0000 | instr(uint8(b))<<16 }
func (i *instr) setC(c int)      { *i = *i&^0xff000000 | instr(uint8(c))<<24 }
func (i *instr) setD(d int)      { *i = *i&0xffffffff | instr(uint32(int32(d)))<<32 }

// jumps reports whether d is where the instruction may go.
func (op opcode) jumps() bool {
	return op >= opJmp && op <= opTestSet || op == opForPrep || op == opForLoop || op == opTForLoop
}

// packSize puts a size into eight bits, five for the exponent: it rounds up,
// by less than an eighth.
func packSize(n int) int {
	if n < 8 {
		return n
	}
	e := 0
	for n >= 16 {
		n = (n + 1) >> 1
		e++
	}
	return (e+1)<<3 | (n - 8)
}

func unpackSize(b uint8) int {
	e := b >> 3 & 31
	if e == 0 {
		return int(b)
	}
	return (int(b&7) + 8) << (e - 1)
}

// Proto is a compiled function with the functions inside it. It does not
// change after Compile; states and goroutines may share it.
type Proto struct {
	code   []instr
	consts []Value
	hashes []uint32 // of the constants that are strings
	protos []*Proto
	upvals []upvalueRef

	params   uint8
	maxStack uint8 // registers
	vararg   bool
	needsArg bool // a vararg function that never says "...": it has a local arg instead

	chunk   string
	defined int // line
	lines   []int32
	locals  []localVar
	size    int64 // bytes, those of the inner functions included
	counted bool  // the script itself compiled it, so they are its own
}

// upvalueRef says where a closure finds an upvalue when it is made: in a
// register of the enclosing function, or among its upvalues.
type upvalueRef struct {
	name    string
	inStack bool
	index   uint8
}

type localVar struct {
	name       string
	start, end int // instructions during which it is visible
}

// localName returns the name of the variable in register reg at an instruction.
func (p *Proto) localName(reg, pc int) string {
	for i := range p.locals {
		v := &p.locals[i]
		if v.start > pc {
			break
		}
		if pc < v.end {
			if reg == 0 {
				return v.name
			}
			reg--
		}
	}
	return ""
}
