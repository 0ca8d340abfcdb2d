package telemetry

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

type place struct{ x, y int64 }

func (p place) MarshalLogObject(e zapcore.ObjectEncoder) error {
	e.AddInt64("x", p.x)
	e.AddInt64("y", p.y)
	return nil
}

func TestZapIntoSlog(t *testing.T) {
	for _, c := range []struct {
		name string
		log  func(*zap.Logger)
		want string
	}{
		{"fields", func(l *zap.Logger) {
			l.Info("hello", zap.String("s", "a b"), zap.Int("n", -3), zap.Duration("d", time.Second), zap.Bool("b", true), zap.Float64("f", 0.5))
		}, `level=INFO msg=hello s="a b" n=-3 d=1s b=true f=0.5`},
		{"an error", func(l *zap.Logger) { l.Warn("bad", zap.Error(errors.New("no disk"))) }, `level=WARN msg=bad error="no disk"`},
		{"an object is a group", func(l *zap.Logger) { l.Info("at", zap.Object("p", place{1, 2})) }, `level=INFO msg=at p.x=1 p.y=2`},
		{"a namespace is a group", func(l *zap.Logger) {
			l.Info("in", zap.Int("a", 1), zap.Namespace("ns"), zap.Int("b", 2), zap.Namespace("deeper"), zap.Int("c", 3))
		}, `level=INFO msg=in a=1 ns.b=2 ns.deeper.c=3`},
		{"fields of the logger", func(l *zap.Logger) {
			l.With(zap.Int("a", 1), zap.Namespace("ns"), zap.Int("b", 2)).Info("with", zap.Int("c", 3))
		}, `level=INFO msg=with a=1 ns.b=2 ns.c=3`},
		{"a name", func(l *zap.Logger) { l.Named("journal").Info("x") }, `level=INFO msg=x logger=journal`},
		{"a level that is not wanted", func(l *zap.Logger) { l.Debug("quiet") }, ""},
		{"an error has no stack", func(l *zap.Logger) { l.Error("bad", zap.Error(errors.New("no disk"))) }, `level=ERROR msg=bad error="no disk"`},
		{"a panic's level is above error", func(l *zap.Logger) { l.DPanic("odd") }, `level=ERROR+4 msg=odd stack=…`},
	} {
		var b bytes.Buffer
		h := slog.NewTextHandler(&b, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			switch a.Key {
			case slog.TimeKey:
				return slog.Attr{}
			case "stack":
				a.Value = slog.StringValue("…")
			}
			return a
		}})
		c.log(Zap(h))
		if d := cmp.Diff(c.want, strings.TrimSpace(b.String())); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

// caller keeps the program counter of entries.
type caller struct {
	slog.Handler
	pc *uintptr
}

func (c caller) Handle(_ context.Context, r slog.Record) error {
	*c.pc = r.PC
	return nil
}

func TestZapIntoSlogKeepsTheCaller(t *testing.T) {
	var pc uintptr
	Zap(caller{slog.DiscardHandler, &pc}).With(zap.Int("a", 1)) // discards: not enabled
	if pc != 0 {
		t.Error("nothing was logged")
	}
	Zap(caller{slog.NewTextHandler(&bytes.Buffer{}, nil), &pc}).Info("here")
	if src := (slog.Record{PC: pc}).Source(); src == nil || !strings.HasSuffix(src.File, "slog_test.go") {
		t.Errorf("the caller is %v", src)
	}
}

// A program that serves the metrics of Go and of its process has them once.
func TestCollectorJoinsARegistry(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	a, b := NewMetrics(), NewMetrics()
	if err := prometheus.WrapRegistererWith(prometheus.Labels{"runtime": "a"}, reg).Register(a.Collector()); err != nil {
		t.Fatal(err)
	}
	if err := prometheus.WrapRegistererWith(prometheus.Labels{"runtime": "b"}, reg).Register(b.Collector()); err != nil {
		t.Fatal(err)
	}
	a.Committed(2, time.Millisecond)
	fams, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	own, of := 0, 0
	for _, f := range fams {
		switch {
		case strings.HasPrefix(f.GetName(), "stile_"):
			own++
			if f.GetName() == "stile_journal_commits_total" {
				for _, m := range f.GetMetric() {
					of += int(m.GetCounter().GetValue())
				}
			}
		}
	}
	if own < 10 || of != 1 {
		t.Errorf("%d families of stile, %d commits", own, of)
	}
	if _, err := (prometheus.Gatherers{prometheus.DefaultGatherer, gatherer(a.Collector())}).Gather(); err != nil {
		t.Error(err)
	}
}

func gatherer(c prometheus.Collector) prometheus.Gatherer {
	reg := prometheus.NewRegistry()
	reg.MustRegister(c)
	return reg
}
