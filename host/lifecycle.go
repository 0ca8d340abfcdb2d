package host

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host/access"
	"github.com/seed14be6753/stile/messages"
)

// deleteWait is how long a session that is deleted has to let go of what it does.
const deleteWait = 20 * time.Second

// reasonErasing means that a person's sessions are too many for one request.
const reasonErasing = "ERASING"

// erasedUser is what was erased of a person.
type erasedUser struct {
	User     string `json:"user" doc:"as sessions have it"`
	Sessions int    `json:"sessions" doc:"erased now; 0 when nothing was left"`
}

// forkSpec is the wish for a session that continues another one.
type forkSpec struct {
	ID   string `json:"id,omitempty" maxLength:"128" doc:"of the new session; a new one when it is left out"`
	Turn int64  `json:"turn,omitempty" minimum:"0" doc:"index of the turn from whose decision on it continues; 0 or nothing is the last"`
	// Title takes the place of the one that the fork would take over.
	Title string `json:"title,omitempty" maxLength:"200" doc:"one line, of at most 200 bytes; the title of the session that it continues when this is left out"`
	Stop  bool   `json:"stop,omitempty" doc:"a run that would go on behind the turn ends in the new session, which waits for an input"`
	// Input begins the fork before the run of the turn.
	Input string `json:"input,omitempty" maxLength:"524288" doc:"the new session has what was before the run of the turn, and this as its next input, whose run begins at once: edit and try again. Not with stop"`
}

func (s *Server) lifecycleRoutes() {
	op := huma.Operation{
		OperationID: "delete-session", Method: http.MethodDelete, Path: "/v1/sessions/{id}", Summary: "Delete a session and erase what it said", DefaultStatus: http.StatusNoContent, Tags: []string{"sessions"},
		Description: "What is in flight is cancelled. The bodies of the records are removed for good, those of child sessions too; headers and hashes stay, and verify. The id is free again.",
	}
	route(s, asks(access.Admin, op), s.deleteSession)
	erase := huma.Operation{
		OperationID: "erase-user", Method: http.MethodDelete, Path: "/v1/users/{user}", Summary: "Erase what a user of the tenant said, and what was learned of them", Tags: []string{"sessions"},
		Description: "Deletes all sessions of the user, as delete-session does, the learned profile, and the folders in which agents worked for the user alone, at all hosts of a cluster. Tokens of the user stay, and so do backups. It may be repeated until it succeeds; then it finds nothing.",
	}
	route(s, asks(access.Admin, erase), s.eraseUser)
	route(s, post("fork-session", "/v1/sessions/{id}/fork", "Continue a session from one of its turns as a new one", http.StatusCreated, "sessions"), s.forkSession)
}

func (s *Server) deleteSession(ctx context.Context, in *sessionIn) (*struct{}, error) {
	if err := checkID(in.ID); err != nil {
		return nil, err
	}
	p := s.principal(ctx)
	// A client that goes away shall not leave half of it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteWait)
	defer cancel()
	sid := p.sid(in.ID)
	if err := s.reachable(ctx, sid); err != nil {
		return nil, err
	}
	if err := s.rt.Delete(ctx, sid, p.identity.Token); err != nil {
		return nil, err
	}
	s.meter.forget(sid)
	return nil, nil
}

type eraseUserIn struct {
	User string `path:"user" maxLength:"256" doc:"of the tenant, as X-Stile-User names one; another one than the caller needs the scope users"`
}

// eraseUser erases a user of the tenant at this host.
func (s *Server) eraseUser(ctx context.Context, in *eraseUserIn) (*answered[erasedUser], error) {
	p := s.principal(ctx)
	user := access.Part(in.User)
	if user != p.identity.User && !p.identity.May(access.Users) {
		return nil, access.Denied(access.ReasonScope, "the token lacks the scope users, and erases no other user than its own")
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteWait)
	defer cancel()
	if !s.erased.room() {
		return nil, tooMuch(http.StatusServiceUnavailable, messages.ErrBusy, reasonErasing, "too many users are erased at once: ask again", time.Second)
	}
	names, err := s.rt.EraseUser(ctx, p.tenant, user, p.identity.Token)
	s.erased.add(p.tenant, user) // what was open of them ends
	for _, sid := range names {
		s.meter.forget(sid)
	}
	trailOf(ctx).noting("user " + user + ", " + strconv.Itoa(len(names)) + " sessions")
	if ctx.Err() != nil {
		err = tooMuch(http.StatusServiceUnavailable, messages.ErrBusy, reasonErasing, strconv.Itoa(len(names))+" sessions are erased, and there are more: ask again", time.Second)
	}
	if err != nil {
		if d := misdirectedOf(ctx); d != nil {
			d.erased = len(names)
		}
		return nil, err
	}
	return &answered[erasedUser]{Body: erasedUser{User: user, Sessions: len(names)}}, nil
}

type forkSessionIn struct {
	ID   string `path:"id" maxLength:"128"`
	Body forkSpec
}

func (s *Server) forkSession(ctx context.Context, in *forkSessionIn) (*answered[sessionView], error) {
	if _, err := s.find(ctx, in.ID); err != nil {
		return nil, err
	}
	if in.Body.Stop && in.Body.Input != "" {
		return nil, &messages.Error{Code: messages.ErrInvalid, Field: "stop", Detail: "input begins a run, and stop wants none: give one of them"}
	}
	p, id := s.principal(ctx), in.Body.ID
	if id == "" {
		id = uuid.Must(uuid.NewV7()).String()
	}
	var about *amendment
	if in.Body.Title != "" {
		about = &amendment{by: p.user, title: &in.Body.Title}
		if err := about.check(); err != nil {
			return nil, err
		}
	}
	done, err := s.vacant(ctx, p, id)
	if err != nil {
		return nil, err
	}
	defer done()
	begun, err := s.room(ctx, p.tenant)
	if err != nil {
		return nil, err
	}
	trailOf(ctx).about(in.ID+" as "+id, 0)
	h, err := s.fork(ctx, p.sid(in.ID), p.sid(id), &in.Body)
	begun(err == nil)
	if err != nil {
		return nil, err
	}
	if about != nil {
		ses, err := s.rt.Find(ctx, p.sid(id))
		if err == nil {
			err = about.amend(ctx, ses)
		}
		if err == nil {
			*h, err = ses.Head(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
	v, err := s.viewOf(ctx, id, *h)
	return &answered[sessionView]{Body: v}, err
}

// fork makes the session that a spec wishes. One with an input takes room for a run, which
// begins.
func (s *Server) fork(ctx context.Context, sid, newSID string, spec *forkSpec) (h *stile.Head, err error) {
	switch {
	case spec.Stop:
		return s.rt.ForkStopped(ctx, sid, spec.Turn, newSID)
	case spec.Input == "":
		return s.rt.Fork(ctx, sid, spec.Turn, newSID)
	}
	left, err := s.afford(ctx, newSID)
	if err != nil {
		return nil, err
	}
	done, err := s.admit(ctx, newSID)
	if err != nil {
		return nil, err
	}
	run := int64(0)
	defer func() { done(run) }()
	if h, err = s.rt.ForkInput(ctx, sid, spec.Turn, newSID, spec.Input, within(left)); err != nil {
		return nil, s.spent(err)
	}
	ses, err := s.rt.Find(ctx, newSID)
	if err != nil {
		return nil, err
	}
	for r, err := range ses.RecordsAfter(ctx, h.Seq-1) { // the input is the last one
		if err != nil {
			return nil, err
		}
		run = r.Run
	}
	return h, ses.Wake(ctx)
}

// vacant checks that a new session may have an id: it is one, and no session has it. Until
// done is called no other request gets it: of several requests at once one begins the session,
// and the others wait for what comes of that.
func (s *Server) vacant(ctx context.Context, p principal, id string) (done func(), err error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	if isEphemeral(id) {
		return nil, refusalOf(messages.ErrInvalid, "body.id", "ids of a UUID behind "+ephemeralPrefix+" are of conversations that begin without a session, and end by themselves")
	}
	sid := p.sid(id)
	if done, err = s.alone(ctx, sid); err != nil { // who is told that it exists may submit to it at once
		return nil, err
	}
	h, err := s.rt.Archive().Head(ctx, sid)
	switch {
	case stile.IsNotFound(err), err == nil && h.Closed:
		return done, nil
	case err == nil:
		err = refusalOf(messages.ErrConflict, "body.id", "the session exists already")
	}
	done()
	return nil, err
}

// alone gives a request a SID for itself until done is called, once it has no other request's.
func (s *Server) alone(ctx context.Context, sid string) (done func(), err error) {
	mine := make(chan struct{})
	for {
		other, taken := s.beginning.LoadOrStore(sid, mine)
		if !taken {
			break
		}
		select {
		case <-other.(chan struct{}):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return func() {
		s.beginning.Delete(sid)
		close(mine)
	}, nil
}

// How retention works: seldom, and little at a time.
const (
	retentionEvery = time.Hour
	retentionBatch = 1000
)

// retain deletes sessions whose time is over, until the function that comes back is
// called.
func (s *Server) retain() (stop func()) {
	chats := cmp.Or(s.cfg.ChatRetention, DefaultChatRetention)
	if s.cfg.Retention <= 0 && chats <= 0 {
		return func() {}
	}
	every := retentionEvery
	for _, d := range []time.Duration{s.cfg.Retention, chats} {
		if d > 0 {
			every = min(every, d)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			n, err := s.expire(ctx, chats)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				s.log.Error("retention", zap.Error(err))
			case n > 0:
				s.log.Info("sessions were deleted because their time is over", zap.Int("sessions", n))
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// expire deletes sessions whose time is over by now, chats being that of those without a name. It
// returns how many.
func (s *Server) expire(ctx context.Context, chats time.Duration) (n int, err error) {
	if s.cfg.Retention > 0 {
		n, err = s.rt.Expire(ctx, s.now().Add(-s.cfg.Retention), retentionBatch)
	}
	if err != nil || chats <= 0 {
		return n, err
	}
	gone, err := s.expireEphemeral(ctx, s.now().Add(-chats), retentionBatch)
	return n + gone, err
}
