// Command adk serves google.golang.org/adk as chat completions, so that stile bench --openai can
// put a load on it: adk memory|sqlite PORT CALLS TOKENS BYTES
//
// It is a server, and takes nothing of stile, because ADK and stile want different versions of
// OpenTelemetry's log API. A conversation goes by the header X-Stile-Session. The model is scripted:
// it asks for CALLS calls of a tool that answers at once, then says TOKENS tokens of BYTES bytes.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/glebarez/sqlite"
	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/session/database"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/functiontool"
	"google.golang.org/genai"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "adk:", err)
		os.Exit(1)
	}
}

type workArgs struct{}

type workResult struct {
	Text string `json:"text"`
}

func run(args []string) error {
	if len(args) != 5 {
		return fmt.Errorf("want memory|sqlite PORT CALLS TOKENS BYTES")
	}
	var numbers [4]int
	for i := range numbers {
		var err error
		if numbers[i], err = strconv.Atoi(args[i+1]); err != nil {
			return err
		}
	}
	sessions, err := service(args[0])
	if err != nil {
		return err
	}
	work, err := functiontool.New(functiontool.Config{Name: "work", Description: "works"}, func(agent.Context, workArgs) (workResult, error) {
		return workResult{"done"}, nil
	})
	if err != nil {
		return err
	}
	made, err := llmagent.New(llmagent.Config{Name: "bench", Description: "bench", Instruction: "You are a test.", Model: &scripted{numbers[1], numbers[2], numbers[3]}, Tools: []tool.Tool{work}})
	if err != nil {
		return err
	}
	r, err := runner.New(runner.Config{AppName: "bench", Agent: made, SessionService: sessions, AutoCreateSession: true})
	if err != nil {
		return err
	}
	srv := &http.Server{Addr: "127.0.0.1:" + args[1], Handler: door{r}, ReadHeaderTimeout: 10 * time.Second}
	return srv.ListenAndServe()
}

// service keeps the sessions: in memory, or in SQLite with a write-ahead log that is synced.
func service(kind string) (session.Service, error) {
	if kind == "memory" {
		return session.InMemoryService(), nil
	}
	db, err := sql.Open(sqlite.DriverName, os.Getenv("PEER_DB")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // with more, writers meet and turns fail
	s, err := database.NewSessionService(&sqlite.Dialector{DriverName: sqlite.DriverName, Conn: db}, &gorm.Config{Logger: logger.Discard})
	if err != nil {
		return nil, err
	}
	return s, database.AutoMigrate(s)
}

// door answers requests for chat completions, as streams.
type door struct{ runner *runner.Runner }

func (d door) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var ask struct {
		Messages []struct {
			Content string `json:"content"`
		} `json:"messages"`
	}
	if err := json.NewDecoder(req.Body).Decode(&ask); err != nil || len(ask.Messages) == 0 {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w)
	say := func(v any) {
		b, _ := json.Marshal(v)
		fmt.Fprintf(w, "data: %s\n\n", b)
		_ = flush.Flush()
	}
	id := req.Header.Get("X-Stile-Session")
	text := ask.Messages[len(ask.Messages)-1].Content
	for ev, err := range d.runner.Run(req.Context(), "u-"+id, id, genai.NewContentFromText(text, genai.RoleUser), agent.RunConfig{StreamingMode: agent.StreamingModeSSE}) {
		if err != nil {
			say(map[string]any{"error": map[string]string{"type": fmt.Sprintf("%.200s", err)}})
			return
		}
		if !ev.LLMResponse.Partial || ev.LLMResponse.Content == nil {
			continue
		}
		for _, part := range ev.LLMResponse.Content.Parts {
			if part.Text != "" {
				say(map[string]any{"choices": []any{map[string]any{"delta": map[string]string{"content": part.Text}}}})
			}
		}
	}
	say(map[string]any{"choices": []any{map[string]any{"delta": map[string]string{}, "finish_reason": "stop"}}})
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// scripted asks for calls, then answers.
type scripted struct{ calls, tokens, size int }

func (*scripted) Name() string { return "scripted" }

func (m *scripted) GenerateContent(_ context.Context, req *model.LLMRequest, _ bool) iter.Seq2[*model.LLMResponse, error] {
	answers := false
	for _, part := range req.Contents[len(req.Contents)-1].Parts {
		answers = answers || part.FunctionResponse != nil
	}
	return func(yield func(*model.LLMResponse, error) bool) {
		if m.calls > 0 && !answers {
			content := &genai.Content{Role: genai.RoleModel}
			for range m.calls {
				content.Parts = append(content.Parts, &genai.Part{FunctionCall: &genai.FunctionCall{Name: "work", Args: map[string]any{}}})
			}
			yield(&model.LLMResponse{Content: content, TurnComplete: true}, nil)
			return
		}
		text := ""
		for i := range m.tokens {
			piece := token(i, m.size)
			text += piece
			if !yield(&model.LLMResponse{Content: genai.NewContentFromText(piece, genai.RoleModel), Partial: true}, nil) {
				return
			}
		}
		yield(&model.LLMResponse{Content: genai.NewContentFromText(text, genai.RoleModel), TurnComplete: true}, nil)
	}
}

func token(i, size int) string {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	b := make([]byte, size)
	for k := range b {
		b[k] = letters[(i+k)%len(letters)]
	}
	if size > 1 {
		b[size-1] = ' '
	}
	return string(b)
}
