package host_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/host"
)

func TestPromptRoute(t *testing.T) {
	d := serve(t, host.Config{}, agentOf("talker", speaks([]string{"Hel", "lo."}, always())))
	d.session("ada", "talker")
	d.call(http.StatusOK, nil, "POST", "/v1/sessions/ada/runs?stream=none&wait=1m", `{"input": "I am Ada."}`)
	for path, want := range map[string]int{
		"ada/turns/1/prompt": 200, "ada/turns/last/prompt?reply=true": 200, "ada/turns/2/prompt": 404, "ada/turns/0/prompt": 400,
		"ada/turns/x/prompt": 400, "eve/turns/1/prompt": 404,
	} {
		res, err := http.Get(d.url + "/v1/sessions/" + path)
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Requests []struct {
				Turn     int64
				Exact    bool
				Messages []struct{ Role, Text string }
				Reply    *struct{ Text, Finish string }
			}
		}
		err = json.NewDecoder(res.Body).Decode(&got)
		res.Body.Close()
		if res.StatusCode != want || err != nil {
			t.Errorf("%s: %s, want %d, %v", path, res.Status, want, err)
		}
		if want != http.StatusOK {
			continue
		}
		if len(got.Requests) != 1 || !got.Requests[0].Exact || got.Requests[0].Turn != 1 {
			t.Fatalf("%s: %+v", path, got)
		}
		r := got.Requests[0]
		if last := r.Messages[len(r.Messages)-1]; last.Role != "user" || last.Text != "I am Ada." {
			t.Errorf("%s: %+v", path, r)
		}
		switch {
		case !strings.Contains(path, "reply"):
			if r.Reply != nil {
				t.Errorf("%s: a reply that was not asked for: %+v", path, r.Reply)
			}
		case r.Reply == nil || r.Reply.Text != "Hello." || r.Reply.Finish != "complete":
			t.Errorf("%s: %+v", path, r.Reply)
		}
	}
}
