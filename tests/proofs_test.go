package tests

import (
	"bytes"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/crypto/keyring"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// forger rewrites a history as who can write the journal's file can: he has the records,
// and no private key.
type forger []*messages.Record

// rehash makes the chain whole again after a change; salts are his to choose.
func (f forger) rehash() forger {
	prev := journal.Genesis(f[0].SID, f[0].Inc)
	for _, r := range f {
		r.Prev = prev
		if r.Raw != nil {
			r.BodyDigest = sha256.Sum256(append(slices.Clone(r.Salt[:]), r.Raw...))
		}
		header, err := json.Marshal(map[string]any{ // which sorts the members, as the canonical form does
			"body": r.BodyDigest.String(), "epoch": r.Epoch, "inc": r.Inc.String(), "prev": prev.String(), "run": r.Run, "seq": r.Seq,
			"sid": r.SID, "ts": r.TS.UTC().Format("2006-01-02T15:04:05.000000000Z"), "turn": r.Turn, "type": r.Body.Kind(),
		})
		if err != nil {
			panic(err) // texts and numbers
		}
		r.Hash = sha256.Sum256(header)
		prev = r.Hash
	}
	return f
}

// history copies a session out of a journal.
func history(t *testing.T, ar *stile.Archive, inc messages.Incarnation) (f forger) {
	t.Helper()
	var b bytes.Buffer
	if err := ar.Export(t.Context(), inc, &b); err != nil {
		t.Fatal(err)
	}
	for r, err := range journal.ReadExport(&b) {
		if err != nil {
			t.Fatal(err)
		}
		f = append(f, r)
	}
	return f
}

func (f forger) says(old, forged string) forger {
	for _, r := range f {
		r.Raw = bytes.ReplaceAll(r.Raw, []byte(old), []byte(forged))
	}
	return f
}

// Against keys from elsewhere no rewritten history passes, whatever was taken out of it; what
// was written honestly does, and is not proved where nothing was signed.
func TestForgedHistories(t *testing.T) {
	rt := start(t, stile.Config{})
	doc, err := rt.Keys().JWKS()
	if err != nil {
		t.Fatal(err)
	}
	trusted, err := keyring.ParseJWKS(doc)
	if err != nil {
		t.Fatal(err)
	}
	begin := func(name, receipts string) messages.Incarnation {
		a := plain()
		a.Manifest.Receipts = receipts
		s := open(t, rt, name, a)
		for range 3 {
			ask(t, s, "pay 100 to bob")
		}
		return s.Incarnation()
	}
	signed := begin("decision", manifest.ReceiptsDecision)
	closed := begin("closed", manifest.ReceiptsDecision)
	off := begin("off", manifest.ReceiptsOff)
	if err := rt.Delete(t.Context(), "closed", "test"); err != nil {
		t.Fatal(err)
	}
	read := func(inc messages.Incarnation) forger { return history(t, rt.Archive(), inc) }
	strip := func(f forger) forger {
		for _, r := range f {
			r.Sig = nil
		}
		return f
	}
	last := func(f forger) int {
		for i := len(f) - 1; ; i-- {
			if f[i].Sig != nil {
				return i
			}
		}
	}
	attacks := map[string]forger{
		"strip": strip(read(signed)).says("pay 100 to bob", "pay 900 to eve").rehash(),
		"strip, and say that receipts are off": strip(read(signed)).says("pay 100 to bob", "pay 900 to eve").
			says(`"receipts":"decision"`, `"receipts":"off"`).rehash(),
		"strip, and say nothing, as before": strip(read(signed)).says(`,"receipts":"decision"`, ``).rehash(),
		"say that it is a fork":             strip(read(signed)).says(`,"receipts":`, `,"origin":{"hash":"`+strings.Repeat("0", 64)+`","incarnation":"x","seq":9,"sid":"a:b:c"},"receipts":`).rehash(),
	}
	tail := read(signed)
	tail[last(tail)].Raw, tail[last(tail)].Sig = bytes.ReplaceAll(tail[last(tail)].Raw, []byte("DONE"), []byte("HALT")), nil
	attacks["the last decision"] = tail.rehash()
	junk := read(signed).says("pay 100 to bob", "pay 900 to eve")
	junk[last(junk)].Sig = &messages.Receipt{KID: "x", Sig: make([]byte, 64)}
	attacks["one junk signature"] = junk.rehash()
	one := read(signed)
	one[2].Raw, one[2].Salt = nil, [16]byte{}
	attacks["erase one"] = one
	all := read(signed)
	for _, r := range all {
		r.Raw, r.Salt = nil, [16]byte{}
	}
	attacks["erase all"] = all
	attacks["erase all, without the statement"] = read(closed)[:len(read(closed))-1]
	gone := read(off)
	gone[0].Sig = nil
	attacks["off, the opening unsigned"] = gone

	check := func(f forger, opts journal.VerifyOptions) journal.Report {
		return journal.Verify(func(yield func(*messages.Record, error) bool) {
			for _, r := range f {
				if !yield(r, nil) {
					return
				}
			}
		}, opts)
	}
	against := journal.VerifyOptions{Keys: stile.ReceiptKeys(trusted), Trusted: true}
	for name, f := range attacks {
		if rep := check(f, against); rep.OK() {
			t.Errorf("%s: passes: %+v", name, rep)
		}
	}
	for name, inc := range map[string]messages.Incarnation{"decision": signed, "closed": closed, "off": off} {
		rep := check(read(inc), against)
		if !rep.OK() || rep.Missing > 0 {
			t.Errorf("%s: %+v", name, rep)
		}
		if want := map[string]journal.Receipts{"decision": "decision", "off": "off"}[name]; rep.Stated != want {
			t.Errorf("%s: states %q", name, rep.Stated)
		}
	}
}

// A fork signs nothing that the receipts of its original do not prove.
func TestForkOfForgedHistory(t *testing.T) {
	for name, c := range map[string]struct {
		forge  string
		forged bool
	}{
		"honest":                 {`SELECT 1`, false},
		"one junk receipt":       {`UPDATE records SET kid = 'x', sig = zeroblob(64) WHERE id = (SELECT max(id) FROM records WHERE sig IS NOT NULL)`, true},
		"no receipts":            {`UPDATE records SET kid = NULL, sig = NULL`, true},
		"none of the last turn":  {`UPDATE records SET kid = NULL, sig = NULL WHERE id = (SELECT max(id) FROM records WHERE sig IS NOT NULL)`, true},
		"none but that of a key": {`UPDATE records SET kid = 'x' WHERE sig IS NOT NULL`, true},
	} {
		dir := t.TempDir()
		rt, err := stile.New(t.Context(), stile.Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		s := open(t, rt, "s", plain())
		ask(t, s, "pay 100 to bob")
		ask(t, s, "and 50 to ann")
		if err := rt.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		db, err := sql.Open("sqlite", filepath.Join(dir, stile.JournalFile))
		if err != nil {
			t.Fatal(err)
		}
		_, err = db.ExecContext(t.Context(), c.forge)
		if err := errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
		rt = start(t, stile.Config{Dir: dir})
		head, err := rt.Fork(t.Context(), "s", 0, "fork")
		if c.forged {
			wantCode(t, err, messages.ErrJournal)
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		rep, err := rt.Archive().Verify(t.Context(), head.Inc, stile.VerifyOptions{Keys: rt.Keys().Set()})
		if err != nil || !rep.OK() || rep.Stated != journal.ReceiptsDecision || rep.Valid != 3 {
			t.Errorf("%s: %+v, %v", name, rep, err)
		}
	}
}
