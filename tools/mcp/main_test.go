package mcp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

var ctx = context.Background()

// asServer makes the test binary an MCP server on its standard streams.
const asServer = "STILE_TEST_MCP_SERVER"

func TestMain(m *testing.M) {
	switch mode := os.Getenv(asServer); mode {
	case "":
		goleak.VerifyTestMain(m)
	case "garbage":
		fmt.Println("Welcome to the server!")
		hang()
	case "silent":
		hang()
	case "chatty": // on the stream where messages belong
		fmt.Printf("Welcome, %s!\r\n\n[INFO] ready\n{\"level\":30,\"msg\":\"started\"}\n[1]\nnull\n", os.Getenv("STILE_TEST_KEY"))
		serve("chatty")
	case "deaf": // answers what it must and then reads no more
		serve("deaf")
	default:
		serve(mode)
	}
}

type text struct {
	Text string `json:"text"`
}

// hang blocks for ever. Unlike an empty select it is no deadlock in a program without cgo.
func hang() {
	for {
		time.Sleep(time.Hour)
	}
}

func textResult(s string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: s}}}
}

// testServer is a server with a tool for everything that can happen.
func testServer() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	tool := func(name string, do func(ctx context.Context, in text) (*sdk.CallToolResult, error)) {
		sdk.AddTool(s, &sdk.Tool{Name: name, Description: "Does " + name + ".", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}},
			func(ctx context.Context, _ *sdk.CallToolRequest, in text) (*sdk.CallToolResult, any, error) {
				res, err := do(ctx, in)
				return res, nil, err
			})
	}
	tool("echo", func(_ context.Context, in text) (*sdk.CallToolResult, error) { return textResult(in.Text), nil })
	tool("fail-softly", func(_ context.Context, in text) (*sdk.CallToolResult, error) {
		return nil, errors.New("no: " + in.Text)
	})
	tool("die", func(context.Context, text) (*sdk.CallToolResult, error) {
		fmt.Fprintln(os.Stderr, "panic: at /srv/tools/main.go:7")
		os.Exit(3)
		return nil, nil
	})
	tool("print", func(_ context.Context, in text) (*sdk.CallToolResult, error) {
		_, err := fmt.Println(in.Text)
		return textResult("printed"), err
	})
	tool("pid", func(context.Context, text) (*sdk.CallToolResult, error) {
		return textResult(fmt.Sprint(os.Getpid())), nil
	})
	tool("env", func(context.Context, text) (*sdk.CallToolResult, error) {
		return textResult(strings.Join(os.Environ(), "\n")), nil
	})
	tool("hang", func(ctx context.Context, in text) (*sdk.CallToolResult, error) {
		if err := os.WriteFile(in.Text, []byte("hanging"), 0o600); err != nil {
			return nil, err
		}
		<-ctx.Done()
		return nil, errors.Join(ctx.Err(), os.WriteFile(in.Text, []byte("cancelled"), 0o600))
	})
	tool("repeat", func(_ context.Context, in text) (*sdk.CallToolResult, error) {
		n := 0
		_, err := fmt.Sscan(in.Text, &n)
		return textResult(strings.Repeat("x", n)), err
	})
	tool("child", func(_ context.Context, in text) (*sdk.CallToolResult, error) {
		cmd := exec.Command("sleep", "1000")
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		return textResult(fmt.Sprint(cmd.Process.Pid)), nil
	})
	tool("picture", func(context.Context, text) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{
			&sdk.TextContent{Text: "see"}, &sdk.ImageContent{Data: []byte{1, 2, 3}, MIMEType: "image/png"},
			&sdk.ResourceLink{URI: "file:///a", Name: "a"},
			&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "x:y", MIMEType: "text/plain", Text: "inside"}},
		}}, nil
	})
	tool("grow", func(context.Context, text) (*sdk.CallToolResult, error) {
		s.AddTool(&sdk.Tool{Name: "grown", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return textResult("new here"), nil
		})
		return textResult("grew"), nil
	})
	tool("shrink", func(context.Context, text) (*sdk.CallToolResult, error) {
		s.RemoveTools("echo")
		return textResult("shrank"), nil
	})
	// parts sends the parts of a text, each ended by |, as pieces of its result. One that begins
	// with a mark is something else: ! is a message, ? waits for a file, = is the result.
	sdk.AddTool(s, &sdk.Tool{Name: "parts"}, func(ctx context.Context, req *sdk.CallToolRequest, in text) (*sdk.CallToolResult, any, error) {
		all := ""
		for i, part := range strings.Split(strings.TrimSuffix(in.Text, "|"), "|") {
			note := &sdk.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: float64(i), Total: 9}
			switch {
			case strings.HasPrefix(part, "!"):
				note.Message = part[1:]
			case strings.HasPrefix(part, "?"):
				for _, err := os.Stat(part[1:]); err != nil && ctx.Err() == nil; _, err = os.Stat(part[1:]) {
					time.Sleep(time.Millisecond)
				}
				continue
			case strings.HasPrefix(part, "="):
				all = part[1:]
				continue
			default:
				note.Meta, all = sdk.Meta{PartialKey: part}, all+part
			}
			if req.Params.Meta[PartialKey] != true {
				continue // nothing was asked for
			}
			if err := req.Session.NotifyProgress(ctx, note); err != nil {
				return nil, nil, err
			}
		}
		return textResult(all), nil, nil
	})
	type sums struct {
		A int64 `json:"a"`
		B int64 `json:"b,omitempty"`
	}
	type sum struct {
		Sum int64 `json:"sum"`
	}
	sdk.AddTool(s, &sdk.Tool{Name: "add", Description: "Adds."}, func(_ context.Context, _ *sdk.CallToolRequest, in sums) (*sdk.CallToolResult, sum, error) {
		return nil, sum{in.A + in.B}, nil
	})
	s.AddTool(&sdk.Tool{Name: "exact", InputSchema: map[string]any{"type": "object"}}, func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		res := textResult(" " + string(req.Params.Arguments) + " ")
		res.StructuredContent = req.Params.Arguments
		return res, nil
	})
	return s
}

func serve(mode string) {
	s := testServer()
	for i := range map[string]int{"full": MaxTools + 1}[mode] {
		s.AddTool(&sdk.Tool{Name: fmt.Sprint("t", i), InputSchema: map[string]any{"type": "object"}}, nil)
	}
	if err := s.Run(context.Background(), &sdk.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, "the test server ends:", err)
		os.Exit(1)
	}
}

// self is the test binary as a server. The race detector maps more than any limit.
func self(mode string) Config {
	return Config{Name: "test", Command: []string{os.Args[0]}, Env: map[string]string{asServer: mode}, Memory: 1 << 62, Connect: 20 * time.Second}
}

func pool(t testing.TB, opts Options) *Pool {
	p := NewPool(opts)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func server(t testing.TB, p *Pool, cfg Config) *Server {
	t.Helper()
	s, err := p.Server(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func call(t testing.TB, s *Server, tool, args string) string {
	t.Helper()
	got, err := s.Call(ctx, tool, messages.Effectful, args)
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	return got
}

// wantScript wants an error of the script with a code and words.
func wantScript(t testing.TB, err error, code int, words ...string) {
	t.Helper()
	var e *neuroscript.ScriptError
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("got %T %v, want code %d", err, err, code)
	}
	for _, w := range words {
		if !strings.Contains(e.Message, w) {
			t.Errorf("%q lacks %q", e.Message, w)
		}
	}
}

// wantUnknown checks that the outcome is unknown.
func wantUnknown(t testing.TB, err error, words ...string) {
	t.Helper()
	var e *tools.Unsettled
	if !errors.As(err, &e) {
		t.Fatalf("got %T %v, want an unknown outcome", err, err)
	}
	for _, w := range words {
		if !strings.Contains(e.Reason, w) {
			t.Errorf("%q lacks %q", e.Reason, w)
		}
	}
}
