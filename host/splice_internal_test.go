package host

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed14be6753/stile/host/internal/responses"
	said "github.com/seed14be6753/stile/internal/answer"
	"github.com/seed14be6753/stile/messages"
)

// answers writes the events of one answer, as each host does that says it; the text is cut at random.
type answers struct {
	rnd   *rand.Rand
	body  string // of the request
	inc   messages.Incarnation
	of    func(text string, created time.Time) [][]byte
	begun time.Time
}

func (a *answers) pieces(text string) (all []string) {
	for text != "" {
		n := 1 + a.rnd.IntN(len(text))
		all, text = append(all, text[:n]), text[n:]
	}
	return all
}

func (a *answers) chat(text string, created time.Time) (all [][]byte) {
	c := &chatReply{id: "chatcmpl-" + a.inc.String() + "-1", model: "m", session: "s", created: created.Unix(), run: 1}
	add := func(v any) { all = append(all, frameOf("", v)) }
	empty, reason := "", "stop"
	all = append(all, []byte(": open\n\n"))
	add(c.chunk(chatChoice{Delta: &chatText{Role: "assistant", Content: &empty}}))
	for _, p := range a.pieces(text) {
		add(c.chunk(chatChoice{Delta: &chatText{Content: &p}}))
	}
	add(c.chunk(chatChoice{Delta: &chatText{}, Finish: &reason}))
	last := c.chunk()
	last.Usage = c.used()
	add(last)
	return append(all, []byte("data: [DONE]\n\n"))
}

func (a *answers) response(text string, created time.Time) (all [][]byte) {
	q, err := responses.Parse([]byte(a.body))
	if err != nil {
		panic(err)
	}
	r := &responses.Reply{Request: q, Session: "s", Run: 1, Created: created, Name: "resp_" + strings.ReplaceAll(a.inc.String(), "-", "")}
	if q.Store {
		r.ID = &responses.ID{Inc: a.inc, Run: 1}
	}
	add := func(events []responses.Event) {
		for _, e := range events {
			all = append(all, frameOf(e.Type, e.Data))
		}
	}
	all = append(all, []byte(": open\n\n"))
	add(r.Begin())
	for _, p := range a.pieces(text) {
		add(r.Grow(p))
	}
	add(r.End(responses.Outcome{Run: 1, Decision: "DONE", Usage: messages.Usage{Input: 1, Output: 2}, Ended: a.begun}))
	return all
}

// An answer that one host after the other writes, each from its beginning and in pieces of its own, is
// to the client the answer of one host. Where a later host has another text, it ends with the error.
func TestSplice(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	whole, torn := 0, 0
	for n := range uint64(600) {
		a := &answers{rnd: rand.New(rand.NewPCG(seed, n)), inc: uuid.UUID{15: byte(n)}, begun: time.Unix(1000, 0)}
		pattern := chatPattern
		if a.of = a.chat; n%3 > 0 {
			pattern, a.of = responsesPattern, a.response
			a.body = `{"model":"m","input":"one","store":` + map[bool]string{true: "true", false: "false"}[n%3 == 1] + `}`
		}
		text := strings.Repeat("one two three ", a.rnd.IntN(4))
		s := newSplice(pattern, []byte(a.body))
		var got []byte
		began := time.Time{} // of the host that sent the first event
		write := func(text string, after time.Duration, to float64) {
			events := a.of(text, a.begun.Add(after))
			for e := range slices.Chunk(events[:int(to*float64(len(events)))], 1+a.rnd.IntN(3)) {
				got = append(got, s.edit(bytes.Join(e, nil))...)
			}
			if began.IsZero() && bytes.Contains(got, []byte("data: ")) {
				began = a.begun.Add(after)
			}
		}
		write(text, 0, a.rnd.Float64())
		for i := range a.rnd.IntN(3) {
			s.again()
			write(text, time.Duration(i+1)*time.Minute, a.rnd.Float64())
		}
		_, sent, _ := read(t, got)
		s.again()
		other := a.rnd.IntN(4) == 0 && sent != "" && !s.over
		if other {
			text = sent[:len(sent)-1] + "!"
			torn++
		} else {
			whole++
		}
		write(text, time.Hour, 1)
		events, end, last := read(t, got)
		switch {
		case other && (last != said.TakenBack().Detail || end != sent):
			t.Fatalf("seed %d, answer %d: %q behind %q, and the last one has %q:\n%s", seed, n, end, sent, last, got)
		case other:
		case end != text || last != "":
			t.Fatalf("seed %d, answer %d: %q of %q, %s:\n%s", seed, n, end, text, last, got)
		default:
			want, _, _ := read(t, bytes.Join(a.of(text, began), nil))
			if strings.Join(events, "\n") != strings.Join(want, "\n") {
				t.Fatalf("seed %d, answer %d:\n%s\nwant\n%s", seed, n, strings.Join(events, "\n"), strings.Join(want, "\n"))
			}
		}
	}
	if whole == 0 || torn == 0 {
		t.Errorf("%d answers are whole, %d torn", whole, torn)
	}
}

// read reads events: those that are no piece of text, without their numbers; the text, and the error.
// Numbers of responses must follow each other.
func read(t *testing.T, stream []byte) (events []string, text, failed string) {
	t.Helper()
	next := int64(0)
	for event := range strings.SplitAfterSeq(string(stream), "\n\n") {
		_, data, some := strings.Cut(strings.TrimSpace(event), "data: ")
		var v struct {
			Type     string
			Delta    string
			Choices  []chatChoice
			Error    *chatErrorBody
			Response *responses.Response
		}
		if !some {
			continue
		}
		if data != "[DONE]" && json.Unmarshal([]byte(data), &v) != nil {
			t.Fatalf("%q", data)
		}
		if h, ok := responses.Hear([]byte(data)); ok {
			if h.Seq != next {
				t.Fatalf("event %d has the number %d:\n%s", next, h.Seq, stream)
			}
			next++
			_, rest, _ := strings.Cut(data, `"sequence_number":`)
			_, rest, _ = strings.Cut(rest, ",")
			data = v.Type + " " + rest
		}
		switch {
		case v.Error != nil:
			failed = strings.TrimPrefix(v.Error.Message, "ERR_CRASH: ")
		case v.Type == "response.failed":
			b, _ := json.Marshal(v.Response)
			var r struct{ Error chatErrorBody }
			_ = json.Unmarshal(b, &r)
			failed = strings.TrimPrefix(r.Error.Message, "ERR_CRASH: ")
		case v.Type == "response.output_text.delta":
			text += v.Delta
		case len(v.Choices) == 1 && v.Choices[0].Delta.Content != nil && v.Choices[0].Delta.Role == "":
			text += *v.Choices[0].Delta.Content
		default:
			events = append(events, data)
		}
	}
	return events, text, failed
}

// A later host that ends its answer before it has said all that was sent has another text.
func TestSpliceShorter(t *testing.T) {
	a := &answers{rnd: rand.New(rand.NewPCG(1, 1)), inc: messages.Incarnation(uuid.New())}
	s := newSplice(chatPattern, nil)
	for _, event := range a.chat("The quick brown fox", time.Unix(1000, 0)) {
		if !bytes.Contains(event, []byte("finish_reason\":\"stop")) {
			s.edit(event)
			continue
		}
		break
	}
	s.again()
	var got []byte
	for _, event := range a.chat("The quick", time.Unix(2000, 0)) {
		got = append(got, s.edit(event)...)
	}
	if !s.over || !bytes.Contains(got, []byte(said.TakenBack().Detail)) {
		t.Errorf("the stream goes on with %s", got)
	}
}
