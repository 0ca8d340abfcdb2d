package target

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/bench/load"
	"github.com/seed14be6753/stile/bench/measure"
	"github.com/seed14be6753/stile/bench/process"
	"github.com/seed14be6753/stile/messages"
)

// Embedded is a runtime in this process.
type Embedded struct {
	name   string
	soak   bool   // tell what is live, and the size of dir
	dir    string // of the journal; "" for one in memory
	rt     *stile.Runtime
	agents map[string]*stile.Agent
	open   sync.Map // session's id → *stile.Session
}

// NewEmbedded returns a target that runs agents in rt, which stays the caller's to close. Of a soak
// it also tells the heap that is live, which takes a collection each time, and the size of the
// journal's folder dir, unless that is "".
func NewEmbedded(name string, soak bool, dir string, rt *stile.Runtime, agents []*stile.Agent) *Embedded {
	e := &Embedded{name: name, soak: soak, dir: dir, rt: rt, agents: map[string]*stile.Agent{}}
	for _, a := range agents {
		e.agents[a.Manifest.Name] = a
	}
	return e
}

// Name implements load.Target.
func (e *Embedded) Name() string { return e.name }

// Usage implements load.Target.
func (e *Embedded) Usage(context.Context) measure.Usage {
	u := process.Own()
	u.Commits, u.Records = e.rt.Journal().Commits.Load(), e.rt.Journal().Records.Load()
	if e.dir != "" {
		u.Fsyncs = e.rt.Journal().Syncs.Load()
	}
	if e.soak {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		u.Live = int64(m.HeapAlloc)
	}
	if e.soak && e.dir != "" {
		u.Disk = size(e.dir)
	}
	return u
}

// size is that of the files in a folder.
func size(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // a file may go while its folder is read
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			n += info.Size()
		}
		return nil
	})
	return n
}

// Do implements load.Target.
func (e *Embedded) Do(ctx context.Context, r *load.Request, w load.Watcher) (string, error) {
	s, err := e.session(ctx, r)
	if err != nil {
		return "", refusalOf(err)
	}
	run, err := s.Submit(ctx, r.Input)
	if err != nil {
		return "", refusalOf(err)
	}
	w.Accepted()
	switch r.Job.Reader {
	case workloadWait:
	case workloadDead:
		next, stop := iter.Pull2(run.Events(ctx))
		defer stop()
		_, _, _ = next()
	default:
		if err := e.read(ctx, r, w, s, run); err != nil {
			return "", err
		}
	}
	o, err := run.Decision(ctx)
	if err != nil {
		return "", &load.Failure{Kind: string(stile.CodeOf(err)), Err: err}
	}
	return decided(string(o.Decision), string(o.Reason)), nil
}

// decided is a decision with its reason.
func decided(decision, reason string) string {
	if reason == "" {
		return decision
	}
	return decision + "/" + reason
}

func (e *Embedded) session(ctx context.Context, r *load.Request) (*stile.Session, error) {
	if s, ok := e.open.Load(r.Session); ok {
		return s.(*stile.Session), nil
	}
	agent, ok := e.agents[r.Job.Agent]
	if !ok {
		return nil, &messages.Error{Code: messages.ErrNotFound, Field: "agent", Detail: r.Job.Agent}
	}
	s, err := e.rt.Open(ctx, r.Session, agent)
	if err == nil {
		e.open.Store(r.Session, s)
	}
	return s, err
}

// read follows a run to its end, cuts its stream where it is told to, and answers what waits for
// approval.
func (e *Embedded) read(ctx context.Context, r *load.Request, w load.Watcher, s *stile.Session, run *stile.Run) error {
	g := newGathering(r, w)
	events := run.Events(ctx)
	for {
		cut := false
		var at stile.Position
		for u, err := range events {
			if err != nil {
				return &load.Failure{Kind: string(stile.CodeOf(err)), Err: err}
			}
			at = u.At
			switch {
			case u.Delta != nil:
				if u.Delta.Kind != stile.Response {
					continue
				}
				if u.Delta.Retract {
					g.retract(u.Delta.Unit.String(), u.Delta.Off)
					continue
				}
				g.text(u.Delta.Unit.String(), u.Delta.Text)
			case u.Record != nil:
				switch b := u.Record.Body.(type) {
				case *messages.UnitText:
					if b.Kind() == stile.Response {
						g.whole(b.Unit, b.Text)
					}
				case *messages.ActionApproval:
					if b.State == messages.GateConfirm {
						if err := approve(ctx, r, s, b.Approval, b.Digest); err != nil {
							return err
						}
					}
				}
			}
			if cut = g.cut(); cut {
				break
			}
		}
		if !cut {
			g.report()
			return nil
		}
		events = run.Resume(ctx, at)
	}
}

// approve answers a question after the person's time.
func approve(ctx context.Context, r *load.Request, s *stile.Session, id string, d messages.Digest) error {
	t := time.NewTimer(r.Approve)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := s.Approve(ctx, stile.Approval{ID: id, Digest: d}, "bench"); err != nil {
		return &load.Failure{Kind: "approval " + string(stile.CodeOf(err)), Err: err}
	}
	return nil
}

// refusalOf makes of an error of the runtime what the load counts.
func refusalOf(err error) error {
	var e *stile.Error
	if errors.As(err, &e) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return &load.Refusal{Why: strings.TrimSpace(string(e.Code) + " " + e.Reason)}
	}
	return err
}
