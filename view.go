package stile

import (
	"context"
	"errors"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// IsNotFound tells that a session, a record's blob or an answer that was asked for does
// not exist.
func IsNotFound(err error) bool {
	var e *messages.Error
	return errors.As(err, &e) && e.Reason == journal.ReasonNotFound
}

// Head is what the journal knows of the session without reading it.
func (s *Session) Head(ctx context.Context) (journal.Head, error) {
	h, err := s.rt.store.HeadOf(ctx, s.inc)
	return h, closedError(err)
}

// Outcome tells how the run ended; ended is false while it is in flight or waits. It
// waits for nothing. A run that the session does not have is ERR_CONFIG.
func (r *Run) Outcome(ctx context.Context) (o Outcome, ended bool, err error) {
	decided, end, err := r.session.rt.ended(ctx, r.session.inc, r.ordinal, r.seq)
	if err != nil || end == nil {
		return Outcome{}, false, closedError(err)
	}
	return outcome(decided, end), true, nil
}

// Seq is the position of the run's input; 0 for a handle made from a number.
func (r *Run) Seq() int64 { return r.seq }

// AppendUpdate appends an update as JSON: a record as exports have it, or
// {"type":"delta"} with unit, kind, offset and text, or {"type":"retract"} with unit
// and offset.
func AppendUpdate(buf []byte, u Update) ([]byte, error) {
	if u.Record != nil {
		return journal.AppendRecord(buf, u.Record), nil
	}
	return appendDelta(buf, u.Delta), nil
}

// appendDelta writes what encoding/json would of a struct with these members, without
// looking at types: a stream does it for each token.
func appendDelta(buf []byte, d *messages.Delta) []byte {
	buf = append(buf, '{')
	if d.Kind != "" {
		buf = append(appendQuote(append(buf, `"kind":`...), string(d.Kind)), ',')
	}
	buf = strconv.AppendInt(append(buf, `"off":`...), d.Off, 10)
	buf = strconv.AppendInt(append(buf, `,"run":`...), d.Run, 10)
	buf = strconv.AppendInt(append(buf, `,"seq":`...), d.Seq, 10)
	if d.Text != "" {
		buf = appendQuote(append(buf, `,"text":`...), d.Text)
	}
	kind := "delta"
	if d.Retract {
		kind = "retract"
	}
	buf = append(append(append(buf, `,"type":"`...), kind...), `","unit":"`...)
	return append(append(buf, d.Unit.String()...), `"}`...)
}

// appendQuote writes a string of JSON; bytes that are no UTF-8 become U+FFFD.
func appendQuote(buf []byte, text string) []byte {
	buf, _ = jsontext.AppendQuote(buf, text) // it tells of those bytes, which are shown so
	return buf
}
