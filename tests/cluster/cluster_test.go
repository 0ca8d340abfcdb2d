package cluster

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/lease"
	"github.com/seed14be6753/stile/journal/postgres"
)

// text is what a reader has of a run: the deltas, with what was taken back; and it fails for a
// record that comes twice or not at all.
func text(t *testing.T, events []event) string {
	t.Helper()
	var out []byte
	last := int64(0)
	for _, e := range events {
		var v struct {
			Seq  int64  `json:"seq"`
			Off  int    `json:"off"`
			Text string `json:"text"`
			Body struct {
				Text string `json:"text"`
			} `json:"body"`
		}
		if err := json.Unmarshal([]byte(e.data), &v); err != nil {
			t.Fatalf("%+v: %v", e, err)
		}
		switch e.name {
		case "response": // what was shown of it, if it was shown as it grew
			if len(out) > 0 && string(out) != v.Body.Text {
				t.Errorf("the deltas say %q, the record %q", out, v.Body.Text)
			}
			out = []byte(v.Body.Text)
		}
		switch e.name {
		case "delta":
			out = append(out, v.Text...)
		case "retract":
			out = out[:v.Off]
		default:
			if last > 0 && v.Seq != last+1 {
				t.Errorf("record %d comes behind %d", v.Seq, last)
			}
			last = v.Seq
		}
	}
	return string(out)
}

// Three hosts on one journal. They are started once, for all that follows.
func TestCluster(t *testing.T) {
	w := begin(t, "a", "b", "c")
	if w == nil {
		return
	}
	for _, one := range []struct {
		name string
		test func(*testing.T, *world)
	}{{"keys", keys}, {"any host", anyHost}, {"other doors", otherDoors}, {"approvals", approvals}, {"lists", lists}, {"responses", responses}, {"sockets", sockets}, {"protocol", protocol}, {"erased", erased}, {"slow", slow}, {"forged", forged}, {"second hop", secondHop}, {"frozen", frozen}, {"killed", killed}, {"stopped", stopped}} {
		t.Run(one.name, func(t *testing.T) {
			of := *w
			of.t = t
			one.test(t, &of)
		})
		if t.Failed() {
			return
		}
	}
	w.verified(25)
	for _, host := range []string{"a", "b", "c"} {
		w.holdsNo(w.privateHalves(host)...)
	}
}

// The door for hosts refuses a request without a proof, whatever token it shows.
func forged(t *testing.T, w *world) {
	for _, proof := range []string{"", "from=a&to=b&at=1&nonce=0&names=&code=00"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+w.hosts["a"].private+"/v1/sessions/ada", nil)
		if err != nil {
			t.Fatal(err)
		}
		if proof != "" {
			r.Header.Set("Stile-Forwarded", proof)
		}
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode != http.StatusForbidden {
			t.Errorf("the proof %q is answered with %s", proof, resp.Status)
		}
	}
}

// proof is what shows that a request comes from a host: written here a second time, because hosts of
// two versions have to agree on it.
func proof(r *http.Request, body, to string) string {
	sum := sha256.Sum256([]byte(body))
	v := url.Values{
		"from": {"test"}, "to": {to}, "peer": {"127.0.0.1:1"}, "for": {""}, "at": {strconv.FormatInt(time.Now().UnixMilli(), 10)},
		"nonce": {uuid.NewString()}, "names": {"Content-Type"}, "length": {strconv.Itoa(len(body))}, "body": {hex.EncodeToString(sum[:])},
	}
	m := hmac.New(sha256.New, secret)
	for _, s := range []string{
		"stile forward 2", r.Method, r.URL.Host, r.URL.RequestURI(), v.Get("length"), v.Get("body"), v.Get("from"), to, v.Get("peer"), "", v.Get("at"), v.Get("nonce"),
		"Content-Type", "1", r.Header.Get("Content-Type"),
	} {
		_ = binary.Write(m, binary.BigEndian, uint64(len(s)))
		m.Write([]byte(s))
	}
	v.Set("code", hex.EncodeToString(m.Sum(nil)))
	return v.Encode()
}

// A request that was forwarded is not forwarded again, although it is proved: a host that does not run
// the session says so, and does nothing.
func secondHop(t *testing.T, w *world) {
	table := w.table()
	hosts, err := table.Hosts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.ask("a", http.MethodPost, "/v1/sessions", `{"agent":"talker","id":"nan"}`, http.StatusCreated)
	submit := func(host string) *http.Response {
		t.Helper()
		at := slices.IndexFunc(hosts, func(h lease.Host) bool { return h.Live() && h.Address == w.hosts[host].private })
		if at < 0 {
			t.Fatalf("%s is none of %v", host, hosts)
		}
		const body = `{"input":"one"}`
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+w.hosts[host].private+"/v1/sessions/nan/runs", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Stile-Forwarded", proof(r, body, hosts[at].ID.String()))
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp
	}
	if got := submit("b"); got.StatusCode != http.StatusMisdirectedRequest || got.Header.Get("Stile-Moved") != "1" {
		t.Errorf("a second hop is answered with %s, %v", got.Status, got.Header)
	}
	if v := w.ask("c", http.MethodGet, "/v1/sessions/nan/runs", "", http.StatusOK); len(v["runs"].([]any)) != 0 {
		t.Errorf("a second hop has begun %v", v)
	}
	if got := submit("a"); got.StatusCode != http.StatusAccepted { // else the proof is wrong, and nothing was shown
		t.Errorf("the owner answers with %s", got.Status)
	}
	w.speaks("a", "once")
	w.ask("c", http.MethodGet, "/v1/sessions/nan/runs/1?wait=1m", "", http.StatusOK)
}

// Any host answers for a session that another one runs: submits, streams, waits, cancels.
func anyHost(t *testing.T, w *world) {
	w.ask("a", http.MethodPost, "/v1/sessions", `{"agent":"talker","id":"ada"}`, http.StatusCreated)
	submitted := w.follow("b", http.MethodPost, "/v1/sessions/ada/runs?stream=token", `{"input":"one"}`, "")
	r := w.reply()
	if r.host != "a" {
		t.Errorf("the session of a runs at %s", r.host)
	}
	followed := w.follow("c", http.MethodGet, "/v1/sessions/ada/runs/1/events", "", "")
	r.say(t, "Hello ")
	var heads [2][]event
	for i, events := range []<-chan event{submitted, followed} {
		var e event
		if heads[i], e = w.next(events, "delta"); !strings.Contains(e.data, "Hello ") {
			t.Errorf("%+v", e)
		}
	}
	r.say(t, "Ada.")
	r.end()
	for i, events := range []<-chan event{submitted, followed} {
		all, _ := w.next(events, "run.end")
		if got := text(t, append(heads[i], all...)); got != "Hello Ada." {
			t.Errorf("%q", got)
		}
	}
	// The client does not name itself.
	if v := w.ask("b", http.MethodGet, "/v1/sessions/ada/runs/1?wait=1m", "", http.StatusOK, "User-Agent", ""); v["decision"] != "DONE" {
		t.Errorf("%v", v)
	}

	// A body as large as one with files, of which the text is a small part.
	large := w.ask("b", http.MethodPost, "/v1/sessions/ada/runs", `{"input":"large"`+strings.Repeat(" ", 2<<20)+`}`, http.StatusAccepted)
	r = w.reply()
	if r.host != "a" {
		t.Errorf("a large message to the session of a runs at %s", r.host)
	}
	r.say(t, "It fits.")
	r.end()
	if v := w.ask("b", http.MethodGet, fmt.Sprintf("/v1/sessions/ada/runs/%v?wait=1m", large["run"]), "", http.StatusOK); v["text"] != "It fits." {
		t.Errorf("%v", v)
	}

	// A cancel at a third host.
	submitted = w.follow("b", http.MethodPost, "/v1/sessions/ada/runs?stream=token", `{"input":"two"}`, "")
	r = w.reply()
	if v := w.ask("c", http.MethodGet, "/v1/sessions/ada", "", http.StatusOK); v["state"] != "running" {
		t.Errorf("%v", v)
	}
	w.ask("c", http.MethodPost, "/v1/sessions/ada/runs/3/cancel", "", http.StatusNoContent)
	if _, e := w.next(submitted, "run.end"); !strings.Contains(e.data, "ERR_CANCELLED") {
		t.Errorf("%+v", e)
	}
	<-r.gone
}

// Chat completions, changes, forks and deletions are forwarded like submits.
func otherDoors(t *testing.T, w *world) {
	w.ask("a", http.MethodPost, "/v1/sessions", `{"agent":"talker","id":"finn"}`, http.StatusCreated)
	answered := w.later("b", http.MethodPost, "/v1/chat/completions", `{"model":"talker","messages":[{"role":"user","content":"one"}]}`, "X-Stile-Session", "finn")
	w.speaks("a", "by chat")
	var v struct {
		Choices []struct{ Message struct{ Content string } }
	}
	if got := <-answered; json.Unmarshal(got.body, &v) != nil || len(v.Choices) != 1 || v.Choices[0].Message.Content != "by chat" {
		t.Errorf("the chat is answered with %d %s, %v", got.status, got.body, got.err)
	}
	w.ask("c", http.MethodPatch, "/v1/sessions/finn", `{"title":"Of Finn"}`, http.StatusOK)
	if v := w.ask("b", http.MethodGet, "/v1/sessions/finn", "", http.StatusOK); v["title"] != "Of Finn" {
		t.Errorf("%v", v)
	}
	w.ask("c", http.MethodPost, "/v1/sessions/finn/fork", `{"id":"finn-2","turn":1}`, http.StatusCreated)
	if v := w.ask("a", http.MethodGet, "/v1/sessions/finn-2/runs/1", "", http.StatusOK); v["text"] != "by chat" {
		t.Errorf("the fork has %v", v)
	}
	w.ask("b", http.MethodDelete, "/v1/sessions/finn", "", http.StatusNoContent)
	w.ask("a", http.MethodGet, "/v1/sessions/finn", "", http.StatusNotFound)
}

// A host that dies in the middle of a turn: another one goes on, once, and readers at the
// others read on.
func killed(t *testing.T, w *world) {
	w.ask("a", http.MethodPost, "/v1/sessions", `{"agent":"talker","id":"cleo"}`, http.StatusCreated)
	submitted := w.follow("b", http.MethodPost, "/v1/sessions/cleo/runs?stream=token", `{"input":"one"}`, "")
	followed := w.follow("c", http.MethodGet, "/v1/sessions/cleo/events", "", "")
	r := w.reply()
	r.say(t, "lost words ")
	head, _ := w.next(submitted, "delta")
	// A session of the Model Context Protocol goes with its host, and its client is told so.
	protocol := []string{"Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", "2025-06-18"}
	begun := w.raw("a", http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, protocol...)
	protocol = append(protocol, "Mcp-Session-Id", begun.head.Get("Mcp-Session-Id"))
	w.ask("b", http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, http.StatusOK, protocol...)
	// A session that is begun again under its key, at another host, is the same one.
	key := []string{"Idempotency-Key", "begun-once"}
	first := w.ask("a", http.MethodPost, "/v1/sessions", `{"agent":"talker"}`, http.StatusCreated, key...)
	w.hosts["a"].kill()
	for _, host := range []string{"b", "c"} {
		if v := w.ask(host, http.MethodPost, "/v1/sessions", `{"agent":"talker"}`, http.StatusCreated, key...); v["id"] != first["id"] {
			t.Errorf("%s begins %v again as %v", host, first["id"], v["id"])
		}
	}
	r = w.reply()
	if r.host == "a" {
		t.Fatal("a dead host asks")
	}
	r.say(t, "found words")
	r.end()
	rest, _ := w.next(submitted, "run.end")
	w.ask("b", http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":2,"method":"ping"}`, http.StatusNotFound, protocol...)
	if got := text(t, append(head, rest...)); got != "found words" && got != "lost words found words" {
		t.Errorf("the reader of the submit has %q", got)
	}
	all, _ := w.next(followed, "run.end")
	text(t, all)
	run := w.ask("c", http.MethodPost, "/v1/sessions/cleo/runs", `{"input":"two"}`, http.StatusAccepted)
	r = w.reply()
	r.say(t, "more")
	r.end()
	if v := w.ask("b", http.MethodGet, fmt.Sprintf("/v1/sessions/cleo/runs/%v?wait=1m", run["run"]), "", http.StatusOK); v["decision"] != "DONE" {
		t.Errorf("%v", v)
	}
}

// A host that is frozen for longer than its lease shows and does nothing more when it wakes.
func frozen(t *testing.T, w *world) {
	w.ask("a", http.MethodPost, "/v1/sessions", `{"agent":"talker","id":"bob"}`, http.StatusCreated)
	submitted := w.follow("a", http.MethodPost, "/v1/sessions/bob/runs?stream=token", `{"input":"one"}`, "")
	old := w.reply()
	w.next(submitted, "turn.begin")
	elsewhere := w.follow("c", http.MethodGet, "/v1/sessions/bob/runs/1/events", "", "")
	w.next(elsewhere, "turn.begin")
	process := w.hosts["a"].cmd.Process
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	fresh := w.reply()
	if fresh.host == "a" {
		t.Fatal("a frozen host goes on")
	}
	// A host that is frozen closes no connection: its readers at others are led away.
	fresh.say(t, "what is ")
	w.next(elsewhere, "delta")
	old.say(t, "what no reader sees")
	if err := process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	<-old.gone
	fresh.say(t, "said")
	fresh.end()
	w.next(elsewhere, "run.end")
	all, _ := w.next(submitted, "run.end")
	if got := text(t, all); got != "what is said" {
		t.Errorf("the reader has %q", got)
	}
}

// A host that is told to stop gives up idle sessions at once, and another one after its turn; its
// readers at other hosts see one stream, and no request fails.
func stopped(t *testing.T, w *world) {
	for _, id := range []string{"dora", "eve"} {
		w.ask("b", http.MethodPost, "/v1/sessions", `{"agent":"talker","id":"`+id+`"}`, http.StatusCreated)
	}
	followed := w.follow("c", http.MethodGet, "/v1/sessions/dora/events", "", "")
	submitted := w.follow("c", http.MethodPost, "/v1/sessions/dora/runs?stream=token", `{"input":"one"}`, "")
	r := w.reply()
	if r.host != "b" {
		t.Fatalf("the session of b runs at %s", r.host)
	}
	r.say(t, "the turn ")
	head, _ := w.next(submitted, "delta")
	if err := w.hosts["b"].cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	idle := w.follow("c", http.MethodPost, "/v1/sessions/eve/runs?stream=token", `{"input":"one"}`, "")
	other := w.reply()
	other.say(t, "at once")
	other.end()
	w.next(idle, "run.end")
	// Requests for the session wait for the end of its turn, at a host that stays and at the one
	// that stops.
	var waiting []<-chan answer
	for _, host := range []string{"c", "b"} {
		waiting = append(waiting, w.later(host, http.MethodPost, "/v1/sessions/dora/runs", `{"input":"waits"}`))
	}
	w.ask("b", http.MethodGet, "/v1/sessions/dora", "", http.StatusOK) // it has taken the connection before
	r.say(t, "ends")
	r.end()
	rest, _ := w.next(submitted, "run.end")
	for range waiting {
		r := w.reply()
		if r.host == "b" {
			t.Error("a host that stops begins a turn")
		}
		r.say(t, "waited")
		r.end()
	}
	for _, one := range waiting {
		if got := <-one; got.err != nil || got.status != http.StatusAccepted {
			t.Errorf("a request that waited is answered with %d %s, %v", got.status, got.body, got.err)
		}
	}
	if got := text(t, append(head, rest...)); got != "the turn ends" {
		t.Errorf("the reader of the submit has %q", got)
	}
	<-w.hosts["b"].ended
	next := w.follow("c", http.MethodPost, "/v1/sessions/dora/runs?stream=token", `{"input":"two"}`, "")
	r = w.reply()
	if r.host == "b" {
		t.Fatal("a host that has stopped asks")
	}
	r.say(t, "goes on")
	r.end()
	w.next(next, "run.end")
	var all, records []event
	for range 4 {
		more, _ := w.next(followed, "run.end")
		all = append(all, more...)
	}
	for _, e := range all {
		if e.name != "delta" && e.name != "retract" && e.name != "response" {
			records = append(records, e)
		} else if e.name == "response" {
			records = append(records, event{name: "record", data: e.data})
		}
	}
	text(t, records)
}

// verified checks the journal: as many sessions, each whole, and no run with two ends.
func (w *world) verified(sessions int) {
	w.t.Helper()
	store, err := postgres.Open(w.t.Context(), postgres.Options{URL: w.job.URL, Schema: w.job.Schema, ReadOnly: true})
	if err != nil {
		w.t.Fatal(err)
	}
	defer store.Close()
	ar, n := stile.NewArchive(store), 0
	for h, err := range ar.Sessions(w.t.Context(), "") {
		if err != nil {
			w.t.Fatal(err)
		}
		n++
		if rep, err := ar.Verify(w.t.Context(), h.Inc, stile.VerifyOptions{}); err != nil || !rep.OK() {
			w.t.Errorf("%s: %+v, %v", h.SID, rep, err)
		}
		ends := map[string]int{}
		for r, err := range ar.Records(w.t.Context(), h.Inc) {
			if err != nil {
				w.t.Fatal(err)
			}
			switch k := r.Body.Kind(); k {
			case "run.end":
				ends[fmt.Sprint("run ", r.Run)]++
			case "turn.decided":
				ends[fmt.Sprint("turn ", r.Turn)]++
			}
		}
		for what, n := range ends {
			if n != 1 {
				w.t.Errorf("%s has %d ends", what, n)
			}
		}
	}
	if n != sessions {
		w.t.Errorf("%d sessions", n)
	}
}
