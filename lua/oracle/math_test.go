package oracle

import (
	"fmt"
	"strings"
	"testing"

	"redoubt/lua/internal/corpus"
)

// The elementary functions agree with those of the C library that Redis uses
// in every digit, but for a few arguments in a hundred.
func TestMathFunctions(t *testing.T) {
	r := start(t)
	h := corpus.NewHost(t, testdata+"harness.lua")
	for _, e := range []string{
		"math.exp(x)", "math.exp(x * 30)", "math.log(x + 11)", "math.log10(x + 11)", "(x + 11) ^ y", "10 ^ math.floor(y * 30)",
		"(x + 11) ^ math.floor(y * 5)", "1.1 ^ math.floor(y * 10)", "2 ^ y", "math.pow(x + 11, 0.5)", "math.sin(x)", "math.sin(x * 1e5)",
		"math.cos(x)", "math.tan(x)", "math.asin(y / 3)", "math.acos(y / 3)", "math.atan(x)", "math.atan2(x, y)", "math.sinh(x)",
		"math.cosh(x)", "math.tanh(x)", "math.sqrt(x + 11)", "math.fmod(x, y)", "math.deg(x)", "math.rad(x)", "x % y", "x / y",
	} {
		src := fmt.Sprintf(`local s = 12345
			local function rnd() s = (s * 16807) %% 2147483647 return s / 2147483647 end
			local out = {}
			for i = 1, 2000 do
				local x, y = rnd() * 20 - 10, rnd() * 6 - 3
				out[i] = string.format('%%.17g', %s)
			end
			return table.concat(out, ' ')`, e)
		theirs, ours := strings.Fields(r.run(t, src)), strings.Fields(h.Run(src))
		if len(theirs) != len(ours) {
			t.Fatalf("%s: %d values, Redis gives %d", e, len(ours), len(theirs))
		}
		bad := 0
		for i := range ours {
			if ours[i] != theirs[i] {
				bad++
			}
		}
		if bad*100 > 2*len(ours) {
			t.Errorf("%s: %d of %d differ", e, bad, len(ours))
		}
		t.Logf("%-30s %d of %d differ", e, bad, len(ours))
	}
}
