package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// ear follows a run, over as many connections as it takes, and knows what it may hear next.
type ear struct {
	l     *testSession
	run   int64
	last  string // id of the last event
	seq   int64
	units map[string]string // what was shown of them
	ended bool
	hurt  []string // how connections ended
}

// hear follows until the stream ends, or the client has enough of this connection.
func (c *campaign) hear(e *ear, r *rand.Rand) {
	ctx, cancel := context.WithTimeout(c.ctx, tryFor)
	defer cancel()
	enough := 1 << 20
	if r.IntN(4) == 0 {
		enough = 1 + r.IntN(5)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/v1/sessions/%s/runs/%d/events?stream=token", c.front.Addr(), e.l.id, e.run), nil)
	if err != nil {
		c.t.Error(err)
		return
	}
	req.Header.Set("Last-Event-ID", e.last)
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		c.count("stream: no answer")
		time.Sleep(50 * time.Millisecond)
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		c.count(fmt.Sprint("stream: ", resp.StatusCode))
		e.hurt = append(e.hurt, resp.Status)
		time.Sleep(50 * time.Millisecond)
		return
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	var v event
	for lines.Scan() {
		switch line := lines.Text(); {
		case line == "" && v.name != "":
			if v.name == "leaving" || v.name == "problem" {
				c.count("stream: " + v.name)
				e.hurt = append(e.hurt, v.name+v.data)
				return
			}
			if why := e.takes(v); why != "" {
				c.witness.fault("the stream of run %d of %s: %s; behind %s comes %+v", e.run, e.l.id, why, e.last, v)
				e.ended = true
				return
			}
			if v.id != "" {
				e.last = v.id
			}
			if e.ended {
				c.count("stream: whole")
				return
			}
			if enough--; enough == 0 {
				c.count("stream: left by its reader")
				return
			}
			v = event{}
		case strings.HasPrefix(line, "event: "):
			v.name = line[len("event: "):]
		case strings.HasPrefix(line, "id: "):
			v.id = line[len("id: "):]
		case strings.HasPrefix(line, "data: "):
			v.data = line[len("data: "):]
		}
	}
	c.count("stream: broken")
	e.hurt = append(e.hurt, fmt.Sprint(lines.Err()))
}

// takes says what is wrong with the next event, if anything is.
func (e *ear) takes(v event) string {
	var u struct {
		Seq  int64
		Off  int
		Text string
		Unit string
		Run  int64
		Body struct{ Unit, Text string }
	}
	if err := json.Unmarshal([]byte(v.data), &u); err != nil {
		return err.Error()
	}
	switch v.name {
	case "delta":
		if was := e.units[u.Unit]; u.Off != len(was)+len(u.Text) {
			return fmt.Sprintf("%d bytes of %s were shown", len(was), u.Unit)
		}
		e.units[u.Unit] += u.Text
		return ""
	case "retract":
		if u.Unit != "" {
			if u.Off > len(e.units[u.Unit]) {
				return fmt.Sprintf("%d bytes of %s were shown", len(e.units[u.Unit]), u.Unit)
			}
			e.units[u.Unit] = e.units[u.Unit][:u.Off]
			return ""
		}
	case "response":
		if was := e.units[u.Body.Unit]; was != "" && was != u.Body.Text {
			return fmt.Sprintf("%q was shown of %s", was, u.Body.Unit)
		}
		e.units[u.Body.Unit] = u.Body.Text
	case "run.end":
		e.ended = true
	}
	if e.seq > 0 && u.Seq <= e.seq {
		return fmt.Sprintf("record %d was there", e.seq)
	}
	e.seq = u.Seq
	return ""
}
