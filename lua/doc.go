// Package lua is an interpreter of Lua 5.1 for the scripts of a Redis: the
// same language, libraries, error texts and even the order in which pairs goes
// through a table as in Redis's own, with limits that a script cannot pass.
//
// # The way of a script
//
// Compile makes a Proto of source: lex.go cuts it into tokens, parse*.go reads
// them by recursive descent and code*.go makes instructions (opcode.go) on the
// way, without a tree in between. A Proto does not change and may be shared.
//
// State.Load makes a function of it, and State.Call runs it: vm.go is the loop
// over instructions, vm_call.go calls and returns, vm_op.go and meta.go what is
// too long for the loop. thread.go has stacks and frames, coroutine.go switches
// between them, debug.go finds the names for error texts. lib*.go and
// pattern.go are the libraries.
//
// # What holds
//
//  1. A call of a Lua function by a Lua function uses no Go stack. Go functions,
//     metamethods, pcall and resume do, and nest at most 200 deep.
//  2. No slot of a stack is reached but through a window of 256 registers that
//     lies wholly within it, so a mistake of the compiler cannot corrupt memory.
//  3. Every loop counts against the budget (budget.go) and every allocation
//     against the limit (memory.go), before it is made. Their errors pass
//     through pcall.
//  4. An error is a Go error all the way: nothing panics. The parser is the
//     exception, and recovers within Compile.
//  5. Nothing depends on addresses, map order, the clock (but os.clock) or global
//     randomness: the same script gives the same results on the same data.
//
// # How it is known to be right
//
// testdata holds chunks with what a real Redis gave for them; lua/oracle
// records them, and compares random programs and the speed.
//
// What was rejected: gopher-lua, which has no limit of memory, other error
// texts and no read-only tables.
package lua
