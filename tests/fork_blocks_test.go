package tests

import (
	"context"
	"strings"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// A run has blocks, a group and a result that grew in its first turn, and refers to all of them
// in its second. A fork between the two goes on as the original did: by its records it knows what
// the blocks came to and what is to be undone, and undoes that under the original's key. A fork
// that is made while a block, its group and the result are in the middle leaves them behind, and does all anew.
func TestForkAmongBlocks(t *testing.T) {
	first := trip("flight") + `<action id="s" mode="async">{"name":"desk.say","parameters":{"what":"so on"},"stream":true}</action>` +
		`<if id="c" test='status("flight") == "ok"'><parallel id="p"><action id="x">{"name":"desk.say","parameters":{"what":"one"}}</action>` +
		`<action id="y">{"name":"desk.say","parameters":{"what":"two"}}</action></parallel><else><action id="n">{"name":"desk.say"}</action></else></if>` +
		`<foreach id="l" in="$p"><action id="e">{"name":"desk.say","parameters":{"what":"${item.key}"}}</action></foreach>`
	second := `<if test='$c == "then" && status("l") == "ok" && status("n") == "skipped"'><rollback group="trip"/></if>` +
		`<response final="true">${p.x}, ${l.1}, $e, ${s.partial}</response>`
	var d counter
	a, _ := traveller(&d, `<response final="true">hello</response>`, first, second)
	a.Manifest.Extensions = []string{"if", "foreach", "parallel", "rollback", "stream"}
	a.Manifest.Import.Tools = append(a.Manifest.Import.Tools, "desk.say")
	rt := start(t, stile.Config{})
	a.Tools = append(a.Tools, tools.Tool{
		Name: "desk.say", Class: messages.ReadOnly, Params: []neuroscript.Param{{Name: "what", Type: "string"}},
		Run: func(ctx context.Context, c *tools.Call) (neuroscript.Value, error) {
			what, _ := c.Args[0].AsString()
			if err := c.Emit(ctx, what[:1]); err != nil {
				return neuroscript.Value{}, err
			}
			if what == "one" && strings.HasSuffix(c.SID, ":stream") {
				if _, err := rt.Fork(ctx, "stream", 0, "middle"); err != nil {
					t.Error(err)
				}
			}
			return neuroscript.String(what), c.Emit(ctx, what[1:])
		},
	})
	s := open(t, rt, "stream", a)
	wantDone(t, ask(t, s, "hi"))
	wantDone(t, ask(t, s, "go"))
	said := func(s *stile.Session) (text string, undone int) {
		for _, r := range records(t, s) {
			switch b := r.Body.(type) {
			case *messages.UnitText:
				if b.UnitKind == messages.ResponseUnit {
					text = b.Text
				}
			case *messages.ActionDeclared:
				if b.Compensates != "" {
					undone++
				}
			}
		}
		return text, undone
	}
	const want = `one, y, ["x","y"], so on`
	if text, undone := said(s); text != want || undone != 1 || len(d.booked) != 0 {
		t.Fatalf("%q, %d members undone, booked %v", text, undone, d.booked)
	}
	if _, err := rt.Fork(t.Context(), "stream", 2, "fork"); err != nil {
		t.Fatal(err)
	}
	fork := open(t, rt, "fork", a)
	wantDone(t, decision(t, fork.Run(2)))
	if text, undone := said(fork); text != want || undone != 1 {
		t.Errorf("the fork says %q and undoes %d members", text, undone)
	}
	for key, n := range d.keys {
		if len(d.keys) != 1 || n != 2 {
			t.Errorf("cancelled %d times under %s, of %d keys", n, key, len(d.keys))
		}
	}
	middle := open(t, rt, "middle", a)
	wantDone(t, ask(t, middle, "and now?"))
	if text, undone := said(middle); text != want || undone != 1 || len(d.booked) != 0 || len(d.keys) != 2 {
		t.Errorf("the fork from the middle says %q, %d members undone, booked %v, %d keys", text, undone, d.booked, len(d.keys))
	}
	if n := len(bodies[*messages.BlockBegin](records(t, middle))); n != 4 {
		t.Errorf("the fork from the middle has %d blocks", n)
	}
	for _, name := range []string{"stream", "fork", "middle"} {
		if _, err := rt.Replay(t.Context(), name, a); err != nil {
			t.Errorf("replay of %s: %v", name, err)
		}
	}
}
