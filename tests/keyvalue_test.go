package tests

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// shelved is an agent with a key-value relic, and workflows that use it.
func shelved(t *testing.T, storage string, replies ...string) *stile.Agent {
	t.Helper()
	m, err := manifest.Parse("agent.yaml", []byte(`dialect: cortex
loop: {strict: [unseen]}
import: {relics: [notes, other], workflows: [twice]}
define:
  relics:
    - {name: notes, service_type: key_value, storage: `+storage+`}
    - {name: other, service_type: key_value}
  workflows:
    - name: twice
      inputs: [{name: by, type: integer, required: true}]
      steps:
        - {id: one, type: relic, name: notes, parameters: {operation: add, key: n, by: $by}}
        - {id: two, type: relic, name: notes, parameters: {operation: add, key: n, by: $by}, depends_on: [one]}
        - {id: three, type: relic, name: notes, parameters: {operation: get, key: n}, depends_on: [two]}
      output: ["${one.value}", "${two.value}", "${three.value}"]
`))
	if err != nil {
		t.Fatal(err)
	}
	return &stile.Agent{Manifest: m, Model: scripted.New(replies...)}
}

// put writes an action on a relic.
func put(id, mode, relic, params string) string {
	return `<action type="relic" mode="` + mode + `" id="` + id + `">{"name":"` + relic + `","parameters":` + params + `}</action>`
}

// What a relic keeps is the session's: calls side by side and steps of workflows see
// each other, a restart and another run find it, a fork has that of its turn, another
// session and another relic have nothing of it.
func TestKeyValueRelic(t *testing.T) {
	onJournals(t, func(t *testing.T, l *life) {
		var adds strings.Builder
		var ids []string
		for i := range 20 {
			ids = append(ids, fmt.Sprintf("n%d", i))
			adds.WriteString(put(ids[i], "async", "notes", `{"operation":"add","key":"n"}`))
		}
		a := shelved(t, "{}",
			put("a", "sync", "notes", `{"operation":"set","key":"city","value":{"name":"Oslo"}}`)+adds.String()+
				`<action id="w" type="workflow" depends_on="`+strings.Join(ids, ",")+`">{"name":"twice","parameters":{"by":5}}</action>`+
				put("f", "sync", "other", `{"operation":"set","key":"city","value":1}`)+
				`<response>${w.0} ${w.1} ${w.2}</response>`,
			put("b", "sync", "notes", `{"operation":"get","key":"city"}`)+put("c", "sync", "notes", `{"operation":"add","key":"n"}`)+
				put("d", "sync", "notes", `{"operation":"delete","key":"city"}`)+put("e", "sync", "notes", `{"operation":"list"}`)+
				put("o", "sync", "other", `{"operation":"list"}`)+`<response>${b.value.name} ${c.value} $e $o</response>`)
		rt := l.begin()
		s := open(t, rt, "stream", a)
		ask(t, s, "go")
		l.end()
		rt = l.begin()
		s = open(t, rt, "stream", a)
		ask(t, s, "on")
		if got := said(t, s); got != `25 30 30|Oslo 31 {"keys":["n"],"more":false} {"keys":["city"],"more":false}` {
			t.Errorf("said %s", got)
		}
		// Each of those side by side had a number of its own.
		seen := map[string]bool{}
		for id, end := range ends(t, s) {
			if strings.HasPrefix(id, "n") {
				seen[end] = true
			}
		}
		if len(seen) != 20 {
			t.Errorf("%d different sums: %v", len(seen), seen)
		}
		replays(t, rt, a)
		replays(t, rt, nil)
		if _, err := rt.Fork(t.Context(), "stream", 1, "fork"); err != nil {
			t.Fatal(err)
		}
		forked := *a
		forked.Model = scripted.New("-", put("x", "sync", "notes", `{"operation":"get","key":"n"}`)+put("y", "sync", "notes", `{"operation":"list"}`)+`<response>${x.value} $y</response>`)
		f := open(t, rt, "fork", &forked)
		ask(t, f, "go")
		if got := said(t, f); !strings.HasSuffix(got, `|30 {"keys":["city","n"],"more":false}`) {
			t.Errorf("the fork said %s", got)
		}
		forked.Model = scripted.New(put("x", "sync", "notes", `{"operation":"list"}`) + `<response>$x</response>`)
		fresh := forked
		n := open(t, rt, "new", &fresh)
		ask(t, n, "go")
		if got := said(t, n); got != `{"keys":[],"more":false}` {
			t.Errorf("a new session has %s", got)
		}
		l.end()
	})
}

// Every refusal has its reason and its place.
func TestKeyValueRefusals(t *testing.T) {
	a := shelved(t, "{max_keys: 1, max_value: 16, max_bytes: 18}",
		put("a", "sync", "notes", `{"operation":"set","key":"k","value":1}`)+
			put("b", "sync", "notes", `{"operation":"set","key":"j","value":1}`)+
			put("c", "sync", "notes", `{"operation":"set","key":"k","value":"fifteen letters"}`)+
			put("d", "sync", "notes", `{"operation":"set","key":"k","value":2,"expect":3}`)+
			put("e", "sync", "notes", `{"operation":"drop","key":"k"}`)+
			put("f", "sync", "notes", `{"operation":"get"}`)+
			put("g", "sync", "notes", `{"operation":"get","key":"k","value":1}`)+
			put("h", "sync", "other", `{"operation":"set","key":"k","value":"`+strings.Repeat("x", 64<<10)+`"}`)+
			put("i", "sync", "nothing", `{"operation":"get","key":"k"}`)+
			put("j", "sync", "notes", `{"operation":"set","key":"k","value":"`+strings.Repeat("x", 14)+`"}`)+
			put("k", "sync", "notes", `{"operation":"delete","key":"k"}`)+
			put("l", "sync", "notes", `{"operation":"set","key":"four","value":"`+strings.Repeat("x", 13)+`"}`)+
			`<response>so</response>`)
	rt := start(t, stile.Config{})
	s := open(t, rt, "stream", a)
	if o := ask(t, s, "go"); o.Decision != stile.Done {
		t.Fatalf("%+v", o)
	}
	got := ends(t, s)
	for id, want := range map[string]string{
		"a": "ok ", "b": "failed key_limit |the relic has 1 keys at most", "c": "failed value_limit |17 bytes as JSON; the limit is 16",
		"d": "failed conflict |parameters.expect", "e": "failed bad_field |parameters.operation: want one of get, set", "f": "failed bad_field |parameters.key: missing",
		"g": "failed bad_field |parameters.value", "h": "failed value_limit |the limit is 65536", "i": "failed unknown_target|",
		"j": "ok ", "k": "ok ", "l": "failed relic_limit |19 bytes; the limit is 18",
	} {
		begin, part, _ := strings.Cut(want, "|")
		if !strings.HasPrefix(got[id], begin) || !strings.Contains(got[id], part) {
			t.Errorf("%s: %s, want %s", id, got[id], want)
		}
	}
	replays(t, rt, a)
	for yaml, want := range map[string]string{
		"service_type: key_value, connection: {base_url: 'http://x'}":                                                                  "define.relics[0].connection: ERR_CONFIG/BAD_VALUE",
		"service_type: key_value, interface: {endpoints: [{name: a, path: /}]}":                                                        "define.relics[0].interface: ERR_CONFIG/BAD_VALUE",
		"service_type: key_value, storage: {max_keys: 5000}":                                                                           "define.relics[0].storage.max_keys: ERR_CONFIG/BAD_VALUE",
		"service_type: key_value, storage: {max_value: 1MiB}":                                                                          "define.relics[0].storage.max_value: ERR_CONFIG/BAD_VALUE",
		"service_type: http, connection: {base_url: 'http://x'}, storage: {max_keys: 5}, interface: {endpoints: [{name: a, path: /}]}": "define.relics[0].storage: ERR_CONFIG/BAD_VALUE",
	} {
		_, err := manifest.Parse("agent.yaml", []byte("dialect: cortex\nimport: {relics: [r]}\ndefine: {relics: [{name: r, "+yaml+"}]}\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", yaml, err, want)
		}
	}
}

// readings returns the number that the latest action g read, and how many changes are on
// record in front of it and in front of its end. A detached one may come
// between the two, or later.
func readings(t *testing.T, recs []*stile.Record) (got, least, most int) {
	t.Helper()
	count, last := 0, ""
	for _, r := range recs {
		switch b := r.Body.(type) {
		case *messages.RelicChanged:
			count++
		case *messages.ActionDeclared:
			if b.ID == "g" {
				least = count
			}
		case *messages.ActionEnded:
			if b.ID == "g" {
				most = count
			}
		case *messages.UnitText:
			if b.UnitKind == messages.ResponseUnit {
				last = b.Text
			}
		}
	}
	got, err := strconv.Atoi(last)
	if err != nil {
		t.Fatalf("said %q", last)
	}
	return got, least, most
}

// A journal that was cut behind any record goes on, and no call changes a relic twice:
// the number that is kept is that of the recorded calls, each under a key of its own.
func TestKeyValueOnce(t *testing.T) {
	const adds = `{"operation":"add","key":"n"}`
	answers := model(func(_ context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
		text := put("a", "sync", "notes", adds) + put("b", "async", "notes", adds) + put("c", "async", "notes", adds) +
			`<action id="w" type="workflow" mode="async">{"name":"twice","parameters":{"by":1}}</action>` +
			put("f", "fire_and_forget", "notes", adds) + `<response>$a</response>`
		if strings.Contains(prompt(req), "count") {
			text = put("g", "sync", "notes", `{"operation":"get","key":"n"}`) + `<response>${g.value}</response>`
		}
		return func(yield func(llm.Chunk, error) bool) {
			yield(llm.Chunk{Text: []byte(text), Finish: messages.FinishStop}, nil)
		}
	})
	keys, err := stile.GenerateKeys(stile.Config{})
	if err != nil {
		t.Fatal(err)
	}
	whole := memory.New()
	a := shelved(t, "{}")
	a.Model = answers
	rt := start(t, stile.Config{Store: whole, Keys: keys})
	s := open(t, rt, "stream", a)
	ask(t, s, "go")
	ask(t, s, "count")
	all := records(t, s)
	if got, least, most := readings(t, all); got < least || got > most || most > 6 {
		t.Fatalf("said %d, after %d to %d changes", got, least, most)
	}
	var blobs []messages.Blob
	for _, r := range all {
		for _, d := range journal.Blobs(r.Body) {
			b, err := whole.Blob(t.Context(), r.Inc, d)
			if err != nil {
				t.Fatal(err)
			}
			blobs = append(blobs, messages.Blob{Digest: d, Data: b})
		}
	}
	restored := 0
	for n := 2; n < len(all); n++ {
		if all[n].Epoch != 1 {
			t.Fatal("the session was woken between")
		}
		cut := memory.New()
		if err := errors.Join(cut.Commit([]journal.Batch{{SID: all[0].SID, Inc: all[0].Inc, Epoch: 1, Records: all[:n], Blobs: blobs}})...); err != nil {
			t.Fatal(err)
		}
		rt := start(t, stile.Config{Store: cut, Keys: keys})
		s := open(t, rt, "stream", a)
		ask(t, s, "count")
		seen := map[string]bool{}
		recs := records(t, s)
		for _, b := range bodies[*messages.RelicChanged](recs) {
			if seen[b.Key] {
				t.Errorf("cut behind record %d: %s was done twice", n, b.ID)
			}
			seen[b.Key] = true
		}
		restored += len(bodies[*messages.TurnRestored](recs))
		if got, least, most := readings(t, recs); got < least || got > most {
			t.Errorf("cut behind record %d: said %d, after %d to %d changes", n, got, least, most)
		}
	}
	if restored == 0 {
		t.Error("no cut was one that a turn is restored from")
	}
}
