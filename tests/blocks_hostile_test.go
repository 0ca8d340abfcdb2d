package tests

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// Replies that no one means: each ends its turn, runs nothing it must not, tells the model why,
// and replays.
func TestHostileBlocks(t *testing.T) {
	const act = `<action id="%s">{"name":"t.do"}</action>`
	do := func(id string) string { return fmt.Sprintf(act, id) }
	deep := strings.Repeat(`<if test="true">`, 2000)
	for _, c := range []struct {
		name, reply string
		runs        int    // calls of t.do
		told        string // in the next prompt
	}{
		{"unclosed", `<if id="c" test="true">` + do("a") + `<foreach in="$x" id="l">` + do("b"), 0, `reason="unclosed_tag"`},
		{"crossed", `<if id="c" test="true"><parallel id="p">` + do("a") + `</if></parallel>` + do("z"), 1, `id="c" kind="if" status="failed" reason="malformed"`},
		{"closers without end", strings.Repeat("</if></foreach></parallel></else>", 20_000) + do("z"), 1, `reason="stray_close"`},
		{"deep", deep + do("a") + strings.Repeat("</if>", 2000) + do("z"), 1, `reason="too_deep"`},
		{"deep and unclosed", deep + do("a"), 0, `reason="too_deep"`},
		{"an expression without end", `<if id="c" test="` + strings.Repeat("(", 100_000), 0, "bad_tag"},
		{"a quote without end", `<if id="c" test="$x == 'aaa`, 0, `unclosed_tag`},
		{"parentheses", `<if id="c" test="` + strings.Repeat("(", 500) + "true" + strings.Repeat(")", 500) + `">` + do("a") + `</if>` + do("z"), 1, `reason="bad_condition"`},
		{"operators", `<if id="c" test="` + strings.Repeat("!", 500) + `true">` + do("a") + `</if>` + do("z"), 1, `reason="bad_condition"`},
		{"a chain", `<if id="c" test="` + strings.Repeat("true &amp;&amp; ", 500) + `true">` + do("a") + `</if>` + do("z"), 1, `reason="bad_tag"`},
		{"a number", `<if id="c" test="1e999999999 > 1e999999998">` + do("a") + `</if>`, 1, ""},
		{"a long list", `<action id="l">{"name":"t.many"}</action><foreach in="$l" id="f" max="1000">` + do("a") + `</foreach>`, 0, "too_many: 50000 > 1000"},
		{"a long list compared", `<action id="l">{"name":"t.many"}</action><if id="c" test="$l == $l &amp;&amp; length($l) == 50000">` + do("a") + `</if>`, 1, `branch="then"`},
		{"a loop of loops", `<action id="l">{"name":"t.hundred"}</action><foreach in="$l" id="f" max="1000" as="x"><foreach in="$l" id="g" max="1000" as="y">` + do("a") + `</foreach></foreach>`, 900, `child_failed:g[`},
		{"a loop over itself", `<foreach in="$f" id="f">` + do("a") + `</foreach>` + do("z"), 1, `id="f"`},
		{"a block that waits for itself", `<parallel id="p"><action id="a">{"name":"t.do","depends_on":["p"]}</action></parallel>`, 0, "dependency_cycle"},
		{"a group that is its action", `<action id="g">{"name":"t.do","group":"g","rollback":{"name":"t.undo"}}</action><rollback group="g"/>`, 1, `rolled_back="ok"`},
		{"a group in a compensation", `<action id="a">{"name":"t.do","group":"g","rollback":{"name":"t.undo","group":"g"}}</action>` + do("z"), 1, `reason="bad_field"`},
		{"an action that undoes itself", `<action id="a">{"name":"t.do","group":"g","rollback":{"name":"t.do"}}</action><rollback group="g"/>`, 2, `rolled_back="ok"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls atomic.Int64
				list := func(name string, n int) tools.Tool {
					return tool(name, messages.ReadOnly, func(context.Context, *tools.Call) (neuroscript.Value, error) {
						all := make([]neuroscript.Value, n)
						for i := range all {
							all[i] = neuroscript.Number(1)
						}
						return neuroscript.List(all), nil
					})
				}
				model := &recorder{Model: scripted.New(c.reply, "<response>done</response>")}
				a := fed(t, model, "extensions: [if, foreach, parallel, rollback]\n",
					tool("t.do", messages.Idempotent, func(context.Context, *tools.Call) (neuroscript.Value, error) {
						calls.Add(1)
						return neuroscript.String("ok"), nil
					}),
					tool("t.undo", messages.Idempotent, gives("undone")), list("t.many", 50_000), list("t.hundred", 100))
				rt := start(t, stile.Config{})
				s := open(t, rt, "stream", a)
				wantDone(t, ask(t, s, "go"))
				asked := model.requests()
				if len(asked) != 2 || !strings.Contains(prompt(asked[1]), c.told) {
					t.Errorf("%d requests, the last %.2000s", len(asked), prompt(asked[len(asked)-1]))
				}
				if calls.Load() != int64(c.runs) {
					t.Errorf("%d calls, want %d", calls.Load(), c.runs)
				}
				replays(t, rt, a)
			})
		})
	}
}

// Blocks without number end the run, as actions without number do.
func TestBlocksWithoutNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := fed(t, scripted.New(strings.Repeat(`<if test="true"></if>`, 5000)), "extensions: [if]\n")
		rt := start(t, stile.Config{})
		wantHalt(t, ask(t, open(t, rt, "stream", a), "go"), messages.ErrQuota, "256 control blocks")
		replays(t, rt, a)
	})
}

// A compensation that fails, hangs or needs a person stops neither the others nor the run.
func TestHostileCompensations(t *testing.T) {
	for _, c := range []struct{ name, undo, want string }{
		{"fails", `{"name":"t.fails"}`, `rolled_back="failed"`},
		{"hangs", `{"name":"t.hangs","timeout":5}`, `rolled_back="failed"`},
		{"is not there", `{"name":"t.none"}`, `reason="unknown_target"`},
		{"names nothing", `{"name":"t.undo","parameters":{"x":"free ${result.no}"}}`, `rolled_back="failed"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				undone := 0
				reply := `<action id="a">{"name":"t.do","group":"g","rollback":{"name":"t.undo"}}</action>` +
					`<action id="b">{"name":"t.do","group":"g","rollback":` + c.undo + `}</action><rollback group="g"/>`
				model := &recorder{Model: scripted.New(reply, "<response>done</response>")}
				a := fed(t, model, "extensions: [rollback]\n",
					tool("t.do", messages.Idempotent, gives("ok")),
					tool("t.undo", messages.Idempotent, func(context.Context, *tools.Call) (neuroscript.Value, error) {
						undone++
						return neuroscript.String("ok"), nil
					}),
					tool("t.fails", messages.Idempotent, func(context.Context, *tools.Call) (neuroscript.Value, error) {
						return neuroscript.Value{}, fmt.Errorf("no")
					}),
					tool("t.hangs", messages.Idempotent, waits))
				rt := start(t, stile.Config{})
				s := open(t, rt, "stream", a)
				begun := time.Now()
				wantDone(t, ask(t, s, "go"))
				if d := time.Since(begun); d > time.Minute {
					t.Errorf("it took %s", d)
				}
				if got := prompt(model.requests()[1]); !strings.Contains(got, c.want) || undone != 1 {
					t.Errorf("%d undone; %s", undone, got)
				}
				replays(t, rt, a)
			})
		})
	}
}
