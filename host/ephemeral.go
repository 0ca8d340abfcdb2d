package host

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

// Ephemeral sessions: conversations that clients of OpenAI begin without naming a session. A
// client sends the whole conversation with each message, so that each is a session of its own.
// Lists leave them out, they are no sessions to the limits of their tenant, and they go by
// themselves: some time after their last run, and the oldest first when they are too many.

// Defaults of Config.ChatRetention and Config.ChatSessions.
const (
	DefaultChatRetention = 24 * time.Hour
	DefaultChatSessions  = 1000
)

const ephemeralPrefix = "chat-"

// ephemeralID names the session of a request that names none. With an idempotency key it is
// made of the key, so that a repeat finds it.
func ephemeralID(key string) string {
	if key == "" {
		return ephemeralPrefix + uuid.Must(uuid.NewV7()).String()
	}
	return ephemeralPrefix + uuid.NewSHA1(uuid.Nil, []byte(key)).String()
}

// isEphemeral reports whether an id is that of an ephemeral session: no other can have it.
func isEphemeral(id string) bool {
	rest, ok := strings.CutPrefix(id, ephemeralPrefix)
	return ok && len(rest) == len(uuid.Nil.String()) && uuid.Validate(rest) == nil
}

// idOf is the id in a SID.
func idOf(sid string) string {
	_, rest, _ := strings.Cut(sid, ":")
	_, id, _ := strings.Cut(rest, ":")
	return id
}

// beginEphemeral begins a session without a name.
func (s *Server) beginEphemeral(ctx context.Context, name string, agent *stile.Agent) (*stile.Session, error) {
	if err := s.taking(); err != nil {
		return nil, err
	}
	ses, err := s.rt.Open(ctx, name, agent)
	if err != nil {
		return nil, err
	}
	s.countEphemeral(name)
	return ses, nil
}

// countEphemeral counts a session that has begun, and has others make room for it.
func (s *Server) countEphemeral(sid string) {
	if tenant := tenantOf(sid); s.meter.ephemeral(tenant, s.chatSessions()) {
		s.trim(tenant)
	}
}

func (s *Server) chatSessions() int { return cmp.Or(s.cfg.ChatSessions, DefaultChatSessions) }

// trim ends the oldest ephemeral sessions of a tenant that has too many, in the background.
// One trim at a time works for a tenant.
func (s *Server) trim(tenant string) {
	if _, busy := s.trimming.LoadOrStore(tenant, true); busy {
		return
	}
	s.tasks.Add(1)
	go func() {
		defer s.tasks.Done()
		defer s.trimming.Delete(tenant)
		there, err := s.trimmed(s.leaving, tenant, s.chatSessions())
		if err == nil {
			s.meter.counted(tenant, there)
		} else if s.leaving.Err() == nil {
			s.log.Error("ephemeral sessions", zap.String("tenant", tenant), zap.Error(err))
		}
	}()
}

// trimmed ends the ephemeral sessions of a tenant that are too many, and some more, so that the
// next few begin without another look. It returns how many stay.
func (s *Server) trimmed(ctx context.Context, tenant string, most int) (there int, err error) {
	keep := most - most/4
	var old []stile.Head
	err = s.eachEphemeral(ctx, tenant+":", time.Time{}, func(h *stile.Head) bool {
		if there++; there > keep && ended(h, s.now()) {
			old = append(old, *h)
		}
		return true
	})
	if err != nil || there <= most {
		return there, err
	}
	slices.Reverse(old) // the one that was silent longest goes first
	n, err := s.endAll(ctx, old[:min(len(old), retentionBatch)], "limit")
	return there - n, err
}

// expireEphemeral ends the ephemeral sessions that have said nothing since before.
func (s *Server) expireEphemeral(ctx context.Context, before time.Time, limit int) (n int, err error) {
	var old []stile.Head
	err = s.eachEphemeral(ctx, "", before, func(h *stile.Head) bool {
		if ended(h, s.now()) {
			old = append(old, *h)
		}
		return len(old) < limit
	})
	if err != nil {
		return 0, err
	}
	return s.endAll(ctx, old, "retention")
}

// eachEphemeral calls f for the ephemeral sessions whose SID begins with prefix, the one that
// changed last first, as long as f returns true. With before only for those that have not
// changed since.
func (s *Server) eachEphemeral(ctx context.Context, prefix string, before time.Time, f func(*stile.Head) bool) error {
	q := stile.SessionQuery(prefix)
	q.Limit, q.AfterUpdated = retentionBatch, before
	for {
		page, err := s.rt.Archive().Listings(ctx, q)
		if err != nil {
			return err
		}
		for i := range page {
			if l := &page[i]; isEphemeral(idOf(l.SID)) && !l.Closed && !f(&l.Head) {
				return nil
			}
		}
		if len(page) < q.Limit {
			return nil
		}
		q.AfterUpdated, q.AfterInc = page[len(page)-1].Updated, page[len(page)-1].Inc
	}
}

// ended reports whether a session has nothing to do at a time. One that was opened a moment ago and has
// had no input waits for that.
func ended(h *stile.Head, now time.Time) bool {
	if h.Open || h.Queued > 0 || h.Suspended() {
		return false
	}
	sec, nsec := h.Inc.Time().UnixTime()
	return h.Run > 0 || now.Sub(time.Unix(sec, nsec)) > time.Minute
}

// endAll deletes sessions that still have nothing to do; a failure with one is logged.
func (s *Server) endAll(ctx context.Context, old []stile.Head, by string) (n int, err error) {
	for i := range old {
		h, err := s.rt.Archive().HeadOf(ctx, old[i].Inc)
		if err == nil && !h.Closed && h.Live && ended(&h, s.now()) {
			if err = s.rt.Delete(ctx, h.SID, by); err == nil {
				s.meter.forget(h.SID)
				n++
			}
		}
		if ctx.Err() != nil {
			return n, ctx.Err()
		}
		if err != nil && !stile.IsNotFound(err) {
			s.log.Warn("an ephemeral session whose time is over stays", zap.String("SID", old[i].SID), zap.Error(err))
		}
	}
	return n, nil
}

// expired is the refusal of an ephemeral session that is named and not there.
func expired() error {
	return &messages.Error{Code: messages.ErrNotFound, Field: sessionHeader, Detail: "no such session: ids of a UUID behind " + ephemeralPrefix + " are of conversations that began without a session, and end by themselves"}
}
