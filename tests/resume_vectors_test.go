package tests

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/llm/llmtest"
	"github.com/seed14be6753/stile/messages"
)

// vectorsASession is how many replies of the vectors one conversation has: each request has all
// that came before.
const vectorsASession = 8

// The replies of the vectors, as the models of sessions: their records do not depend on whether the
// provider keeps the conversation.
func TestResumeVectors(t *testing.T) {
	kitsu := vectorReplies(t, "kitsu.json", "cases")
	for dialect, replies := range map[string][]string{
		"plain":   kitsu,
		"kitsu":   kitsu,
		"cogency": vectorReplies(t, "cogency.json", "parse"),
		"cortex":  vectorReplies(t, "streaming.json", "cases"),
	} {
		t.Run(dialect, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				want, asked := playVectors(t, dialect, "replay", replies)
				got, sent := playVectors(t, dialect, "resume", replies)
				if diff := gocmp.Diff(want, got); diff != "" {
					t.Errorf("(-replay +resume)\n%s", diff)
				}
				if sent >= asked {
					t.Errorf("%d bytes with conversations, %d without", sent, asked)
				}
				t.Logf("%d replies, %d records, %d bytes sent in place of %d", len(replies), len(got), sent, asked)
			})
		})
	}
}

// vectorReplies are the texts that a file of vectors has as input.
func vectorReplies(t *testing.T, file, of string) (replies []string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "vectors", file))
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	var cases []struct{ Input string }
	if err := json.Unmarshal(doc[of], &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		if strings.TrimSpace(c.Input) != "" { // a model that says nothing is asked again
			replies = append(replies, c.Input)
		}
	}
	if len(replies) < 40 {
		t.Fatalf("%s has %d replies", file, len(replies))
	}
	return replies
}

// playVectors has each reply begin a run, which another reply ends, and returns what sessions have alike
// and how many bytes were sent.
func playVectors(t *testing.T, dialect, mode string, replies []string) (lines []string, sent int64) {
	t.Helper()
	rest := "That is all."
	if dialect == "cortex" {
		rest = "<response>That is all.</response>"
	}
	var next atomic.Pointer[string]
	srv := llmtest.NewPipedProvider(t, func(*llmtest.Request) llmtest.Response {
		text := rest
		if first := next.Swap(nil); first != nil {
			text = *first
		}
		// In one piece: how much of a reply is read behind a mistake in it is a matter of time.
		return llmtest.Response{Text: []string{text}, Usage: messages.Usage{Input: 10, Output: 5}}
	})
	rt := start(t, stile.Config{})
	a := resumingOver(t, "responses_ws", dialect, mode, srv.URL, "")
	if dialect == "cortex" {
		a = resumingFed(t, "responses_ws", mode, srv.URL, "")
	}
	a = piped(t, a, "responses_ws", mode, srv)
	for i := 0; i < len(replies); i += vectorsASession {
		s := open(t, rt, fmt.Sprint("s", i), a)
		for _, reply := range replies[i:min(i+vectorsASession, len(replies))] {
			next.Store(&reply)
			ask(t, s, "Go on.")
		}
		lines = append(lines, alike(t, records(t, s))...)
	}
	return lines, srv.Sent()
}
