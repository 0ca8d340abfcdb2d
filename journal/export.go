package journal

import (
	"encoding/base64"
	"encoding/hex"
	"strconv"

	"github.com/seed14be6753/stile/messages"
)

// AppendRecord appends a sealed record as one line of JSON without its LF: the
// form of exports and of updates on the wire. Members are sorted; body is the
// canonical body itself, or null when it was erased, and salt goes with it. With
// body, salt and prev anyone can compute the hash again (docs/spec/design.md §7).
func AppendRecord(dst []byte, r *messages.Record) []byte {
	dst = append(dst, `{"body":`...)
	if r.Raw == nil {
		dst = append(dst, "null"...)
	} else {
		dst = append(dst, r.Raw...)
	}
	dst = append(dst, `,"body_digest":"`...)
	dst = hex.AppendEncode(dst, r.BodyDigest[:])
	dst = append(dst, `","epoch":`...)
	dst = strconv.AppendInt(dst, r.Epoch, 10)
	dst = append(dst, `,"hash":"`...)
	dst = hex.AppendEncode(dst, r.Hash[:])
	dst = append(dst, `","inc":"`...)
	dst = appendInc(dst, r.Inc)
	dst = append(dst, `","prev":"`...)
	dst = hex.AppendEncode(dst, r.Prev[:])
	dst = append(dst, `","run":`...)
	dst = strconv.AppendInt(dst, r.Run, 10)
	dst = append(dst, `,"salt":`...)
	if r.Raw == nil {
		dst = append(dst, "null"...)
	} else {
		dst = append(dst, '"')
		dst = hex.AppendEncode(dst, r.Salt[:])
		dst = append(dst, '"')
	}
	dst = append(dst, `,"seq":`...)
	dst = strconv.AppendInt(dst, r.Seq, 10)
	dst = append(dst, `,"sid":`...)
	dst, _ = appendText(dst, r.SID)
	if r.Sig != nil {
		dst = append(dst, `,"sig":{"kid":`...)
		dst, _ = appendText(dst, r.Sig.KID)
		dst = append(dst, `,"sig":"`...)
		dst = base64.StdEncoding.AppendEncode(dst, r.Sig.Sig)
		dst = append(dst, `"}`...)
	}
	dst = append(dst, `,"ts":"`...)
	dst = appendTime(dst, r.TS)
	dst = append(dst, `","turn":`...)
	dst = strconv.AppendInt(dst, r.Turn, 10)
	dst = append(dst, `,"type":`...)
	dst, _ = appendText(dst, string(r.Body.Kind()))
	return append(dst, '}')
}

// AppendBlob appends a blob as one line of JSON without its LF: its digest, and its bytes
// in base64. An export with blobs has them after its records.
func AppendBlob(dst []byte, b messages.Blob) []byte {
	dst = append(dst, blobLine...)
	dst = base64.StdEncoding.AppendEncode(dst, b.Data)
	dst = append(dst, `","digest":"`...)
	dst = hex.AppendEncode(dst, b.Digest[:])
	return append(dst, `"}}`...)
}

// blobLine is how the line of a blob begins; no line of a record begins so.
const blobLine = `{"blob":{"data":"`
