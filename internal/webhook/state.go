package webhook

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile/internal/files"
	"github.com/seed14be6753/stile/messages"
)

const (
	format = 1
	// saveEvery is the least time between two writes of the file; a large one waits longer, so that no more
	// than savePerSecond bytes a second are written. After a crash what was not saved is offered again.
	saveEvery     = 2 * time.Second
	savePerSecond = 1 << 20
	// lag is how much later than the time of a record its event may be offered: the time that a
	// commit may take.
	lag = 2 * time.Minute
	// maxState bounds the file: all tenants and hooks together.
	maxState = 256 << 20
)

// state is the file: how far the journal has been worked off.
type state struct {
	Format int                  `json:"format"`
	Until  time.Time            `json:"until"` // events of before are delivered, or in this file
	Since  map[string]time.Time `json:"since"` // of hooks
	Done   map[string]time.Time `json:"done"`  // delivered ones of after
	Wait   []*letter            `json:"wait"`
	Dead   []*letter            `json:"dead"`
}

// read reads the file, if there is one.
func (s *Sender) read() (st state, err error) {
	if s.opts.Path == "" {
		return st, nil
	}
	b, err := os.ReadFile(s.opts.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return st, nil
	}
	if err == nil && len(b) > maxState {
		err = errors.New("is too large")
	}
	if err == nil {
		err = json.Unmarshal(b, &st)
	}
	if err == nil && st.Format != format {
		err = errors.New("is of another format")
	}
	if err != nil {
		return state{}, &messages.Error{Code: messages.ErrConfig, Field: "webhooks", File: s.opts.Path, Detail: "what is to be sent cannot be read; take the file away to begin anew", Cause: files.Cause(err)}
	}
	return st, nil
}

// load takes up what is in the file.
func (s *Sender) load() error {
	st, err := s.read()
	if err != nil {
		return err
	}
	s.until, s.behind = st.Until, !st.Until.IsZero()
	for name, at := range st.Since {
		s.since[name] = at
	}
	for key, at := range st.Done {
		s.done[key] = at
	}
	for _, l := range st.Dead {
		s.known[l.key()] = true
		s.dead[l.Event.Tenant] = append(s.dead[l.Event.Tenant], l)
	}
	// What waits has no hooks yet: Set brings them.
	s.loaded = st.Wait
	return nil
}

// adopt has the letters of the file wait for their hooks. The lock is held.
func (s *Sender) adopt(now time.Time) {
	for _, l := range s.loaded {
		if h := s.hooks[l.Hook]; h != nil {
			s.add(h, l, now)
			continue
		}
		l.Error = "the webhook was taken out of the settings"
		s.known[l.key()] = true
		s.bury(l, now)
	}
	s.loaded = nil
}

// save writes the file if something has changed for a while, or now.
func (s *Sender) save(now bool) {
	s.mu.Lock()
	at := time.Now()
	if s.opts.Path == "" || !s.dirty || !now && at.Before(s.due()) {
		s.mu.Unlock()
		return
	}
	s.dirty = false
	s.saved = at
	if !s.behind {
		s.until = at.Add(-lag)
	}
	s.prune(at)
	st := state{Format: format, Until: s.until, Since: s.since, Done: s.done, Wait: slices.Collect(maps.Keys(s.flying))}
	for _, h := range s.hooks {
		for _, q := range h.tenants {
			st.Wait = append(st.Wait, q.letters...)
		}
	}
	for _, all := range s.dead {
		st.Dead = append(st.Dead, all...)
	}
	b, err := json.Marshal(st)
	s.pause = max(saveEvery, time.Duration(len(b))*time.Second/savePerSecond)
	s.mu.Unlock()
	if err == nil {
		err = files.Replace(s.opts.Path, b)
	}
	if err != nil {
		s.opts.Log.Error("what webhooks have sent cannot be saved: after a crash it is sent again", zap.Error(err))
		s.mu.Lock()
		s.changed(at)
		s.mu.Unlock()
	}
}

// due is when what has changed is to be saved. The lock is held.
func (s *Sender) due() time.Time {
	if s.modified.IsZero() { // at once
		return s.modified
	}
	if at := s.saved.Add(s.pause); at.After(s.modified.Add(saveEvery)) {
		return at
	}
	return s.modified.Add(saveEvery)
}

// prune forgets what is too old to matter. The lock is held.
func (s *Sender) prune(now time.Time) {
	for key, at := range s.done {
		if at.Before(s.until) {
			delete(s.done, key)
		}
	}
	for tenant, all := range s.dead {
		for len(all) > 0 && now.Sub(all[0].Died) > deadFor {
			delete(s.known, all[0].key())
			s.tell(all[0].Hook, Dropped)
			all = all[1:]
		}
		if s.dead[tenant] = all; len(all) == 0 {
			delete(s.dead, tenant)
		}
	}
}
