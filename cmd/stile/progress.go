package main

import (
	"fmt"
	"io"
	"time"
)

// progress shows on a terminal how far long work is, with its rate and the time that is left, in one
// line that is drawn over. A nil one shows nothing. Its methods are for one goroutine.
type progress struct {
	out          io.Writer
	what         string // such as "session"
	total        int64  // 0 where it is not known
	now          func() time.Time
	begun, drawn time.Time
	done         int64
}

// drawEvery is the least time between two drawings.
const drawEvery = 200 * time.Millisecond

// progressOf begins to show work; nil where no terminal is.
func (a *app) progressOf(what string, total int64) *progress {
	if !a.outTerminal {
		return nil
	}
	return newProgress(a.err, what, total, time.Now)
}

func newProgress(out io.Writer, what string, total int64, now func() time.Time) *progress {
	at := now()
	return &progress{out: out, what: what, total: total, now: now, begun: at, drawn: at}
}

// step counts one more.
func (p *progress) step() {
	if p != nil {
		p.reach(p.done + 1)
	}
}

// reach says how many there are by now.
func (p *progress) reach(done int64) {
	if p == nil {
		return
	}
	p.done = done
	if at := p.now(); at.Sub(p.drawn) >= drawEvery {
		p.drawn = at
		fmt.Fprintf(p.out, "\r%s\x1b[K", p.text(at.Sub(p.begun)))
	}
}

func (p *progress) text(took time.Duration) string {
	text := count(p.done, p.what)
	if p.total > 0 {
		text = fmt.Sprintf("%d of %s", p.done, count(p.total, p.what))
	}
	rate := float64(p.done) / took.Seconds()
	text += fmt.Sprintf(", %.0f a second", rate)
	if left := p.total - p.done; p.total > 0 && left >= 0 {
		text += fmt.Sprintf(", %s left", time.Duration(float64(left)/rate*float64(time.Second)).Round(time.Second))
	}
	return text
}

// end clears the line.
func (p *progress) end() {
	if p != nil && p.drawn != p.begun {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
