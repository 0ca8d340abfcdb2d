package attacks

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/crypto/keyring"
	"github.com/seed14be6753/stile/crypto/token"
	"github.com/seed14be6753/stile/host/access"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// controlRows forge the tokens by which a program decides its turn.
func controlRows(t *testing.T) (rows []row) {
	at := time.Unix(1_800_000_000, 0)
	key, err := keyring.Generate("k", keyring.Token, keyring.EdDSA, rand.Reader, at.Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	other, err := keyring.Generate("k", keyring.Token, keyring.EdDSA, rand.Reader, at.Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	ring := func(k *keyring.Key) *keyring.Ring {
		r, err := keyring.New(k)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	keys, strange := ring(key), ring(other)
	scope := token.Scope{SID: "acme:ann:secret", TurnIndex: 7, Nonce: "AQECAwQFBgcICQoLDA0ODw"}
	mint := func(by *keyring.Ring, action string, of token.Scope, when time.Time) string {
		m := token.Minter{Signers: by, Rand: rand.Reader}
		got, err := m.Mint(token.Kind, []byte(`{"action":"`+action+`"}`), nil, of, when)
		if err != nil {
			t.Fatal(err)
		}
		return got.Line
	}
	good := mint(keys, "done", scope, at)
	if c := token.Verify([]byte(good), scope, keys, nil, token.Policy{}, at); !c.Valid() {
		t.Fatalf("an honest token: %+v", c)
	}
	inner := strings.TrimSuffix(strings.TrimPrefix(good, "<<<NSMAG:V3:LOOP:"), ">>>")
	payload, tag, _ := strings.Cut(inner, ".")
	text, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		t.Fatal(err)
	}
	says := func(old, forged string) string {
		if !bytes.Contains(text, []byte(old)) {
			t.Fatalf("%s has no %s", text, old)
		}
		return "<<<NSMAG:V3:LOOP:" + b64(bytes.Replace(text, []byte(old), []byte(forged), 1)) + "." + tag + ">>>"
	}
	with := func(change func(*token.Scope)) token.Scope {
		s := scope
		change(&s)
		return s
	}
	lines := map[string]string{
		"a stranger's key of the same name": mint(strange, "done", scope, at), "another action": says(`"done"`, `"abort"`), "another session in it": says("acme:ann:secret", "evil:eve:secret"), "another turn in it": says(`"turn_index":7`, `"turn_index":8`), "a longer life": says(`"ttl":120`, `"ttl":240`),
		"another kid": says(`"kid":"k"`, `"kid":"j"`), "a blank in it": says(`,"kid"`, ` ,"kid"`), "a member more": says(`{`, `{"a":1,`), "another version": says(`"v":3`, `"v":2`), "another version on the wire": strings.Replace(good, "V3", "V2", 1), "another kind on the wire": strings.Replace(good, "LOOP", "ROOT", 1), "small letters": strings.ToLower(good),
		"no tag": "<<<NSMAG:V3:LOOP:" + payload + ".>>>", "a tag of zeros": "<<<NSMAG:V3:LOOP:" + payload + "." + b64(make([]byte, 64)) + ">>>", "a tag that is cut": "<<<NSMAG:V3:LOOP:" + payload + "." + tag[:len(tag)-2] + ">>>", "a tag with more": "<<<NSMAG:V3:LOOP:" + payload + "." + tag + "AA>>>", "two tags": "<<<NSMAG:V3:LOOP:" + payload + "." + tag + "." + tag + ">>>",
		"padded": "<<<NSMAG:V3:LOOP:" + payload + "=." + tag + ">>>", "the other alphabet": "<<<NSMAG:V3:LOOP:" + strings.NewReplacer("-", "+", "_", "/").Replace(payload) + "+." + tag + ">>>", "a blank behind": good + " ", "a blank in front": " " + good, "a text in front": "x" + good, "a text behind": good + "x", "a line end": good + "\n", "quoted": `"` + good + `"`, "twice": good + good,
		"an empty payload": "<<<NSMAG:V3:LOOP:e30." + tag + ">>>", "JSON as it is": "<<<NSMAG:V3:LOOP:" + string(text) + "." + tag + ">>>", "too long": "<<<NSMAG:V3:LOOP:" + strings.Repeat("A", 2000) + "." + tag + ">>>", "full width": strings.Replace(good, "<<<", "＜＜＜", 1),
	}
	for what, line := range lines {
		rows = append(rows, row{class: "control tokens", by: byForger, tries: what, holds: "not valid", attack: func() error {
			if c := token.Verify([]byte(line), scope, keys, nil, token.Policy{}, at); c.Valid() {
				return errHeldNot
			}
			return nil
		}})
	}
	for what, c := range map[string]struct {
		scope token.Scope
		at    time.Time
	}{
		"another session": {with(func(s *token.Scope) { s.SID = "acme:ann:fork" }), at}, "another tenant's session of the name": {with(func(s *token.Scope) { s.SID = "evil:ann:secret" }), at}, "a session with a longer name": {with(func(s *token.Scope) { s.SID += "x" }), at}, "the next turn": {with(func(s *token.Scope) { s.TurnIndex++ }), at}, "the turn before": {with(func(s *token.Scope) { s.TurnIndex-- }), at},
		"the same turn, gone on with": {with(func(s *token.Scope) { s.Nonce = "AgECAwQFBgcICQoLDA0ODw" }), at}, "later than it lives": {scope, at.Add(10 * time.Minute)}, "before it was made": {scope, at.Add(-10 * time.Minute)},
	} {
		rows = append(rows, row{class: "control tokens", by: byForger, tries: "a good one in " + what, holds: "not valid", attack: func() error {
			if got := token.Verify([]byte(good), c.scope, keys, nil, token.Policy{}, c.at); got.Valid() {
				return errHeldNot
			}
			return nil
		}})
	}
	return append(rows, row{class: "control tokens", by: byForger, tries: "a good one twice", holds: "not valid the second time", attack: func() error {
		replay := token.NewReplaySet(0, 0)
		if c := token.Verify([]byte(good), scope, keys, replay, token.Policy{}, at); !c.Valid() {
			return errf("the first: %+v", c)
		}
		if c := token.Verify([]byte(good), scope, keys, replay, token.Policy{}, at); c.Valid() {
			return errHeldNot
		}
		return nil
	}})
}

// groupOrder is L, the order of Ed25519's base point.
var groupOrder, _ = new(big.Int).SetString("7237005577332262213973186563042994240857116359379907606001950938285454250989", 10)

func littleEndian(b []byte) *big.Int {
	b = slices.Clone(b)
	slices.Reverse(b)
	return new(big.Int).SetBytes(b)
}

// signatureRows make signatures of receipts without the key.
func signatureRows(t *testing.T) (rows []row) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := keyring.NewPublic(keyring.Attributes{KID: "k", Purpose: keyring.Receipt}, public)
	if err != nil {
		t.Fatal(err)
	}
	set, err := keyring.NewSet(key)
	if err != nil {
		t.Fatal(err)
	}
	inc := messages.Incarnation{1}
	hash := sha256.Sum256([]byte("a record"))
	message := keyring.ReceiptMessage([16]byte(inc), 5, hash)
	good := ed25519.Sign(private, message)
	at := time.Now()
	if err := set.VerifyReceipt([16]byte(inc), 5, hash, at, "k", good); err != nil {
		t.Fatal(err)
	}
	add := func(what string, sig []byte) {
		rows = append(rows, row{class: "signatures", by: byMath, tries: what, holds: "does not verify", attack: func() error {
			if key.VerifyTag(message, sig) || set.VerifyReceipt([16]byte(inc), 5, hash, at, "k", sig) == nil {
				return errHeldNot
			}
			return nil
		}})
	}
	s := littleEndian(good[32:])
	for m := int64(1); m < 16; m++ {
		more := new(big.Int).Add(s, new(big.Int).Mul(groupOrder, big.NewInt(m)))
		if more.BitLen() > 256 {
			break
		}
		b := more.FillBytes(make([]byte, 32))
		slices.Reverse(b)
		add(fmt.Sprintf("S + %d L", m), slices.Concat(good[:32], b))
	}
	minus := new(big.Int).Sub(groupOrder, s).FillBytes(make([]byte, 32))
	slices.Reverse(minus)
	add("L − S", slices.Concat(good[:32], minus))
	for _, bit := range []int{0, 7, 128, 248, 254, 255, 256, 263, 384, 504, 509, 510, 511} {
		sig := slices.Clone(good)
		sig[bit/8] ^= 1 << (bit % 8)
		add(fmt.Sprintf("bit %d turned", bit), sig)
	}
	for _, n := range []int{0, 1, 32, 63, 65, 96, 128} {
		add(fmt.Sprintf("%d bytes", n), append(slices.Clone(good), make([]byte, 64)...)[:n])
	}
	littleOne := append([]byte{1}, make([]byte, 31)...) // the neutral point
	add("halves exchanged", slices.Concat(good[32:], good[:32]))
	add("zeros", make([]byte, 64))
	add("ones", bytes.Repeat([]byte{0xff}, 64))
	for what, point := range map[string]string{
		"the neutral point": "0100000000000000000000000000000000000000000000000000000000000000", "a point of order 2": "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", "a point of order 4": strings.Repeat("00", 32), "a point of order 8": "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
		"p": "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", "p + 1": "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", "no point": "0200000000000000000000000000000000000000000000000000000000000000",
	} {
		r, err := hex.DecodeString(point)
		if err != nil {
			t.Fatal(err)
		}
		add("R is "+what, slices.Concat(r, good[32:]))
		add("R is "+what+", S is 0", slices.Concat(r, make([]byte, 32)))
		rows = append(rows, row{class: "signatures", by: byMath, tries: "a public key that is " + what, holds: "no key, or verifies nothing", attack: func() error {
			k, err := keyring.NewPublic(keyring.Attributes{KID: "k", Purpose: keyring.Receipt}, r)
			if err == nil && k.VerifyTag(message, slices.Concat(littleOne, make([]byte, 32))) {
				return errHeldNot
			}
			if err == nil && !strings.HasPrefix(what, "no") { // "no point" verifies nothing
				return errf("the key is taken")
			}
			return nil
		}})
	}
	add("of another record", ed25519.Sign(private, keyring.ReceiptMessage([16]byte(inc), 6, hash)))
	add("of another session", ed25519.Sign(private, keyring.ReceiptMessage([16]byte{2}, 5, hash)))
	add("of the hash alone", ed25519.Sign(private, hash[:]))
	add("of nothing", ed25519.Sign(private, nil))
	return rows
}

// history is a session's records out of a file, which its attacker changes.
type history []*messages.Record

// rehash makes the chain whole again after a change.
func (f history) rehash() history {
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

func (f history) says(old, forged string) history {
	for _, r := range f {
		r.Raw = bytes.ReplaceAll(r.Raw, []byte(old), []byte(forged))
	}
	return f
}

func (f history) strip() history {
	for _, r := range f {
		r.Sig = nil
	}
	return f
}

func (f history) lastSigned() int {
	for i := len(f) - 1; ; i-- {
		if f[i].Sig != nil {
			return i
		}
	}
}

// journalRows change a journal's file, and have it verified with keys from elsewhere.
func journalRows(t *testing.T) (rows []row) {
	dir := t.TempDir()
	model := &puppet{got: map[int]string{}}
	keys := filepath.Join(dir, "made")
	rt, err := stile.New(t.Context(), stile.Config{Dir: keys})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := rt.Keys().JWKS()
	if err != nil {
		t.Fatal(err)
	}
	trusted, err := keyring.ParseJWKS(doc)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bank", "other"} {
		s, err := rt.Open(t.Context(), name, &stile.Agent{Dialect: "plain", Model: model})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			run, err := s.Submit(t.Context(), "pay 100 to bob")
			if err == nil {
				_, err = run.Decision(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := rt.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	made, err := os.ReadFile(filepath.Join(keys, stile.JournalFile))
	if err != nil {
		t.Fatal(err)
	}
	// change gives a copy of the journal to an attacker, and what is found in it.
	change := func(do func(db *sql.DB) error) (found error, err error) {
		copied, err := os.MkdirTemp(dir, "journal")
		if err != nil {
			return nil, err
		}
		path := filepath.Join(copied, stile.JournalFile)
		if err := os.WriteFile(path, made, 0o600); err != nil {
			return nil, err
		}
		db, err := sql.Open("sqlite", path)
		if err != nil {
			return nil, err
		}
		db.SetMaxOpenConns(1)
		err = do(db)
		if err := errors.Join(err, db.Close()); err != nil {
			return nil, err
		}
		return verified(copied, trusted), nil
	}
	if found, err := change(func(*sql.DB) error { return nil }); found != nil || err != nil {
		t.Fatalf("an honest journal: %v, %v", found, err)
	}
	add := func(class, what string, do func(db *sql.DB) error) {
		rows = append(rows, row{class: class, by: byFile, tries: what, holds: "found with keys from elsewhere", attack: func() error {
			found, err := change(do)
			if err == nil && found == nil {
				err = errHeldNot
			}
			return err
		}})
	}
	const bank = `(SELECT id FROM sessions WHERE sid LIKE '%:bank')`
	for what, stmt := range map[string]string{
		"a body": `UPDATE records SET body = replace(body, 'bob', 'eve')`, "one body": `UPDATE records SET body = replace(body, 'bob', 'eve') WHERE id = (SELECT min(id) FROM records WHERE body LIKE '%bob%')`, "a salt": `UPDATE records SET salt = zeroblob(16) WHERE id = 3`, "a hash": `UPDATE records SET hash = zeroblob(32) WHERE id = 4`,
		"a time": `UPDATE records SET ts = ts + 1 WHERE id = 5`, "a time of all": `UPDATE records SET ts = ts + 1000000000`, "a kind": `UPDATE records SET type = 'input' WHERE id = 4`, "an epoch": `UPDATE records SET epoch = epoch + 1 WHERE id = 5`, "a run": `UPDATE records SET run = run + 1 WHERE id = 6`, "a turn": `UPDATE records SET turn = turn + 1 WHERE id = 6`,
		"a record taken out": `DELETE FROM records WHERE id = 5`, "the first one": `DELETE FROM records WHERE id = 1`, "the last one": `DELETE FROM records WHERE pos = (SELECT max(pos) FROM records WHERE pos >> 32 = ` + bank + `)`, "every other one": `DELETE FROM records WHERE id % 2 = 0`, "all of a session": `DELETE FROM records WHERE pos >> 32 = ` + bank,
		"two exchanged": `UPDATE records SET pos = -pos WHERE id IN (4, 5); UPDATE records SET pos = -pos + 1 WHERE pos < 0 AND id = 4; UPDATE records SET pos = -pos - 1 WHERE pos < 0`, "a signature": `UPDATE records SET sig = zeroblob(64) WHERE sig IS NOT NULL`, "a short signature": `UPDATE records SET sig = x'00' WHERE sig IS NOT NULL`, "a key's name": `UPDATE records SET kid = 'x' WHERE kid IS NOT NULL`,
		"all signatures taken away": `UPDATE records SET sig = NULL, kid = NULL`, "one taken away": `UPDATE records SET sig = NULL, kid = NULL WHERE id = (SELECT min(id) FROM records WHERE sig IS NOT NULL)`, "one put on another record": `UPDATE records SET sig = (SELECT sig FROM records WHERE sig IS NOT NULL LIMIT 1), kid = (SELECT kid FROM records WHERE kid IS NOT NULL LIMIT 1) WHERE id = 3`,
		"a body erased": `UPDATE records SET digest = hash, salt = NULL, body = NULL WHERE id = 4`, "the session's name": `UPDATE sessions SET sid = 'local:local:vault' WHERE sid LIKE '%:bank'`, "the session's incarnation": `UPDATE sessions SET inc = randomblob(16) WHERE sid LIKE '%:bank'`, "the names of two exchanged": `UPDATE sessions SET sid = 'x' WHERE sid LIKE '%:bank'; UPDATE sessions SET sid = 'local:local:bank' WHERE sid LIKE '%:other'; UPDATE sessions SET sid = 'local:local:other' WHERE sid = 'x'`,
		"the head's hash": `UPDATE sessions SET hash = zeroblob(32)`, "the head's place, lower": `UPDATE sessions SET seq = seq - 1`, "the head's place, higher": `UPDATE sessions SET seq = seq + 1`, "a record doubled": `INSERT INTO records SELECT max(id) + 1000, (SELECT max(pos) + 1 FROM records WHERE pos >> 32 = ` + bank + `), epoch, run, turn, type, ts, salt, body, digest, hash, kid, sig FROM records WHERE id = 4`,
		"a record of the other session": `UPDATE records SET body = (SELECT body FROM records WHERE id = 2), salt = (SELECT salt FROM records WHERE id = 2), hash = (SELECT hash FROM records WHERE id = 2) WHERE id = (SELECT max(id) - 3 FROM records)`,
		"a body that is no JSON":        `UPDATE records SET body = 'x' WHERE id = 3`, "a body with a blank": `UPDATE records SET body = replace(body, ':', ': ') WHERE id = 3`,
	} {
		add("journal, changed", what, func(db *sql.DB) error {
			_, err := db.ExecContext(context.Background(), stmt)
			return err
		})
	}
	// rewritten has the attacker do it well: hashes and heads fit again.
	rewritten := func(what string, do func(f history) history) {
		add("journal, rewritten", what, func(db *sql.DB) error {
			f, err := recordsOf(keys, "bank")
			if err != nil {
				return err
			}
			return do(f).write(db)
		})
	}
	_, mine, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	sign := func(f history, kid string) history {
		for _, r := range f.rehash() {
			if r.Sig != nil {
				r.Sig = &messages.Receipt{KID: kid, Sig: ed25519.Sign(mine, keyring.ReceiptMessage([16]byte(r.Inc), r.Seq, r.Hash))}
			}
		}
		return f
	}
	forged := func(f history) history { return f.says("pay 100 to bob", "pay 900 to eve") }
	rewritten("without receipts", func(f history) history { return forged(f).strip().rehash() })
	rewritten("without receipts, and says that they are off", func(f history) history {
		return forged(f).strip().says(`"receipts":"decision"`, `"receipts":"off"`).rehash()
	})
	rewritten("without receipts, and says nothing of them", func(f history) history { return forged(f).strip().says(`,"receipts":"decision"`, ``).rehash() })
	rewritten("with the old receipts", func(f history) history { return forged(f).rehash() })
	rewritten("with one receipt of junk", func(f history) history {
		f = forged(f)
		at := f.lastSigned()
		f.strip()[at].Sig = &messages.Receipt{KID: "x", Sig: make([]byte, 64)}
		return f.rehash()
	})
	rewritten("with receipts of an own key", func(f history) history { return sign(forged(f), "mine") })
	rewritten("with receipts of an own key under the old name", func(f history) history { return sign(forged(f), f[f.lastSigned()].Sig.KID) })
	rewritten("in its last decision, without its receipt", func(f history) history {
		at := f.lastSigned()
		f[at].Raw, f[at].Sig = bytes.ReplaceAll(f[at].Raw, []byte("DONE"), []byte("HALT")), nil
		return f.rehash()
	})
	rewritten("in its first input", func(f history) history {
		f[1].Raw = bytes.ReplaceAll(f[1].Raw, []byte("100"), []byte("900"))
		return f.rehash()
	})
	rewritten("with a turn taken out", func(f history) history {
		f = slices.DeleteFunc(f, func(r *messages.Record) bool { return r.Run == 2 })
		for i, r := range f {
			r.Seq = int64(i + 1)
		}
		return f.rehash()
	})
	rewritten("in its times", func(f history) history {
		for _, r := range f {
			r.TS = r.TS.Add(-24 * time.Hour)
		}
		return f.rehash()
	})
	rewritten("in its salts", func(f history) history {
		for _, r := range f {
			r.Salt = [16]byte{1}
		}
		return f.rehash()
	})
	rewritten("as a fork of nothing", func(f history) history {
		return forged(f).strip().says(`,"receipts":`, `,"origin":{"hash":"`+strings.Repeat("0", 64)+`","incarnation":"x","seq":9,"sid":"a:b:c"},"receipts":`).rehash()
	})
	rewritten("with bodies erased", func(f history) history {
		for _, r := range f[1:4] {
			r.Raw, r.Salt = nil, [16]byte{}
		}
		return f
	})
	rewritten("with all bodies erased", func(f history) history {
		for _, r := range f {
			r.Raw, r.Salt = nil, [16]byte{}
		}
		return f
	})
	rewritten("with all bodies erased and no receipts", func(f history) history {
		for _, r := range f.strip() {
			r.Raw, r.Salt = nil, [16]byte{}
		}
		return f
	})
	return rows
}

// recordsOf reads a session out of a journal.
func recordsOf(dir, name string) (f history, err error) {
	ar, err := stile.OpenArchive(dir)
	if err != nil {
		return nil, err
	}
	defer ar.Close()
	h, err := ar.Head(context.Background(), name)
	if err != nil {
		return nil, err
	}
	for r, err := range ar.Records(context.Background(), h.Inc) {
		if err != nil {
			return nil, err
		}
		f = append(f, r)
	}
	return f, nil
}

// write puts a history in the place of the one that the file has.
func (f history) write(db *sql.DB) error {
	ctx := context.Background()
	var id int64
	if err := db.QueryRowContext(ctx, `SELECT id FROM sessions WHERE sid = ?`, f[0].SID).Scan(&id); err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, `DELETE FROM records WHERE pos >> 32 = ?`, id); err != nil {
		return err
	}
	for _, r := range f {
		var salt, body, digest, kid, sig any
		if r.Raw == nil {
			digest = r.BodyDigest[:]
		} else {
			salt, body = r.Salt[:], string(r.Raw)
		}
		if r.Sig != nil {
			kid, sig = r.Sig.KID, r.Sig.Sig
		}
		_, err := db.ExecContext(ctx, `INSERT INTO records (pos, epoch, run, turn, type, ts, salt, body, digest, hash, kid, sig) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			id<<32|r.Seq, r.Epoch, r.Run, r.Turn, string(r.Body.Kind()), r.TS.UnixNano(), salt, body, digest, r.Hash[:], kid, sig)
		if err != nil {
			return err
		}
	}
	last := f[len(f)-1]
	_, err := db.ExecContext(ctx, `UPDATE sessions SET seq = ?, hash = ? WHERE id = ?`, last.Seq, last.Hash[:], id)
	return err
}

// verified returns what stile verify finds in a journal, with keys from elsewhere.
func verified(dir string, trusted *keyring.Set) error {
	ar, err := stile.OpenArchive(dir)
	if err != nil {
		return err
	}
	defer ar.Close()
	seen := 0
	for h, err := range ar.Sessions(context.Background(), "") {
		if err != nil {
			return err
		}
		seen++
		rep, err := ar.Verify(context.Background(), h.Inc, stile.VerifyOptions{Keys: trusted})
		if err != nil {
			return err
		}
		if !rep.OK() {
			return errf("%+v", rep.Problems)
		}
	}
	if seen != 2 {
		return errf("%d sessions", seen)
	}
	return nil
}

// keyFileRows change the files that hold keys and tokens.
func keyFileRows(t *testing.T) (rows []row) {
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens.json")
	known, err := access.Open(tokens, nil)
	if err != nil {
		t.Fatal(err)
	}
	bearer, tok, err := known.Create(access.Wish{Tenant: "acme", User: "ann", Scopes: []string{"read"}})
	if err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(tokens)
	if err != nil {
		t.Fatal(err)
	}
	if id, err := known.Authenticate(t.Context(), bearer); err != nil || id.Tenant != "acme" {
		t.Fatal(err)
	}
	ring, err := keyring.New()
	if err == nil {
		var k *keyring.Key
		if k, err = keyring.Generate("k", keyring.Receipt, keyring.EdDSA, rand.Reader, time.Now()); err == nil {
			err = ring.Add(k, time.Now())
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	plain, err := keyring.Marshal(ring, nil, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	swap := func(b []byte, old, forged string) []byte {
		if !bytes.Contains(b, []byte(old)) {
			t.Fatalf("%s is not in %s", old, b)
		}
		return bytes.Replace(b, []byte(old), []byte(forged), 1)
	}
	for what, b := range map[string][]byte{
		"no JSON": []byte("{"), "another format": swap(good, `"format": 1`, `"format": 2`), "a member more": swap(good, `"format": 1`, `"format": 1, "root": true`), "no format": swap(good, `"format": 1,`, ``), "a short hash": swap(good, tok.Hash, tok.Hash[:62]), "a hash that is none": swap(good, tok.Hash, strings.Repeat("z", 64)),
		"a scope that is none": swap(good, `"read"`, `"root"`), "a tenant with a colon": swap(good, `"acme"`, `"acme:ann"`), "a user with a colon": swap(good, `"ann"`, `"ann:x"`), "an empty tenant": swap(good, `"acme"`, `""`), "an empty id": swap(good, `"`+tok.ID+`"`, `""`), "a list": []byte("[]"), "text behind": append(slices.Clone(good), "x"...), "a second format": swap(good, `"format": 1`, `"format": 1, "format": 1`),
		"17 MiB": append(slices.Clone(good), bytes.Repeat([]byte(" "), 17<<20)...), "no UTF-8": swap(good, `"ann"`, "\"\xff\""),
	} {
		rows = append(rows, row{class: "files of keys", by: byFile, tries: "tokens: " + what, holds: "no token is accepted, and the host says so", attack: func() error {
			path := filepath.Join(dir, strings.ReplaceAll(what, " ", "-")+".json")
			if err := os.WriteFile(path, b, 0o600); err != nil {
				return err
			}
			if k, err := access.Open(path, nil); err == nil {
				if id, err := k.Authenticate(context.Background(), bearer); err == nil {
					return errf("%+v is let in", id)
				}
				return errf("the file is taken")
			}
			return nil
		}})
	}
	for _, mode := range []os.FileMode{0o622, 0o660, 0o666, 0o606, 0o602, 0o620, 0o777} {
		rows = append(rows, row{class: "files of keys", by: byFile, tries: fmt.Sprintf("tokens that others may change: %o", mode), holds: "refused", attack: func() error {
			path := filepath.Join(dir, fmt.Sprintf("mode-%o.json", mode))
			if err := errors.Join(os.WriteFile(path, good, 0o600), os.Chmod(path, mode)); err != nil {
				return err
			}
			if _, err := access.Open(path, nil); err == nil {
				return errHeldNot
			}
			return nil
		}})
	}
	parse := func(what string, b, passphrase []byte) {
		rows = append(rows, row{class: "files of keys", by: byFile, tries: "keys: " + what, holds: "refused", attack: func() error {
			if r, err := keyring.Parse(b, passphrase); err == nil {
				return errf("%v", r)
			} else if strings.Contains(err.Error(), "/") && strings.Contains(err.Error(), dir) {
				return errf("it tells where: %v", err)
			}
			return nil
		}})
	}
	if _, err := keyring.Parse(plain, nil); err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{1, len(plain) / 4, len(plain) / 3, len(plain) / 2, len(plain) - 10} {
		b := slices.Clone(plain)
		b[at] ^= 1
		parse(fmt.Sprintf("a bit at %d of %d turned", at, len(plain)), b, nil)
	}
	parse("cut", plain[:len(plain)/2], nil)
	parse("empty", nil, nil)
	parse("text behind", append(slices.Clone(plain), "{}"...), nil)
	parse("another format", swap(plain, "stile-keys/1", "stile-keys/9"), nil)
	parse("another purpose", swap(plain, `"receipt"`, `"token"`), nil)
	parse("a list", []byte("[]"), nil)
	parse("sealed at a cost that takes all memory", []byte(`{"format":"stile-keys/1","sealed":{"kdf":"scrypt","logn":40,"r":8,"p":1,"salt":"AAAAAAAAAAAAAAAAAAAAAA","nonce":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","box":"AAAA"}}`), []byte("x"))
	parse("sealed by nothing", []byte(`{"format":"stile-keys/1","sealed":{}}`), []byte("x"))
	parse("5 MiB", bytes.Repeat([]byte(" "), 5<<20), nil)
	return rows
}
