package cortex

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/internal/parsetest"
)

const extensionVectors = "../../tests/testdata/vectors/extensions/streaming.json"

const allExtensions = ExtIf | ExtForeach | ExtParallel | ExtRollback | ExtStream | ExtSubThoughts | ExtTemplates

func blockText(b *messages.Block) string {
	if b == nil {
		return ""
	}
	return fmt.Sprintf("%+v", *b)
}

// blockStack are the blocks that are open, with what must hold of them in every reply.
type blockStack []struct {
	id, kind string
	broken   bool
}

func (s *blockStack) check(t testing.TB, reply []byte, e *messages.Event) {
	t.Helper()
	within := ""
	if n := len(*s); n > 0 {
		within = (*s)[n-1].id
	}
	switch e.Kind {
	case messages.EventAction:
		if e.Action.Block != within {
			t.Fatalf("action %s stands in %q, and block %q is open, in %q", e.Action.ID, e.Action.Block, within, reply)
		}
	case messages.EventBlock:
		if len(*s) == maxBlocks || e.Block.Within != within {
			t.Fatalf("%+v in %q of %d blocks, in %q", *e.Block, within, len(*s), reply)
		}
		*s = append(*s, struct {
			id, kind string
			broken   bool
		}{e.Block.ID, e.Block.Kind, false})
	case messages.EventBranch:
		if within == "" || e.Block.ID != within || (*s)[len(*s)-1].kind != "if" {
			t.Fatalf("branch %+v in %q, in %q", *e.Block, within, reply)
		}
	case messages.EventRollback:
		if e.Block.Within != within || !isID([]byte(e.Block.Group)) {
			t.Fatalf("rollback %+v in %q, in %q", *e.Block, within, reply)
		}
	case messages.EventBlockEnd:
		if within == "" || e.Block.ID != within || e.Block.OK && (*s)[len(*s)-1].broken {
			t.Fatalf("end %+v in %q, in %q", *e.Block, within, reply)
		}
		if *s = (*s)[:len(*s)-1]; !e.Block.OK {
			for i := range *s {
				(*s)[i].broken = true
			}
		}
	}
}

type extensionVector struct {
	vector
	Extensions []string                   `json:"extensions"`
	Templates  map[string]json.RawMessage `json:"templates"`
}

func (v *extensionVector) dialect(t testing.TB) Dialect {
	t.Helper()
	x := Dialect{Extensions: ExtensionsOf(v.Extensions), Templates: map[string]*Template{}}
	for name, definition := range v.Templates {
		made, wrong := LoadTemplate(string(definition), x.Extensions)
		if wrong != nil {
			t.Fatal(wrong)
		}
		x.Templates[name] = made
	}
	return x
}

func vectorsOfExtensions(t testing.TB) []extensionVector {
	t.Helper()
	b, err := os.ReadFile(extensionVectors)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []extensionVector `json:"cases"`
	}
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) < 112 {
		t.Fatalf("%d cases", len(file.Cases))
	}
	return file.Cases
}

// Every vector of extensions gives the same events at every cut, under every policy and
// rendering, with its own extensions and with all. Package conform compares them with what
// is wanted.
func TestExtensionCuts(t *testing.T) {
	for _, v := range vectorsOfExtensions(t) {
		x := v.dialect(t)
		everyCut(t, x, v.Input)
		for _, x := range []Dialect{
			{Extensions: x.Extensions, Templates: x.Templates, Cut: true},
			{Extensions: allExtensions, Templates: x.Templates, Rendering: 2, Forgive: parse.AllHabits},
		} {
			whole := decode(t, x, messages.FinishComplete, []byte(v.Input))
			for _, n := range []int{1, 2, 7} {
				if got := decode(t, x, messages.FinishComplete, parsetest.Pieces([]byte(v.Input), n)...); got.exact != whole.exact {
					t.Errorf("%q in pieces of %d:\n%swhole:\n%s", v.Input, n, got.exact, whole.exact)
				}
			}
		}
	}
}

// events are those of a reply in short: kinds with ids, errors with what they are of.
func events(t *testing.T, x Dialect, reply string) string {
	t.Helper()
	if len(reply) < 1000 {
		everyCut(t, x, reply)
	}
	var all []string
	emit := func(e messages.Event) {
		switch e.Kind {
		case messages.EventUnitEnd:
			all = append(all, string(e.UnitKind))
		case messages.EventAction:
			all = append(all, "action:"+e.Action.ID)
		case messages.EventBlock:
			all = append(all, e.Block.Kind+":"+e.Block.ID)
		case messages.EventBranch:
			all = append(all, e.Block.Branch)
		case messages.EventBlockEnd:
			all = append(all, fmt.Sprintf("end:%s:%v", e.Block.ID, e.Block.OK))
		case messages.EventRollback:
			all = append(all, "rollback:"+e.Block.Group)
		case messages.EventTemplate:
			all = append(all, "template:"+e.Block.Name+fmt.Sprint(e.Block.Params))
		case messages.EventCut:
			all = append(all, fmt.Sprintf("cut@%d", e.Offset))
		case messages.EventParseError:
			f := e.Fault
			word := f.Reason
			for _, v := range []string{f.ID, f.Tag, f.Name, f.Field} {
				if v != "" {
					word += ":" + v
				}
			}
			switch f.Reason {
			case Misplaced:
				word += "<" + f.Within
			case BadCondition:
				word += fmt.Sprintf("@%d", f.At)
			}
			all = append(all, word)
		}
	}
	d := x.NewDecoder(messages.TurnInfo{})
	d.Push([]byte(reply), emit)
	d.End(messages.FinishComplete, emit)
	return strings.Join(all, " ")
}

func TestBlocks(t *testing.T) {
	const a, b = `<action id="a">{"name":"t"}</action>`, `<action id="b">{"name":"t"}</action>`
	for _, c := range []struct{ reply, want string }{
		// what is deeper than blocks may nest
		{`<if test="$a" id="a"><if test="$a" id="b"><if test="$a" id="c"><if test="$a" id="d">` + b + `</if></if></if></if>`, "if:a if:b if:c too_deep:if end:c:false end:b:false end:a:false"},
		{`<if test="((" id="x">` + a + `</if><if test="true" id="x"></if>`, "bad_condition:x@2 duplicate_id:x"},

		// closers of branches
		{`<if test="$a" id="c"><elif test="$b">` + a + `</elif>` + b + `<else></if>`, "if:c elif1 action:a misplaced:action<if else end:c:false"},
		{`<if test="$a" id="c"><elif test="$b"></elif> text <thought>t</thought><else>` + a + `</if>`, "if:c elif1 text thought else action:a end:c:true"},
		{`<if test="$a" id="c"><elif test="$b"/><else/>` + a + `</if>`, "if:c elif1 else action:a end:c:true"},
		{`<if test="$a" id="c"><else></else></else></if>`, "if:c else stray_close:else end:c:true"},
		{`<if test="$a" id="c"><else></elif></if>`, "if:c else stray_close:elif end:c:true"},
		{`<if test="$a" id="c"><else><elif test="$b">` + a + `</if>`, "if:c else misplaced:elif<if action:a end:c:false"},
		{`<if test="$a" id="c"><elif>` + a + `</if>`, "if:c bad_field:c:test action:a end:c:false"},
		{`<if test="$a" id="c"><else></else><foreach in="$l">` + a + `</foreach></if>`, "if:c else misplaced:foreach<if end:c:false"},
		{`<if test="$a" id="c"><else></else><response>x</response></if>`, "if:c else misplaced:response<if end:c:false"},

		// thoughts and blocks
		{"<thought>a<if test='$a' id='c'><thought>b\n<response final='false'>r</response></if>", "thought if:c nested_thought thought unclosed_thought end:c:false unclosed_tag:if response stray_close:if"},
		{"<thought><parallel id='p'>\n<response>r</response>", "parallel:p thought end:p:false unclosed_tag:parallel unclosed_thought response"},
		{`<thought>a <if test="$a" id="c"></foreach> b</if> </if> c</thought>`, "thought if:c thought end:c:true thought"},
		{`<thought><rollback group="g">x</rollback></thought>`, "misplaced:rollback<thought"},
		{`<thought><action_template name="x">{"name":"t"}</action_template></thought>`, "misplaced:action_template<thought"},

		// what is discarded
		{`<if test="$a" !><if test="$b" !>` + a + `</if>` + b + `</if><action id="d">{"name":"t"}</action>`, "bad_tag:if action:d"},
		{`<else/>` + a + `</else>` + b, "misplaced:else< action:b"},
		{`<foreach in="$l" id="l"><response>one</response>` + a + `</foreach>` + b, "foreach:l misplaced:response<foreach action:a end:l:false action:b"},
		{`<foreach in="$l" id="l"><if test="$a" id="c"><rollback group="g"/></if></foreach>`, "foreach:l if:c misplaced:rollback<foreach end:c:false end:l:false"},
		{`<parallel timeout="1.">` + a + `</parallel>` + b, "bad_field:#b1:timeout action:b"},
		{`<parallel timeout="007.50" id="p"/>`, "parallel:p end:p:true"},
		{`<action_template x=/>` + a + `</action_template>` + b, "bad_tag:action_template action:b"},
		{`<rollback group="g">` + a, "unclosed_tag:rollback"},
		{`<if test="$a" id="c"></if !><action_result>x</action_result></if>`, "if:c bad_tag:if text reserved_tag:action_result end:c:false"},
		{`<if test="$a" id="c"><action_result>x</action_result></if>`, "if:c reserved_tag:action_result end:c:true"},

		// names
		{`<action id="x">{"name":"t","output_key":"row"}</action><foreach in="$l" as="row" id="l"></foreach>`, "action:x bad_field:l:as"},
		{`<action id="row_index">{"name":"t"}</action><foreach in="$l" as="row" id="l"></foreach>`, "action:row_index bad_field:l:as"},
		{`<foreach in="$l" as="l" id="l"></foreach>`, "bad_field:l:as"},
		{`<foreach in="$l" as="k" id="l" output_key="k_index"></foreach>`, "bad_field:l:as"},
		{`<foreach in="$l" as="k" id="l"><foreach in="$k" as="k_index" id="m"></foreach></foreach>`, "foreach:l bad_field:m:as end:l:false"},
		{`<foreach in="$l" as="k" id="l"><if test="$k" id="k"></if><parallel id="p" output_key="k_index"></parallel></foreach>`, "foreach:l duplicate_id:k bad_field:p:output_key end:l:false"},
		{`<foreach in=" ${a.b} " id="l" max="4000" depends_on='["x","x"]'></foreach>`, "foreach:l end:l:true"},
		{`<foreach in="$l" id="l" max="0123"></foreach>`, "bad_field:l:max"},
		{`<foreach in="$l" id="l" max="1234567890"></foreach>`, "bad_field:l:max"},
		{`<foreach in="$l" id="l" fail="none"></foreach>`, "bad_field:l:fail"},
		{`<foreach in="$l" id="l" depends_on="a b"></foreach>`, "bad_field:l:depends_on"},

		// templates
		{`<action_template name="x">{"name":"t","params":["b","a"]}</action_template><action template="x">{"with":{"a":1}}</action>`, "template:x[a b] bad_template:#1:with.b"},
		{`<action_template name="x">{"name":"t"}<action id="a">{"name":"t"}</action>`, "unclosed_tag:action_template:x action:a"},
		{`<action_template name="x">{"name":"t"}</action_template ><action_template name="x">{"name":""}</action_template><action template="x"/>`, "template:x[] bad_template:x:name action:#1"},
		{`<action_template name="x">` + strings.Repeat(" ", MaxTemplateBytes) + `{"name":"t"}</action_template>`, "invalid_json:x"},
		{`<action template="x" id="9">{"with":{}}</action>`, "bad_id:9"},
		{`<action template="">{}</action>`, "bad_template:#1:template"},
		{`<action template="big" id="a">{"with":{"v":"` + strings.Repeat("x", 9000) + `"}}</action>`, "bad_field:a:parameters"},

		// the end of a reply
		{`<if test="$a" id="c"><else></el`, "if:c else end:c:false unclosed_tag:if"},
		{`<if test="$a" id="c">x</thou`, "if:c text end:c:false unclosed_tag:if"},
		{`<if test="$a" id="c"></foreach `, "if:c unclosed_tag:foreach end:c:false unclosed_tag:if"},
		{`<if test="$a" id="c"><`, "if:c end:c:false unclosed_tag:if"},
		{`<if test="(" id="c"><action>{"s":"`, "bad_condition:c@1 unclosed_tag:if"},
	} {
		big, wrong := LoadTemplate(`{"name":"t","params":["v"],"parameters":{"a":"`+strings.Repeat("%{v}", 100)+`"}}`, allExtensions)
		if wrong != nil {
			t.Fatal(wrong)
		}
		if got := events(t, Dialect{Extensions: allExtensions &^ ExtSubThoughts, Templates: map[string]*Template{"big": big}}, c.reply); got != c.want {
			t.Errorf("%.300s\ngot  %s\nwant %s", c.reply, got, c.want)
		}
	}
}

// A run defines so many templates and no more; a later definition of a name takes no place.
func TestTemplateLimit(t *testing.T) {
	var reply, want strings.Builder
	define := func(name, result string) {
		fmt.Fprintf(&reply, `<action_template name=%q>{"name":"t"}</action_template>`, name)
		want.WriteString(result)
	}
	for i := range MaxTemplates {
		define(fmt.Sprint("t", i), fmt.Sprintf("template:t%d[] ", i))
	}
	define("more", "template_limit:more ")
	define("t0", "template:t0[]")
	if got := events(t, Dialect{Extensions: allExtensions}, reply.String()); got != want.String() {
		t.Errorf("%s\nwant %s", got, want.String())
	}
}

// The reply is cut behind the outermost block that holds what follows, and never inside.
func TestCutBehindBlocks(t *testing.T) {
	x := Dialect{Extensions: allExtensions, Cut: true}
	for _, c := range []struct{ reply, want string }{
		{`<if test="$a" id="c"><action id="a">{"name":"t"}</action></if>more`, "if:c action:a end:c:true cut@62"},
		{`<if test="$a" id="c"><action id="a" mode="async">{"name":"t"}</action></if>more`, "if:c action:a end:c:true text"},
		{`<parallel id="p"><action id="a" mode="async">{"name":"t"}</action></parallel>more`, "parallel:p action:a end:p:true cut@77"},
		{`<if test="$a" id="c"><if test="$a" id="d"><action id="a">{"name":"t"}</action></if> x</if>more`, "if:c if:d action:a end:d:true text end:c:true cut@90"},
		{`<if test="$a" id="c"><action id="a">{"name":"t"}</action><else><else></if>more`, "if:c action:a else misplaced:else<if end:c:false text"},
		{`<if test="$a" id="c"><if test="$b" id="d"/></if><if test="$a" id="e"></if>x`, "if:c if:d end:d:true end:c:true if:e end:e:true text"},
	} {
		if got := events(t, x, c.reply); got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.reply, got, c.want)
		}
	}
}

// What the model is told of a fault names the cure.
func TestExtensionCures(t *testing.T) {
	for reply, want := range map[string]string{
		`<if test="$n = 3" id="c"></if>`:                         "bad_condition: at byte 3: = is no operator: write ==",
		`<foreach in="[1]" id="l"></foreach>`:                    `bad_field: "in" must be one reference, such as in="$list"`,
		`<parallel><response>x</response></parallel>`:            "misplaced: a response stands in no foreach and no parallel, and not between two branches: write it behind the block",
		`<action template="y" id="a">{}</action>`:                "bad_template: template: there is no template of this name",
		`<action id="a">{"name":"t","stream":1}</action>`:        `bad_field: "stream" must be true or false`,
		`<action id="a">{"name":"t","rollback":{}}</action>`:     `bad_field: "group" must be the id of a group, beside "rollback" and on_error "rollback" too, and of no action that is fired and forgotten`,
		`<action_template name="x">{"nam":""}</action_template>`: "bad_template: nam: no member of a template",
	} {
		r := decode(t, Dialect{Extensions: allExtensions, Rendering: 2}, messages.FinishComplete, []byte(reply))
		if len(r.told) == 0 || r.told[0] != want {
			t.Errorf("%s\ngot  %q\nwant %s", reply, r.told, want)
		}
	}
}

// Without extensions a reply means what it meant before there were any: no tag, attribute
// or member of theirs is looked at.
func TestExtensionsOff(t *testing.T) {
	off := Dialect{Rendering: 2, Forgive: parse.AllHabits}
	on := off
	on.Extensions = allExtensions
	for _, v := range vectors(t) {
		got, want := everyCut(t, on, v.Input), everyCut(t, off, v.Input)
		if !strings.Contains(want.exact, UnsupportedTag) && !strings.Contains(want.exact, NestedThought) && !strings.Contains(v.Input, "<thought") &&
			!strings.Contains(v.Input, "rollback") && !strings.Contains(v.Input, "<if") && got.exact != want.exact {
			t.Errorf("%q\non:\n%soff:\n%s", v.Input, got.exact, want.exact)
		}
	}
}

// pieces of replies, for random ones.
var extensionWordsOfReplies = []string{
	`<if test="$a < 3">`, `<if test='((' id="c">`, `<if test="$x" id="c"/>`, `</if>`, `<elif test="$b">`, `</elif>`, `<else>`, `</else>`, `<else/>`,
	`<foreach in="$l" id="l">`, `</foreach>`, `<parallel>`, `<parallel timeout="1.5" max="2">`, `</parallel >`, `<rollback group="g"/>`, `<rollback group="g">`, `</rollback>`,
	`<thought label="p">`, `<thought>`, `</thought>`, "\n<response final='false'>", `<response>`, `</response>`,
	`<action id="a">`, `<action template="x">`, `{"name":"t"}`, `{"name":"t","s":"</if>"`, `{"with":{}}`, `</action>`, `<action id="item" mode="async">{"name":"t","group":"g"}</action>`,
	`<action_template name="x">`, `{"name":"t","params":["a"],"parameters":{"p":"%{a}"}}`, `</action_template>`, `<if test="$a" !>`, `<elif !`, " text ", "\n", "<", "</i", `"`, `'`, "é", "\xff",
	`<context_feed id="f">`, `</context_feed>`, `<action_result/>`, "<think>", "</think>", "```\n",
}

// checkExtended decodes a reply whole and in random pieces, with random extensions.
func checkExtended(t testing.TB, r *rand.Rand, reply []byte) {
	t.Helper()
	x := Dialect{Extensions: Extensions(r.IntN(int(allExtensions) + 1)), Cut: r.IntN(4) == 0}
	if r.IntN(2) == 0 {
		x.Extensions = allExtensions
	}
	if r.IntN(2) == 0 {
		x.Rendering, x.Forgive = 2, parse.AllHabits
	}
	finish := messages.FinishComplete
	if r.IntN(4) == 0 {
		finish = messages.FinishLength
	}
	whole := decode(t, x, finish, reply)
	for _, pieces := range [][][]byte{parsetest.Pieces(reply, 1), parsetest.Pieces(reply, 1+r.IntN(9))} {
		if got := decode(t, x, finish, pieces...); got.exact != whole.exact {
			t.Fatalf("%+v %q in %d pieces:\n%swhole:\n%s", x, reply, len(pieces), got.exact, whole.exact)
		}
	}
}

func TestRandomExtended(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 3000 {
		var reply []byte
		for range 1 + r.IntN(14) {
			reply = append(reply, extensionWordsOfReplies[r.IntN(len(extensionWordsOfReplies))]...)
		}
		checkExtended(t, r, reply)
	}
}

func FuzzExtensions(f *testing.F) {
	for i, v := range vectorsOfExtensions(f) {
		f.Add([]byte(v.Input), uint64(i))
	}
	f.Fuzz(func(t *testing.T, reply []byte, seed uint64) {
		checkExtended(t, rand.New(rand.NewPCG(seed, 2)), reply)
	})
}

// A definition that loads can be used, whatever values come: the action is whole or refused.
func FuzzTemplate(f *testing.F) {
	for _, s := range []string{
		`{"name":"t","params":{"a":{"type":"integer","default":5},"b":null},"parameters":{"x":["%{a}","y%{b}%%",{"z":"%{b}"}]}}`,
		`{"name":"t","params":["a"],"group":"g","rollback":{"name":"u","parameters":{"x":"%{a}"}},"timeout":1e1,"stream":true}`,
		`{"type":"relic","mode":"async","name":"t","output_key":"k","retry":9,"on_error":"rollback","group":"g"}`, `[]`, `{"name":"%{a}"}`,
	} {
		f.Add(s, `{"with":{"a":7,"b":"v"}}`)
		f.Add(s, `{"with":{"a":"$x","z":1},"retry":1,"group":"h"}`)
	}
	f.Fuzz(func(t *testing.T, definition, use string) {
		made, wrong := LoadTemplate(definition, allExtensions)
		if wrong != nil {
			if wrong.Detail == "" || wrong.Why == "" {
				t.Fatalf("%s: %+v", definition, wrong)
			}
			return
		}
		if _, wrong := LoadTemplate(definition, allExtensions); wrong != nil {
			t.Fatalf("%s loads once", definition)
		}
		x := Dialect{Extensions: allExtensions, Templates: map[string]*Template{"t": made}}
		decode(t, x, messages.FinishComplete, []byte(`<action template="t" id="a">`+use+`</action>`))
	})
}
