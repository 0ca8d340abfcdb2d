package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"strconv"
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
	enough := 1 << 20
	if r.IntN(4) == 0 {
		enough = 1 + r.IntN(5)
	}
	how, _ := c.hearSome(e, enough)
	c.count("stream: " + how)
	if how != streamWhole && how != streamLeft {
		time.Sleep(50 * time.Millisecond)
	}
}

// How a connection of a stream ends.
const (
	streamWhole   = "whole"
	streamLeft    = "left by its reader"
	streamLeaving = "leaving"
)

// hearSome follows on one connection, for at most that many events. It returns how that ended, and
// the client's address of the connection.
func (c *campaign) hearSome(e *ear, enough int) (how, from string) {
	ctx, cancel := context.WithTimeout(c.ctx, tryFor)
	defer cancel()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { from = i.Conn.LocalAddr().String() }})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/v1/sessions/%s/runs/%d/events?stream=token", c.address(), e.l.id, e.run), nil)
	if err != nil {
		return err.Error(), from
	}
	req.Header.Set("Last-Event-ID", e.last)
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return "no answer", from
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		e.hurt = append(e.hurt, resp.Status)
		return strconv.Itoa(resp.StatusCode), from
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	var v event
	for lines.Scan() {
		switch line := lines.Text(); {
		case line == "" && v.name != "":
			if v.name == "leaving" || v.name == "problem" {
				e.hurt = append(e.hurt, v.name+v.data)
				return v.name, from
			}
			if why := e.takes(v); why != "" {
				c.witness.fault("the stream of run %d of %s: %s; behind %s comes %+v", e.run, e.l.id, why, e.last, v)
				e.ended = true
				return "wrong", from
			}
			if v.id != "" {
				e.last = v.id
			}
			if e.ended {
				return streamWhole, from
			}
			if enough--; enough == 0 {
				return streamLeft, from
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
	e.hurt = append(e.hurt, fmt.Sprint(lines.Err()))
	return "broken", from
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
