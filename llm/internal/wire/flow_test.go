package wire

import "testing"

// An event counts for the response that is under way, or for none.
func TestFlow(t *testing.T) {
	created, delta := `{"type":"response.created","response":{"id":"%"}}`, `{"type":"response.output_text.delta","delta":"x"}`
	with := func(event, id string) string {
		out := ""
		for _, c := range event {
			if c == '%' {
				out += id
			} else {
				out += string(c)
			}
		}
		return out
	}
	completed, failed := `{"type":"response.completed","response":{"id":"%"}}`, `{"type":"response.failed","response":{"id":"%"}}`
	for name, steps := range map[string][]struct {
		event string // "" is a request
		want  verdict
	}{
		"a reply": {{"", 0}, {with(created, "a"), passes}, {delta, passes}, {with(completed, "a"), closes}, {delta, stray}},
		"two replies": {
			{"", 0},
			{with(created, "a"), passes},
			{with(completed, "a"), closes},
			{"", 0},
			{delta, stray}, // of the one before, late
			{with(completed, "a"), stray},
			{with(created, "a"), stray},
			{with(created, "b"), passes},
			{delta, passes},
			{with(completed, "a"), stray},
			{with(completed, "b"), closes},
		},
		"not asked for":      {{with(created, "a"), stray}, {delta, stray}, {with(completed, "a"), stray}},
		"never begun":        {{"", 0}, {with(completed, "a"), stray}, {with(created, "b"), passes}},
		"another's end":      {{"", 0}, {with(created, "a"), passes}, {with(completed, "x"), stray}, {with(completed, "a"), closes}},
		"another's delta":    {{"", 0}, {with(created, "a"), passes}, {`{"type":"response.output_text.delta","response_id":"x","delta":"x"}`, stray}},
		"another's stream":   {{"", 0}, {with(created, "a"), passes}, {`{"type":"response.output_text.delta","stream_id":"x","delta":"x"}`, stray}},
		"two at once":        {{"", 0}, {with(created, "a"), passes}, {with(created, "b"), breaks}},
		"refused":            {{"", 0}, {`{"type":"error","status":400,"error":{"code":"x"}}`, closes}, {"", 0}, {with(created, "a"), passes}},
		"failed at once":     {{"", 0}, {with(failed, "a"), closes}},
		"broken in between":  {{"", 0}, {with(created, "a"), passes}, {`{"type":"error","error":{}}`, closes}, {delta, stray}},
		"no event":           {{"", 0}, {`{}`, breaks}},
		"no id":              {{"", 0}, {`{"type":"response.created"}`, stray}, {with(created, "a"), passes}},
		"queued, then begun": {{"", 0}, {`{"type":"response.queued","response":{"id":"a"}}`, passes}, {with(created, "a"), passes}},
	} {
		var f flow
		for i, s := range steps {
			if s.event == "" {
				f.ask("")
				continue
			}
			var h head
			if err := Decode([]byte(s.event), &h); err != nil {
				t.Fatal(err)
			}
			if got := f.take(&h); got != s.want {
				t.Errorf("%s: event %d, %s, is %d, want %d", name, i, s.event, got, s.want)
			}
		}
	}
}
