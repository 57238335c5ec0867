package admin

import (
	"fmt"
	"math/bits"
	"strings"

	"redoubt/command"
	"redoubt/number"
)

func lolwutCommands(s Server) []*Command {
	return []*Command{{
		Command: &command.Command{
			Name: "lolwut", Group: command.Server, Since: "5.0.0", Arity: -1, Flags: command.ReadOnly | command.Fast,
			Syntax: "[VERSION version:integer]", Summary: "Draws a redoubt in its landscape, and tells the version.",
		}, Run: func(c *Call) error { return lolwut(s, c) }, Worker: true,
	}}
}

// lolwut draws by its arguments alone: LOLWUT [VERSION n] [columns [rows]]. The
// version chooses the landscape.
func lolwut(s Server, c *Call) error {
	args := c.Args[1:]
	seed := int64(7)
	if len(args) >= 2 && IsWord(args[0], "version") {
		n, ok := number.ParseInt(args[1])
		if !ok {
			return command.ErrNotInteger
		}
		seed, args = n, args[2:]
	}
	size := [2]int64{66, 16}
	for i, a := range args[:min(2, len(args))] {
		n, ok := number.ParseInt(a)
		if !ok {
			return command.ErrNotInteger
		}
		size[i] = max(1, min(1000, n))
	}
	own, redis := s.Versions()
	c.Reply.Verbatim("txt", fmt.Sprintf("%s\nRedoubt ver. %s, Redis ver. %s\n",
		redoubtPicture(uint64(seed), int(size[0]), int(size[1])), own, redis))
	return nil
}

// fort is drawn in the middle.
var fort = []string{
	`       |>       `,
	`  _   _|_   _   `,
	` | |_| | |_| |  `,
	` |  _     _  |  `,
	`/| |_| _ |_| |\ `,
	`/|____| |____|\ `,
}

// redoubtPicture draws hills, stars above them and the fort on its mound.
func redoubtPicture(seed uint64, columns, rows int) string {
	next := func() uint64 { // xorshift with a multiplier, as good as needed
		seed ^= seed<<13 | 1
		seed ^= seed >> 7
		seed ^= seed << 17
		return bits.RotateLeft64(seed*0x9e3779b97f4a7c15, 31)
	}
	picture := make([][]byte, rows)
	for y := range picture {
		picture[y] = []byte(strings.Repeat(" ", columns))
	}
	// The height of the ground changes by at most one per column.
	ground := make([]int, columns)
	height := rows / 4
	left := max(0, (columns-len(fort[0]))/2)
	for x := range ground {
		onMound := x > left && x < left+len(fort[0])
		if step := int(next()%5) - 2; !onMound && step > -2 && step < 2 {
			height = max(0, min(rows/3, height+step))
		}
		ground[x] = height
		for y := range height {
			picture[rows-1-y][x] = ".:'"[next()%3]
		}
		if sky := rows - height - 1; sky > 0 && next()%9 == 0 {
			picture[int(next()%uint64(sky))][x] = ".*+"[next()%3]
		}
	}
	foot := rows - 1 - ground[min(columns-1, left+1)]
	for i, line := range fort {
		y := foot - len(fort) + 1 + i
		for j := range line {
			if x := left + j; y >= 0 && x < columns && j < len(line)-1 {
				picture[y][x] = line[j]
			}
		}
	}
	var b strings.Builder
	for _, line := range picture {
		b.WriteString(strings.TrimRight(string(line), " ") + "\n")
	}
	return b.String()
}
