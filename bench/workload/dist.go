package workload

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"time"
)

// Duration is a time span. Its JSON is in the form of time.ParseDuration.
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	*d = Duration(v)
	return err
}

// Kind is a form of a distribution.
type Kind string

// The kinds, and what they take.
const (
	Constant    Kind = "constant"    // Value
	Uniform     Kind = "uniform"     // Min, Max
	Exponential Kind = "exponential" // Mean
	LogNormal   Kind = "lognormal"   // Median, P99
)

// MaxDraw bounds each draw.
const MaxDraw = 10 * time.Minute

// Dist is a distribution of time spans. The zero value is always 0.
type Dist struct {
	Kind   Kind     `json:"dist,omitempty"`
	Value  Duration `json:"value,omitempty"`
	Min    Duration `json:"min,omitempty"`
	Max    Duration `json:"max,omitempty"`
	Mean   Duration `json:"mean,omitempty"`
	Median Duration `json:"median,omitempty"`
	P99    Duration `json:"p99,omitempty"`
}

// z99 is the number of standard deviations at the 99th percentile of a normal distribution.
const z99 = 2.3263478740408408

// Draw returns a time span, at least 0 and at most MaxDraw.
func (d Dist) Draw(r *rand.Rand) time.Duration {
	v := float64(d.Value)
	switch d.Kind {
	case Constant, "":
	case Uniform:
		v = float64(d.Min) + r.Float64()*float64(d.Max-d.Min)
	case Exponential:
		v = r.ExpFloat64() * float64(d.Mean)
	case LogNormal:
		sigma := math.Log(float64(d.P99)/float64(d.Median)) / z99
		v = float64(d.Median) * math.Exp(sigma*r.NormFloat64())
	}
	return time.Duration(min(max(v, 0), float64(MaxDraw)))
}

// MarshalJSON returns a constant as a text, such as "20ms", and others as an object.
func (d Dist) MarshalJSON() ([]byte, error) {
	if d.Kind == Constant || d.Kind == "" {
		return json.Marshal(d.Value)
	}
	type plain Dist
	return json.Marshal(plain(d))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (d *Dist) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*d = Dist{Kind: Constant}
		return json.Unmarshal(b, &d.Value)
	}
	type plain Dist
	return json.Unmarshal(b, (*plain)(d))
}
