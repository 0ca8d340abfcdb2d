package manifest

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/messages"
)

// Canonical is the effective manifest as canonical JSON (RFC 8785): every key,
// defaults filled in, durations, sizes and prices as the file would write them. It
// is a manifest that Parse reads back to the same value.
func (m *Manifest) Canonical() []byte {
	m = m.WithDefaults()
	if m.unbounded() != nil { // not valid, and too deep to be written
		m.Define.Agents = nil
	}
	v, err := canonical(tree(reflect.ValueOf(m).Elem(), &field{}))
	if err != nil { // a tree has nothing but maps, slices, strings, numbers and booleans
		panic(fmt.Sprintf("manifest: no canonical form: %v", err))
	}
	return v
}

func canonical(tree any) ([]byte, error) {
	b, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	v := jsontext.Value(b)
	err = v.Canonicalize()
	return v, err
}

// Digest is the SHA-256 of Canonical: the manifest digest of session.opened and
// turn.begin. Comments, order, spelling and x-* keys do not change it.
func (m *Manifest) Digest() messages.Digest { return sha256.Sum256(m.Canonical()) }

// LimitsDigest is the SHA-256 of the canonical form of loop, quotas, extensions and rollback alone: the
// limits digest of turn.begin.
func (m *Manifest) LimitsDigest() messages.Digest {
	d := m.WithDefaults()
	// The digest is in journals: what is no limit stays as the first release wrote it.
	off := InternalActions{Enabled: new(bool), Allowed: new([]string)}
	return (&Manifest{Dialect: d.Dialect, Extensions: d.Extensions, Loop: d.Loop, Quotas: d.Quotas, Rollback: d.Rollback, InternalActions: off}).Digest()
}

// tree is v as encoding/json knows it.
func tree(v reflect.Value, f *field) any { return writer{}.tree(v, f) }

// writer makes the tree. raw reports whether the reader expands nothing in what is written.
type writer struct{ raw bool }

func (w writer) tree(v reflect.Value, f *field) any {
	w.raw = w.raw || f.raw
	switch v.Kind() {
	case reflect.Pointer:
		return w.tree(v.Elem(), f)
	case reflect.Struct:
		out := map[string]any{}
		for _, f := range fieldsOf(v.Type()) {
			if e := v.Field(f.index); !omitted(&f, e) {
				out[f.key] = w.tree(e, &f)
			}
		}
		return out
	case reflect.Slice:
		out := make([]any, v.Len())
		for i := range out {
			out[i] = w.tree(v.Index(i), f)
		}
		return out
	case reflect.Map:
		out := map[string]any{}
		for _, k := range v.MapKeys() {
			out[k.String()] = w.tree(v.MapIndex(k), f)
		}
		return out
	case reflect.Interface:
		if v.IsNil() {
			return nil
		}
		return w.tree(v.Elem(), f)
	case reflect.Int64:
		switch {
		case v.Type() == durationType:
			return time.Duration(v.Int()).String()
		case f.none && v.Int() == NoHistory:
			return none
		case f.unit == "usd":
			return FormatUSD(v.Int())
		}
		return v.Int()
	case reflect.String:
		if w.raw {
			return v.String()
		}
		return escape(v.String())
	case reflect.Bool:
		return v.Bool()
	}
	return v.Interface()
}

// escape writes a text so that expand gives it back: a "$" that would stand for
// something is doubled, and no other, so that the digest of a text with a plain $name is
// what it was.
func escape(s string) string {
	if !strings.Contains(s, "$") {
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		b.WriteByte(s[i])
		if s[i] == '$' && i+1 < len(s) && (s[i+1] == '$' || s[i+1] == '{') {
			b.WriteByte('$')
		}
	}
	return b.String()
}

// omitted reports whether a field is left out: it has no value, and the file may not write that.
func omitted(f *field, v reflect.Value) bool {
	return f.optional && v.IsZero() || v.Kind() == reflect.Pointer && v.IsNil() || v.Kind() == reflect.String && v.Len() == 0
}
