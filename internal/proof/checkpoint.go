package proof

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// A checkpoint is a signed list of the heads of all sessions, as lines of JSON: one that says
// what it is and when it was made, one a session in the order of SID and incarnation, and the
// seal. Kept elsewhere it shows what a journal alone cannot: a tail that was cut off, a
// session that was dropped.

// KindCheckpoint is the kind of the statement that signs a checkpoint.
const KindCheckpoint = "checkpoint"

const checkpointFormat = "stile-checkpoint/1"

// maxCheckpointLine bounds a line: a SID has at most some hundred bytes.
const maxCheckpointLine = 4096

// checkpointLine is any line of a checkpoint.
type checkpointLine struct {
	Format string `json:"format,omitzero"`
	At     int64  `json:"at,omitzero"` // Unix seconds

	SID  string                `json:"sid,omitzero"`
	Inc  *messages.Incarnation `json:"inc,omitzero"`
	Seq  int64                 `json:"seq,omitzero"`
	Hash messages.Digest       `json:"hash,omitzero"`

	Sessions *int64 `json:"sessions,omitzero"`
	Digest   string `json:"digest,omitzero"` // SHA-256 of all lines before, in hexadecimal
	KID      string `json:"kid,omitzero"`
	Sig      []byte `json:"sig,omitzero"`
}

// Checkpoint is what a checkpoint says beside its heads.
type Checkpoint struct {
	At       time.Time
	Sessions int64
	Digest   [32]byte
	KID      string
	sig      []byte
}

// Check reports whether a trusted key signed the checkpoint.
func (c *Checkpoint) Check(keys interface {
	VerifyStatement(kind string, digest [32]byte, at time.Time, kid string, sig []byte) error
},
) error {
	if err := keys.VerifyStatement(KindCheckpoint, c.Digest, c.At, c.KID, c.sig); err != nil {
		return &messages.Error{Code: messages.ErrJournal, Reason: journal.ReasonUnproved, Detail: "the checkpoint is not signed by a trusted key", Cause: err}
	}
	return nil
}

// WriteCheckpoint writes the heads of all sessions of a journal, retired ones too, as they are
// when it comes to them. It holds one page of them at a time. Errors are the journal's, the
// signer's and the writer's; what was written before is no checkpoint.
func WriteCheckpoint(ctx context.Context, store journal.Store, by Signer, now time.Time, w io.Writer) (Checkpoint, error) {
	c := Checkpoint{At: time.Unix(now.Unix(), 0).UTC()}
	sum := sha256.New()
	out := bufio.NewWriter(w)
	put := func(l checkpointLine, to io.Writer) error {
		b, err := json.Marshal(l)
		if err == nil {
			_, err = to.Write(append(b, '\n'))
		}
		return err
	}
	if err := put(checkpointLine{Format: checkpointFormat, At: c.At.Unix()}, io.MultiWriter(out, sum)); err != nil {
		return c, err
	}
	q := journal.Query{Retired: true}
	for {
		page, err := store.Sessions(ctx, q)
		if err != nil {
			return c, err
		}
		for i := range page {
			h := &page[i]
			if h.Seq == 0 {
				continue // named, and nothing is recorded yet
			}
			if err := put(checkpointLine{SID: h.SID, Inc: &h.Inc, Seq: h.Seq, Hash: h.Hash}, io.MultiWriter(out, sum)); err != nil {
				return c, err
			}
			c.Sessions++
		}
		if len(page) < q.Page() {
			break
		}
		last := &page[len(page)-1]
		q.AfterSID, q.AfterInc = last.SID, last.Inc
	}
	sum.Sum(c.Digest[:0])
	var err error
	if c.KID, c.sig, err = by.SignStatement(KindCheckpoint, c.Digest, c.At); err != nil {
		return c, err
	}
	if err := put(checkpointLine{Sessions: &c.Sessions, Digest: hex.EncodeToString(c.Digest[:]), KID: c.KID, Sig: c.sig}, out); err != nil {
		return c, err
	}
	return c, out.Flush()
}

// ReadCheckpoint reads a checkpoint and calls each, which may be nil, with its heads, one by
// one. What it says counts when Check has accepted it. ERR_CONFIG names the first line that is not
// one of a checkpoint; a checkpoint without its last line was cut.
func ReadCheckpoint(r io.Reader, each func(sid string, inc messages.Incarnation, head journal.Anchor) error) (c Checkpoint, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, maxCheckpointLine), maxCheckpointLine)
	sum := sha256.New()
	sealed, n, heads := false, 0, int64(0)
	bad := func(detail string, cause error) (Checkpoint, error) {
		return c, &messages.Error{Code: messages.ErrConfig, Line: max(n, 1), Detail: detail, Cause: cause}
	}
	for lines.Scan() {
		n++
		var l checkpointLine
		err := json.Unmarshal(lines.Bytes(), &l, json.RejectUnknownMembers(true))
		switch {
		case err != nil:
			return bad("is no line of a checkpoint", err)
		case sealed:
			return bad("follows the seal of the checkpoint", nil)
		case n == 1:
			if l.Format != checkpointFormat {
				return bad("is not the beginning of a checkpoint: want format "+checkpointFormat, nil)
			}
			c.At = time.Unix(l.At, 0).UTC()
		case l.Sessions != nil:
			sum.Sum(c.Digest[:0])
			if l.Digest != hex.EncodeToString(c.Digest[:]) || *l.Sessions != heads {
				return bad("the seal is not that of the lines before", nil)
			}
			c.Sessions, c.KID, c.sig, sealed = heads, l.KID, l.Sig, true
		case l.SID == "" || l.Inc == nil || l.Seq <= 0:
			return bad("is not the head of a session", nil)
		default:
			heads++
			if each != nil {
				if err := each(l.SID, *l.Inc, journal.Anchor{Seq: l.Seq, Hash: l.Hash}); err != nil {
					return c, err
				}
			}
		}
		sum.Write(lines.Bytes())
		sum.Write([]byte{'\n'})
	}
	if err := lines.Err(); err != nil {
		return bad("cannot be read", err)
	}
	if !sealed {
		return bad("the checkpoint ends before its seal", nil)
	}
	return c, nil
}
