package jsonvalue

import (
	"cmp"
	"math/big"
	"strings"
)

// Decimal is the exact value of a JSON number: 0.digits × 10^point. digits begin and end
// with another digit than 0; zero has none.
type Decimal struct {
	negative bool
	digits   string
	point    int64
	far      *big.Int // the exponent instead of point, where that is too small for it
}

// nearDigits are as many digits as an exponent has that fits beside the length of any number.
const nearDigits = 17

// DecimalOf returns the value of a JSON number.
func DecimalOf(v string) Decimal {
	var d Decimal
	if strings.HasPrefix(v, "-") {
		d.negative, v = true, v[1:]
	}
	exponent := ""
	if i := strings.IndexAny(v, "eE"); i >= 0 {
		v, exponent = v[:i], v[i+1:]
	}
	whole, fraction, _ := strings.Cut(v, ".")
	digits := whole + fraction
	d.point = int64(len(whole))
	rest := strings.TrimLeft(digits, "0")
	d.point -= int64(len(digits) - len(rest))
	d.digits = strings.TrimRight(rest, "0")
	if d.digits == "" {
		return Decimal{}
	}
	d.add(exponent)
	return d
}

// add takes the exponent as it is written.
func (d *Decimal) add(exponent string) {
	minus := strings.HasPrefix(exponent, "-")
	exponent = strings.TrimLeft(strings.TrimLeft(exponent, "+-"), "0")
	if len(exponent) > nearDigits {
		d.far = new(big.Int)
		d.far.SetString(exponent, 10)
		if minus {
			d.far.Neg(d.far)
		}
		d.far.Add(d.far, big.NewInt(d.point))
		return
	}
	n := int64(0)
	for _, c := range exponent {
		n = n*10 + int64(c-'0')
	}
	if minus {
		n = -n
	}
	d.point += n
}

// Compare orders two JSON numbers by value.
func Compare(a, b string) int { return DecimalOf(a).Compare(DecimalOf(b)) }

// Compare orders two numbers by value.
func (d Decimal) Compare(e Decimal) int {
	switch {
	case d.sign() != e.sign():
		return cmp.Compare(d.sign(), e.sign())
	case d.sign() == 0:
		return 0
	}
	n := d.magnitude(e)
	if d.negative {
		return -n
	}
	return n
}

func (d Decimal) sign() int {
	switch {
	case d.digits == "":
		return 0
	case d.negative:
		return -1
	}
	return 1
}

// magnitude compares without signs.
func (d Decimal) magnitude(e Decimal) int {
	if d.far == nil && e.far == nil {
		switch {
		case d.point < e.point:
			return -1
		case d.point > e.point:
			return 1
		}
	} else if n := d.exponent().Cmp(e.exponent()); n != 0 {
		return n
	}
	return strings.Compare(d.digits, e.digits)
}

func (d Decimal) exponent() *big.Int {
	if d.far != nil {
		return d.far
	}
	return big.NewInt(d.point)
}

// Integer reports whether the number has no fraction.
func (d Decimal) Integer() bool {
	return d.digits == "" || d.exponent().Cmp(big.NewInt(int64(len(d.digits)))) >= 0
}

// Int returns an integer from 0 to limit. ok is false for any other number; what is above
// limit is limit.
func (d Decimal) Int(limit int) (n int, ok bool) {
	if d.negative || !d.Integer() {
		return 0, false
	}
	if d.digits == "" {
		return 0, true
	}
	if d.far != nil {
		return limit, true
	}
	for i := range d.point {
		n *= 10
		if i < int64(len(d.digits)) {
			n += int(d.digits[i] - '0')
		}
		if n >= limit {
			return limit, true
		}
	}
	return n, true
}

// key is a text that equal numbers share.
func (d Decimal) key() string {
	if d.digits == "" {
		return "0"
	}
	sign := ""
	if d.negative {
		sign = "-"
	}
	return sign + "0." + d.digits + "e" + d.exponent().String()
}
