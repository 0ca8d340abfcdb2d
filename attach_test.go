package stile_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"iter"
	"strings"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
)

// sees is a model that takes pictures alone, and keeps what it was asked.
type sees struct{ requests []llm.Request }

func (m *sees) TakesPart(mediaType string) bool { return strings.HasPrefix(mediaType, "image/") }

func (m *sees) Stream(_ context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	m.requests = append(m.requests, req)
	return func(yield func(llm.Chunk, error) bool) {
		if yield(llm.Chunk{Text: []byte("ok")}, nil) {
			yield(llm.Chunk{Finish: messages.FinishComplete}, nil)
		}
	}
}

const dot = "\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00"

// A picture is on record by its digest, is kept once, is seen in its run and in later ones, by every
// dialect with a transcript, after a restart and in a fork, and replays.
func TestAttach(t *testing.T) {
	for _, dialect := range []string{"plain", "cortex", "cogency", "kitsu"} {
		t.Run(dialect, func(t *testing.T) {
			dir := t.TempDir()
			m := &sees{}
			agent := &stile.Agent{Dialect: dialect, Model: m}
			sum := messages.Digest(sha256.Sum256([]byte(dot)))
			seen := func(req *llm.Request, want int) {
				t.Helper()
				n := 0
				for i := range req.Messages {
					for _, p := range req.Messages[i].Parts {
						if n++; req.Messages[i].Role != messages.RoleUser || p.Digest != sum || p.Size != int64(len(dot)) || p.Type != "image/png" {
							t.Errorf("%+v", p)
						}
					}
				}
				if n != want || want > 0 && !bytes.Equal(req.Files[sum], []byte(dot)) || len(req.Files) != min(want, 1) {
					t.Errorf("the model saw %d pictures, want %d: %v", n, want, req.Files)
				}
			}
			rt := start(t, stile.Config{Dir: dir})
			s := opened(t, rt, "s", agent)
			decided(t, submitted(t, s, "hello"))
			seen(&m.requests[0], 0)
			picture := stile.Attach(stile.File{Name: "dot.png", Data: []byte(dot)}, stile.File{Type: "image/png", Data: []byte(dot)})
			first := submitted(t, s, "look", picture, stile.IdempotencyKey("k"))
			decided(t, first)
			seen(&m.requests[1], 2)
			if again := submitted(t, s, "look", picture, stile.IdempotencyKey("k")); again.Ordinal() != first.Ordinal() || !again.Joined() {
				t.Error("a repeated submit began a run")
			}
			_, err := s.Submit(t.Context(), "look", stile.IdempotencyKey("k"))
			wantCode(t, err, messages.ErrConflict)
			decided(t, submitted(t, s, "and now?"))
			seen(&m.requests[2], 2)
			closed(t, rt)

			rt = start(t, stile.Config{Dir: dir})
			s = opened(t, rt, "s", agent)
			decided(t, submitted(t, s, "and after a restart?"))
			seen(&m.requests[3], 2)
			for i, ask := range []struct {
				opts []stile.SubmitOption
				want int
			}{{nil, 2}, {[]stile.SubmitOption{stile.Attach(stile.File{Data: []byte(dot)})}, 1}} {
				as := "fork-" + string(rune('a'+i))
				if _, err := rt.ForkInput(t.Context(), "s", 2, as, "look closer", ask.opts...); err != nil {
					t.Fatal(err)
				}
				decided(t, opened(t, rt, as, agent).Run(2))
				seen(&m.requests[4+i], ask.want)
			}
			defer closed(t, rt)
			ar := rt.Archive()
			replays(t, ar, agent)
			head, err := ar.Head(t.Context(), "s")
			if err != nil {
				t.Fatal(err)
			}
			var lines, blobs bytes.Buffer
			if err := ar.Export(t.Context(), head.Inc, &lines); err != nil {
				t.Fatal(err)
			}
			if err := ar.ExportBlobs(t.Context(), head.Inc, &blobs); err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(lines.String(), sum.String()); n != 2 {
				t.Errorf("the digest is %d times on record", n)
			}
			if bytes.Contains(lines.Bytes(), []byte("IHDR")) || strings.Count(blobs.String(), sum.String()) != 1 {
				t.Error("the bytes are in a record, or not once beside them")
			}
		})
	}
}

// What cannot be shown is refused before a run begins.
func TestAttachRefused(t *testing.T) {
	rt := start(t, stile.Config{InMemory: true})
	defer closed(t, rt)
	m := &sees{}
	s := opened(t, rt, "s", &stile.Agent{Dialect: "plain", Model: m})
	for _, c := range []struct {
		s    *stile.Session
		file stile.File
	}{
		{s, stile.File{Data: []byte("%PDF-1.7")}},
		{s, stile.File{Data: []byte("GIF"), Type: "image/gif"}},
		{opened(t, rt, "texts", &stile.Agent{Dialect: "plain", Model: &asked{}}), stile.File{Data: []byte(dot)}},
		{opened(t, rt, "programs", &stile.Agent{Dialect: "aeiou", Model: m}), stile.File{Data: []byte(dot)}},
	} {
		_, err := c.s.Submit(t.Context(), "look", stile.Attach(c.file))
		wantCode(t, err, messages.ErrInvalid)
		if h, err := c.s.Head(t.Context()); err != nil || h.Run != 0 || h.Seq != 1 {
			t.Errorf("%+v, %v", h, err)
		}
	}
	if len(m.requests) > 0 {
		t.Error("the model was asked")
	}
}
