package host_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/messages"
)

type recordPage struct {
	Records []json.RawMessage
	Next    int64
}

// The pages of a session's records together are its export.
func TestPagesOfRecords(t *testing.T) {
	d := serve(t, host.Config{}, agentOf("talker", speaks([]string{"hello"}, always())))
	d.session("s", "talker")
	for range 3 {
		d.call(200, nil, "POST", "/v1/sessions/s/runs?wait=30s", `{"input": "hello"}`)
	}
	var want []string
	res := d.ask("GET", "/v1/sessions/s/export", "")
	text, err := io.ReadAll(res.Body)
	for line := range strings.Lines(string(text)) {
		want = append(want, strings.TrimSuffix(line, "\n"))
	}
	if err := errors.Join(err, res.Body.Close()); err != nil || len(want) < 12 {
		t.Fatalf("%d records, %v", len(want), err)
	}
	for _, limit := range []int{1, 5, len(want), len(want) + 1} {
		var got []string
		var all [][]string
		for before := int64(0); ; {
			var page recordPage
			d.call(200, &page, "GET", fmt.Sprintf("/v1/sessions/s/records?limit=%d&before=%d", limit, before), "")
			var part []string
			for _, r := range page.Records {
				part = append(part, string(bytes.TrimSpace(r)))
			}
			all = append(all, part)
			if before = page.Next; before == 0 {
				break
			}
		}
		for _, part := range slices.Backward(all) {
			got = append(got, part...)
		}
		if !slices.Equal(got, want) {
			t.Errorf("limit %d: %d records, want %d as the export has them", limit, len(got), len(want))
		}
	}
	var page recordPage
	d.call(200, &page, "GET", "/v1/sessions/s/records?kind=run.end&kind=input", "")
	var kinds []string
	for _, r := range page.Records {
		var rec struct{ Type string }
		if err := json.Unmarshal(r, &rec); err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, rec.Type)
	}
	if want := []string{"input", "run.end", "input", "run.end", "input", "run.end"}; !slices.Equal(kinds, want) {
		t.Errorf("%q, want %q", kinds, want)
	}
	d.call(200, &page, "GET", "/v1/sessions/s/records?before=1", "")
	if len(page.Records) != 0 || page.Next != 0 {
		t.Errorf("in front of the first record: %d, next %d", len(page.Records), page.Next)
	}
	d.refused(404, messages.ErrNotFound, "GET", "/v1/sessions/none/records", "")
}

// A list has the decision of each session's last run when it is asked for, and finds by it.
func TestListsByDecision(t *testing.T) {
	d := serve(t, host.Config{}, agentOf("talker", speaks([]string{"hello"}, always())), agentOf("mute", speaks([]string{"hello"}, nil)))
	for _, id := range []string{"done", "new"} {
		d.session(id, "talker")
	}
	d.session("halt", "mute")
	d.call(200, nil, "POST", "/v1/sessions/done/runs?wait=30s", `{"input": "hello"}`)
	d.call(202, nil, "POST", "/v1/sessions/halt/runs", `{"input": "hello"}`)
	d.call(204, nil, "POST", "/v1/sessions/halt/runs/1/cancel", "")
	d.call(200, nil, "GET", "/v1/sessions/halt/runs/1?wait=30s", "")
	list := func(query string) (all []string) {
		t.Helper()
		var page struct {
			Sessions []struct{ ID, Decision, Code string }
		}
		d.call(200, &page, "GET", "/v1/sessions?"+query, "")
		for _, s := range page.Sessions {
			all = append(all, s.ID+" "+s.Decision+" "+s.Code)
		}
		slices.Sort(all)
		return all
	}
	for query, want := range map[string][]string{
		"": {"done  ", "halt  ", "new  "}, "last=true": {"done DONE ", "halt HALT ERR_CANCELLED", "new  "},
		"decision=HALT": {"halt HALT ERR_CANCELLED"}, "decision=DONE&agent=talker": {"done DONE "}, "decision=ABORT": nil,
	} {
		if got := list(query); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	d.refused(422, messages.ErrInvalid, "GET", "/v1/sessions?decision=CONTINUE", "")
	d.refused(400, messages.ErrInvalid, "GET", "/v1/sessions?decision=HALT&order=id", "")
}

// The inbox has what waits in all sessions of its caller, to be answered by the routes of the
// session, and nothing of another user.
func TestInbox(t *testing.T) {
	keys := newTokens(t)
	d := serve(t, host.Config{Access: keys}, asksFirst(t, "asks", ""))
	ann, _ := keys.make("acme", "ann", "read", "submit", "approve")
	bob, _ := keys.make("acme", "bob", "read")
	for _, id := range []string{"one", "two", "three"} {
		d.call(201, nil, "POST", "/v1/sessions", fmt.Sprintf(`{"agent": "asks", "id": %q, "title": "The %s"}`, id, id), auth(ann)...)
		d.call(202, nil, "POST", "/v1/sessions/"+id+"/runs?wait=30s", `{"input": "pay"}`, auth(ann)...)
	}
	type call struct{ Session, Title, Agent, Since, ID, Name, Args, Digest string }
	inbox := func(query string, who string) (all []call, next string) {
		t.Helper()
		var page struct {
			Approvals []call
			Next      string
		}
		d.call(200, &page, "GET", "/v1/approvals?"+query, "", auth(who)...)
		return page.Approvals, page.Next
	}
	var all []call
	for after := ""; ; {
		part, next := inbox("limit=2&after="+after, ann)
		all = append(all, part...)
		if after = next; after == "" {
			break
		}
	}
	var got []string
	for _, c := range all {
		got = append(got, c.Session+" "+c.Title+" "+c.Agent+" "+c.Name+" "+c.Args)
		if len(c.Digest) != 64 || c.Since == "" {
			t.Errorf("%+v", c)
		}
	}
	want := []string{`three The three asks lab.pay {"v":"b"}`, `two The two asks lab.pay {"v":"b"}`, `one The one asks lab.pay {"v":"b"}`}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if others, _ := inbox("", bob); len(others) != 0 {
		t.Errorf("bob has %v", others)
	}
	d.call(204, nil, "POST", "/v1/sessions/two/approvals/"+all[1].ID, fmt.Sprintf(`{"allow": true, "digest": %q}`, all[1].Digest), auth(ann)...)
	left, _ := inbox("", ann)
	if slices.ContainsFunc(left, func(c call) bool { return c.ID == all[1].ID }) || len(left) < 2 {
		t.Errorf("what was answered still waits: %+v", left)
	}
}
