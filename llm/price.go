package llm

import (
	"math/bits"

	"github.com/seed14be6753/stile/messages"
)

// Price is the price of a million tokens of a model, in micro-USD: $3.00 is 3_000_000. The
// zero Price is no price. A cache price of 0 is the price of input.
type Price struct {
	Input, Output         int64
	CacheRead, CacheWrite int64
}

// IsZero reports whether p is no price.
func (p Price) IsZero() bool { return p == Price{} }

// maxMicroUSD is the largest cost: records hold exact integers up to it.
const maxMicroUSD = 1<<53 - 1

// Cost returns the cost of u in micro-USD, rounded up once; it does not overflow.
func (p Price) Cost(u messages.Usage) int64 {
	or := func(price int64) int64 {
		if price > 0 {
			return price
		}
		return p.Input
	}
	var hi, lo uint64
	add := func(tokens, price int64) {
		if tokens <= 0 || price <= 0 {
			return
		}
		h, l := bits.Mul64(uint64(tokens), uint64(price))
		var carry uint64
		lo, carry = bits.Add64(lo, l, 0)
		hi, _ = bits.Add64(hi, h, carry)
	}
	read := min(max(u.CacheRead, 0), max(u.Input, 0))
	write := min(max(u.CacheWrite, 0), u.Input-read)
	add(u.Input-read-write, p.Input)
	add(read, or(p.CacheRead))
	add(write, or(p.CacheWrite))
	add(u.Output, p.Output)

	const perMillion = 1_000_000
	if hi >= perMillion {
		return maxMicroUSD
	}
	cost, rest := bits.Div64(hi, lo, perMillion)
	if rest > 0 {
		cost++
	}
	return int64(min(cost, maxMicroUSD))
}
