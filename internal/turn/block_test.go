package turn

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/cortex"
)

var withBlocks = cortex.Dialect{Extensions: cortex.ExtIf | cortex.ExtForeach | cortex.ExtParallel}

// blockReplies are replies whose outcome does not depend on how fast anything is. A name that
// begins with "bad" is of an action that fails.
var blockReplies = []string{
	`<action id="a" mode="async">{"name":"read"}</action>
<if id="c" test='exists($a) && length($a) > 1'><action id="b">{"name":"keyed","parameters":{"v":"$a"},"output_key":"x"}</action><response final="false">b is $x</response><if id="n" test='$b != "v of a"'><action id="d">{"name":"read"}</action></if><elif test="true"><action id="never">{"name":"read"}</action><response>never</response><else/></if>
<thought>meanwhile</thought><action id="e" mode="async">{"name":"idem","depends_on":["c"],"parameters":{"c":"$c","n":"$n"}}</action><response>e is $e, $never.</response>`,

	`<parallel id="p" max="2" fail="all"><action id="a">{"name":"read"}</action><action id="bad">{"name":"read","on_error":"skip"}</action><if id="c" test="$a == 1"><action id="d">{"name":"read"}</action></if><parallel id="q"><action id="e">{"name":"keyed","depends_on":["a"]}</action><action id="f">{"name":"read"}</action></parallel></parallel>
<if test='status("c") == "skipped"'><response final="false">c was skipped: ${q.e}</response></if><action id="g">{"name":"read","parameters":{"q":"$q"}}</action><response>$g</response>`,

	`<if id="o" test="true"><thought>in</thought><action id="a" mode="async">{"name":"read","depends_on":["later"]}</action><action id="x" type="none">{"name":"read"}</action></if><action id="later" mode="async">{"name":"read"}</action><response>$a</response>`,

	`<action id="a" mode="async">{"name":"read"}</action>
<foreach in="$a" as="n" parallel="2" id="l"><action id="b">{"name":"keyed","parameters":{"v":"$n","at":"$n_index"},"output_key":"x"}</action><if id="c" test='$n == 2'><action id="bad" mode="async">{"name":"read","depends_on":["b"],"on_error":"skip"}</action><else><foreach in="$a" id="m" parallel="1"><action id="d">{"name":"idem","parameters":{"x":"$x","item":"$item"}}</action></foreach></else></if></foreach>
<foreach in="$b" id="k"><action id="e">{"name":"keyed","parameters":{"v":"$item"}}</action></foreach><action id="f">{"name":"read","depends_on":["d","k"],"parameters":{"l":"$l","d":"$d","x":"$x"}}</action><response>$e $m $f</response>`,

	`<action id="lst" mode="async">{"name":"read"}</action><foreach in="$lst" id="l"><action id="b">{"name":"keyed"}</action></foreach><foreach in="$none" id="n"><action id="d">{"name":"keyed"}</action></foreach><response>$l $n</response>`,
}

// play feeds a reply and answers what the machine asks, in an order that rng draws, until the
// turn is over. lose is the number of records after which the process dies once; 0 for never.
func (s *streamed) play(rng *rand.Rand, reply string, lose int) {
	pending := map[string]string{} // "ask" or "run", by action
	take := func(effects []Effect) {
		for _, e := range effects {
			switch e := e.(type) {
			case *AskGate:
				pending[e.ID] = "ask"
			case *StartAction:
				pending[e.ID] = "run"
			case *CancelAction:
				pending[e.ID] = "stop"
			}
		}
	}
	rest, ended := reply, false
	for steps := 0; s.m.Phase() != Idle && s.m.State().Turn == 1; steps++ {
		if steps > 10_000 {
			s.t.Fatalf("it does not end: %v, in %s", pending, s.m.Phase())
		}
		if lose > 0 && len(s.log) >= lose {
			s.box, s.shown = NewOutbox(int64(lose)), int64(lose)
			s.log = s.log[:lose]
			s.activate()
			lose = 0
			clear(pending)
			rest, ended = "", true
			take(s.do(s.recorded()))
			continue
		}
		id, _ := s.m.Flight()
		some := slices.Sorted(maps.Keys(pending))
		switch {
		case len(some) > 0 && (rng.IntN(3) == 0 || rest == "" && ended):
			k := some[rng.IntN(len(some))]
			what := pending[k]
			delete(pending, k)
			end := &ActionEnded{Ident: id, ID: k, State: messages.ActionOK, Result: `"v of ` + k + `"`}
			switch {
			case what == "ask":
				take(s.do(&Judged{Ident: id, ID: k, Answer: messages.GateApprove}))
				continue
			case what == "stop":
				end.State, end.Result = messages.ActionCancelled, ""
			case k == "a" && strings.Contains(reply, "<foreach"): // what its loops are over
				end.Result = `[1,2]`
			case strings.HasPrefix(k, "bad"):
				end.State, end.Reason, end.Result = messages.ActionFailed, "broken", ""
			}
			take(s.do(end))
		case rest != "":
			cut := 1 + rng.IntN(min(len(rest), 1+rng.IntN(200)))
			take(s.push(rest[:cut]))
			rest = rest[cut:]
		case !ended:
			ended = true
			take(s.end())
		default:
			s.t.Fatalf("nothing goes on, in %s:\n%s", s.m.Phase(), s.outcome())
		}
	}
}

// outcome is what the journal has of the first turn's texts, actions and blocks, each in its
// own order.
func (s *streamed) outcome() string {
	var all []string
	args := map[string]string{}
	for _, r := range s.log {
		if r.Turn > 1 {
			break
		}
		switch b := r.Body.(type) {
		case *messages.UnitText:
			all = append(all, fmt.Sprintf("unit %s %s %v %v %q", b.Unit, b.UnitKind, b.Final, b.Complete, b.Text))
		case *messages.ActionStarted:
			if b.Args != "" {
				args[b.ID] = b.Args
			}
		case *messages.ActionEnded:
			all = append(all, fmt.Sprintf("action %s %s %s %s %s", b.ID, b.State, b.Reason, b.Result, args[b.ID]))
		case *messages.BlockDecided:
			all = append(all, fmt.Sprintf("block %s decided %s %d %x %x", b.ID, b.Branch, b.Count, b.ItemsDigest[:4], b.ValueDigest[:4]))
		case *messages.BlockEnded:
			all = append(all, fmt.Sprintf("block %s ended %s %s %d %d", b.ID, b.State, b.Reason, b.OK, b.Failed))
		case *messages.TurnDecided:
			all = append(all, fmt.Sprintf("turn %s %s", b.Decision, b.Reason))
		}
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

func newBlocks(t testing.TB) *streamed { return newStreamedUnder(t, withBlocks, Rules{}) }

// Where the model's pieces are cut, and how soon the actions answer, changes neither the
// texts nor what becomes of actions and blocks. Nor does a process that dies after any record
// once the reply is on disk; one that dies before it leaves no block open.
func TestBlocksAreIndependentOfTiming(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for n, reply := range blockReplies {
		rng := rand.New(rand.NewPCG(seed, uint64(n)))
		want := ""
		for round := range 60 {
			s := newBlocks(t)
			s.play(rng, reply, 0)
			got := s.outcome()
			if want == "" {
				want = got
			}
			if got != want {
				t.Fatalf("reply %d, round %d:\n%s\nbefore:\n%s", n, round, got, want)
			}
		}
		whole := newBlocks(t)
		whole.play(rng, reply, 0)
		for at := 5; at <= len(whole.log); at++ {
			for range max(1, 5-len(whole.log)/20) {
				s := newBlocks(t)
				s.play(rng, reply, at)
				got := s.outcome()
				if strings.Contains(got, "turn HALT ERR_CRASH") {
					continue // the reply was not whole
				}
				if got != want {
					t.Fatalf("reply %d, dead after record %d:\n%s\nbefore:\n%s", n, at, got, want)
				}
			}
		}
		t.Log(want)
	}
}
