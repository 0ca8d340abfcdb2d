package telemetry

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"
	"go.uber.org/zap/zapcore"
)

// Slog returns libraries that log by slog, protoactor above all, a way into log.
func Slog(log *zap.Logger) *slog.Logger {
	return slog.New(zapslog.NewHandler(log.Core(), zapslog.WithName(log.Name())))
}

// Zap is the other way: entries go to a handler of slog, with their time, level, caller and
// fields. A namespace is a group, the logger's name the attribute logger, a stack the
// attribute stack. Levels above error stay above slog's.
func Zap(h slog.Handler) *zap.Logger {
	return zap.New(&slogCore{h}, zap.AddCaller(), zap.AddStacktrace(zapcore.DPanicLevel))
}

// slogCore is a zapcore.Core in front of a handler, which says itself what it keeps and
// how it is shared between goroutines.
type slogCore struct{ h slog.Handler }

func slogLevel(l zapcore.Level) slog.Level { return slog.Level(4 * l) }

func (c *slogCore) Enabled(l zapcore.Level) bool {
	return c.h.Enabled(context.Background(), slogLevel(l))
}

func (c *slogCore) With(fields []zapcore.Field) zapcore.Core {
	h := c.h
	for _, f := range fields {
		if f.Type == zapcore.NamespaceType {
			h = h.WithGroup(f.Key)
		} else if attrs := attrsOf(f); len(attrs) > 0 {
			h = h.WithAttrs(attrs)
		}
	}
	return &slogCore{h}
}

func (c *slogCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

func (c *slogCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	r := slog.NewRecord(e.Time, slogLevel(e.Level), e.Message, e.Caller.PC)
	if e.LoggerName != "" {
		r.AddAttrs(slog.String("logger", e.LoggerName))
	}
	if e.Stack != "" {
		r.AddAttrs(slog.String("stack", e.Stack))
	}
	r.AddAttrs(grouped(fields)...)
	return c.h.Handle(context.Background(), r)
}

func (c *slogCore) Sync() error { return nil }

// grouped are the fields as attributes, those behind a namespace in its group.
func grouped(fields []zapcore.Field) []slog.Attr {
	var attrs []slog.Attr
	for i, f := range fields {
		if f.Type == zapcore.NamespaceType {
			return append(attrs, slog.Attr{Key: f.Key, Value: slog.GroupValue(grouped(fields[i+1:])...)})
		}
		attrs = append(attrs, attrsOf(f)...)
	}
	return attrs
}

// attrsOf is one field, which may have several keys: an error has its details beside it.
func attrsOf(f zapcore.Field) []slog.Attr {
	enc := zapcore.NewMapObjectEncoder()
	f.AddTo(enc)
	return attrsIn(enc.Fields)
}

func attrsIn(m map[string]any) []slog.Attr {
	attrs := make([]slog.Attr, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if in, ok := m[k].(map[string]any); ok {
			attrs = append(attrs, slog.Attr{Key: k, Value: slog.GroupValue(attrsIn(in)...)})
		} else {
			attrs = append(attrs, slog.Any(k, m[k]))
		}
	}
	return attrs
}
