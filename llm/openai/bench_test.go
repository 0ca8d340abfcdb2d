package openai

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/responses"

	"github.com/seed14be6753/stile/internal/wiretest"
	"github.com/seed14be6753/stile/llm/internal/wire"
)

// A reply of 1000 deltas, read from memory: by this adapter, by the SDK's decoder, and
// as lines alone, which is the floor.
func BenchmarkReply1000Deltas(b *testing.B) {
	deltas := make([]string, 1000)
	for i := range deltas {
		deltas[i] = " word"
	}
	for name, c := range map[string]struct {
		format wiretest.Format
		events func() wire.Events
		peer   func(res *http.Response) int
	}{
		"chat": {wiretest.Chat(), chat{}.Events, func(res *http.Response) (n int) {
			s := ssestream.NewStream[sdk.ChatCompletionChunk](ssestream.NewDecoder(res), nil)
			for s.Next() {
				for _, c := range s.Current().Choices {
					n += len(c.Delta.Content)
				}
			}
			return n
		}},
		"responses": {wiretest.Responses(), response{}.Events, func(res *http.Response) (n int) {
			s := ssestream.NewStream[responses.ResponseStreamEventUnion](ssestream.NewDecoder(res), nil)
			for s.Next() {
				n += len(s.Current().Delta)
			}
			return n
		}},
	} {
		var body []byte
		for _, piece := range c.format.Stream(deltas...) {
			body = append(body, piece...)
		}
		b.Run(name+"/adapter", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				in, events, r := wire.NewReader(bytes.NewReader(body), 0), c.events(), &wire.Reply{}
				for {
					ev, err := in.Next()
					if err != nil || string(ev.Data) == "[DONE]" {
						break
					}
					if err := events.Event(ev, r); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
		b.Run(name+"/sdk", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				n := c.peer(&http.Response{Body: io.NopCloser(bytes.NewReader(body)), Header: http.Header{"Content-Type": {"text/event-stream"}}})
				if n < 5000 {
					b.Fatal(n)
				}
			}
		})
		b.Run(name+"/lines", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				in := wire.NewReader(bytes.NewReader(body), 0)
				for {
					if _, err := in.Next(); err != nil {
						break
					}
				}
			}
		})
	}
}
