package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coder/websocket"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/openai"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// answers is a provider that reads no request and always answers the same, as a stream or over a
// WebSocket: what is measured beside it is the runtime.
func answers(b *testing.B) *httptest.Server {
	b.Helper()
	var n atomic.Int64
	reply := func(write func(string) error) error {
		id := fmt.Sprintf("resp_%d", n.Add(1))
		for _, frame := range []string{
			`{"type":"response.created","response":{"id":"ID","status":"in_progress"}}`,
			`{"type":"response.output_text.delta","item_id":"m","output_index":0,"content_index":0,"delta":"The second cause is the likely one."}`,
			`{"type":"response.completed","response":{"id":"ID","status":"completed","output":[],"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":0},"output_tokens":9,"total_tokens":109}}}`,
		} {
			if err := write(strings.Replace(frame, "ID", id, 1)); err != nil {
				return err
			}
		}
		return nil
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodPost {
			_, _ = io.Copy(io.Discard, req.Body)
			w.Header().Set("Content-Type", "text/event-stream")
			_ = reply(func(frame string) error { _, err := io.WriteString(w, "data: "+frame+"\n\n"); return err })
			return
		}
		c, err := websocket.Accept(w, req, &websocket.AcceptOptions{InsecureSkipVerify: true})
		if err != nil {
			return
		}
		defer c.CloseNow()
		c.SetReadLimit(64 << 20)
		for {
			_, in, err := c.Reader(req.Context())
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, in); err != nil {
				return
			}
			if reply(func(frame string) error { return c.Write(req.Context(), websocket.MessageText, []byte(frame)) }) != nil {
				return
			}
		}
	}))
	b.Cleanup(srv.Close)
	return srv
}

func responses(b *testing.B, srv *httptest.Server) llm.Model {
	b.Helper()
	m, err := openai.New(openai.Options{BaseURL: srv.URL + "/v1", API: openai.Responses})
	if err != nil {
		b.Fatal(err)
	}
	return m
}

const (
	talkSessions = 48
	talkRuns     = 50 // before the one that is measured: 100 messages
)

// BenchmarkGeneration_History100 is the processor time of a run with one generation, behind a
// history of 100 messages of 400 bytes, over a conversation that is open (resume) and as a request
// over HTTP (replay), with the provider's share, which is small and the same but for what it reads.
func BenchmarkGeneration_History100(b *testing.B) {
	question := strings.Repeat("Which of the causes is it? ", 15)[:400]
	for _, mode := range []string{manifest.ModeResume, manifest.ModeReplay} {
		b.Run(mode, func(b *testing.B) {
			ctx := context.Background()
			m := manifest.Default("plain")
			m.Model = manifest.Model{Provider: "mine", Model: "m", Mode: mode}
			rt, err := stile.New(ctx, stile.Config{InMemory: true})
			if err != nil {
				b.Fatal(err)
			}
			defer rt.Close(ctx)
			agent := &stile.Agent{Manifest: m, Model: responses(b, answers(b))}
			var all []*stile.Session
			for i := range talkSessions {
				s, err := rt.Open(ctx, fmt.Sprintf("s-%d", i), agent)
				if err != nil {
					b.Fatal(err)
				}
				for range talkRuns {
					oneTurn(b, s, question)
				}
				all = append(all, s)
			}
			b.ResetTimer()
			used := cpuTime()
			for range b.N {
				for _, s := range all {
					oneTurn(b, s, question)
				}
			}
			b.ReportMetric(float64(cpuTime()-used)/float64(b.N*talkSessions)/1000, "cpu-µs/generation")
		})
	}
}

// BenchmarkRequest_History100 is the part of that which asks the provider and reads its answer: the
// prompt is there, and so is the record.
func BenchmarkRequest_History100(b *testing.B) {
	req := llm.Request{Provider: "mine", Model: "m", Grows: true, Dialect: "plain", MaxReplyBytes: 1 << 20}
	for i := range 2*talkRuns + 1 {
		role := messages.RoleUser
		if i%2 == 1 {
			role = messages.RoleAssistant
		}
		req.Messages = append(req.Messages, messages.Message{Role: role, Text: strings.Repeat("Which of the causes is it? ", 15)[:400]})
	}
	measured := func(b *testing.B, ask func() error) {
		b.ReportAllocs()
		used := cpuTime()
		for b.Loop() {
			if err := ask(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(cpuTime()-used)/float64(b.N)/1000, "cpu-µs/generation")
	}
	b.Run("resume", func(b *testing.B) {
		s, err := responses(b, answers(b)).(llm.SessionModel).Connect(context.Background(), req)
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		sent := 0
		measured(b, func() error {
			for _, err := range s.Continue(context.Background(), req, sent) {
				if err != nil {
					return err
				}
			}
			if _, err := s.Settle(context.Background()); err != nil {
				return err
			}
			if sent == 0 { // from here on the last message alone is new
				more := messages.Message{Role: messages.RoleAssistant, Text: "The second cause is the likely one."}
				sent = len(req.Messages) + 1
				req.Messages = append(req.Messages, more, req.Messages[0])
			}
			return nil
		})
	})
	req.Messages = req.Messages[:2*talkRuns+1]
	b.Run("replay", func(b *testing.B) {
		m := responses(b, answers(b))
		measured(b, func() error {
			for _, err := range m.Stream(context.Background(), req) {
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// BenchmarkIdle_1000Conversations is the memory of a conversation that is open and idle: heap in
// use and stacks, those of the provider's end of it included, which is in the same process.
func BenchmarkIdle_1000Conversations(b *testing.B) {
	const most = 1000
	for range b.N {
		model := responses(b, answers(b)).(llm.SessionModel)
		req := llm.Request{Provider: "mine", Model: "m", Messages: []messages.Message{{Role: messages.RoleUser, Text: "hello"}}}
		taken := func() int64 {
			runtime.GC()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return int64(m.HeapInuse + m.StackInuse)
		}
		before := taken()
		var all []llm.Session
		for range most {
			s, err := model.Connect(context.Background(), req)
			if err != nil {
				b.Fatal(err)
			}
			for _, err := range s.Continue(context.Background(), req, 0) {
				if err != nil {
					b.Fatal(err)
				}
			}
			all = append(all, s)
		}
		b.ReportMetric(float64(taken()-before)/most, "B/conversation")
		for _, s := range all {
			_ = s.Close()
		}
	}
}
