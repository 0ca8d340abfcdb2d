package host_test

import (
	"testing"

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
