package scripted

import (
	"encoding/json"
	"testing"

	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/llmtest"
)

func TestPort(t *testing.T) {
	llmtest.Port(t, func(t *testing.T, r llmtest.Reply) llm.Model {
		type chunk struct {
			AtMS int64  `json:"at_ms"`
			Text string `json:"text"`
		}
		line := map[string]any{"chunks": []chunk{}}
		var chunks []chunk
		for _, p := range r.Pieces {
			chunks = append(chunks, chunk{Text: p})
		}
		if r.Hang {
			chunks = append(chunks, chunk{AtMS: MaxDelayMS})
		}
		if len(chunks) == 0 {
			chunks = []chunk{{}}
		}
		line["chunks"] = chunks
		if r.Failure != 0 {
			line["error"] = map[string]any{"status": r.Failure}
		} else {
			line["finish"] = r.Finish
			if r.Hang {
				line["finish"] = "complete"
			}
			line["usage"] = map[string]int64{"input": r.Usage.Input, "output": r.Usage.Output}
		}
		b, err := json.Marshal(line)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Parse("port", b)
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}
