package host

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host/access"
	"github.com/seed14be6753/stile/host/internal/responses"
	said "github.com/seed14be6753/stile/internal/answer"
	"github.com/seed14be6753/stile/messages"
)

// The door for clients of OpenAI's Responses API. A model is an agent, and a conversation a
// session. A response that goes on with another one is the next run of its session or, when the
// session has gone on since, of a fork of it. What a request and a response look like is said in
// host/internal/responses.

const responsesPattern = "POST /v1/responses"

// overHeader names the members of a request that were passed over.
const overHeader = "X-Stile-Passed-Over"

func (s *Server) responseRoutes(mux *http.ServeMux) {
	s.require(access.Submit, responsesPattern)
	s.names[responsesPattern] = "create-response"
	mux.HandleFunc(responsesPattern, func(w http.ResponseWriter, r *http.Request) {
		if err := s.respond(w, r); err != nil {
			s.refuseChat(w, r, err)
		}
	})
}

// readBody reads what a client of OpenAI sends.
func readBody(r *http.Request) ([]byte, error) {
	body, err := readMessage(r, chatPattern, dataScheme)
	if err != nil {
		return nil, err
	}
	if key := r.Header.Get(keyHeader); len(key) > 256 {
		return nil, unserved(keyHeader, "a key has at most 256 bytes")
	}
	return body, nil
}

// respond answers a request; an error is one from before the answer began.
func (s *Server) respond(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(r)
	if err != nil {
		return err
	}
	q, err := responses.Parse(body)
	if err != nil {
		return err
	}
	named := r.Header.Get(sessionHeader)
	if named != "" && (q.Previous != nil || q.Conversation != "") {
		return unserved(sessionHeader, "give a session, a conversation or the response before, not two of them")
	}
	place, err := s.place(r.Context())
	if err != nil {
		return err
	}
	defer place()
	asked, err := s.asked(r, named, body, func(ctx context.Context, c *call) error {
		err := s.beginResponse(ctx, r, q, c)
		c.over = q.Over
		return err
	})
	if err != nil {
		return err
	}
	run, ended := asked.run, false
	defer func() { s.unasked(r, asked, q.Stream, ended) }()
	h := w.Header()
	h.Set(sessionHeader, asked.session)
	h.Set(runHeader, strconv.FormatInt(run.Ordinal(), 10))
	if len(asked.over) > 0 {
		h.Set(overHeader, strings.Join(asked.over, ", "))
	}
	out := &responses.Reply{Request: q, ID: asked.response, Name: asked.name, Session: asked.session, Run: run.Ordinal(), Created: asked.created}
	c := newReply(run)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.leaving, cancel)()
	if q.Stream {
		s.streamResponse(ctx, cancel, w, r, run, c, out)
		ended = c.Ended != nil
		return nil
	}
	err = s.wholeReply(ctx, w, r, run, c, func(text string) any { return out.Whole(text, c.outcome()) })
	ended = c.Ended != nil
	return err
}

// outcome is how the run ended, for a response.
func (c *chatReply) outcome() responses.Outcome {
	return responses.Outcome{Run: c.Ended.Run, Decision: string(c.end().Decision), Usage: c.Usage, Cut: c.reason() == "length", Ended: c.Ended.TS}
}

// streamResponse sends events as the text grows. A HALT ends the stream with response.failed.
func (s *Server) streamResponse(ctx context.Context, cancel func(), w http.ResponseWriter, r *http.Request, run *stile.Run, c *chatReply, reply *responses.Reply) {
	out := newEventWriter(w, cancel)
	defer out.stop()
	send := func(events []responses.Event) {
		for _, e := range events {
			out.sendEvent(e.Type, e.Data)
		}
	}
	openEvents(w, out)
	send(reply.Begin())
	for piece, err := range s.pieces(ctx, run, c, true) {
		if piece != "" {
			send(reply.Grow(piece))
		}
		switch {
		case err != nil && movesOn(ctx, r, err):
		case err != nil && listens(r):
			e := chatErrorOf(problemOf(err)).Error
			send(reply.Fail(e.Code, e.Type, e.Message))
		case err == nil && c.Ended != nil:
			send(reply.End(c.outcome()))
		case out.failed():
			return
		}
	}
}

// beginResponse begins the run of a request, in the session that the request is for.
func (s *Server) beginResponse(ctx context.Context, r *http.Request, q *responses.Request, c *call) error {
	agent := s.offered(ctx, q.Model)
	if agent == nil {
		return noAgent()
	}
	before, err := s.before(ctx, q.Before)
	if err != nil {
		return err
	}
	key := r.Header.Get(keyHeader)
	ask := responseAsk{q: q, agent: agent, key: key, before: before}
	if q.Previous != nil {
		err = s.goOn(ctx, &ask, c)
	} else {
		err = s.beginConversation(ctx, &ask, r.Header.Get(sessionHeader), c)
	}
	if err != nil {
		return err
	}
	c.ephemeral = isEphemeral(c.session)
	told := responses.Told(q.Instructions)
	if told == "" && q.Previous != nil {
		told = q.Previous.Told
	}
	if q.Store {
		c.response = &responses.ID{Inc: ask.inc, Run: c.run.Ordinal(), Told: told}
		return nil
	}
	id := uuid.Must(uuid.NewV7())
	if key != "" { // a repeat has the name of the request before
		id = uuid.NewSHA1(uuid.UUID(ask.inc), []byte(strconv.FormatInt(c.run.Ordinal(), 10)+"\n"+key))
	}
	c.name = "resp_" + strings.ReplaceAll(id.String(), "-", "")
	return nil
}

// responseAsk is what a request asks of a session.
type responseAsk struct {
	q      *responses.Request
	agent  *stile.Agent
	key    string
	before []stile.Said
	inc    messages.Incarnation // of the session that was asked
	keyed  bool                 // the session is that of the key
}

// submit submits to a session of the agent. With tell the model is given the instructions of the
// client, as a message of the user in front of the others.
func (s *Server) submitResponse(ctx context.Context, ask *responseAsk, ses *stile.Session, tell bool) (*stile.Run, error) {
	if err := runsAgent(ses, ask.q.Model, ask.keyed); err != nil {
		return nil, err
	}
	held := ask.before
	if tell && ask.q.Instructions != "" {
		held = append([]stile.Said{{Role: messages.RoleUser, Text: ask.q.Instructions}}, held...)
	}
	var parts []part
	for _, p := range ask.q.Parts {
		one, err := dataURI(p.URI, p.Name, p.At)
		if err != nil {
			return nil, err
		}
		parts = append(parts, one)
	}
	opts, err := attached(parts)
	if err != nil {
		return nil, err
	}
	if len(held) > 0 {
		opts = append(opts, stile.Conversation(held...))
	}
	if ask.key != "" {
		opts = append(opts, stile.IdempotencyKey(ask.key))
	}
	ask.inc = ses.Incarnation()
	return s.submitNow(ctx, ses, ask.agent.Manifest.Loop.Busy, ask.q.Text, opts...)
}

// beginConversation submits to the session that a request names, or to one of its own.
func (s *Server) beginConversation(ctx context.Context, ask *responseAsk, named string, c *call) (err error) {
	field := sessionHeader
	if c.session = named; ask.q.Conversation != "" {
		c.session, field = ask.q.Conversation, "conversation"
	}
	if c.session == "" {
		key := ask.key
		if key != "" {
			key = responsesPattern + "\n" + key
		}
		c.session, ask.keyed = ephemeralID(key), true
	} else if err := checkID(c.session); err != nil {
		return &messages.Error{Code: messages.ErrInvalid, Field: field, Detail: "an id is made of letters, digits, dots, underscores and hyphens"}
	} else {
		named = c.session
	}
	name := s.principal(ctx).sid(c.session)
	ses, err := s.rt.Find(ctx, name)
	tell := named == ""
	switch {
	case !stile.IsNotFound(err):
	case named == "":
		ses, err = s.beginEphemeral(ctx, name, ask.agent)
	case isEphemeral(named):
		err = expired()
	default:
		tell = true
		ses, err = s.begin(ctx, name, ask.agent)
	}
	if err != nil {
		return err
	}
	if !tell && ask.q.Instructions != "" {
		ask.q.Over = append(ask.q.Over, "instructions")
		slices.Sort(ask.q.Over)
	}
	c.run, err = s.submitResponse(ctx, ask, ses, tell)
	return err
}

// goOn submits behind the run of an earlier response: to its session, or to a fork of it when
// the session has gone on since.
func (s *Server) goOn(ctx context.Context, ask *responseAsk, c *call) error {
	prev, own := ask.q.Previous, s.principal(ctx).sid("")
	none := responses.NoResponse(ask.q.PreviousText())
	head, err := s.rt.Archive().HeadOf(ctx, prev.Inc)
	if err != nil || !strings.HasPrefix(head.SID, own) {
		return orMissing(err, none)
	}
	done, err := s.alone(ctx, head.SID) // of two requests that go on from here one makes a fork
	if err != nil {
		return err
	}
	defer done()
	if head, err = s.rt.Archive().HeadOf(ctx, prev.Inc); err != nil || head.Closed || !head.Live || head.Run < prev.Run {
		return orMissing(err, none)
	}
	ses, err := s.find(ctx, head.SID[len(own):])
	if err != nil {
		return orMissing(err, none)
	}
	tell := responses.Told(ask.q.Instructions) != prev.Told
	c.session = head.SID[len(own):]
	joins := false
	if head.Run+head.Queued > prev.Run {
		if joins, err = s.hasKey(ctx, ses, prev.Run, ask.key); err != nil {
			return err
		}
		if !joins {
			if ses, c.session, err = s.forkAt(ctx, ask, ses, prev.Run); err != nil {
				return orMissing(err, none)
			}
		}
	}
	c.run, err = s.submitResponse(ctx, ask, ses, tell)
	return err
}

// orMissing is err, or none when there was no error, or nothing was found.
func orMissing(err, none error) error {
	if err == nil || stile.IsNotFound(err) || messages.CodeOf(err) == messages.ErrNotFound {
		return none
	}
	return err
}

// hasKey reports whether an input behind a run has an idempotency key.
func (s *Server) hasKey(ctx context.Context, ses *stile.Session, run int64, key string) (bool, error) {
	if key == "" {
		return false, nil
	}
	for r, err := range ses.RecordsAfter(ctx, 0) {
		if err != nil {
			return false, err
		}
		if in, ok := r.Body.(*messages.Input); ok && r.Run > run && in.Key == key {
			return true, nil
		}
	}
	return false, nil
}

// forkAt makes a session that continues another one from the end of a run. With an idempotency
// key a repeat finds the same fork.
func (s *Server) forkAt(ctx context.Context, ask *responseAsk, ses *stile.Session, run int64) (*stile.Session, string, error) {
	key := ask.key
	if key != "" {
		key = responsesPattern + "\n" + ask.q.PreviousText() + "\n" + key
	}
	id := ephemeralID(key)
	sid := s.principal(ctx).sid(id)
	if there, err := s.rt.Find(ctx, sid); !stile.IsNotFound(err) {
		return there, id, err
	}
	if err := s.taking(); err != nil {
		return nil, "", err
	}
	o, ended, err := ses.Run(run).Outcome(ctx)
	if err != nil {
		return nil, "", err
	}
	if !ended || o.DecidedSeq == 0 {
		return nil, "", refusalOf(messages.ErrConflict, "previous_response_id", "the response before has not ended, or was cancelled before it began")
	}
	turn := int64(0)
	for r, err := range ses.RecordsAfter(ctx, o.DecidedSeq-1) {
		if err != nil {
			return nil, "", err
		}
		turn = r.Turn
		break
	}
	if _, err := s.rt.Fork(ctx, ses.SID(), turn, sid); err != nil {
		return nil, "", err
	}
	s.countEphemeral(sid)
	fork, err := s.rt.Find(ctx, sid)
	return fork, id, err
}

// maxReferred bounds the sessions whose answers one request refers to.
const maxReferred = 1024

// before returns the messages in front of the last one, with what they refer to.
func (s *Server) before(ctx context.Context, items []responses.Item) ([]stile.Said, error) {
	wanted := map[messages.Incarnation]map[int64]*said.Account{}
	for i := range items {
		if ref := items[i].Ref; ref != nil {
			if wanted[ref.Inc] == nil {
				wanted[ref.Inc] = map[int64]*said.Account{}
			}
			wanted[ref.Inc][ref.Run] = &said.Account{Most: stile.MaxHistoryBytes}
		}
	}
	if len(wanted) > maxReferred {
		return nil, unserved("input", "the items refer to more than "+strconv.Itoa(maxReferred)+" responses")
	}
	for inc, runs := range wanted {
		if err := s.recallRuns(ctx, inc, runs); err != nil {
			return nil, err
		}
	}
	var all []stile.Said
	for i := range items {
		one := items[i].Said
		if ref := items[i].Ref; ref != nil {
			a := wanted[ref.Inc][ref.Run]
			if a.Ended == nil {
				return nil, &messages.Error{Code: messages.ErrNotFound, Field: "input[" + strconv.Itoa(i) + "].id", Detail: "there is no such item: it has expired, was not stored, or never was"}
			}
			one = stile.Said{Role: messages.RoleAssistant, Text: a.Text()}
		}
		if one.Text != "" {
			all = append(all, one)
		}
	}
	return all, nil
}

// recallRuns reads what runs of a session of the caller's said.
func (s *Server) recallRuns(ctx context.Context, inc messages.Incarnation, runs map[int64]*said.Account) error {
	head, err := s.rt.Archive().HeadOf(ctx, inc)
	own := s.principal(ctx).sid("")
	if err != nil || !strings.HasPrefix(head.SID, own) || head.Closed || !head.Live || s.reachable(ctx, head.SID) != nil {
		if stile.IsNotFound(err) {
			err = nil
		}
		return err // the items are missing
	}
	for r, err := range s.rt.Archive().Records(ctx, inc) {
		if err != nil {
			return err
		}
		if a := runs[r.Run]; a != nil {
			a.Take(r)
		}
	}
	return nil
}
