package neuroscript

import (
	"context"
	"errors"
	"math"

	"github.com/seed14be6753/stile/messages"
)

// pollEvery is the gas between two looks at the context (§13.4).
const pollEvery = 1024

// meter counts what a run uses. The hot path is one addition and one comparison:
// gasStop is the gas at which something is to be done, be it a poll or the end.
//
//	0 ≤ gas ≤ gasLimit, 0 ≤ alloc ≤ allocLimit
//	gasStop = min(nextPoll, gasLimit+1)
type meter struct {
	gas, gasStop, gasLimit, nextPoll int64
	alloc, allocLimit                int64
	valueLimit                       int64
	ctx                              context.Context
	done                             <-chan struct{}
	breach                           *Breach // once set, nothing is charged or done any more
}

// work is the gas of string work on n bytes (§13.2).
func work(n int64) int64 { return 1 + (n+63)/64 }

// withDefaults fills zero fields and bounds the others, so that sums of sizes and
// limits stay far from overflow.
func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	if l.Rendering >= 2 {
		d.Tools = CallsOf2
	}
	for _, f := range [...]struct {
		have      *int64
		def, most int64
	}{
		{&l.Gas, d.Gas, 1 << 53},
		{&l.Alloc, d.Alloc, 1 << 53},
		{&l.Value, d.Value, 1 << 32},
		{&l.Depth, d.Depth, 256},
		{&l.Tools, d.Tools, math.MaxInt64},
		{&l.Emits, d.Emits, math.MaxInt64},
		{&l.Output, d.Output, d.Output},
		{&l.Scratch, d.Scratch, d.Scratch},
		{&l.Line, d.Line, d.Line},
	} {
		switch {
		case *f.have == 0:
			*f.have = f.def
		default:
			*f.have = min(max(*f.have, 0), f.most)
		}
	}
	return l
}

// tick is called when gas has reached gasStop.
func (m *machine) tick(at *node) bool {
	if m.breach != nil {
		return false
	}
	if m.gas > m.gasLimit {
		return m.trip(at, messages.ErrQuota, MeterGas, m.gasLimit)
	}
	return m.poll(at)
}

// poll looks at the context.
func (m *machine) poll(at *node) bool {
	if m.breach != nil {
		return false
	}
	m.nextPoll = m.gas + pollEvery
	m.gasStop = min(m.nextPoll, m.gasLimit+1)
	select {
	case <-m.done: // nil when the context never ends
		return m.trip(at, cancelCode(m.ctx), "", 0)
	default:
		return true
	}
}

// cancelCode is the code a run ends with when its context is done: that of the
// cause when it is ours, else a time-out or a cancellation.
func cancelCode(ctx context.Context) messages.Code {
	cause := context.Cause(ctx)
	if code := messages.CodeOf(cause); code != "" {
		return code
	}
	if errors.Is(cause, context.DeadlineExceeded) {
		return messages.ErrTimeout
	}
	return messages.ErrCancelled
}

// trip ends the run. The meter it names is set to its limit. It returns false, as
// a failed charge does.
func (m *machine) trip(at *node, code messages.Code, name string, limit int64) bool {
	switch name {
	case MeterGas:
		m.gas = m.gasLimit
	case MeterAlloc:
		m.alloc = m.allocLimit
	}
	b := &Breach{Code: code, Meter: name, Limit: limit}
	if at != nil {
		b.Line, b.Col = m.position(at)
	}
	m.breach = b
	m.gasStop = 0 // every further charge fails
	return false
}

// charge pays gas, alloc bytes and the size of one value before the work is done.
// If several would trip, the first of gas, alloc, value does (§13.6).
func (m *machine) charge(at *node, gas, bytes, size int64) bool {
	if m.breach != nil {
		return false
	}
	if gas > m.gasLimit-m.gas {
		return m.trip(at, messages.ErrQuota, MeterGas, m.gasLimit)
	}
	m.gas += gas
	if bytes > m.allocLimit-m.alloc {
		return m.trip(at, messages.ErrQuota, MeterAlloc, m.allocLimit)
	}
	m.alloc += bytes
	if size > m.valueLimit {
		return m.trip(at, messages.ErrQuota, MeterValue, m.valueLimit)
	}
	if m.gas >= m.nextPoll {
		return m.poll(at)
	}
	return true
}

// pay charges gas alone.
func (m *machine) pay(at *node, gas int64) bool {
	if m.breach != nil {
		return false
	}
	if gas > m.gasLimit-m.gas {
		gas = m.gasLimit - m.gas + 1
	}
	m.gas += gas
	return m.gas < m.gasStop || m.tick(at)
}

// affordable is the most bytes of text the remaining gas can pay for, and some:
// measuring stops there, because the charge will fail.
func (m *machine) affordable() int64 { return (m.gasLimit - m.gas + 1) * 64 }

// newString pays for a string an operation makes.
func (m *machine) newString(at *node, n int64) bool {
	return m.charge(at, work(n), StringBase+n, StringBase+n)
}
