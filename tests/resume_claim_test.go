package tests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/llm/llmtest"
	"github.com/seed14be6753/stile/llm/openai"
	"github.com/seed14be6753/stile/manifest"
)

// claimed is the record of a run: what was sent to the provider up to each of its requests.
type claimed struct {
	Text []int64 `json:"text_bytes"` // of messages
	Wire []int64 `json:"wire_bytes"` // of requests, tools and options included
}

const (
	claimTurns = 32
	claimFile  = "benchmarks-resume"
)

// claim runs an agent of claimTurns turns, each but the last with one call whose result has the
// same size.
func claim(t *testing.T, mode string) (c claimed) {
	t.Helper()
	srv := llmtest.NewProvider(t, func(c *llmtest.Request) llmtest.Response {
		if c.N == claimTurns {
			return llmtest.Response{Text: []string{"Done."}}
		}
		return llmtest.Response{Text: []string{fmt.Sprintf(`I look at %02d. <execute>[{"name":"own.double","args":{"text":"%02d %s"}}]</execute>`, c.N, c.N, strings.Repeat("word ", 99))}}
	})
	rt := start(t, stile.Config{Providers: keepers()})
	a := resuming(t, "cogency", mode, srv.URL, "")
	a.Manifest.Loop.MaxTurns, a.Manifest.Quotas.Tokens = 2*claimTurns, 10_000_000
	wantDone(t, ask(t, open(t, rt, "s", a), "Look at all of them."))
	c.count(t, srv)
	if len(c.Text) != claimTurns {
		t.Fatalf("%d requests", len(c.Text))
	}
	return c
}

// count takes what was sent up to each request, with what led to it.
func (c *claimed) count(t *testing.T, srv *llmtest.Provider) {
	t.Helper()
	var text, wire int64
	for _, s := range srv.Seen() {
		for _, r := range []*llmtest.Request{s, s.Led} {
			if r == nil {
				continue
			}
			var body struct{ Instructions string } // the system's text, by replay
			if err := json.Unmarshal(r.Body, &body); err != nil {
				t.Fatal(err)
			}
			text += int64(len(body.Instructions))
			for _, item := range r.New {
				text += int64(len(item.Text))
			}
			wire += int64(len(r.Body))
		}
		c.Text, c.Wire = append(c.Text, text), append(c.Wire, wire)
	}
}

// claimFed is claim in cortex, with a feed at the end of each prompt. Its time stands still, because
// results say how long they took.
func claimFed(t *testing.T, mode string) (c claimed) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := llmtest.NewPipedProvider(t, func(c *llmtest.Request) llmtest.Response {
			if c.N == claimTurns {
				return llmtest.Response{Text: []string{"<response>Done.</response>"}}
			}
			return llmtest.Response{Text: []string{fmt.Sprintf(`I look at %02d. <action id="d">{"name":"own.double","parameters":{"text":"%02d %s"}}</action>`, c.N, c.N, strings.Repeat("word ", 99))}}
		})
		m, err := openai.New(openai.Options{BaseURL: srv.URL + "/v1", API: openai.Responses, Base: srv.Base})
		if err != nil {
			t.Fatal(err)
		}
		a := resumingFed(t, "responses_ws", mode, srv.URL, "")
		a.Model, a.Manifest.Model = m, manifest.Model{Provider: "mine", Model: "m-1", Mode: mode, ToolCalls: manifest.ToolCallsText}
		a.Manifest.Loop.MaxTurns, a.Manifest.Quotas.Tokens = 2*claimTurns, 10_000_000
		rt := start(t, stile.Config{})
		wantDone(t, ask(t, open(t, rt, "s", a), "Look at all of them."))
		c.count(t, srv)
		if err := rt.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	if len(c.Text) != claimTurns {
		t.Fatalf("%d requests", len(c.Text))
	}
	return c
}

// second returns the second differences of what was sent.
func second(all []int64) (d []int64) {
	for i := 2; i < len(all); i++ {
		d = append(d, all[i]-2*all[i-1]+all[i-2])
	}
	return d
}

// With a conversation that the provider keeps, a run sends what each turn adds: what was sent grows
// linearly, where it grows with the square of the turns by replay. The page and its plot are of the
// committed record, and the record is what a run gives.
func TestClaimOfResume(t *testing.T) {
	got := map[string]claimed{"resume": claim(t, "resume"), "replay": claim(t, "replay"), "cortex resume": claimFed(t, "resume"), "cortex replay": claimFed(t, "replay")}
	adds := int64(0) // by a turn: the reply, and its result
	for i, d := range second(got["replay"].Text) {
		if i == 0 {
			adds = d
		}
		if d != adds || d < 1000 {
			t.Errorf("by replay request %d adds %d bytes to what the one before sent, the first %d", i+3, d, adds)
		}
	}
	for i, d := range second(got["resume"].Text) {
		if d != 0 {
			t.Errorf("with a conversation request %d sends %d bytes more than the one before", i+3, d)
		}
	}
	for i, d := range second(got["cortex resume"].Text) {
		if i > 0 && (d < -8 || d > 8) { // a count has one digit more
			t.Errorf("with feeds at the end request %d sends %d bytes more than the one before", i+3, d)
		}
	}
	last := claimTurns - 1
	if ratio := float64(got["replay"].Text[last]) / float64(got["resume"].Text[last]); ratio < 10 {
		t.Errorf("after %d turns replay has sent %.1f times as much", claimTurns, ratio)
	}
	record, err := json.MarshalIndent(got, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]byte{".json": append(record, '\n'), ".md": claimPage(got), ".svg": claimPlot(got)} {
		path := filepath.Join("..", "docs", claimFile+name)
		if *updateSurface {
			if err := os.WriteFile(path, want, 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if is, err := os.ReadFile(path); err != nil || !bytes.Equal(is, want) {
			t.Errorf("%s is not what a run gives (%v); run go test ./tests -run TestClaimOfResume -update", path, err)
		}
	}
}

func claimPage(of map[string]claimed) []byte {
	resume, replay := of["resume"], of["replay"]
	adds := second(replay.Text)[0]
	fed, whole := of["cortex resume"].Text[claimTurns-1], of["cortex replay"].Text[claimTurns-1]
	var b bytes.Buffer
	fmt.Fprintf(&b, `# What a kept conversation saves

Generated by `+"`go test ./tests -run TestClaimOfResume -update`"+` from one run in each mode, recorded in [%s.json](%s.json). Do not edit.

One run of `+"`cogency`"+` with %d turns at a provider in memory that speaks Responses over WebSockets; each turn calls a tool. With `+"`model.mode: resume`"+` the [provider keeps the conversation](reference/providers.md#conversations), with `+"`replay`"+` each request has all of it.

![bytes sent up to each turn](%s.svg)

| turns | resume, text | replay, text | ratio | resume, tokens | replay, tokens | resume, requests | replay, requests |
| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
`, claimFile, claimFile, claimTurns, claimFile)
	for n := 1; n <= claimTurns; n *= 2 {
		i := n - 1
		fmt.Fprintf(&b, "| %d | %d B | %d B | %.1f | %d | %d | %d B | %d B |\n", n, resume.Text[i], replay.Text[i], float64(replay.Text[i])/float64(resume.Text[i]), (resume.Text[i]+3)/4, (replay.Text[i]+3)/4, resume.Wire[i], replay.Wire[i])
	}
	fmt.Fprintf(&b, `
- A turn adds %d bytes of text: a reply and its result. By replay each request sends that much more than the one before it, so the second difference of what was sent is %d bytes. With a conversation it is 0: each request behind the first sends its result alone.
- In `+"`cortex`"+` with a [feed at the end](reference/providers.md#feeds-at-the-end) of each prompt the reply goes with its result, because it stood behind the feed: after %d turns %d B of text in place of %d B, %.1f times less.
- Tokens are text at four bytes each. Requests are whole bodies, with tools and options, which both modes send each time.
- A provider bills the tokens of the whole conversation in both modes, those that it has in its cache at its lower price. What is saved is sending, and work of the host.
- The figures depend on no machine: the test runs both modes and compares.
`, adds, adds, claimTurns, fed, whole, float64(whole)/float64(fed))
	return b.Bytes()
}

// claimPlot draws what was sent, in text, over the turns.
func claimPlot(of map[string]claimed) []byte {
	const width, height, left, bottom, top = 640, 300, 70, 260, 30
	most := float64(of["replay"].Text[claimTurns-1])
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="bytes of text sent up to each turn">`+"\n", width, height)
	b.WriteString(`<style>text{font:12px system-ui,sans-serif;fill:#444}.axis{stroke:#8884}polyline{fill:none;stroke-width:2}.replay{stroke:#6b7280}.resume{stroke:#2563eb}@media(prefers-color-scheme:dark){text{fill:#bbb}.replay{stroke:#9ca3af}.resume{stroke:#60a5fa}}</style>` + "\n")
	x := func(n int) float64 { return left + float64(n)/claimTurns*(width-left-80) }
	y := func(v float64) float64 { return bottom - v/most*(bottom-top) }
	for _, part := range []float64{0, .25, .5, .75, 1} {
		fmt.Fprintf(&b, `<line class="axis" x1="%d" x2="%.1f" y1="%.1f" y2="%.1f"/><text x="%d" y="%.1f" text-anchor="end">%.0f kB</text>`+"\n", left, x(claimTurns), y(part*most), y(part*most), left-8, y(part*most)+4, part*most/1000)
	}
	for n := 8; n <= claimTurns; n += 8 {
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%d</text>`+"\n", x(n), bottom+18, n)
	}
	fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">turns</text>`+"\n", x(claimTurns/2), bottom+34)
	for _, mode := range []string{"replay", "resume"} {
		var points []string
		for i, v := range of[mode].Text {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(i+1), y(float64(v))))
		}
		fmt.Fprintf(&b, `<polyline class="%s" points="%s"/><text x="%.1f" y="%.1f">%s</text>`+"\n", mode, strings.Join(points, " "), x(claimTurns)+8, y(float64(of[mode].Text[claimTurns-1]))+4, mode)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}
