package keyring

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/messages"
)

// cheap is the cost that tests seal with: the smallest one.
const cheap = 1

// fullRing holds a key of every kind there is.
func fullRing(t testing.TB) *Ring {
	t.Helper()
	unix := func(n int64) *int64 { return &n }
	hs, err := NewHS256(Attributes{KID: "hs", Purpose: Token, NotBefore: 3}, bytes.Repeat([]byte("s"), 64))
	must(t, hs, err)
	abort, err := NewEdDSA(Attributes{KID: "fbk", Purpose: Token, AbortOnly: true}, material32(4))
	must(t, abort, err)
	old, err := NewEdDSA(Attributes{KID: "old", Purpose: Token, NotBefore: 1, RetiredAt: unix(9)}, material32(5))
	must(t, old, err)
	public, err := NewPublic(Attributes{KID: "r0", Purpose: Receipt, RetiredAt: unix(8)}, eddsa(t, "x", Token, 0, 6).Public())
	must(t, public, err)
	return ringOf(t, eddsa(t, "ed", Token, 10, 1), hs, abort, old, public, eddsa(t, "r1", Receipt, 8, 7))
}

// same tells whether two rings hold the same records and material.
func same(t testing.TB, a, b *Ring) bool {
	t.Helper()
	x, err := openDocument(a.Set())
	must(t, x, err)
	y, err := openDocument(b.Set())
	must(t, y, err)
	return bytes.Equal(x, y)
}

func TestFileRoundTrip(t *testing.T) {
	for _, r := range []*Ring{fullRing(t), ringOf(t)} {
		for _, passphrase := range [][]byte{nil, []byte("open sesame"), {0, 0xff}} {
			b, err := cheaply(r, passphrase, &counter{})
			must(t, b, err)
			back, err := Parse(b, passphrase)
			must(t, back, err)
			if !same(t, r, back) {
				t.Errorf("%s comes back as %s", r, back)
			}
			if spaced, err := Parse([]byte(" "+string(b)+"\n"), passphrase); err != nil || !same(t, r, spaced) {
				t.Errorf("white space around the file: %v", err)
			}
			if strings.Contains(string(b), encode(material32(1))) != (passphrase == nil && len(r.Set().keys) > 0) {
				t.Error("a seed is in a sealed file, or not in an open one")
			}
			// What comes back signs and verifies like the original.
			if len(r.Set().keys) > 0 {
				for kid := range r.Set().byKID {
					x, _ := r.Set().Key(kid)
					y, _ := back.Set().Key(kid)
					if x.CanSign() != y.CanSign() || x.String() != y.String() {
						t.Errorf("%v comes back as %v", x, y)
					}
					if x.CanSign() {
						tag, err := x.signer().Sign([]byte("m"))
						if must(t, tag, err); !y.VerifyTag([]byte("m"), tag) {
							t.Errorf("%v does not verify", y)
						}
					}
				}
			}
		}
	}
}

// TestFileDefaultCost seals once as the product does.
func TestFileDefaultCost(t *testing.T) {
	b, err := Marshal(ringOf(t, eddsa(t, "ed", Token, 0, 1)), []byte("pass"), &counter{})
	must(t, b, err)
	if !strings.Contains(string(b), `"kdf":"scrypt","log_n":16,"p":2,`) {
		t.Errorf("file %s", b)
	}
	if _, err := Parse(b, []byte("pass")); err != nil {
		t.Error(err)
	}
}

// TestFileRemembersErasure: what the ring has erased is in no file it writes.
func TestFileRemembersErasure(t *testing.T) {
	r := ringOf(t, eddsa(t, "r0", Receipt, 0, 1), eddsa(t, "t0", Token, 0, 2))
	for _, k := range []*Key{eddsa(t, "r1", Receipt, 100, 3), eddsa(t, "t1", Token, 100, 4)} {
		if err := r.Add(k, at(100)); err != nil {
			t.Fatal(err)
		}
	}
	b, err := Marshal(r, nil, nil)
	must(t, b, err)
	if strings.Contains(string(b), encode(material32(1))) || !strings.Contains(string(b), encode(material32(2))) {
		t.Errorf("file %s", b)
	}
	r.Erase(at(401), retention)
	b, err = Marshal(r, nil, nil)
	must(t, b, err)
	if strings.Contains(string(b), encode(material32(2))) || strings.Contains(string(b), `"t0"`) || !strings.Contains(string(b), `"r0"`) {
		t.Errorf("file %s", b)
	}
}

func TestFileRefusals(t *testing.T) {
	open := string(must2(openDocument(ringOf(t, eddsa(t, "ed", Token, 5, 1)).Set()))(t))
	sealedBytes := must2(cheaply(ringOf(t, eddsa(t, "ed", Token, 5, 1)), []byte("p"), &counter{}))(t)
	sealed := string(sealedBytes)
	// resum gives an altered open document its right sum, as a forger would.
	resum := func(from, to string) string {
		var d keyDocument
		text := strings.Replace(open, from, to, 1)
		if text == open {
			t.Fatalf("nothing to alter: %s", from)
		}
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			t.Fatal(err)
		}
		sum, err := d.sum()
		must(t, sum, err)
		return text[:strings.LastIndex(text, `"sum":"`)+7] + sum + `"}`
	}
	alter := func(text, from, to string) string {
		out := strings.Replace(text, from, to, 1)
		if out == text {
			t.Fatalf("nothing to alter: %s", from)
		}
		return out
	}
	pass := []byte("p")
	for _, c := range []struct {
		name, file string
		passphrase []byte
		want       string
	}{
		{"nothing", "", nil, "ERR_CONFIG/KEYFILE_SYNTAX"},
		{"not JSON", "keys:", nil, "ERR_CONFIG/KEYFILE_SYNTAX"},
		{"another document", `{}`, nil, "ERR_CONFIG/KEYFILE_FORMAT@format"},
		{"another version", alter(open, "stile-keys/1", "stile-keys/2"), nil, "ERR_CONFIG/KEYFILE_FORMAT@format"},
		{"no keys", `{"format":"stile-keys/1"}`, nil, "ERR_CONFIG/KEYFILE_SYNTAX@keys"},
		{"two documents", open + open, nil, "ERR_CONFIG/KEYFILE_SYNTAX"},
		{"an unknown member", alter(open, `{"format"`, `{"x":1,"format"`), nil, "ERR_CONFIG/KEYFILE_SYNTAX@x"},
		{"an unknown member of a key", alter(open, `{"kid"`, `{"note":1,"kid"`), nil, "ERR_CONFIG/KEYFILE_SYNTAX@keys.0.note"},
		{"a member in other letters", alter(open, `"kid"`, `"Kid"`), nil, "ERR_CONFIG/KEYFILE_SYNTAX@keys.0.Kid"},
		{"a member twice", alter(open, `{"kid"`, `{"kid":"a","kid"`), nil, "ERR_CONFIG/KEYFILE_SYNTAX@keys.0.kid"},
		{"the wrong type", alter(open, `"not_before":5`, `"not_before":"5"`), nil, "ERR_CONFIG/KEYFILE_SYNTAX@keys.0.not_before"},
		{"a fraction", alter(open, `"not_before":5`, `"not_before":5.5`), nil, "ERR_CONFIG/KEYFILE_SYNTAX@keys.0.not_before"},
		{"a changed record", alter(open, `"not_before":5`, `"not_before":6`), nil, "ERR_CONFIG/KEYFILE_DAMAGED@sum"},
		{"no sum", open[:strings.LastIndex(open, `,"sum"`)] + "}", nil, "ERR_CONFIG/KEYFILE_DAMAGED@sum"},
		{"no not_before", resum(`"not_before":5`, `"not_before":null`), nil, "ERR_CONFIG/KEY@keys.ed.not_before"},
		{"another's public half", resum(encode(eddsa(t, "x", Token, 0, 1).public), encode(eddsa(t, "x", Token, 0, 2).public)), nil, "ERR_CONFIG/KEY@keys.ed.public"},
		{"no public half", resum(`"public":"`+encode(eddsa(t, "x", Token, 0, 1).public)+`",`, ``), nil, "ERR_CONFIG/KEY@keys.ed.public"},
		{"neither half", resum(`,"public":"`+encode(eddsa(t, "x", Token, 0, 1).public)+`","private":"`+encode(material32(1))+`"`, ``), nil, "ERR_CONFIG/KEY@keys.ed.public"},
		{"a short seed", resum(encode(material32(1)), encode(material32(1)[:31])), nil, "ERR_CONFIG/KEY@keys.ed.seed"},
		{"a padded seed", resum(encode(material32(1)), encode(material32(1))+"="), nil, "ERR_CONFIG/KEY@keys.ed.private"},
		{"an unknown algorithm", resum(`"EdDSA"`, `"none"`), nil, "ERR_CONFIG/KEY@keys.ed.alg"},
		{"HS256 with a public half", resum(`"EdDSA"`, `"HS256"`), nil, "ERR_CONFIG/KEY@keys.ed.public"},
		{"an unknown purpose", resum(`"token"`, `"tokens"`), nil, "ERR_CONFIG/KEY@keys.ed.purpose"},
		{"a bad id", resum(`"ed"`, `"e d"`), nil, "ERR_CONFIG/KEY@keys.?.kid"},
		{"too large", open + strings.Repeat(" ", MaxFileBytes), nil, "ERR_CONFIG/KEYFILE_SYNTAX"},
		{"deep", strings.Repeat(`{"keys":[`, 100_000), nil, "ERR_CONFIG/KEYFILE_SYNTAX@keys"},

		{"sealed, no passphrase", sealed, nil, "ERR_CONFIG/KEYFILE_SEALED"},
		{"sealed, empty passphrase", sealed, []byte{}, "ERR_CONFIG/KEYFILE_SEALED"},
		{"open, passphrase", open, pass, "ERR_CONFIG/KEYFILE_OPEN"},
		{"wrong passphrase", sealed, []byte("q"), "ERR_CONFIG/KEYFILE_PASSPHRASE"},
		{"another kdf", alter(sealed, `"scrypt"`, `"argon2id"`), pass, "ERR_CONFIG/KEYFILE_FORMAT@sealed.kdf"},
		{"another cipher", alter(sealed, `"XChaCha20-Poly1305"`, `"AES-GCM"`), pass, "ERR_CONFIG/KEYFILE_FORMAT@sealed.cipher"},
		{"cost of 2^40", alter(sealed, `"log_n":1`, `"log_n":40`), pass, "ERR_CONFIG/KEYFILE_COST@sealed.log_n"},
		{"cost of 2^19", alter(sealed, `"log_n":1`, `"log_n":19`), pass, "ERR_CONFIG/KEYFILE_COST@sealed.log_n"},
		{"cost of 2^0", alter(sealed, `"log_n":1`, `"log_n":0`), pass, "ERR_CONFIG/KEYFILE_COST@sealed.log_n"},
		{"a negative cost", alter(sealed, `"log_n":1`, `"log_n":-1`), pass, "ERR_CONFIG/KEYFILE_COST@sealed.log_n"},
		{"5 passes", alter(sealed, `"p":1`, `"p":5`), pass, "ERR_CONFIG/KEYFILE_COST@sealed.p"},
		{"0 passes", alter(sealed, `"p":1`, `"p":0`), pass, "ERR_CONFIG/KEYFILE_COST@sealed.p"},
		{"another cost", alter(sealed, `"log_n":1`, `"log_n":2`), pass, "ERR_CONFIG/KEYFILE_PASSPHRASE"},
		{"a short salt", alter(sealed, `"salt":"A`, `"salt":"`), pass, "ERR_CONFIG/KEYFILE_SYNTAX@sealed.salt"},
		{"a short nonce", alter(sealed, `"nonce":"`, `"nonce":"AAAA`), pass, "ERR_CONFIG/KEYFILE_SYNTAX@sealed.nonce"},
		{"a short box", sealed[:strings.Index(sealed, `"box":"`)+7] + `AAAA"}}`, pass, "ERR_CONFIG/KEYFILE_SYNTAX@sealed.box"},
		{"keys beside the box", alter(sealed, `"sealed"`, `"keys":[],"sealed"`), pass, "ERR_CONFIG/KEYFILE_SYNTAX"},
		{"a sealed file in a sealed file", string(sealText(t, sealed, pass)), pass, "ERR_CONFIG/KEYFILE_SYNTAX"},
		{"something else in a sealed file", string(sealText(t, "[]", pass)), pass, "ERR_CONFIG/KEYFILE_SYNTAX"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := Parse([]byte(c.file), c.passphrase)
			if got := reason(err); r != nil || !strings.HasPrefix(got, c.want) || len(got) > 300 {
				t.Errorf("got %v, %.200s, want %s", r, got, c.want)
			}
			if err != nil && strings.Contains(err.Error(), encode(material32(1))[:8]) {
				t.Errorf("the error quotes the file: %v", err)
			}
		})
	}
	if _, err := Marshal(fullRing(t), []byte{}, &counter{}); reason(err) != "ERR_CONFIG/KEYFILE_PASSPHRASE" {
		t.Error(err)
	}
	if _, err := Marshal(fullRing(t), []byte("p"), strings.NewReader("")); reason(err) != "ERR_CONFIG/RANDOM" {
		t.Error(err)
	}
}

// TestFileErrorsNameTheOffset: an error leads to the byte, and not only the member.
func TestFileErrorsNameTheOffset(t *testing.T) {
	_, err := Parse([]byte(`{"format":"stile-keys/1","keys":[{"kid":"a","zz":1}]}`), nil)
	var e *messages.Error
	if !errors.As(err, &e) || !e.HasOffset || e.Offset < 40 || e.Offset > 50 || e.Detail != "is not a known member" {
		t.Errorf("%#v", err)
	}
}

// cheaply is Marshal at a cost that tests can pay often.
func cheaply(r *Ring, passphrase []byte, random io.Reader) ([]byte, error) {
	s := NewSealer(passphrase)
	s.cost = cost{logN: cheap, par: 1}
	return s.Marshal(r, random)
}

// counted is a Sealer's random source that tells how much was read.
type counted struct{ n int }

func (c *counted) Read(p []byte) (int, error) {
	c.n += len(p)
	return rand.Read(p)
}

// A file that is read, changed and written again keeps its salt, so that its key is derived once;
// its nonce is new each time. Another cost or salt is derived anew, and a passphrase that is wrong
// leaves nothing behind.
func TestSealerDerivesOnce(t *testing.T) {
	r, random := ringOf(t, eddsa(t, "ed", Token, 5, 1)), &counted{}
	s := NewSealer([]byte("p"))
	s.cost = cost{logN: cheap, par: 1}
	boxOf := func(b []byte, err error) sealedBox {
		t.Helper()
		var d keyDocument
		if err := errors.Join(err, json.Unmarshal(b, &d)); err != nil {
			t.Fatal(err)
		}
		return *d.Sealed
	}
	first := must2(s.Marshal(r, random))(t)
	second := must2(s.Marshal(r, random))(t)
	a, b := boxOf(first, nil), boxOf(second, nil)
	if a.Salt != b.Salt || a.Nonce == b.Nonce || a.Box == b.Box || random.n != 16+24+24 {
		t.Errorf("%+v and %+v, with %d random bytes", a, b, random.n)
	}
	other := NewSealer([]byte("p"))
	other.cost = s.cost
	must2(other.Parse(first))(t)
	last := other.last
	must2(other.Parse(second))(t)
	if c := boxOf(other.Marshal(r, random)); c.Salt != a.Salt || other.last != last {
		t.Errorf("a file that was read is written with salt %s, and had %s", c.Salt, a.Salt)
	}
	if _, err := NewSealer([]byte("p")).Parse(second); err != nil {
		t.Error(err)
	}
	if _, err := other.Parse(must2(cheaply(r, []byte("q"), random))(t)); reason(err) != "ERR_CONFIG/KEYFILE_PASSPHRASE" || other.last != last {
		t.Errorf("%v behind a file of another passphrase", err)
	}
	other.cost.par = 2
	if c := boxOf(other.Marshal(r, random)); c.Salt == a.Salt || c.P != 2 {
		t.Errorf("a file of another cost has salt %s and P %d", c.Salt, c.P)
	}
	must2(other.Parse(first))(t) // its own cost and salt
}

// must2 makes must usable on a call of two results.
func must2[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T { t.Helper(); return must(t, v, err) }
}

// sealText seals any text the way a key file is sealed.
func sealText(t testing.TB, text string, passphrase []byte) []byte {
	t.Helper()
	salt, nonce := make([]byte, 16), make([]byte, 24)
	b := &sealedBox{KDF: boxKDF, LogN: cheap, P: 1, Salt: encode(salt), Cipher: boxCipher, Nonce: encode(nonce)}
	d, err := NewSealer(passphrase).derive(cost{logN: cheap, par: 1}, [16]byte(salt))
	must(t, d, err)
	b.Box = encode(d.cipher.Seal(nil, nonce, []byte(text), b.associated()))
	return fmt.Appendf(nil, `{"format":"stile-keys/1","sealed":{"kdf":"scrypt","log_n":%d,"p":1,"salt":%q,"cipher":%q,"nonce":%q,"box":%q}}`,
		cheap, b.Salt, b.Cipher, b.Nonce, b.Box)
}

// TestDamagedFile cuts a file at every byte and flips every bit of it, open and
// sealed: each time a typed error, never a key.
func TestDamagedFile(t *testing.T) {
	r := ringOf(t, eddsa(t, "ed", Token, 5, 1))
	for _, passphrase := range [][]byte{nil, []byte("p")} {
		file, err := cheaply(r, passphrase, &counter{})
		must(t, file, err)
		refuse := func(what string, i int, b []byte) {
			got, err := Parse(b, passphrase)
			if got != nil || messages.CodeOf(err) != messages.ErrConfig {
				t.Fatalf("%s %d: got %v, %v in %s", what, i, got, err, b)
			}
		}
		for i := range file {
			refuse("cut at", i, file[:i])
			for bit := range 8 {
				file[i] ^= 1 << bit
				refuse("flip at", i, file)
				file[i] ^= 1 << bit
			}
		}
	}
}

func TestJWKS(t *testing.T) {
	r := fullRing(t)
	b, err := r.JWKS()
	must(t, b, err)
	want := `{"kty":"OKP","crv":"Ed25519","x":"` + encode(eddsa(t, "x", Token, 0, 5).public) +
		`","kid":"old","alg":"EdDSA","use":"sig","stile_purpose":"token","stile_not_before":1,"stile_retired_at":9}`
	if !strings.Contains(string(b), want) || strings.Contains(string(b), `"hs"`) || strings.Contains(string(b), `"d"`) {
		t.Errorf("got %s, want in it %s", b, want)
	}
	set, err := ParseJWKS(b)
	must(t, set, err)
	if got := set.String(); got != "keys[ed fbk old r0 r1]" {
		t.Error(got)
	}
	for _, k := range set.Keys() {
		orig, _ := r.Set().Key(k.KID())
		if k.CanSign() || !k.public.Equal(orig.public) || k.without().String() != orig.without().String() {
			t.Errorf("%v comes back as %v", orig, k)
		}
	}
	again, err := set.JWKS()
	if must(t, again, err); !bytes.Equal(again, b) {
		t.Errorf("%s comes back as %s", b, again)
	}
	if b, err := ringOf(t).JWKS(); err != nil || string(b) != `{"keys":[]}` {
		t.Errorf("%s, %v", b, err)
	}
}

func TestJWKSRefusals(t *testing.T) {
	x := encode(eddsa(t, "x", Token, 0, 1).public)
	good := `{"kty":"OKP","crv":"Ed25519","x":"` + x + `","kid":"k","stile_purpose":"token","stile_not_before":1}`
	with := func(from, to string) string {
		return `{"keys":[` + strings.Replace(good, from, to, 1) + `]}`
	}
	for _, c := range []struct{ name, text, want string }{
		{"good", `{"keys":[` + good + `],"other":1}`, "keys[k]"},
		{"unknown member of a key", with(`{`, `{"x5c":[],`), "keys[k]"},
		{"EdDSA by its newer name", with(`{`, `{"alg":"Ed25519",`), "keys[k]"},
		{"foreign keys", `{"keys":[{"kty":"RSA","n":"x"},{"kty":7},{},` + good + `,{"kty":"OKP","crv":"X25519","x":1},{"kty":"OKP","crv":"Ed25519","x":"AA","kid":"z"}]}`, "keys[k]"},
		{"empty", `{"keys":[]}`, "keys[]"},
		{"no keys", `{}`, "ERR_CONFIG/JWKS@keys"},
		{"not an object", `[]`, "ERR_CONFIG/JWKS"},
		{"cut", `{"keys":[`, "ERR_CONFIG/JWKS@keys"},
		{"a key that is none", `{"keys":[1]}`, "ERR_CONFIG/JWKS@keys.0"},
		{"a member twice", with(`{`, `{"kid":"a",`), "ERR_CONFIG/JWKS@keys.0.kid"},
		{"a private half", with(`{`, `{"d":"AA",`), "ERR_CONFIG/KEY@keys.k.d"},
		{"a private half that is null", with(`{`, `{"d":null,`), "ERR_CONFIG/KEY@keys.k.d"},
		{"for encryption", with(`{`, `{"use":"enc",`), "ERR_CONFIG/KEY@keys.k.use"},
		{"another algorithm", with(`{`, `{"alg":"HS256",`), "ERR_CONFIG/KEY@keys.k.alg"},
		{"a short key", with(x, x[:40]), "ERR_CONFIG/KEY@keys.k.x"},
		{"padding", with(x, x+"="), "ERR_CONFIG/KEY@keys.k.x"},
		{"no beginning", with(`,"stile_not_before":1`, ``), "ERR_CONFIG/KEY@keys.k.stile_not_before"},
		{"an end before the beginning", with(`{`, `{"stile_retired_at":0,`), "ERR_CONFIG/KEY@keys.k.retired_at"},
		{"the wrong type", with(`"stile_not_before":1`, `"stile_not_before":"1"`), "ERR_CONFIG/JWKS@keys.0"},
		{"an unknown purpose", with(`"token"`, `"tokens"`), "ERR_CONFIG/KEY@keys.k.purpose"},
		{"no id", with(`"kid":"k",`, ``), "ERR_CONFIG/KEY@keys.?.kid"},
		{"an id twice", `{"keys":[` + good + `,` + good + `]}`, "ERR_CONFIG/KEY@keys.k.kid"},
		{"too large", strings.Repeat(" ", MaxFileBytes+1), "ERR_CONFIG/JWKS"},
	} {
		set, err := ParseJWKS([]byte(c.text))
		got := reason(err)
		if err == nil {
			got = set.String()
		}
		if got != c.want || (set == nil) != (err != nil) {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}
