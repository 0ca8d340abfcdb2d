package host_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/messages"
)

// disk is a store that may be full.
type disk struct {
	journal.Store
	full   atomic.Bool
	writes atomic.Int64
}

func (d *disk) fault() error {
	d.writes.Add(1)
	if d.full.Load() {
		return journal.Fail(journal.ReasonIO, errors.New("write /srv/stile/journal.db: no space left"), "the commit")
	}
	return nil
}

func (d *disk) Commit(batches []journal.Batch) []error {
	if err := d.fault(); err != nil {
		errs := make([]error, len(batches))
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	return d.Store.Commit(batches)
}

func (d *disk) PutMeta(ctx context.Context, key string, value []byte) error {
	if err := d.fault(); err != nil {
		return err
	}
	return d.Store.PutMeta(ctx, key, value)
}

// A host whose disk is full is not ready, says why without saying where, and is ready
// again when there is room, though no work comes to it meanwhile. It asks the disk seldom,
// and never while all is well.
func TestReadyWhenTheDiskHasRoom(t *testing.T) {
	store := &disk{Store: memory.New()}
	var clock atomic.Int64
	now := func() time.Time { return time.Unix(1_800_000_000, clock.Load()) }
	agent := agentOf("talker", speaks([]string{"hello"}, always()))
	rt, err := stile.New(t.Context(), stile.Config{Dir: t.TempDir(), Store: store, Agents: []*stile.Agent{agent}, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	l, err := host.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := serveRuntime(t, l, rt, host.Config{}, agent)
	unready := func() {
		t.Helper()
		res := d.ask("GET", "/readyz", "")
		body, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != 503 || !strings.Contains(string(body), `"reason":"IO"`) || strings.Contains(string(body), "/srv") {
			t.Errorf("%s %s, %v", res.Status, body, err)
		}
	}
	d.session("s", "talker")
	written := store.writes.Load()
	d.call(200, nil, "GET", "/readyz", "")
	store.full.Store(true)
	d.call(200, nil, "GET", "/readyz", "") // nobody has written yet
	if n := store.writes.Load(); n != written {
		t.Errorf("%d writes of a journal that works", n-written)
	}
	d.refused(503, messages.ErrJournal, "POST", "/v1/sessions/s/runs", `{"input": "hello"}`)
	unready()
	written = store.writes.Load()
	unready()
	store.full.Store(false)
	unready() // it was tried a moment ago
	if n := store.writes.Load(); n != written {
		t.Errorf("%d writes within a moment", n-written)
	}
	clock.Add(int64(stile.ProbePause))
	d.call(200, nil, "GET", "/readyz", "")
	d.call(202, nil, "POST", "/v1/sessions/s/runs", `{"input": "hello"}`)
	store.full.Store(true)
	d.refused(503, messages.ErrJournal, "POST", "/v1/sessions", `{"agent": "talker", "id": "t"}`)
	unready()
	clock.Add(int64(stile.ProbePause))
	unready()
	store.full.Store(false)
	clock.Add(int64(stile.ProbePause))
	d.call(200, nil, "GET", "/readyz", "")
}
