package telemetry

import (
	"io"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/seed14be6753/stile/messages"
)

// timeFormat is RFC 3339 in UTC with all nine digits, so that lines sort as text.
const timeFormat = "2006-01-02T15:04:05.000000000Z"

// DecisionLog writes one JSON object per decided turn, with exactly the members
// of docs/spec/aeiou.md §17 in that order, each line closed by LF:
//
//	ts SID turn_index decision reason? kid? jti? latency_ms output_bytes
//	scratch_bytes verification_failure_reason? lints? failures? gas_used?
//
// Members marked ? are left out when they have nothing to say. It is safe for
// concurrent use; a line is written in one Write.
type DecisionLog struct{ core zapcore.Core }

// NewDecisionLog writes to w. Writes are serialised. What cannot be written is
// lost here, not in the journal: the log is a projection of it.
func NewDecisionLog(w io.Writer) *DecisionLog {
	// No key of zap's own: the object has the members of the specification alone.
	enc := zapcore.NewJSONEncoder(zapcore.EncoderConfig{
		SkipLineEnding: false,
		LineEnding:     "\n",
		EncodeTime: func(t time.Time, e zapcore.PrimitiveArrayEncoder) {
			e.AppendString(t.UTC().Format(timeFormat))
		},
	})
	return &DecisionLog{core: zapcore.NewCore(enc, zapcore.Lock(zapcore.AddSync(w)), zapcore.InfoLevel)}
}

// Write logs rec if it decides a turn, and else does nothing. The error is the
// writer's.
func (l *DecisionLog) Write(rec *messages.Record) error {
	d, ok := rec.Body.(*messages.TurnDecided)
	if !ok || d == nil {
		return nil
	}
	return l.core.Write(zapcore.Entry{Level: zapcore.InfoLevel}, []zap.Field{zap.Inline(decision{rec, d})})
}

// Sync flushes the writer if it can be flushed.
func (l *DecisionLog) Sync() error { return l.core.Sync() }

// decision encodes itself, so that a line costs no slice of fields.
type decision struct {
	rec *messages.Record
	d   *messages.TurnDecided
}

// MarshalLogObject implements zapcore.ObjectMarshaler.
func (x decision) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	d := x.d
	enc.AddTime("ts", x.rec.TS)
	enc.AddString("SID", x.rec.SID)
	enc.AddInt64("turn_index", d.TurnIndex)
	enc.AddString("decision", string(d.Decision))
	optional(enc, "reason", string(d.Reason))
	optional(enc, "kid", d.KID)
	optional(enc, "jti", d.JTI)
	enc.AddInt64("latency_ms", d.LatencyMS)
	enc.AddInt64("output_bytes", d.OutputBytes)
	enc.AddInt64("scratch_bytes", d.ScratchBytes)
	optional(enc, "verification_failure_reason", d.Verification)
	if len(d.Lints) > 0 {
		if err := enc.AddArray("lints", texts[messages.Code](d.Lints)); err != nil {
			return err
		}
	}
	if len(d.Failures) > 0 {
		if err := enc.AddArray("failures", texts[string](d.Failures)); err != nil {
			return err
		}
	}
	if d.GasUsed != 0 {
		enc.AddInt64("gas_used", d.GasUsed)
	}
	if d.Repair {
		enc.AddBool("repair", true)
	}
	return nil
}

func optional(enc zapcore.ObjectEncoder, key, value string) {
	if value != "" {
		enc.AddString(key, value)
	}
}

type texts[T ~string] []T

// MarshalLogArray implements zapcore.ArrayMarshaler.
func (t texts[T]) MarshalLogArray(enc zapcore.ArrayEncoder) error {
	for _, s := range t {
		enc.AppendString(string(s))
	}
	return nil
}
