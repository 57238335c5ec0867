package number

import (
	"errors"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"
)

func TestParseInt(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"0": 0, "1": 1, "-1": -1, "10": 10, "9223372036854775807": math.MaxInt64, "-9223372036854775808": math.MinInt64,
	} {
		if got, ok := ParseInt([]byte(text)); !ok || got != want {
			t.Errorf("ParseInt(%q) = %d, %v", text, got, ok)
		}
	}
	for _, text := range []string{
		"", "-", "+1", "01", "-0", "-01", " 1", "1 ", "1.0", "1e3", "0x1", "9223372036854775808", "-9223372036854775809",
		"18446744073709551616", "99999999999999999999", "1\x00",
	} {
		if n, ok := ParseInt([]byte(text)); ok {
			t.Errorf("ParseInt(%q) = %d", text, n)
		}
	}
}

func FuzzParseInt(f *testing.F) {
	for _, s := range []string{"0", "-1", "9223372036854775808", "-0", "01"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		// What it accepts is just what is printed.
		n, ok := ParseInt([]byte(s))
		want, err := strconv.ParseInt(s, 10, 64)
		if canonical := err == nil && strconv.FormatInt(want, 10) == s; ok != canonical || (ok && n != want) {
			t.Errorf("ParseInt(%q) = %d, %v", s, n, ok)
		}
	})
}

// The sums were computed by Redis 7.2.
func TestLongDouble(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ x, y, sum string }{
		{"0", "0.1", "0.1"}, {"0.1", "0.2", "0.3"}, {"1.5", "1.5", "3"}, {"3", "1.1", "4.1"}, {"0", "-0", "0"},
		{"1", "0.12345678901234567890123", "1.12345678901234568"}, {"-1e-30", "0", "0"}, {"10.50", "0", "10.5"},
		{"123456789012345678901234567890", "1", "123456789012345678899921813504"},
		{"9223372036854775807", "1", "9223372036854775808"}, {"1e17", "0.25", "100000000000000000.25"},
		{"0x10", "-0x1.8p1", "13"}, {"0", "5.", "5"}, {"0", ".5", "0.5"}, {"0", "1E2", "100"}, {"1e25", "1e5", "10000000000000000000000000"},
	} {
		x, ok1 := ParseLongDouble([]byte(tc.x))
		y, ok2 := ParseLongDouble([]byte(tc.y))
		if !ok1 || !ok2 {
			t.Errorf("%q, %q: %v, %v", tc.x, tc.y, ok1, ok2)
			continue
		}
		sum, ok := AddLongDouble(x, y)
		if !ok {
			t.Errorf("%q + %q fails", tc.x, tc.y)
			continue
		}
		if got := string(AppendLongDouble(nil, sum)); got != tc.sum {
			t.Errorf("%q + %q = %q, want %q", tc.x, tc.y, got, tc.sum)
		}
	}
	for _, text := range []string{
		"", " 1", "1 ", "1\x00", "x", ".", "+", "-", "1e", "1e+", "0x", "0x.", "0xp1", "nan", "NAN", "nan(1)", "infi", "1e5000", "-1e4933",
		"1e-4951", "1_0", "1,0", "--1", "0x1p16384", strings.Repeat("0", 5120),
	} {
		if n, ok := ParseLongDouble([]byte(text)); ok {
			t.Errorf("ParseLongDouble(%.20q) = %v", text, n)
		}
	}
	inf, ok := ParseLongDouble([]byte("-InfiniTy"))
	if !ok || !inf.IsInf() {
		t.Errorf("infinity is %v", inf)
	}
	big1, _ := ParseLongDouble([]byte("1e4932"))
	for _, y := range []*big.Float{inf, big1} {
		if sum, ok := AddLongDouble(big1, y); ok {
			t.Errorf("%v + %v = %v", big1, y, sum)
		}
	}
}

func FuzzParseLongDouble(f *testing.F) {
	for _, s := range []string{"1", "-0.5", "1e400", "0x1.8p3", "inf", "1e-4951", "0x1p-16446", "1e99999999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		x, ok := ParseLongDouble([]byte(s))
		if !ok || x.IsInf() {
			return
		}
		// What Go reads with the same precision cannot be far away.
		want, _, err := big.ParseFloat(goNotation(s), 10, 64, big.ToNearestEven)
		if strings.ContainsAny(s, "xX") {
			want, _, err = big.ParseFloat(goNotation(s), 0, 64, big.ToNearestEven)
		}
		if errors.Is(err, strconv.ErrRange) { // an exponent that Go does not take, of a zero
			return
		}
		if err != nil {
			t.Fatalf("%q is a number only here: %v", s, err)
		}
		if diff := new(big.Float).Sub(x, want); diff.Sign() != 0 && diff.MantExp(nil) < want.MantExp(nil)-60 {
			t.Errorf("%q is %v, want %v", s, x, want)
		}
		text := AppendLongDouble(nil, x)
		back, ok := ParseLongDouble(text)
		if len(text) < longDoubleText && (!ok || string(AppendLongDouble(nil, back)) != string(text)) {
			t.Errorf("%q becomes %q, and that something else", s, text)
		}
	})
}

func goNotation(s string) string {
	if strings.ContainsAny(s, "xX") && !strings.ContainsAny(s, "pP") {
		return s + "p0"
	}
	return s
}

func TestParseDouble(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]float64{
		"0": 0, "1.5": 1.5, "-1e10": -1e10, ".5": .5, "5.": 5, "+3": 3, "0x10": 16, "0x1.8p1": 3, "-0X.8": -.5, "inf": math.Inf(1),
		"-INFINITY": math.Inf(-1), "+inf": math.Inf(1), "0e999": 0, "1e308": 1e308, "5e-324": 5e-324, "0x0p5": 0,
	} {
		if got, ok := ParseDouble([]byte(text)); !ok || got != want {
			t.Errorf("ParseDouble(%q) = %v, %v", text, got, ok)
		}
	}
	for _, text := range []string{
		"", " 1", "1 ", "x", ".", "nan", "-nan", "1e", "1e+", "0x", "0x1p", "1e309", "-1e309", "1e-400", "1_0", "0x_1p0", "1\x00", "infin", "i",
	} {
		if got, ok := ParseDouble([]byte(text)); ok {
			t.Errorf("ParseDouble(%q) = %v", text, got)
		}
	}
}

func FuzzParseDouble(f *testing.F) {
	for _, s := range []string{"1", "-0.5", "1e400", "0x1.8p3", "inf", "nan", "1e-400"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		x, ok := ParseDouble([]byte(s))
		if !ok {
			return
		}
		if math.IsNaN(x) {
			t.Fatalf("%q is %v", s, x)
		}
		back, ok := ParseDouble(AppendDouble(nil, x))
		if !ok || back != x {
			t.Errorf("%q is %v, printed %q", s, x, AppendDouble(nil, x))
		}
	})
}

// The texts were printed by Redis 7.2. The last one is not the nearest with
// so many digits.
func TestAppendDouble(t *testing.T) {
	t.Parallel()
	for f, want := range map[float64]string{
		0: "0", 1: "1", -1: "-1", 1.5: "1.5", 0.1: "0.1", 100: "100", 1e15: "1000000000000000", 1 << 62: "4611686018427387904",
		1e18: "1000000000000000000", 1e19: "1e+19", 1e20: "1e+20", 1e21: "1e+21", 1e22: "1e+22", 1.5e22: "1.5e+22",
		123456789012345678901234: "123456789012345690000000",
		0.001:                    "0.001", 0.0001: "0.0001", 0.00001: "0.00001", 0.000001: "0.000001", 1e-7: "1e-7", 1.5e-7: "1.5e-7", 1.25e-100: "1.25e-100",
		3.141592653589793: "3.141592653589793", -2.5e-8: "-2.5e-8", 5e-324: "5e-324", math.MaxFloat64: "1.7976931348623157e+308",
		math.Inf(1): "inf", math.Inf(-1): "-inf", 0.30000000000000004: "0.30000000000000004",
		1605586275773996.2: "1605586275773996.3",
	} {
		if got := string(AppendDouble(nil, f)); got != want {
			t.Errorf("%v is printed as %s, want %s", f, got, want)
		}
	}
	if got := string(AppendDouble(nil, math.Copysign(0, -1))); got != "-0" {
		t.Errorf("-0 is printed as %s", got)
	}
	if got := string(AppendDouble(nil, math.NaN())); got != "nan" {
		t.Errorf("NaN is printed as %s", got)
	}
}
