package journal_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"testing"

	"github.com/gowebpki/jcs"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// An exported line is canonical and holds all that checking the chain takes.
func TestAppendRecord(t *testing.T) {
	n := newNotary()
	for _, r := range history(t, n) {
		line := journal.AppendRecord(nil, r)
		if canonical, err := jcs.Transform(line); err != nil || string(canonical) != string(line) {
			t.Fatalf("%s is not canonical: %v", line, err)
		}
		var m map[string]json.RawMessage
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatal(err)
		}
		var salt, digest string
		if err := json.Unmarshal(m["salt"], &salt); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(m["body_digest"], &digest); err != nil {
			t.Fatal(err)
		}
		bytes, err := hex.DecodeString(salt)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(append(bytes, m["body"]...))
		if hex.EncodeToString(sum[:]) != digest {
			t.Errorf("record %d: salt and body do not give the digest", r.Seq)
		}
		var sig struct{ KID, Sig string }
		if m["sig"] != nil {
			if err := json.Unmarshal(m["sig"], &sig); err != nil {
				t.Fatal(err)
			}
		}
		if r.Sig == nil != (m["sig"] == nil) || r.Sig != nil && (sig.KID != r.Sig.KID || sig.Sig != base64.StdEncoding.EncodeToString(r.Sig.Sig)) {
			t.Errorf("record %d: receipt %s", r.Seq, m["sig"])
		}
		// The header is what is left when body, salt, hash and receipt are taken out.
		m["body"] = m["body_digest"]
		for _, k := range []string{"body_digest", "salt", "hash", "sig"} {
			delete(m, k)
		}
		plain, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		header, err := jcs.Transform(plain)
		if err != nil || sha256.Sum256(header) != r.Hash {
			t.Errorf("record %d: header %s, %v", r.Seq, header, err)
		}
		gone := *r
		gone.Raw, gone.Salt, gone.Body = nil, [16]byte{}, &messages.Undecoded{Of: r.Body.Kind()}
		if err := json.Unmarshal(journal.AppendRecord(nil, &gone), &m); err != nil || string(m["body"]) != "null" || string(m["salt"]) != "null" {
			t.Errorf("erased: %s, %s, %v", m["body"], m["salt"], err)
		}
	}
}
