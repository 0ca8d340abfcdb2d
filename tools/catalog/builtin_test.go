package catalog_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
	"github.com/seed14be6753/stile/tools/internal/toolstest"
	"github.com/seed14be6753/stile/tools/workspace"
)

// outputs is a Reader over a map from SID to OUTPUT.
type outputs map[string]string

func (o outputs) Output(_ context.Context, of messages.SessionKey) (string, bool, error) {
	if of.ID == "broken" {
		return "", false, errors.New("the store is down")
	}
	text, ok := o[of.SID()]
	return text, ok, nil
}

func TestSessionOutput(t *testing.T) {
	store := outputs{"acme:ann:me": "mine", "acme:ann:two": "two", "acme:bob:x": "bobs", "beta:eve:z": "foreign", "beta:eve:y": "foreign too", "acme:ann:bad": "a\xffb"}
	const me = "acme:ann:me"
	for name, c := range map[string]struct {
		grants  catalog.Grants
		sid     string
		want    string
		allowed bool
		who     string // audited target; empty: nothing is audited
	}{
		"own":                 {nil, me, `["mine"]`, true, me},
		"own by id":           {nil, "me", `["mine"]`, true, me},
		"same user, no grant": {nil, "two", "code 1003", false, "acme:ann:two"},
		"same user, granted":  {catalog.Grants{{"acme:ann:two", "read"}}, "two", `["two"]`, true, "acme:ann:two"},
		"same user, star":     {catalog.Grants{{"acme:ann:*", "read"}}, "acme:ann:two", `["two"]`, true, "acme:ann:two"},
		"other user":          {catalog.Grants{{"acme:ann:*", "read"}}, "acme:bob:x", "code 1003", false, "acme:bob:x"},
		"other user, star":    {catalog.Grants{{"acme:bob:*", "read"}}, "acme:bob:x", `["bobs"]`, true, "acme:bob:x"},
		"other tenant":        {catalog.Grants{{"acme:ann:*", "read"}, {"acme:eve:*", "read"}}, "beta:eve:z", "code 1003", false, "beta:eve:z"},
		"other tenant, named": {catalog.Grants{{"beta:eve:z", "read"}}, "beta:eve:z", `["foreign"]`, true, "beta:eve:z"},
		"its neighbour":       {catalog.Grants{{"beta:eve:z", "read"}}, "beta:eve:y", "code 1003", false, "beta:eve:y"},
		"other access":        {catalog.Grants{{"acme:bob:x", "write"}}, "acme:bob:x", "code 1003", false, "acme:bob:x"},
		"bad grant":           {catalog.Grants{{"acme:*:*", "read"}, {"*", "read"}, {"", "read"}}, "acme:bob:x", "code 1003", false, "acme:bob:x"},
		"denied, missing":     {nil, "acme:bob:none", "code 1003", false, "acme:bob:none"},
		"granted, missing":    {catalog.Grants{{"acme:bob:*", "read"}}, "acme:bob:none", "code 21", true, "acme:bob:none"},
		"store fails":         {catalog.Grants{{"acme:bob:*", "read"}}, "acme:bob:broken", "code 21", true, "acme:bob:broken"},
		"not UTF-8":           {catalog.Grants{{"acme:ann:*", "read"}}, "bad", "[\"a\uFFFDb\"]", true, "acme:ann:bad"},
		"no sid":              {nil, "a:b", "code 4", false, ""},
		"star as sid":         {catalog.Grants{{"acme:bob:*", "read"}}, "acme:bob:*", "code 4", false, ""},
		"empty":               {nil, "", "code 4", false, ""},
	} {
		var audits []messages.Audit
		call := &tools.Call{
			SID: me, Args: []neuroscript.Value{neuroscript.String(c.sid)}, Host: catalog.Host{Session: store},
			Audit: func(a messages.Audit) { audits = append(audits, a) },
		}
		got := toolstest.Perform(t, []tools.Tool{catalog.SessionOutput(c.grants)}, "session.output", call)
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
		switch {
		case c.who == "":
			if len(audits) != 0 {
				t.Errorf("%s: audited %+v", name, audits)
			}
		case len(audits) != 1 || audits[0].Allowed != c.allowed || audits[0].Who != me || audits[0].What != "session.output "+c.who || audits[0].Text == "":
			t.Errorf("%s: audited %+v", name, audits)
		}
	}
}

func TestSessionOutputNeedsItsHost(t *testing.T) {
	all := []tools.Tool{catalog.SessionOutput(nil)}
	args := []neuroscript.Value{neuroscript.String("me")}
	if got := toolstest.Perform(t, all, "session.output", &tools.Call{SID: "a:b:me", Args: args, Host: catalog.Host{Session: outputs{"a:b:me": "x"}}}); !strings.HasPrefix(got, "code 1003") {
		t.Errorf("without an audit: %s", got)
	}
	audit := func(messages.Audit) {}
	if got := toolstest.Perform(t, all, "session.output", &tools.Call{SID: "a:b:me", Args: args, Audit: audit}); !strings.HasPrefix(got, "code 21") {
		t.Errorf("without a reader: %s", got)
	}
	if got := toolstest.Perform(t, all, "session.output", &tools.Call{SID: "a:b:me", Audit: audit}); !strings.HasPrefix(got, "code 4") {
		t.Errorf("without an argument: %s", got)
	}
	grants := catalog.Grants{{"a:b:two", "read"}}
	all = []tools.Tool{catalog.SessionOutput(grants)}
	grants[0].Session = "a:b:*"
	if got := toolstest.Perform(t, all, "session.output", &tools.Call{SID: "a:b:me", Args: []neuroscript.Value{neuroscript.String("three")}, Audit: audit}); !strings.HasPrefix(got, "code 1003") {
		t.Errorf("grants changed afterwards count: %s", got)
	}
}

func TestGrantsValidate(t *testing.T) {
	for session, ok := range map[string]bool{
		"a:b:c": true, "a:b:*": true, "c": true, "": false, "*": false, "a:*": false, "a:*:*": false, "*:b:c": false, "a:b:c*": false, "a:b:c:d": false, "a:b:": false, "a b:c:d": false,
	} {
		err := catalog.Grants{{"x:y:z", catalog.AccessRead}, {session, catalog.AccessRead}}.Validate()
		var e *messages.Error
		if ok != (err == nil) || !ok && (!errors.As(err, &e) || e.Field != "grants[1].session") {
			t.Errorf("%q: got %v", session, err)
		}
	}
	err := catalog.Grants{{"a:b:c", "write"}}.Validate()
	var e *messages.Error
	if !errors.As(err, &e) || e.Field != "grants[0].access" || e.Code != messages.ErrConfig {
		t.Errorf("got %v", err)
	}
}

func TestTimeNow(t *testing.T) {
	at := time.Date(2026, 2, 3, 4, 5, 6, 7, time.FixedZone("x", 3600))
	if got := toolstest.Perform(t, []tools.Tool{catalog.TimeNow(func() time.Time { return at })}, "time.now", &tools.Call{}); got != `["2026-02-03T03:05:06.000000007Z"]` {
		t.Errorf("got %s", got)
	}
}

func TestDemoPanic(t *testing.T) {
	defer func() {
		if r := recover(); r != "demo.panic: boom" {
			t.Errorf("got %v", r)
		}
	}()
	toolstest.Perform(t, []tools.Tool{catalog.DemoPanic()}, "demo.panic", &tools.Call{Args: []neuroscript.Value{neuroscript.String("boom")}})
	t.Error("no panic")
}

func TestBuiltinsRegister(t *testing.T) {
	f, err := workspace.NewFiles(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := catalog.New(slices.Concat(catalog.Standard(), f.Tools(), []tools.Tool{catalog.SessionOutput(nil), catalog.TimeNow(time.Now), catalog.DemoPanic()})...)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"file.read", "file.list", "file.stat", "time.now", "session.output", "demo.panic"} {
		if tool, ok := r.Lookup(n); !ok || tool.Class != messages.ReadOnly {
			t.Errorf("%s: %+v", n, tool)
		}
	}
}
