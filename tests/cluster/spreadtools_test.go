package cluster

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A tool of the Model Context Protocol that is given no session begins one at the host that has less to do,
// and its next call is for that session.
func TestSpreadTools(t *testing.T) {
	w := prepare(t)
	if w == nil {
		return
	}
	w.job.Spread = true
	for _, name := range []string{"a", "b"} {
		w.start(name)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	ses, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(ctx, &mcp.StreamableClientTransport{Endpoint: "http://" + w.hosts["a"].public + "/mcp", HTTPClient: &http.Client{Transport: transport}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ses.Close()
	call := func(session string) (at, of string) {
		t.Helper()
		type result struct {
			*mcp.CallToolResult
			err error
		}
		out := make(chan result, 1)
		go func() {
			got, err := ses.CallTool(ctx, &mcp.CallToolParams{Name: "talker", Arguments: map[string]any{"message": "one", "session": session}})
			out <- result{got, err}
		}()
		r := w.reply()
		r.say(t, "It is.")
		r.end()
		got := <-out
		if got.err != nil || got.IsError || got.Content[0].(*mcp.TextContent).Text != "It is." {
			t.Fatalf("%+v, %v", got.CallToolResult, got.err)
		}
		of, _ = got.StructuredContent.(map[string]any)["session"].(string)
		return r.host, of
	}
	begun := map[string]string{} // a session of each host
	for told := time.Now(); len(begun) < 2; {
		at, of := call("")
		begun[at] = of
		if time.Since(told) > patience {
			t.Fatalf("calls without a session begin one at %v", begun)
		}
	}
	for host, id := range begun {
		if at, of := call(id); at != host || of != id {
			t.Errorf("the next call for %s of %s is made in %s at %s", id, host, of, at)
		}
	}
}
