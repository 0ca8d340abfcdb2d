package host

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host/internal/forward"
	"github.com/seed14be6753/stile/host/internal/mcp"
	"github.com/seed14be6753/stile/messages"
)

// A session of the Model Context Protocol is in the memory of one host of a cluster. Its id names
// that host, and the others forward its requests there. A call for a session of an agent that a
// third host runs is made there by the host that has the protocol's session: on behalf of the
// caller, over the hosts' door, and again at the next owner when that one goes away.

// wantsCall is what a host wants that has a call made: its body is a farCall, and the answer lines
// of farLine.
const wantsCall = "call"

// homeOf is what the ids of a host's sessions of the protocol begin with. It tells no address.
func homeOf(address string) string {
	sum := sha256.Sum256([]byte(address))
	return hex.EncodeToString(sum[:6])
}

// peerAt is the live host, other than this one, whose sessions' ids begin so.
func (c *cluster) peerAt(home string) (stile.Peer, bool) {
	for _, p := range c.s.rt.Peers() {
		if !p.Self && p.Left > 0 && homeOf(p.Address) == home {
			return p, true
		}
	}
	return stile.Peer{}, false
}

// homeWait is how long a request waits for the host of its session of the protocol to be among the
// others: one that has lost its lease is there again at once, as another one.
const homeWait = time.Second

// tools answers a request of the protocol, here or at the host that has its session. A session whose
// host has gone is none any more: this host says so, and the client begins another one.
func (c *cluster) tools(w http.ResponseWriter, r *http.Request, pattern string, next http.Handler) {
	home := mcp.HomeOf(r.Header.Get(mcp.SessionHeader))
	if home == "" || home == c.home || forwarded(r.Context()) {
		next.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		c.s.refuse(w, r, tooLarge(pattern))
		return
	}
	t := &proxy{c: c, w: forward.NewResponse(w), r: r, body: body, next: next, pattern: pattern}
	for until := time.Now().Add(homeWait); ; {
		to, there := c.peerAt(home)
		if there {
			switch out := t.at(to); {
			case out == settled:
				return
			case t.w.Begun():
				panic(http.ErrAbortHandler)
			case out == unknown:
				t.refuse(cmp.Or(t.slow, "the host that has the session of the protocol does not answer"))
				return
			}
		}
		if time.Now().After(until) {
			if there {
				t.refuse(cmp.Or(t.slow, "the host that has the session of the protocol does not answer"))
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			next.ServeHTTP(w, r)
			return
		}
		select {
		case <-time.After(forwardPause):
		case <-r.Context().Done():
			t.refuse("the request has ended")
			return
		}
	}
}

// farCall is a call that one host has another one make.
type farCall struct {
	Agent   string     `json:"agent"`
	Message string     `json:"message,omitempty"`
	Parts   []mcp.Part `json:"parts,omitempty"`
	Session string     `json:"session"`
	Run     int64      `json:"run,omitempty"`
	Key     string     `json:"key,omitempty"`
}

// farLine is a line of the answer; the last one has the answer, or the problem.
type farLine struct {
	Session string      `json:"session,omitempty"` // of the run that was begun
	Run     int64       `json:"run,omitempty"`
	Piece   string      `json:"piece,omitempty"`
	Bytes   int64       `json:"bytes,omitempty"`
	Level   string      `json:"level,omitempty"` // of the event
	Event   *mcp.Event  `json:"event,omitempty"`
	Answer  *mcp.Answer `json:"answer,omitempty"`
	Problem *problem    `json:"problem,omitempty"`
}

// answerCall makes a call for another host.
func (s *Server) answerCall(w http.ResponseWriter, r *http.Request) {
	var in farCall
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		s.refuse(w, r, unserved("body", "the call did not arrive whole"))
		return
	}
	ctx, cancel := asked(r.Context(), r, s.principal(r.Context()))
	defer cancel()
	defer context.AfterFunc(s.leaving, cancel)()
	var mu sync.Mutex
	begun := false
	tell := func(l farLine) {
		mu.Lock()
		defer mu.Unlock()
		if !begun {
			w.Header().Set("Content-Type", "application/x-ndjson")
			begun = true
		}
		if json.NewEncoder(w).Encode(l) != nil || http.NewResponseController(w).Flush() != nil {
			cancel() // the host that asks is gone
		}
	}
	answer, err := s.askAgent(ctx, mcp.Call{
		Agent: in.Agent, Message: in.Message, Parts: in.Parts, Session: in.Session, Run: in.Run, Key: in.Key,
		Begun:    func(session string, run int64) { tell(farLine{Session: session, Run: run}) },
		Progress: func(piece string, bytes int64) { tell(farLine{Piece: piece, Bytes: bytes}) },
		Log:      func(e mcp.Event) { tell(farLine{Level: e.Level, Event: &e}) },
	}, trailOf(r.Context()))
	switch {
	case err == nil:
		tell(farLine{Answer: &answer})
	case s.leaving.Err() != nil && lost(ctx) == nil:
		panic(http.ErrAbortHandler) // the host that asks finds who goes on with it
	default:
		p := problemOf(orLost(ctx, err))
		if !begun && p.goesElsewhere() {
			forward.Refuse(w, 0)
			return
		}
		tell(farLine{Problem: p})
	}
}

// toolCall is a call of a tool on its way to the host that runs its session.
type toolCall struct {
	c       *cluster
	r       *http.Request // with which the call came
	call    mcp.Call
	by      principal
	session string // once it is known
	run     int64  // that was begun; 0 before
	bytes   int64  // of the text that the client was told of
	logs    int    // events that it was told of
}

// askAnywhere is askAgent at the host that runs the session; r is the request that the call came with.
func (s *Server) askAnywhere(ctx context.Context, r *http.Request, call mcp.Call) (mcp.Answer, error) {
	if s.cluster == nil {
		return s.askAgent(ctx, call, trailOf(r.Context()))
	}
	if call.Session != "" && call.Run == 0 {
		call.Key = "host-" + uuid.NewString() // it may have to be made again
	}
	t := &toolCall{c: s.cluster, r: r, call: call, by: s.principal(ctx), session: call.Session, run: call.Run}
	return t.make(ctx)
}

// errCallCut means that it is not known what comes of a call, and that it may be made again.
var errCallCut = &problem{Code: string(messages.ErrBusy), Reason: stile.ReasonElsewhere, Status: http.StatusServiceUnavailable, Detail: "no host runs the session at the moment", Retryable: true}

// make makes the call until a host has answered it.
func (t *toolCall) make(ctx context.Context) (mcp.Answer, error) {
	s := t.c.s
	first, placed := t.place()
	for until := time.Now().Add(forwardPatience); ; {
		owner, far := stile.Peer{}, false
		if placed {
			owner, far = first, true
		} else if t.session != "" {
			if p, ok, err := s.rt.Owner(ctx, t.by.sid(t.session)); err == nil && ok && !p.Self {
				owner, far = p, true
			}
		}
		before := t.bytes + int64(t.logs)
		var answer mcp.Answer
		var err error
		if far {
			answer, err = t.at(ctx, owner)
		} else {
			answer, err = s.askAgent(ctx, t.again(), trailOf(t.r.Context()))
		}
		switch {
		case err == nil && far && len(answer.Approvals) > 0 && t.call.Question != nil:
			if !t.judge(ctx, &answer) {
				return answer, nil
			}
			t.run, until, placed = answer.Run, time.Now().Add(forwardPatience), false
			continue
		case err == nil, ctx.Err() != nil, t.session == "":
			return answer, err
		case placed && t.run == 0 && (problemOf(err).goesElsewhere() || problemOf(err).fullFor(wantsBegin)):
			s.rt.Metrics().Cluster(eventKept)
			t.c.spread.avoid(first.ID, time.Now())
		case !problemOf(err).goesElsewhere():
			return answer, err
		}
		placed = false
		if t.bytes+int64(t.logs) > before {
			until = time.Now().Add(forwardPatience)
		}
		if time.Now().After(until) {
			return answer, err
		}
		select {
		case <-time.After(forwardPause):
		case <-ctx.Done():
			return answer, err
		}
	}
}

// place chooses another host for the session that a call begins, and names the session: the call may
// have to be made again.
func (t *toolCall) place() (to stile.Peer, chosen bool) {
	if t.c.spread == nil || t.session != "" {
		return to, false
	}
	if to, chosen = t.c.spread.choose(t.c.s.rt.Peers(), true, time.Now()); chosen {
		t.c.s.rt.Metrics().Cluster(eventPlaced)
		t.session, t.call.Key = "mcp-"+uuid.Must(uuid.NewV7()).String(), "host-"+uuid.NewString()
	}
	return to, chosen
}

// again is the call as it is made next: when its run was begun it waits for the end of that, and the
// client is not told again what it was told.
func (t *toolCall) again() mcp.Call {
	a := t.call
	if a.Session = t.session; t.run > 0 {
		a.Run, a.Message, a.Parts, a.Key = t.run, "", nil, ""
	}
	told := t.run > 0 && t.call.Run != t.run
	a.Begun = func(session string, run int64) {
		if t.session, t.run = session, run; !told {
			t.call.Begun(session, run)
		}
	}
	a.Progress = func(piece string, bytes int64) {
		if more := bytes - t.bytes; more > 0 {
			piece = strings.ToValidUTF8(piece[max(0, len(piece)-int(more)):], "")
			t.bytes = bytes
			t.call.Progress(piece, bytes)
		}
	}
	logs := 0
	a.Log = func(e mcp.Event) {
		if logs++; logs > t.logs {
			t.logs = logs
			t.call.Log(e)
		}
	}
	return a
}

// at has another host make the call.
func (t *toolCall) at(ctx context.Context, owner stile.Peer) (answer mcp.Answer, err error) {
	c := t.c
	a := t.again()
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(farCall{Agent: a.Agent, Message: a.Message, Parts: a.Parts, Session: a.Session, Run: a.Run, Key: a.Key}); err != nil {
		return answer, err
	}
	ctx, done := c.client.Begin(ctx, owner)
	defer done()
	resp, err := c.client.Send(c.client.Request(ctx, t.request(ctx, http.MethodPost, toolsPath), body.Bytes(), owner, wantsCall))
	if err != nil {
		return answer, errCallCut
	}
	defer resp.Body.Close()
	if _, ok := forward.HasMoved(resp); ok {
		return answer, errCallCut
	}
	lines := json.NewDecoder(resp.Body)
	if resp.StatusCode != http.StatusOK {
		p := &problem{}
		if lines.Decode(p) != nil || p.Code == "" {
			p = make500()
		}
		return answer, p
	}
	for {
		var l farLine
		switch err := lines.Decode(&l); {
		case err != nil:
			c.client.Count(forward.Broken)
			return answer, errCallCut
		case l.Answer != nil:
			return *l.Answer, nil
		case l.Problem != nil:
			return answer, l.Problem
		case l.Event != nil:
			l.Event.Level = l.Level
			a.Log(*l.Event)
		case l.Run > 0:
			a.Begun(l.Session, l.Run)
		default:
			a.Progress(l.Piece, l.Bytes)
		}
	}
}

// request is one of the caller's, for something else.
func (t *toolCall) request(ctx context.Context, method, path string) *http.Request {
	r := t.r.Clone(ctx)
	r.Method, r.URL, r.Body = method, &url.URL{Path: path}, http.NoBody
	for _, name := range []string{mcp.SessionHeader, "Mcp-Protocol-Version", "Last-Event-ID", "Accept"} {
		r.Header.Del(name)
	}
	r.Header.Set("Content-Type", "application/json")
	return r
}

// judge asks the person at the client about the calls that wait, and passes on what they say. It
// reports whether all have a word.
func (t *toolCall) judge(ctx context.Context, answer *mcp.Answer) bool {
	s := t.c.s
	for _, a := range answer.Approvals {
		word := t.call.Question(ctx, a)
		if !word.Said {
			return false
		}
		body, err := json.Marshal(map[string]any{"allow": word.Allow, "digest": a.Digest, "reason": word.Reason})
		if err == nil {
			err = s.recordable()
		}
		if err == nil {
			err = t.says(ctx, a.ID, body)
		}
		s.judged(ctx, trailOf(t.r.Context()), t.call.Agent, t.session, stile.Approval{ID: a.ID, Run: answer.Run}, word.Allow, err)
		if p := (*problem)(nil); err != nil && !(errors.As(err, &p) && p.Reason == stile.ApprovalAnswered) {
			return false
		}
	}
	return true
}

// says answers an approval at the host that runs the session.
func (t *toolCall) says(ctx context.Context, approval string, body []byte) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	defer func() {
		if why := recover(); why != nil { // an answer that broke off
			err = errCallCut
		}
	}()
	var answer forward.Recorder
	way := &proxy{
		c: t.c, w: forward.NewResponse(&answer), r: t.request(ctx, http.MethodPost, fmt.Sprintf("/v1/sessions/%s/approvals/%s", url.PathEscape(t.session), url.PathEscape(approval))),
		body: body, next: t.c.s.mux, pattern: "POST /v1/sessions/{id}/approvals/{approval}", sid: t.by.sid(t.session), asks: true,
	}
	way.serve()
	if answer.Status == http.StatusNoContent {
		return nil
	}
	p := &problem{}
	if json.Unmarshal(answer.Body.Bytes(), p) != nil || p.Code == "" {
		p = make500()
	}
	return p
}
