package diff

import (
	"math"
	"math/big"
	"strconv"
	"time"
)

// maxDigits bounds tolerance arithmetic: a longer number is compared exactly,
// whatever the tolerance.
const maxDigits = 4096

// within reports whether |a-b| <= max(abs, rel*max(|a|,|b|)), computed exactly in
// decimals.
func within(a, b []byte, rule *Rule) bool {
	if rule.Abs == 0 && rule.Rel == 0 || len(a) > maxDigits || len(b) > maxDigits {
		return sameNumber(a, b)
	}
	if within, sure := clearlyWithin(a, b, rule); sure {
		return within
	}
	x, y := scaledOf(parseDecimal(a, nil)), scaledOf(parseDecimal(b, nil))
	distance := x.minus(y)
	distance.n.Abs(distance.n)
	if distance.cmp(toleranceOf(rule.Abs)) <= 0 {
		return true
	}
	x.n.Abs(x.n)
	y.n.Abs(y.n)
	larger := x
	if x.cmp(y) < 0 {
		larger = y
	}
	rel := toleranceOf(rule.Rel)
	return distance.cmp(scaled{new(big.Int).Mul(rel.n, larger.n), rel.exp + larger.exp}) <= 0
}

// clearlyWithin decides in floating point when the rounding cannot matter.
func clearlyWithin(a, b []byte, rule *Rule) (within, sure bool) {
	x, errX := strconv.ParseFloat(string(a), 64)
	y, errY := strconv.ParseFloat(string(b), 64)
	if errX != nil || errY != nil {
		return false, false
	}
	const (
		rounding = 0x1p-50 // of three operations, relative to the larger number
		margin   = 1e-12   // of the tolerance's own rounding
	)
	larger := max(math.Abs(x), math.Abs(y))
	tolerance := max(rule.Abs, rule.Rel*larger)
	distance, doubt := math.Abs(x-y), larger*rounding+math.SmallestNonzeroFloat64
	switch {
	case distance+doubt < tolerance*(1-margin):
		return true, true
	case distance-doubt > tolerance*(1+margin):
		return false, true
	}
	return false, false
}

// scaled is n × 10^exp.
type scaled struct {
	n   *big.Int
	exp int
}

func scaledOf(d decimal) scaled {
	n := new(big.Int)
	if len(d.digits) == 0 {
		return scaled{n, 0}
	}
	n.SetString(string(d.digits), 10) // digits only: it cannot fail
	if d.neg {
		n.Neg(n)
	}
	return scaled{n, d.exp - len(d.digits)}
}

// toleranceOf is the shortest decimal of a tolerance: 0.01 means 0.01.
func toleranceOf(x float64) scaled {
	return scaledOf(parseDecimal(strconv.AppendFloat(nil, x, 'e', -1, 64), nil))
}

// align brings two numbers to one exponent.
func align(a, b scaled) (x, y *big.Int, exp int) {
	if a.exp < b.exp {
		y, x, exp = align(b, a)
		return x, y, exp
	}
	shift := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(a.exp-b.exp)), nil)
	return shift.Mul(shift, a.n), b.n, b.exp
}

func (a scaled) minus(b scaled) scaled {
	x, y, exp := align(a, b)
	return scaled{new(big.Int).Sub(x, y), exp}
}

func (a scaled) cmp(b scaled) int {
	x, y, _ := align(a, b)
	return x.Cmp(y)
}

// layouts lists the forms of timestamps seen in tools' answers; zoned ones name
// an instant, the others a local time.
func layouts() []struct {
	layout string
	zoned  bool
} {
	return []struct {
		layout string
		zoned  bool
	}{
		{time.RFC3339Nano, true},
		{"2006-01-02 15:04:05.999999999Z07:00", true},
		{"2006-01-02T15:04:05.999999999", false},
		{"2006-01-02 15:04:05.999999999", false},
		{"2006-01-02T15:04", false},
		{"2006-01-02 15:04", false},
		{time.DateOnly, false},
		{time.RFC1123, true},
		{time.RFC1123Z, true},
		{time.RFC850, true},
		{time.ANSIC, false},
		{time.UnixDate, true},
	}
}

// sameInstant compares timestamps: texts of a known form, or seconds or
// milliseconds since 1970. The same instant in another form is cosmetic; a local
// time is never compared with a zoned one.
func sameInstant(x, y Value, tolerance time.Duration) (matched, cosmetic bool) {
	tx, formX := instant(x)
	ty, formY := instant(y)
	if formX == 0 || formY == 0 || (formX < 0) != (formY < 0) {
		return false, false
	}
	distance := tx.Sub(ty).Abs()
	return distance <= tolerance, formX != formY
}

// instant reads a timestamp. form tells forms apart: 0 is none, a negative one
// is a local time.
func instant(v Value) (at time.Time, form int) {
	const milliseconds = 1e11 // seconds reach it in the year 5138
	if v.Type() == TypeNumber {
		seconds, err := strconv.ParseFloat(string(v.text()), 64)
		if err != nil || seconds > 1e15 || seconds < -1e15 {
			return at, 0
		}
		if seconds >= milliseconds || seconds <= -milliseconds {
			seconds /= 1000
		}
		whole, part := math.Modf(seconds) // apart: a Duration ends in the year 2262
		return time.Unix(int64(whole), int64(part*float64(time.Second))), 1
	}
	const longest = 64 // no timestamp is longer
	text := v.text()
	if v.Type() != TypeString || len(text) == 0 || len(text) > longest {
		return at, 0
	}
	for i, l := range layouts() {
		if at, err := time.Parse(l.layout, string(text)); err == nil {
			if l.zoned {
				return at, i + 2
			}
			return at, -i - 2
		}
	}
	return at, 0
}
