package proof

import (
	"bytes"
	"crypto/sha256"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// KindSnapshot is the kind of the statement that signs a snapshot.
const KindSnapshot = "snapshot"

// statement is a signature beside what it signs.
type statement struct {
	KID string `json:"kid"`
	At  int64  `json:"at"` // Unix seconds
	Sig []byte `json:"sig"`
}

// SealSnapshot signs the state of a session after a record. What the store keeps is a line
// of JSON, the statement, and the state behind it.
func SealSnapshot(s Signer, inc messages.Incarnation, at journal.Anchor, format int64, state []byte, now time.Time) (journal.Snapshot, error) {
	snap := journal.Snapshot{Seq: at.Seq, Hash: at.Hash, Format: format, State: state}
	st := statement{At: now.Unix()}
	if s != nil {
		var err error
		if st.KID, st.Sig, err = s.SignStatement(KindSnapshot, snapshotDigest(inc, &snap), now); err != nil {
			return journal.Snapshot{}, err
		}
	}
	head, err := json.Marshal(st)
	if err != nil {
		return journal.Snapshot{}, err
	}
	snap.State = append(append(head, '\n'), state...)
	return snap, nil
}

// OpenSnapshot returns the state of a snapshot that a trusted key signed; nil keys check
// nothing. ERR_JOURNAL when none did: drop it and read the records.
func OpenSnapshot(keys Keys, inc messages.Incarnation, snap journal.Snapshot) (state []byte, err error) {
	head, state, ok := bytes.Cut(snap.State, []byte("\n"))
	var st statement
	if !ok || json.Unmarshal(head, &st, json.RejectUnknownMembers(true)) != nil {
		return nil, journal.Fail(journal.ReasonCorrupt, nil, "the snapshot at %d bears no statement", snap.Seq)
	}
	snap.State = state
	if keys == nil {
		return state, nil
	}
	if err := keys.VerifyStatement(KindSnapshot, snapshotDigest(inc, &snap), time.Unix(st.At, 0), st.KID, st.Sig); err != nil {
		return nil, journal.Fail(journal.ReasonUnproved, err, "the snapshot at %d is not signed by a key that is trusted", snap.Seq)
	}
	return state, nil
}

// snapshotDigest is of everything that a state depends on.
func snapshotDigest(inc messages.Incarnation, snap *journal.Snapshot) [32]byte {
	sum := sha256.Sum256(snap.State)
	b := append([]byte(inc.String()), '\n')
	b = append(strconv.AppendInt(b, snap.Seq, 10), '\n')
	b = append(append(b, snap.Hash.String()...), '\n')
	b = append(strconv.AppendInt(b, snap.Format, 10), '\n')
	return sha256.Sum256(append(b, sum[:]...))
}
