package target

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"hash/fnv"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/seed14be6753/stile/bench/load"
	"github.com/seed14be6753/stile/bench/measure"
	"github.com/seed14be6753/stile/bench/process"
	"github.com/seed14be6753/stile/messages"
)

// maxAnswer bounds an answer that is no stream.
const maxAnswer = 64 << 20

// Host is a host of stile, over its HTTP API, or several that share a journal.
type Host struct {
	bases      []string
	sticky     bool
	next       atomic.Int64
	token      string
	client     *http.Client
	opened     sync.Map // session's id → *opening
	tellsUsage bool
	database   int // its process; 0 when it is not known
}

// opening is a session that is opened once, however many submits ask for it.
type opening struct {
	once sync.Once
	err  error
}

// NewHost returns the host at an address such as http://localhost:8471, or hosts at several with
// commas between: each request goes to the next of them, as behind a load balancer that knows
// nothing of sessions. Each request shows token, unless it is "".
func NewHost(base, token string) (*Host, error) {
	h := &Host{token: token, client: client()}
	for one := range strings.SplitSeq(base, ",") {
		u, err := url.Parse(one)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, &messages.Error{Code: messages.ErrConfig, Field: "host", Detail: "want an address such as http://localhost:8471, or several with commas between"}
		}
		h.bases = append(h.bases, strings.TrimRight(one, "/"))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	h.tellsUsage = true
	for _, base := range h.bases {
		h.tellsUsage = h.tellsUsage && h.metrics(ctx, base) != nil
	}
	return h, nil
}

// client keeps as many connections as are in use.
func client() *http.Client {
	return &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 4096, IdleConnTimeout: 90 * time.Second,
		DialContext:       (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		ForceAttemptHTTP2: true, DisableCompression: true, TLSHandshakeTimeout: 10 * time.Second,
	}}
}

// Name implements load.Target.
func (h *Host) Name() string { return strings.Join(h.bases, ",") }

// Close closes the connections that are not in use.
func (h *Host) Close() { h.client.CloseIdleConnections() }

// Ready reports whether the host takes work.
func (h *Host) Ready(ctx context.Context) bool {
	res, err := h.do(ctx, http.MethodGet, "/readyz", nil)
	if err != nil {
		return false
	}
	drain(res)
	return true
}

// Submit opens the session of a submit and sends it, and returns the number of its run when the
// host has taken it.
func (h *Host) Submit(ctx context.Context, r *load.Request) (run int64, err error) {
	if err := h.open(ctx, r); err != nil {
		return 0, failureOf(err)
	}
	res, err := h.do(ctx, http.MethodPost, "/v1/sessions/"+r.Session+"/runs", map[string]string{"input": r.Input})
	if err != nil {
		return 0, failureOf(err)
	}
	o, err := read[outcome](res)
	return o.Run, failureOf(err)
}

// Settled waits for the end of a run, and returns its decision and the time of its end.
func (h *Host) Settled(ctx context.Context, session string, run int64) (decision string, at time.Time, err error) {
	o, err := h.ended(ctx, "/v1/sessions/"+session+"/runs", run)
	return decided(o.Decision, o.Code), o.At, failureOf(err)
}

// TellsUsage reports whether the host tells its metrics to this client.
func (h *Host) TellsUsage() bool { return h.tellsUsage }

// do sends a request with a body of JSON, or none, and gives the answer if its status is below 300.
func (h *Host) do(ctx context.Context, method, path string, body any, header ...string) (*http.Response, error) {
	session, _, _ := strings.Cut(strings.TrimPrefix(path, sessions+"/"), "/")
	return h.doAt(ctx, h.base(session), method, path, body, header...)
}

// sessions is where sessions are begun, and what the paths of their requests begin with.
const sessions = "/v1/sessions"

// base is the host that the next request of a session goes to.
func (h *Host) base(session string) string {
	n := uint64(len(h.bases))
	if n > 1 && h.sticky {
		sum := fnv.New64a()
		_, _ = sum.Write([]byte(session)) // it does not fail
		return h.bases[sum.Sum64()%n]
	}
	return h.bases[uint64(h.next.Add(1))%n]
}

// Sticky has all requests of a session go to one of several hosts, as behind a load balancer that
// knows sessions. It is called before the first request of a session.
func (h *Host) Sticky() { h.sticky = true }

// doAt is do at one of the hosts.
func (h *Host) doAt(ctx context.Context, base, method, path string, body any, header ...string) (*http.Response, error) {
	var in io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		in = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, base+path, in)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if h.token != "" {
		req.Header.Set("Authorization", "Bearer "+h.token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := h.client.Do(req)
	if err != nil {
		return nil, failureOf(err)
	}
	if res.StatusCode < 300 {
		return res, nil
	}
	defer drain(res)
	return nil, answered(res)
}

// answered is an answer that refuses: a problem document, or an error in another form.
func answered(res *http.Response) error {
	b, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	var p struct {
		Code   string `json:"code"`
		Reason string `json:"reason"`
		Error  struct {
			Type string `json:"type"`
			Code any    `json:"code"`
		} `json:"error"`
	}
	_ = json.Unmarshal(b, &p) // an answer in another form has its status alone
	why := strconv.Itoa(res.StatusCode)
	switch {
	case p.Reason != "":
		why += " " + p.Reason
	case p.Code != "":
		why += " " + p.Code
	case p.Error.Type != "":
		why += " " + p.Error.Type
	}
	if res.StatusCode >= 500 && res.StatusCode != http.StatusServiceUnavailable {
		return &load.Failure{Kind: why}
	}
	return &load.Refusal{Why: why}
}

// drain reads what is left of an answer, so that its connection serves again.
func drain(res *http.Response) {
	_, _ = io.CopyN(io.Discard, res.Body, 64<<10)
	_ = res.Body.Close()
}

// failureOf names the kind of a failure of a connection.
func failureOf(err error) error {
	var refusal *load.Refusal
	var failure *load.Failure
	var timeout net.Error
	switch {
	case err == nil, errors.As(err, &refusal), errors.As(err, &failure), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, syscall.ECONNREFUSED):
		return &load.Failure{Kind: "connection refused", Err: err}
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return &load.Failure{Kind: "connection reset", Err: err}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &load.Failure{Kind: "stream ended early", Err: err}
	case errors.As(err, &timeout) && timeout.Timeout():
		return &load.Failure{Kind: "connection timeout", Err: err}
	}
	return &load.Failure{Kind: "connection", Err: err}
}

// Do implements load.Target.
func (h *Host) Do(ctx context.Context, r *load.Request, w load.Watcher) (string, error) {
	if err := h.open(ctx, r); err != nil {
		return "", failureOf(err)
	}
	decision, err := h.run(ctx, r, w)
	return decision, failureOf(err)
}

// open opens the session of a submit, once.
func (h *Host) open(ctx context.Context, r *load.Request) error {
	v, _ := h.opened.LoadOrStore(r.Session, &opening{})
	o := v.(*opening)
	o.once.Do(func() {
		res, err := h.doAt(ctx, h.base(r.Session), http.MethodPost, sessions, map[string]string{"agent": r.Job.Agent, "id": r.Session})
		if err != nil {
			o.err = err
			h.opened.Delete(r.Session) // the next submit tries again
			return
		}
		drain(res)
	})
	return o.err
}

// outcome is the answer of a run, as far as it is read here.
type outcome struct {
	Run      int64  `json:"run"`
	State    string `json:"state"`
	Ended    bool   `json:"ended"`
	Decision string `json:"decision"`
	Code     string `json:"code"`

	At time.Time `json:"ended_at"`
}

func (h *Host) run(ctx context.Context, r *load.Request, w load.Watcher) (string, error) {
	runs := "/v1/sessions/" + r.Session + "/runs"
	input := map[string]string{"input": r.Input}
	switch r.Job.Reader {
	case workloadWait:
		return h.wait(ctx, runs, input, w)
	case workloadDead:
		res, err := h.do(ctx, http.MethodPost, runs+"?stream=token", input)
		if err != nil {
			return "", err
		}
		defer func() { _ = res.Body.Close() }()
		w.Accepted()
		first := newEvents(res.Body, 512)
		ev, err := first.next() // the input: it has the run's number
		if err != nil {
			return "", err
		}
		n, err := runOf(ev)
		if err != nil {
			return "", err
		}
		return h.end(ctx, runs, n)
	}
	res, err := h.do(ctx, http.MethodPost, runs+"?stream=token", input)
	if err != nil {
		return "", err
	}
	w.Accepted()
	return h.follow(ctx, r, w, res)
}

// wait submits without a stream, and asks for the answer.
func (h *Host) wait(ctx context.Context, runs string, input any, w load.Watcher) (string, error) {
	res, err := h.do(ctx, http.MethodPost, runs, input)
	if err != nil {
		return "", err
	}
	w.Accepted()
	o, err := read[outcome](res)
	if err != nil {
		return "", err
	}
	return h.end(ctx, runs, o.Run)
}

// end waits for the end of a run, and returns its decision.
func (h *Host) end(ctx context.Context, runs string, n int64) (string, error) {
	o, err := h.ended(ctx, runs, n)
	return decided(o.Decision, o.Code), err
}

// ended waits for the end of a run.
func (h *Host) ended(ctx context.Context, runs string, n int64) (o outcome, err error) {
	for {
		res, err := h.do(ctx, http.MethodGet, runs+"/"+strconv.FormatInt(n, 10)+"?wait=30s", nil)
		if err != nil {
			return o, err
		}
		if o, err = read[outcome](res); err != nil || o.Ended {
			return o, err
		}
		if ctx.Err() != nil {
			return o, ctx.Err()
		}
	}
}

func read[T any](res *http.Response) (v T, err error) {
	defer drain(res)
	b, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return v, err
	}
	if json.Unmarshal(b, &v) != nil {
		return v, &load.Failure{Kind: "answer is no JSON"}
	}
	return v, nil
}

// runEvent is an event of a run, as far as it is read here.
type runEvent struct {
	Type string `json:"type"`
	Kind string `json:"kind"`
	Run  int64  `json:"run"`
	Unit string `json:"unit"`
	Text string `json:"text"`
	Off  int64  `json:"off"`
	Code string `json:"code"`
	Body struct {
		Approval string `json:"approval"`
		Digest   string `json:"digest"`
		State    string `json:"state"`
		Decision string `json:"decision"`
		Reason   string `json:"reason"`
		Text     string `json:"text"`
		Unit     string `json:"unit"`
		Off      int64  `json:"off"`
	} `json:"body"`
}

func runOf(ev event) (int64, error) {
	var s runEvent
	if json.Unmarshal(ev.data, &s) != nil || s.Run == 0 {
		return 0, &load.Failure{Kind: "event without a run"}
	}
	return s.Run, nil
}

// follow reads a run's stream to its end, cuts it where it is told to, and answers what waits for
// approval.
func (h *Host) follow(ctx context.Context, r *load.Request, w load.Watcher, res *http.Response) (string, error) {
	g := newGathering(r, w)
	var run int64
	var at string
	for {
		decision, cut, err := h.part(ctx, r, g, res, &run, &at)
		_ = res.Body.Close()
		switch {
		case err != nil:
			return "", err
		case !cut:
			g.report()
			return decision, nil
		}
		path := "/v1/sessions/" + r.Session + "/runs/" + strconv.FormatInt(run, 10) + "/events"
		if res, err = h.do(ctx, http.MethodGet, path, nil, "Last-Event-ID", at); err != nil {
			return "", err
		}
		if res.StatusCode == http.StatusNoContent { // the cut came behind the last event
			drain(res)
			g.report()
			return h.end(ctx, "/v1/sessions/"+r.Session+"/runs", run)
		}
	}
}

// part reads a stream to its end, or to where it is cut.
func (h *Host) part(ctx context.Context, r *load.Request, g *gathering, res *http.Response, run *int64, at *string) (decision string, cut bool, err error) {
	in := newEvents(res.Body, 8<<10)
	for {
		ev, err := in.next()
		if err != nil {
			if decision != "" && errors.Is(err, io.EOF) {
				return decision, false, nil
			}
			return "", false, err
		}
		if ev.id != "" {
			*at = ev.id
		}
		var s runEvent
		switch ev.name {
		case "delta", "retract", "response", "input", "run.end", "action.approval", "problem", "error":
			if json.Unmarshal(ev.data, &s) != nil {
				return "", false, &load.Failure{Kind: "event is no JSON"}
			}
		default:
			continue
		}
		if s.Run > 0 {
			*run = s.Run
		}
		switch ev.name {
		case "delta":
			if s.Kind == "response" {
				g.text(s.Unit, s.Text)
			}
		case "retract":
			if s.Body.Unit != "" { // as a record
				s.Unit, s.Off = s.Body.Unit, s.Body.Off
			}
			g.retract(s.Unit, s.Off)
		case "response":
			g.whole(s.Body.Unit, s.Body.Text)
		case "action.approval":
			if s.Body.State == string(messages.GateConfirm) {
				if err := h.approve(ctx, r, s.Body.Approval, s.Body.Digest); err != nil {
					return "", false, err
				}
			}
		case "run.end":
			decision = decided(s.Body.Decision, s.Body.Reason)
		case "problem", "error": // the second of hosts before it was renamed
			return "", false, &load.Failure{Kind: "stream error " + s.Code}
		}
		if g.cut() {
			return "", true, nil
		}
	}
}

// approve answers a question after the person's time.
func (h *Host) approve(ctx context.Context, r *load.Request, id, digest string) error {
	t := time.NewTimer(r.Approve)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	res, err := h.do(ctx, http.MethodPost, "/v1/sessions/"+r.Session+"/approvals/"+url.PathEscape(id), map[string]any{"allow": true, "digest": digest})
	if err != nil {
		var refusal *load.Refusal
		if errors.As(err, &refusal) { // the submit itself was taken
			return &load.Failure{Kind: "approval " + refusal.Why}
		}
		return err
	}
	drain(res)
	return nil
}

// Beside has Usage also tell what a process of this machine takes, and its children: the database
// of the hosts. It is called before the first request.
func (h *Host) Beside(pid int) { h.database = pid }

// Usage implements load.Target: what the host's /metrics says of it.
func (h *Host) Usage(ctx context.Context) (u measure.Usage) {
	u = measure.Unknown()
	if h.database > 0 {
		defer func() {
			u.Parts = append(u.Parts, measure.Part{Name: measure.Database, CPUMicros: process.Family(h.database), Commits: -1})
		}()
	}
	if !h.tellsUsage {
		return u
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	all := make([]map[string]float64, len(h.bases))
	for i, base := range h.bases {
		all[i] = h.metrics(ctx, base)
	}
	if len(all) > 1 {
		for i, m := range all {
			u.Parts = append(u.Parts, measure.Part{Name: h.bases[i], CPUMicros: told(m, "process_cpu_seconds_total", 1e6), Commits: told(m, "stile_journal_commits_total", 1)})
		}
	}
	take := func(to *int64, name string, scale float64) {
		sum := 0.0
		for _, m := range all {
			v, ok := m[name]
			if !ok {
				return // what one does not tell is not known of all
			}
			sum += v
		}
		*to = int64(sum * scale)
	}
	take(&u.CPUMicros, "process_cpu_seconds_total", 1e6)
	take(&u.RSS, "process_resident_memory_bytes", 1)
	take(&u.Commits, "stile_journal_commits_total", 1)
	take(&u.Records, "stile_journal_records_total", 1)
	take(&u.Fsyncs, "stile_journal_syncs_total", 1)
	take(&u.Goroutines, "go_goroutines", 1)
	take(&u.Descriptors, "process_open_fds", 1)
	return u
}

// told is a metric in a unit of its own; -1 without one.
func told(m map[string]float64, name string, scale float64) int64 {
	v, ok := m[name]
	if !ok {
		return -1
	}
	return int64(v * scale)
}

// metrics are the values of /metrics of a host without labels; nil when it does not tell.
func (h *Host) metrics(ctx context.Context, base string) map[string]float64 {
	res, err := h.doAt(ctx, base, http.MethodGet, "/metrics", nil)
	if err != nil {
		return nil
	}
	defer drain(res)
	m := map[string]float64{}
	lines := bufio.NewScanner(io.LimitReader(res.Body, 4<<20))
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if !ok || strings.HasPrefix(name, "#") || strings.Contains(name, "{") {
			continue
		}
		if v, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil {
			m[name] = v
		}
	}
	if lines.Err() != nil {
		return nil
	}
	return m
}
