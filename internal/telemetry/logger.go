// Package telemetry shows operators what the runtime does: a decision log, metrics
// and the wiring of logs (docs/spec/aeiou.md §17).
//
// Invariants:
//   - nothing here is global: every logger, registry and counter belongs to the
//     value that made it;
//   - everything derived from records is derived here and only here, so the
//     decision log and the counters cannot disagree;
//   - label values come from closed sets, or are capped; nothing a model, user or
//     client wrote becomes a label;
//   - secrets travel as Secret and print as ***.
//
// It decides nothing, and no part of the runtime waits for it or depends on what
// it holds: the journal is the truth.
package telemetry

import (
	"io"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// NewLogger writes entries of at least level to w, as JSON objects or as lines for
// a terminal. Times are RFC 3339 in UTC. Writes are serialised. Stacks are added
// to panics: an error is told by its text and where it is logged.
func NewLogger(level zapcore.LevelEnabler, json bool, w io.Writer) *zap.Logger {
	cfg := zapcore.EncoderConfig{
		TimeKey: "ts", LevelKey: "level", NameKey: "logger", CallerKey: "caller",
		MessageKey: "msg", StacktraceKey: "stack",
		LineEnding:     zapcore.DefaultLineEnding,
		EncodeLevel:    zapcore.LowercaseLevelEncoder,
		EncodeDuration: zapcore.StringDurationEncoder,
		EncodeCaller:   zapcore.ShortCallerEncoder,
		EncodeTime: func(t time.Time, e zapcore.PrimitiveArrayEncoder) {
			e.AppendString(t.UTC().Format(timeFormat))
		},
	}
	enc := zapcore.NewConsoleEncoder(cfg)
	if json {
		enc = zapcore.NewJSONEncoder(cfg)
	}
	out := zapcore.Lock(zapcore.AddSync(w))
	return zap.New(zapcore.NewCore(enc, out, level),
		zap.AddCaller(), zap.AddStacktrace(zapcore.DPanicLevel), zap.ErrorOutput(out))
}
