package turn

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// A value with a time to live is gone the moment it is over, for every operation, for the
// limits, for a feed's look, and after a restart; nothing is recorded when it goes.
func TestRelicTTL(t *testing.T) {
	s := working(t)
	id, _ := s.m.Flight()
	start := s.now
	n := 0
	for _, step := range []struct {
		at         time.Duration // since start
		args, want string
	}{
		{0, `{"operation":"set","key":"a","value":1,"ttl":10}`, `{"key":"a","replaced":false}`},
		{0, `{"key":"b","value":2,"ttl":20}`, `{"key":"b","replaced":false}`}, // of set alone is a value
		{0, `{"operation":"set","key":"c","value":3}`, `{"key":"c","replaced":false}`},
		{0, `{"operation":"set","key":"n","value":5,"ttl":10}`, `{"key":"n","replaced":false}`},
		{9 * time.Second, `{"operation":"add","key":"n"}`, `{"key":"n","value":6}`}, // keeps its time
		{10*time.Second - time.Millisecond, `{"operation":"get","key":"a"}`, `{"found":true,"value":1}`},
		{10 * time.Second, `{"operation":"get","key":"a"}`, `{"found":false,"value":null}`},
		{10 * time.Second, `{"operation":"list"}`, `{"keys":["b","c"],"more":false}`},
		{10 * time.Second, `{"operation":"delete","key":"a"}`, `{"deleted":false,"key":"a"}`},
		{10 * time.Second, `{"operation":"set","key":"a","value":7,"expect":1}`, ReasonConflict},
		{10 * time.Second, `{"operation":"add","key":"n"}`, `{"key":"n","value":1}`}, // from nothing, for good
		{11 * time.Second, `{"operation":"set","key":"a","value":8,"expect":null}`, `{"key":"a","replaced":false}`},
		{12 * time.Second, `{"operation":"set","key":"b","value":9}`, `{"key":"b","replaced":true}`}, // for good now
		{time.Hour, `{"operation":"list"}`, `{"keys":["a","b","c","n"],"more":false}`},
		{time.Hour, `{"operation":"set","key":"x","value":1,"ttl":0}`, ReasonBadField},
		{time.Hour, `{"operation":"set","key":"x","value":1,"ttl":31622401}`, ReasonBadField},
		{time.Hour, `{"operation":"set","key":"x","value":1,"ttl":1.5}`, ReasonBadField},
		{time.Hour, `{"operation":"add","key":"x","ttl":5}`, ReasonBadField},
		{time.Hour, `{"key":"x"}`, ReasonBadField},
		{time.Hour, `{"key":"c","value":1,"ttl":31622400}`, `{"key":"c","replaced":true}`},
	} {
		n++
		s.now = start.Add(step.at)
		if got := s.keep(id, "a", strings.Repeat("k", n), step.args); got != step.want {
			t.Errorf("at %s %s: %s, want %s", step.at, step.args, got, step.want)
		}
	}
	if len(s.m.State().RelicUntil) != 1 || len(s.m.State().RelicUntil["r"]) != 1 {
		t.Errorf("the ends of %v are kept", s.m.State().RelicUntil)
	}
	s.activate()
	s.do(s.recorded())
	look := func(at time.Duration) string {
		got, err := s.m.State().ReadRelic("r", `{"operation":"get","key":"c"}`, start.Add(at))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	year := time.Hour + MaxRelicTTL*time.Second
	if a, b := look(year-time.Millisecond), look(year); a != `{"found":true,"value":1}` || b != `{"found":false,"value":null}` {
		t.Errorf("after a restart %s, then %s", a, b)
	}
}

// What is over makes room: neither its key nor its bytes count.
func TestRelicTTLMakesRoom(t *testing.T) {
	s := working(t)
	id, _ := s.m.Flight()
	limits := messages.RelicLimits{Keys: 1, ValueBytes: 8, Bytes: 9}
	set := func(key, args string) string {
		for _, e := range s.do(&RelicCall{Ident: id, ID: "a", Key: key, Relic: "r", Args: args, Handle: 7, Limits: limits}) {
			if a, ok := e.(*AnswerRelic); ok {
				var e *messages.Error
				if errors.As(a.Err, &e) {
					return e.Reason
				}
				return a.Result
			}
		}
		return ""
	}
	if got := set("1", `{"key":"a","value":"123456","ttl":5}`); got != `{"key":"a","replaced":false}` {
		t.Fatal(got)
	}
	if got := set("2", `{"key":"b","value":"123456"}`); got != ReasonKeyLimit {
		t.Errorf("there is room: %s", got)
	}
	s.now = s.now.Add(5 * time.Second)
	if got := set("3", `{"key":"b","value":"123456"}`); got != `{"key":"b","replaced":false}` {
		t.Errorf("there is no room: %s", got)
	}
	if r := s.m.State().Relics["r"]; len(r) != 1 || r["b"] == "" {
		t.Errorf("it holds %v", r)
	}
}
