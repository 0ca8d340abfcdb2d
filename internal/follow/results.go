package follow

import (
	"cmp"
	"slices"

	"github.com/seed14be6753/stile/messages"
)

// Results that are shown as they grow (docs/spec/extensions.md §5), beside the texts of units.
// Several may grow at once, so a position names each. Text of an attempt is shown after its
// action.started: at that record the text of the attempt before is taken back. action.chunk
// records bring what the reader has missed, and at action.ended what no record has is taken
// back.

// resultID names a result of a session.
type resultID struct {
	turn   int64
	action string
}

// shownResult is how much of a result the reader has.
type shownResult struct {
	off      int64 // bytes
	recorded int64 // of them, those in records that the reader has
	// since is the position of the attempt's action.started: what was published before it is
	// text of another attempt.
	since int64
	live  bool // pieces of it are shown, not records alone
	ended bool
}

// resumeResults begins with what a position says of results.
func (j *joiner) resumeResults(from messages.Position) {
	j.results, j.floor = nil, from.Seq
	from.EachResult(func(turn int64, action string, off int64) { j.result(resultID{turn, action}).off = off })
}

// result returns what the reader has of a result.
func (j *joiner) result(id resultID) *shownResult {
	s := j.results[id]
	if s == nil {
		if j.results == nil {
			j.results = map[resultID]*shownResult{}
		}
		s = &shownResult{}
		j.results[id] = s
	}
	return s
}

// recallResult takes a record that the reader has; records come backwards. settled has the
// actions whose attempt is known.
func (j *joiner) recallResult(r *messages.Record, settled map[string]bool) {
	switch b := r.Body.(type) {
	case *messages.ActionChunk:
		if !settled[b.ID] {
			s := j.result(resultID{r.Turn, b.ID})
			end := b.Off + int64(len(b.Bytes))
			s.recorded, s.off = max(s.recorded, end), max(s.off, end)
		}
	case *messages.ActionStarted:
		if s := j.results[resultID{r.Turn, b.ID}]; s != nil && !settled[b.ID] {
			s.since = r.Seq
		}
		settled[b.ID] = true
	case *messages.ActionEnded:
		if b.Streamed > 0 {
			j.result(resultID{r.Turn, b.ID}).ended = true
		}
		settled[b.ID] = true
	}
}

// resultRecord takes a record about a result.
func (j *joiner) resultRecord(r *messages.Record, give func(messages.Update) bool) bool {
	switch b := r.Body.(type) {
	case *messages.ActionStarted:
		s := j.results[resultID{r.Turn, b.ID}]
		if s == nil && b.Attempt <= 1 {
			return true
		}
		s = j.result(resultID{r.Turn, b.ID})
		more := j.takeBackResult(r, b.ID, s, 0, give)
		*s = shownResult{since: r.Seq}
		return more
	case *messages.ActionChunk:
		s := j.result(resultID{r.Turn, b.ID})
		end := b.Off + int64(len(b.Bytes))
		defer func() { s.recorded = max(s.recorded, end) }() // with the record, which follows
		switch {
		case s.off >= end:
			return true
		case s.off == 0 || s.off < b.Off || s.off == s.recorded && !s.live: // the record says it
			s.off = end
			return true
		}
		return j.changeResult(&messages.Delta{
			TS: r.TS, Seq: j.seq, Run: r.Run, Unit: messages.UnitID{Turn: r.Turn}, Kind: messages.ResultText, Action: b.ID,
			Off: end, Text: string(b.Bytes[s.off-b.Off:]),
		}, give)
	case *messages.ActionEnded:
		s := j.results[resultID{r.Turn, b.ID}]
		if s == nil && b.Streamed == 0 {
			return true
		}
		s = j.result(resultID{r.Turn, b.ID})
		more := j.takeBackResult(r, b.ID, s, s.recorded, give)
		s.ended = true
		return more
	}
	return true
}

// takeBackResult retracts what the reader has of a result behind its first bytes.
func (j *joiner) takeBackResult(r *messages.Record, action string, s *shownResult, stay int64, give func(messages.Update) bool) bool {
	if s.ended || s.off <= stay || !s.live && s.off <= s.recorded {
		return true
	}
	return j.changeResult(&messages.Delta{
		TS: r.TS, Seq: j.seq, Run: r.Run, Unit: messages.UnitID{Turn: r.Turn}, Kind: messages.ResultText, Action: action, Off: stay, Retract: true,
	}, give)
}

// resultDelta takes a piece of a result.
func (j *joiner) resultDelta(d *messages.Delta, give func(messages.Update) bool) bool {
	if d.Unit.Turn <= j.decided || d.Seq < j.floor {
		return true // the reader has records behind it: what it lacks comes with one
	}
	s := j.result(resultID{d.Unit.Turn, d.Action})
	s.live = s.live || d.Seq >= s.since
	from := d.Off - int64(len(d.Text))
	if s.ended || d.Seq < s.since || d.Off <= s.off || from > s.off {
		return true // given before; or the pieces between come by Grown or with a record
	}
	own := *d
	own.Seq, own.Text = j.seq, d.Text[s.off-from:]
	return j.changeResult(&own, give)
}

func (j *joiner) changeResult(d *messages.Delta, give func(messages.Update) bool) bool {
	j.result(resultID{d.Unit.Turn, d.Action}).off = d.Off
	return give(messages.Update{Delta: d, At: j.at()})
}

// forgetResults drops the results of a turn that has ended.
func (j *joiner) forgetResults(turn int64) {
	for id := range j.results {
		if id.turn <= turn {
			delete(j.results, id)
		}
	}
}

// resultsAt returns the results of Position.Results, in the order of their names: those of
// which the reader has more than its records have.
func (j *joiner) resultsAt() (text string) {
	if len(j.results) == 0 {
		return ""
	}
	ids := make([]resultID, 0, len(j.results))
	for id, s := range j.results {
		if s.off > s.recorded && !s.ended {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b resultID) int {
		return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(a.action, b.action))
	})
	for _, id := range ids[:min(len(ids), messages.MaxShownResults)] {
		text = messages.AppendResult(text, id.turn, id.action, j.results[id].off)
	}
	return text
}
