package journal

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/messages"
)

// AppendUpdate appends an update of a subscription as JSON: a record as AppendRecord writes
// it, or {"type":"delta"} with unit or action, kind, offset and text, and the place of a numbered
// thought, {"type":"retract"} with unit or action and offset, or {"type":"progress"} with action, done,
// total and text.
func AppendUpdate(buf []byte, u messages.Update) []byte {
	if u.Record != nil {
		return AppendRecord(buf, u.Record)
	}
	return appendDelta(buf, u.Delta)
}

// appendDelta writes what encoding/json would of a struct with these members, without
// looking at types: a stream does it for each token.
func appendDelta(buf []byte, d *messages.Delta) []byte {
	if d.Kind == messages.KindProgress {
		return appendProgress(buf, d)
	}
	buf = append(buf, '{')
	if d.Action != "" {
		buf = append(appendLossy(append(buf, `"action":`...), d.Action), ',')
	}
	if d.Thought != nil {
		buf = append(strconv.AppendInt(append(buf, `"depth":`...), int64(d.Thought.Depth), 10), ',')
	}
	if d.Kind != "" {
		buf = append(appendLossy(append(buf, `"kind":`...), string(d.Kind)), ',')
	}
	if t := d.Thought; t != nil {
		if t.Label != "" {
			buf = append(appendLossy(append(buf, `"label":`...), t.Label), ',')
		}
		buf = append(strconv.AppendInt(append(buf, `"n":`...), int64(t.N), 10), ',')
	}
	buf = strconv.AppendInt(append(buf, `"off":`...), d.Off, 10)
	if d.Thought != nil && d.Thought.Parent > 0 {
		buf = strconv.AppendInt(append(buf, `,"parent":`...), int64(d.Thought.Parent), 10)
	}
	buf = strconv.AppendInt(append(buf, `,"run":`...), d.Run, 10)
	buf = strconv.AppendInt(append(buf, `,"seq":`...), d.Seq, 10)
	if d.Text != "" {
		buf = appendLossy(append(buf, `,"text":`...), d.Text)
	}
	kind := "delta"
	if d.Retract {
		kind = "retract"
	}
	buf = append(append(buf, `,"type":"`...), kind...)
	if d.Action != "" {
		return append(strconv.AppendInt(append(buf, `","turn":`...), d.Unit.Turn, 10), '}')
	}
	buf = append(buf, `","unit":"`...)
	return append(append(buf, d.Unit.String()...), `"}`...)
}

func appendProgress(buf []byte, d *messages.Delta) []byte {
	buf = appendLossy(append(buf, `{"action":`...), d.Action)
	buf = strconv.AppendInt(append(buf, `,"done":`...), d.Off, 10)
	buf = strconv.AppendInt(append(buf, `,"run":`...), d.Run, 10)
	buf = strconv.AppendInt(append(buf, `,"seq":`...), d.Seq, 10)
	if d.Text != "" {
		buf = appendLossy(append(buf, `,"text":`...), d.Text)
	}
	if d.Total != 0 {
		buf = strconv.AppendInt(append(buf, `,"total":`...), d.Total, 10)
	}
	buf = strconv.AppendInt(append(buf, `,"turn":`...), d.Unit.Turn, 10)
	return append(buf, `,"type":"progress"}`...)
}

// appendLossy writes a string of JSON; bytes that are no UTF-8 become U+FFFD.
func appendLossy(buf []byte, text string) []byte {
	buf, _ = jsontext.AppendQuote(buf, text) // its error reports those bytes, which are replaced
	return buf
}
