package tests

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/messages"
)

// A relic is a cache, as models are used to: values with a time to
// live, and no operation where there is a value. What is over is gone for actions, feeds and another process;
// a replay, at any later time, has what was there.
func TestKeyValueTTL(t *testing.T) {
	var later atomic.Int64 // what the clock is ahead
	store := memory.New()
	cfg := stile.Config{Store: store, Now: func() time.Time { return time.Now().Add(time.Duration(later.Load())) }}
	look := put("g", "sync", "notes", `{"operation":"get","key":"result_123"}`) + put("l", "sync", "notes", `{"operation":"list"}`) + `<response>${g.found} ${l.keys}</response>`
	model := &recorder{Model: scripted.New(
		put("s", "sync", "notes", `{"operation":"set","key":"result_123","value":{"a":1},"ttl":3600}`)+
			put("f", "sync", "notes", `{"key":"report","value":"text","ttl":86400}`)+`<response>kept</response>`,
		look, look, look)}
	a := shelved(t, "{}")
	a.Model = model
	rt := start(t, cfg)
	s := open(t, rt, "stream", a)
	ask(t, s, "go")
	for _, c := range []struct {
		after time.Duration
		want  string
	}{
		{time.Hour - time.Minute, `true ["report","result_123"]`},
		{time.Minute, `false ["report"]`},
		{23 * time.Hour, `false []`},
	} {
		later.Add(int64(c.after))
		rt.Close(t.Context())
		rt = start(t, cfg)
		s = open(t, rt, "stream", a)
		ask(t, s, "look")
		if got := said(t, s); !strings.HasSuffix(got, "|"+c.want) {
			t.Errorf("%s later it said %s, want %s", c.after, got, c.want)
		}
	}
	if n := len(bodies[*messages.RelicChanged](records(t, s))); n != 2 {
		t.Errorf("%d changes are recorded", n)
	}
	if prompt := model.requests()[0].Messages[0].Text; !strings.Contains(prompt, "ttl") {
		t.Errorf("the model is not told of ttl:\n%s", prompt)
	}
	later.Add(int64(1000 * time.Hour))
	replays(t, rt, nil)
}
