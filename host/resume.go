package host

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/seed14be6753/stile/host/internal/forward"
)

// The answer of another host is passed to the client as it comes. When a stream of events breaks, a
// proxy asks the host that runs the session by then for what follows the last whole event. Answers for
// clients of OpenAI have no such events: splice.go.

// opens reports whether the stream that answers the request begins with a line of its own.
func (t *proxy) opens() bool { return t.pattern == submitPattern || following(t.r, t.pattern) }

// rooms are buffers for answers under way.
var rooms = sync.Pool{New: func() any { return new([16 << 10]byte) }}

// copied passes an answer on.
func (t *proxy) copied(ctx context.Context, resp *http.Response) outcome {
	events := strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")
	if t.w.Begun() {
		switch {
		case resp.StatusCode == http.StatusNoContent:
			return settled // all of it was seen
		case t.splice != nil && (resp.StatusCode != http.StatusOK || !events):
			return t.refused(resp)
		case resp.StatusCode != http.StatusOK || !events:
			return cutOff
		}
	} else if t.splice != nil && !events {
		return t.whole(ctx, resp)
	} else {
		head := t.w.Adopt(resp.Header)
		if n := resp.ContentLength; n >= 0 && !events {
			head.Set("Content-Length", strconv.FormatInt(n, 10))
		}
		t.w.WriteHeader(resp.StatusCode)
		// The first event may be long in coming. Streams of runs and sessions begin with a line that
		// comes with their head, and are flushed with it.
		if events && !t.opens() && t.w.FlushError() != nil {
			return settled
		}
	}
	room := rooms.Get().(*[16 << 10]byte)
	defer rooms.Put(room)
	buf := room[:]
	for {
		n, err := resp.Body.Read(buf)
		if n > 0 {
			if _, bad := t.w.Write(buf[:n]); bad != nil {
				return settled // the client is gone
			}
			if events && !errors.Is(err, io.EOF) && t.w.FlushError() != nil { // the answer's end is sent with its last events
				return settled
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			return settled
		case t.r.Context().Err() != nil:
			return settled
		case errors.Is(context.Cause(ctx), errLeaving) && events:
			t.stops()
			return settled
		case events:
			t.c.client.Count(forward.Broken)
			return cutOff
		default:
			t.c.client.Count(forward.Broken)
			panic(http.ErrAbortHandler)
		}
	}
}

// whole passes an answer on that does not stream, when all of it is here: where the other host dies in
// the middle, the next owner of the run gives it.
func (t *proxy) whole(ctx context.Context, resp *http.Response) outcome {
	body, err := io.ReadAll(resp.Body)
	switch {
	case t.r.Context().Err() != nil:
		return settled
	case err != nil && errors.Is(context.Cause(ctx), errLeaving):
		t.refuse("the host is stopping")
		return settled
	case err != nil:
		t.c.client.Count(forward.Broken)
		return elsewhere
	}
	t.w.Adopt(resp.Header).Set("Content-Length", strconv.Itoa(len(body)))
	t.w.WriteHeader(resp.StatusCode)
	_, _ = t.w.Write(body) // a client that is gone reads nothing
	return settled
}

// refused ends a stream that the next owner of its run refuses to go on with. What may change is asked
// again.
func (t *proxy) refused(resp *http.Response) outcome {
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= http.StatusInternalServerError {
		return cutOff
	}
	_, _ = t.w.ResponseWriter.Write(t.splice.refused(body)) // a client that is gone reads nothing
	return settled
}

// resume makes the request by which a stream goes on behind its last event. It reports false
// when no host tells which run was begun.
func (t *proxy) resume() bool {
	t.w.Again()
	if t.splice != nil { // asked once more, under its key
		id := t.w.Header().Get(sessionHeader)
		t.splice.again()
		t.splice.alone = isEphemeral(id)
		t.sid, t.resumed, t.wants = t.c.s.principal(t.r.Context()).sid(id), true, ""
		return true
	}
	r := t.r.Clone(t.r.Context())
	if t.pattern == submitPattern && !t.resumed {
		run, ok := t.submitted()
		if !ok {
			return false
		}
		q := url.Values{}
		for _, name := range []string{"stream", "format"} {
			if v := t.r.URL.Query().Get(name); v != "" {
				q.Set(name, v)
			}
		}
		r.Method, t.body = http.MethodGet, nil
		r.URL = &url.URL{Path: t.r.URL.Path + "/" + strconv.FormatInt(run.Run, 10) + "/events", RawQuery: q.Encode()}
		r.Header.Del("Content-Type")
		r.Header.Set("Last-Event-ID", run.Position)
	}
	if last := t.w.LastID(); last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	t.r, t.resumed = r, true
	return true
}

// submitted asks which run a submit has begun.
func (t *proxy) submitted() (v runView, ok bool) {
	r := t.r.Clone(t.r.Context())
	r.URL = &url.URL{Path: t.r.URL.Path}
	var answer forward.Recorder
	again := &proxy{c: t.c, w: forward.NewResponse(&answer), r: r, body: t.body, next: t.next, pattern: submitPattern, sid: t.sid, asks: true, resumed: true}
	if again.attempt() != settled || answer.Status != http.StatusAccepted {
		return v, false
	}
	return v, json.Unmarshal(answer.Body.Bytes(), &v) == nil
}
