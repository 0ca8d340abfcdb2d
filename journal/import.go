package journal

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"iter"
	"time"

	json "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/seed14be6753/stile/messages"
)

// MaxLineBytes bounds a line of an export: it has room for the largest body with every
// character escaped.
const MaxLineBytes = 64 << 20

// line is an exported record; its members are those that AppendRecord writes.
type line struct {
	Body       jsontext.Value `json:"body"`
	BodyDigest string         `json:"body_digest"`
	Epoch      int64          `json:"epoch"`
	Hash       string         `json:"hash"`
	Inc        string         `json:"inc"`
	Prev       string         `json:"prev"`
	Run        int64          `json:"run"`
	Salt       *string        `json:"salt"`
	Seq        int64          `json:"seq"`
	SID        string         `json:"sid"`
	Sig        *struct {
		KID string `json:"kid"`
		Sig []byte `json:"sig"`
	} `json:"sig"`
	TS   string `json:"ts"`
	Turn int64  `json:"turn"`
	Type string `json:"type"`
}

// ParseRecord reads a line that AppendRecord wrote, without its LF. It accepts the
// line if and only if AppendRecord of the result gives it again. The body stays
// undecoded, so that a history of a newer format can be verified; Decode decodes it.
// Failures are ERR_JOURNAL/CORRUPT. ParseRecord does not check the hashes: see Verify.
func ParseRecord(b []byte) (*messages.Record, error) {
	var l line
	if err := json.Unmarshal(b, &l, json.RejectUnknownMembers(true)); err != nil {
		return nil, Fail(ReasonCorrupt, err, "not the line of a record")
	}
	r := &messages.Record{
		SID: l.SID, Seq: l.Seq, Epoch: l.Epoch, Run: l.Run, Turn: l.Turn,
		Body: &messages.Undecoded{Of: messages.Kind(l.Type)},
	}
	var err error
	if r.Inc, err = uuid.Parse(l.Inc); err != nil {
		return nil, Fail(ReasonCorrupt, err, "the incarnation of a record")
	}
	if r.TS, err = time.Parse(time.RFC3339Nano, l.TS); err != nil {
		return nil, Fail(ReasonCorrupt, err, "the time of a record")
	}
	for _, d := range []struct {
		to   []byte
		text string
	}{{r.BodyDigest[:], l.BodyDigest}, {r.Hash[:], l.Hash}, {r.Prev[:], l.Prev}} {
		if err := unhex(d.to, d.text); err != nil {
			return nil, err
		}
	}
	if l.Salt != nil {
		if err := unhex(r.Salt[:], *l.Salt); err != nil {
			return nil, err
		}
		r.Raw = l.Body
	}
	if l.Sig != nil {
		r.Sig = &messages.Receipt{KID: l.Sig.KID, Sig: l.Sig.Sig}
	}
	if !bytes.Equal(AppendRecord(nil, r), b) {
		return nil, Fail(ReasonCorrupt, nil, "the line of record %d is not written as exports are", r.Seq)
	}
	return r, nil
}

func unhex(to []byte, text string) error {
	if len(text) != 2*len(to) {
		return Fail(ReasonCorrupt, nil, "a digest or salt of %d characters, want %d", len(text), 2*len(to))
	}
	if _, err := hex.Decode(to, []byte(text)); err != nil {
		return Fail(ReasonCorrupt, err, "a digest or salt")
	}
	return nil
}

// ParseBlob reads a line that AppendBlob wrote, without its LF; ok is false for any other
// line. Failures are ERR_JOURNAL/CORRUPT: a line that AppendBlob would write differently, or
// bytes that do not match the digest.
func ParseBlob(b []byte) (blob messages.Blob, ok bool, err error) {
	if !bytes.HasPrefix(b, []byte(blobLine)) {
		return messages.Blob{}, false, nil
	}
	var l struct {
		Blob struct {
			Data   []byte `json:"data"`
			Digest string `json:"digest"`
		} `json:"blob"`
	}
	if err := json.Unmarshal(b, &l, json.RejectUnknownMembers(true)); err != nil {
		return messages.Blob{}, true, Fail(ReasonCorrupt, err, "not the line of a blob")
	}
	blob.Data = l.Blob.Data
	if err := unhex(blob.Digest[:], l.Blob.Digest); err != nil {
		return messages.Blob{}, true, err
	}
	if sha256.Sum256(blob.Data) != blob.Digest {
		return messages.Blob{}, true, Fail(ReasonCorrupt, nil, "a blob of another digest than %s", l.Blob.Digest)
	}
	if !bytes.Equal(AppendBlob(nil, blob), b) {
		return messages.Blob{}, true, Fail(ReasonCorrupt, nil, "the line of a blob is not written as exports are")
	}
	return blob, true, nil
}

// ReadExport iterates over the records of an export, as Store.Read does over those of a
// store. Blobs, which may follow the records, are checked against their digests and skipped.
// The iteration ends at the first error: CORRUPT, with the number of the line, for a line
// that is no record or has no LF at its end (the export was cut); IO when in fails.
func ReadExport(in io.Reader) iter.Seq2[*messages.Record, error] {
	return func(yield func(*messages.Record, error) bool) {
		lines := bufio.NewReader(in)
		var b []byte
		blobs := false
		for n := 1; ; n++ {
			b = b[:0]
			for more := true; more; {
				part, err := lines.ReadSlice('\n')
				b = append(b, part...)
				more = errors.Is(err, bufio.ErrBufferFull)
				switch {
				case len(b) > MaxLineBytes:
					yield(nil, Fail(ReasonCorrupt, nil, "line %d has more than %d bytes", n, MaxLineBytes))
					return
				case err == nil || more:
				case !errors.Is(err, io.EOF):
					yield(nil, Fail(ReasonIO, err, "reading line %d", n))
					return
				case len(b) == 0:
					return
				default:
					yield(nil, Fail(ReasonCorrupt, nil, "line %d was cut off", n))
					return
				}
			}
			if _, ok, err := ParseBlob(b[:len(b)-1]); ok {
				if err != nil {
					yield(nil, Fail(ReasonCorrupt, err, "line %d", n))
					return
				}
				blobs = true
				continue
			}
			r, err := ParseRecord(b[:len(b)-1])
			if err == nil && blobs {
				err = Fail(ReasonCorrupt, nil, "a record behind a blob")
			}
			if err != nil {
				err = Fail(ReasonCorrupt, err, "line %d", n)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}
