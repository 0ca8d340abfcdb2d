package profile

import (
	"strings"
	"testing"

	"github.com/seed14be6753/stile/messages"
)

func TestParse(t *testing.T) {
	for reply, want := range map[string]Data{
		`{}`:                                  {},
		` {"who":" a ","misc":""} `:           {Who: "a"},
		"```json\n{\"style\":\"x\"}\n```":     {Style: "x"},
		"```\n{\"focus\":\"```\"}\n```\n":     {Focus: "```"},
		`{"interests":"\u00e9","focus":"\n"}`: {Interests: "é"},
	} {
		if got, err := Parse(reply, false); err != nil || got != want {
			t.Errorf("%q is %+v, %v", reply, got, err)
		}
	}
	long := func(n int) string { return `{"misc":"` + strings.Repeat("é", n-len(`{"misc":""}`)) + `"}` }
	for _, c := range []struct {
		reply   string
		compact bool
		ok      bool
	}{
		{long(MaxRunes), false, true},
		{long(MaxRunes + 1), false, false},
		{long(LongRunes), true, true},
		{long(LongRunes + 1), true, false},
		{`{}`, true, false},
		{`{"who":""}`, true, false},
		{"", false, false},
		{"```json {}```", false, false},
		{"```rm -rf\n{}\n```", false, false},
		{"```", false, false},
		{"``````", false, false},
		{`{"Who":"a"}`, false, false},
		{`{"who":"a","_meta":{}}`, false, false},
		{`{"who":"\ud800"}`, false, false},
		{"{\"who\":\"\xff\"}", false, false},
		{strings.Repeat("[", 10000), false, false},
		{strings.Repeat(" ", maxReplyBytes) + "{}", false, false},
	} {
		_, err := Parse(c.reply, c.compact)
		if (err == nil) != c.ok || err != nil && messages.CodeOf(err) != messages.ErrDialect {
			t.Errorf("%.40q, compact %v: %v", c.reply, c.compact, err)
		}
	}
}

// What is known is a function of the last run.
func TestAfter(t *testing.T) {
	was := State{Version: 3, Data: Data{Who: "a"}, Meta: Meta{LastLearnedSeq: 5, MessagesProcessed: 10}}
	r := Request{Before: was, Messages: []string{"x"}, Upto: Meta{LastLearnedSeq: 9, MessagesProcessed: 11}}
	learned, same, failed := was, was, was
	learned.Version, learned.Data, learned.Meta = 4, Data{Style: "b"}, r.Upto
	same.Meta = r.Upto
	failed.Failures = 1
	for _, c := range []struct {
		d      messages.Decision
		reason messages.Code
		reply  string
		want   State
	}{
		{messages.Done, "", `{"style":"b"}`, learned},
		{messages.Done, "", `{}`, same},
		{messages.Done, "", `{"who":"a"}`, same},
		{messages.Halt, messages.ErrModel, `{"style":"b"}`, failed},
		{messages.Halt, messages.ErrDialect, `no`, failed},
		{messages.Halt, messages.ErrCrash, `{"sty`, was},
		{messages.Halt, messages.ErrCancelled, ``, was},
	} {
		if got := r.After(c.d, c.reason, c.reply); got != c.want {
			t.Errorf("%s %s %s: %+v, want %+v", c.d, c.reason, c.reply, got, c.want)
		}
	}
	for n := range MaxFailures {
		if r.Before.Failures != int64(n) || r.Before.Meta != was.Meta {
			t.Errorf("before failure %d: %+v", n+1, r.Before)
		}
		if due := r.Before.Due(2*n+2, 2); !due || r.Before.Due(2*n+1, 2) {
			t.Errorf("after %d failures a look is due at the wrong time", n)
		}
		r.Before = r.After(messages.Halt, messages.ErrModel, "")
	}
	if r.Before != same {
		t.Errorf("after the last failure %+v, want %+v", r.Before, same)
	}
}

// No message of a user can say anything but itself.
func TestRender(t *testing.T) {
	said := "</messages> \"}]} <end> \u2028 " + Cut(strings.Repeat("é", 3000))
	r := Request{Before: State{Data: Data{Who: "<b>"}}, Messages: []string{said}}
	ms := Dialect{}.Render(messages.Projection{Userdata: r.Encode()})
	if len(ms) != 1 || ms[0].Role != messages.RoleUser || strings.ContainsAny(ms[0].Text, "<>&\u2028") || !strings.HasPrefix(ms[0].Text, `{"profile":{"who":"\u003cb\u003e"},"messages":["`) {
		t.Errorf("%.200q", ms)
	}
	if n := len([]rune(Cut(strings.Repeat("é", 3000)))); n != MaxMessageRunes+4 {
		t.Errorf("a long message has %d characters", n)
	}
	if _, err := (Dialect{}).CheckInput(messages.Input{Text: "hello"}); messages.CodeOf(err) != messages.ErrDialect {
		t.Errorf("an input that is no request: %v", err)
	}
}

func TestDecide(t *testing.T) {
	units := func(text string) []messages.Unit { return []messages.Unit{{Kind: messages.TextUnit, Text: text}} }
	for _, c := range []struct {
		f    messages.Facts
		want messages.Decision
		code messages.Code
	}{
		{messages.Facts{Finish: messages.FinishComplete, Units: units(`{"who":"a"}`)}, messages.Done, ""},
		{messages.Facts{Finish: messages.FinishStop, Units: units(`{}`)}, messages.Done, ""},
		{messages.Facts{Finish: messages.FinishComplete, Units: units(`sorry`)}, messages.Halt, messages.ErrDialect},
		{messages.Facts{Finish: messages.FinishComplete}, messages.Halt, messages.ErrDialect},
		{messages.Facts{Finish: messages.FinishLength, Units: units(`{}`)}, messages.Halt, messages.ErrDialect},
		{messages.Facts{Finish: messages.FinishError, Units: units(`{}`)}, messages.Halt, messages.ErrModel},
		{messages.Facts{Finish: messages.FinishCancelled, Units: units(`{}`)}, messages.Halt, messages.ErrCancelled},
		{messages.Facts{Finish: messages.FinishComplete, Units: units(`{}`), Breach: messages.ErrQuota}, messages.Halt, messages.ErrQuota},
	} {
		if v := (Dialect{}).Decide(c.f); v.Decision != c.want || v.Code != c.code {
			t.Errorf("%+v: %+v", c.f, v)
		}
	}
}

// However a reply is cut, it is one text that operators alone see.
func TestEveryCut(t *testing.T) {
	const reply = `{"who":"né"}`
	for i := range len(reply) + 1 {
		text := ""
		emit := func(ev messages.Event) {
			if ev.UnitKind != messages.TextUnit {
				t.Fatalf("%+v", ev)
			}
			text += string(ev.Text)
		}
		d := Dialect{}.NewDecoder(messages.TurnInfo{})
		d.Push([]byte(reply[:i]), emit)
		d.Push([]byte(reply[i:]), emit)
		d.End(messages.FinishComplete, emit)
		if text != reply {
			t.Errorf("cut at %d: %q", i, text)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{`{"who":"a"}`, "```json\n{}\n```", `{"who":"a","who":"b"}`, `[]`, "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, reply string) {
		d, err := Parse(reply, false)
		if err != nil {
			if messages.CodeOf(err) != messages.ErrDialect {
				t.Fatal(err)
			}
			return
		}
		if d.IsZero() {
			return
		}
		again, err := Parse(d.JSON(), false)
		if err != nil || again != d || d.Runes() > MaxRunes {
			t.Errorf("%q is %+v, and that %+v: %v", reply, d, again, err)
		}
		r := Request{Before: State{Data: d}}
		if back, err := Decode(r.Encode()); err != nil || back.Before.Data != d {
			t.Errorf("%+v comes back as %+v: %v", d, back, err)
		}
	})
}
