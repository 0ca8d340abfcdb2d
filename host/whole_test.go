package host_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/messages"
)

// A submit may wait for its run, and then has all that the run said.
func TestSubmitWaits(t *testing.T) {
	held := make(chan struct{})
	d := serve(t, host.Config{}, agentOf("talker", speaks([]string{"Ahoy, ", "Ada."}, always())), agentOf("slow", speaks([]string{"late"}, held)))
	type whole struct {
		Ended                bool
		Run                  int64
		Decision, Code, Text string
		Units                []struct{ Kind, Text string }
		Usage                *struct{ Input, Output int64 }
	}
	d.session("a", "talker")
	var got whole
	d.call(200, &got, "POST", "/v1/sessions/a/runs?stream=none&wait=60s", `{"input":"hello"}`, "Idempotency-Key", "k")
	if !got.Ended || got.Decision != "DONE" || got.Text != "Ahoy, Ada." || len(got.Units) != 1 || got.Units[0].Kind != "response" || got.Units[0].Text != "Ahoy, Ada." || got.Usage == nil {
		t.Errorf("%+v", got)
	}
	var again whole
	d.call(200, &again, "POST", "/v1/sessions/a/runs?wait=1m", `{"input":"hello"}`, "Idempotency-Key", "k")
	if again.Run != 1 || again.Text != got.Text {
		t.Errorf("joined: %+v", again)
	}
	var asked whole
	d.call(200, &asked, "GET", "/v1/sessions/a/runs/1", "")
	if asked.Text != got.Text || len(asked.Units) != 1 {
		t.Errorf("asked later: %+v", asked)
	}
	d.session("s", "slow")
	got = whole{}
	d.call(202, &got, "POST", "/v1/sessions/s/runs?wait=1ms", `{"input":"hello"}`)
	if got.Ended || got.Run != 1 || got.Units != nil {
		t.Errorf("not ended: %+v", got)
	}
	close(held)
	d.call(200, &got, "POST", "/v1/sessions/s/runs?wait=1m", `{"input":"again","policy":"enqueue"}`)
	if got.Run != 2 || got.Text != "late" {
		t.Errorf("%+v", got)
	}
	for _, query := range []string{"wait=x", "wait=-1s", "wait=11m", "stream=token&wait=1s"} {
		d.refused(400, messages.ErrInvalid, "POST", "/v1/sessions/a/runs?"+query, `{"input":"hello"}`)
	}
}

// What is waited for of a merged submit is the run that took it up, by its number.
func TestMergedSubmitWaits(t *testing.T) {
	goOn := make(chan struct{})
	d := serve(t, host.Config{}, agentOf("slow", speaks([]string{"said"}, goOn)))
	d.session("s", "slow")
	d.call(202, nil, "POST", "/v1/sessions/s/runs", `{"input":"one"}`)
	d.call(202, nil, "POST", "/v1/sessions/s/runs", `{"input":"two","policy":"merge"}`, "Idempotency-Key", "k")
	waited := make(chan error)
	var got struct {
		Run  int64
		Text string
	}
	go func() {
		req, err := http.NewRequestWithContext(t.Context(), "POST", d.url+"/v1/sessions/s/runs?wait=1m", strings.NewReader(`{"input":"two","policy":"merge"}`))
		if err != nil {
			waited <- err
			return
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", "k")
		res, err := http.DefaultClient.Do(req)
		if err == nil {
			err = errors.Join(json.NewDecoder(res.Body).Decode(&got), res.Body.Close())
		}
		waited <- err
	}()
	close(goOn) // plain has one turn: what was merged is the next run
	if err := <-waited; err != nil || got.Run != 2 || got.Text != "said" {
		t.Errorf("%+v, %v", got, err)
	}
}

// A look waits for the end of its run as long as it is told, and says how the run stands then.
func TestLookWaits(t *testing.T) {
	held := make(chan struct{})
	asks := simplySpoken(t, "asks", "cogency", `Just a moment. <execute>[{"name":"lab.pay","args":{"v":"b"}}]</execute>`, "Paid.")
	asks.Manifest.Approval.Tools = map[string]messages.GateAnswer{"lab.pay": messages.GateConfirm}
	d := serve(t, host.Config{}, asks, agentOf("slow", speaks([]string{"late"}, held)))
	type view struct {
		State, Decision, Text string
		Ended                 bool
		Units                 []any
		Began                 *time.Time `json:"began_at"`
		End                   *time.Time `json:"ended_at"`
		MS                    int64      `json:"duration_ms"`
	}
	look := func(path string) (v view) {
		t.Helper()
		d.call(200, &v, "GET", "/v1/sessions/"+path, "")
		if v.Ended != (v.State == "ended") || v.Ended != (v.End != nil && v.Began != nil && v.Units != nil && v.Decision == "DONE" && !v.End.Before(*v.Began)) {
			t.Errorf("%s: %+v", path, v)
		}
		return v
	}
	d.session("s", "slow")
	var taken view
	d.call(202, &taken, "POST", "/v1/sessions/s/runs?wait=1ms", `{"input":"one"}`)
	d.call(202, nil, "POST", "/v1/sessions/s/runs", `{"input":"two","policy":"enqueue"}`)
	if v := look("s/runs/1?wait=1ms"); v.State != "running" || taken.State != "running" {
		t.Errorf("%+v, when it was taken %+v", v, taken)
	}
	if v := look("s/runs/2?wait=0s"); v.State != "queued" {
		t.Errorf("%+v", v)
	}
	both := make(chan view)
	for _, run := range []string{"1", "2"} {
		go func() {
			var v view
			res, err := http.Get(d.url + "/v1/sessions/s/runs/" + run + "?wait=1m")
			if err == nil {
				err = errors.Join(json.NewDecoder(res.Body).Decode(&v), res.Body.Close())
			}
			if err != nil {
				t.Error(err)
			}
			both <- v
		}()
	}
	close(held)
	for range 2 {
		if v := <-both; v.State != "ended" || v.Text != "late" {
			t.Errorf("%+v", v)
		}
	}
	d.session("a", "asks")
	d.call(202, &taken, "POST", "/v1/sessions/a/runs?wait=1m", `{"input":"pay"}`) // it comes to wait for somebody
	if v := look("a/runs/1?wait=1ms"); v.State != "waiting" || taken.State != "waiting" {
		t.Errorf("%+v, when it was taken %+v", v, taken)
	}
	var open struct {
		Approvals []struct{ ID, Digest string }
	}
	d.call(200, &open, "GET", "/v1/sessions/a/approvals", "")
	d.call(204, nil, "POST", "/v1/sessions/a/approvals/"+open.Approvals[0].ID, `{"allow":true,"digest":"`+open.Approvals[0].Digest+`"}`)
	if v := look("a/runs/1?wait=1m"); v.Text != "Just a moment. \n\nPaid." {
		t.Errorf("%+v", v)
	}
	for _, query := range []string{"wait=x", "wait=-1s", "wait=11m"} {
		d.refused(400, messages.ErrInvalid, "GET", "/v1/sessions/a/runs/1?"+query, "")
	}
	d.refused(404, messages.ErrNotFound, "GET", "/v1/sessions/a/runs/9?wait=1m", "")
}

// The value of an answer that fits a schema is in what a submit that waits is told, as in what
// is asked for later.
func TestWholeHasOutput(t *testing.T) {
	biller := agentOf("biller", speaks([]string{`{"total": `, `2.50}`}, always()))
	biller.Output = struct {
		Total float64 `json:"total"`
	}{}
	d := serve(t, host.Config{}, biller)
	d.session("a", "biller")
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/v1/sessions/a/runs?wait=1m", `{"input":"the bill"}`}, {"GET", "/v1/sessions/a/runs/1", ""},
	} {
		var got struct {
			Decision string
			Output   struct{ Total float64 }
		}
		if d.call(200, &got, c.method, c.path, c.body); got.Decision != "DONE" || got.Output.Total != 2.5 {
			t.Errorf("%s: %+v", c.method, got)
		}
	}
}
