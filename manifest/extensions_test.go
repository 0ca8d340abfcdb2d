package manifest

import (
	"strings"
	"testing"
)

// An extension that no session can run is refused by name, and so is a word that is none.
func TestExtensions(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"extensions: [feed_transform]", ""},
		{"extensions: [feed_references]", ""},
		{"extensions: []", ""},
		{"extensions: [if, foreach, parallel]", ""},
		{"extensions: [feed_transform, sub_thoughts]", ""},
		{"extensions: [remote_feeds]", ""},
		{"extensions: [loops]", `"loops" is not one of if, foreach, parallel, rollback, stream, sub_thoughts, templates, feed_transform, feed_references, remote_feeds`},
		{"context_feeds: [{id: a, source: {type: internal, action: session}, transform: [{op: text}]}]", "context_feeds[0].transform: ERR_CONFIG/BAD_VALUE: needs the extension: write extensions: [feed_transform]"},
	} {
		_, err := Parse("a.yaml", []byte("dialect: cortex\n"+c.text))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
}

// Extensions are in the digests of a manifest and of its limits; without them both stay what
// they were.
func TestExtensionsAreInTheDigests(t *testing.T) {
	parsed := func(text string) *Manifest {
		t.Helper()
		m, err := Parse("a.yaml", []byte("dialect: cortex\n"+text))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	off, on := parsed(""), parsed("extensions: [feed_transform]")
	if off.Digest() == on.Digest() || off.LimitsDigest() == on.LimitsDigest() {
		t.Error("an extension changes no digest")
	}
	if strings.Contains(string(off.Canonical()), "extensions") || strings.Contains(string(off.Canonical()), "action_templates") {
		t.Errorf("%s", off.Canonical())
	}
	again, err := Parse("a.yaml", on.Canonical())
	if err != nil || again.Digest() != on.Digest() {
		t.Errorf("read again: %v", err)
	}
}

// With loops a run may have 1,024 actions, unless the manifest says how many.
func TestActionsOfLoops(t *testing.T) {
	for text, want := range map[string]int64{
		"": 256, "extensions: [if]": 256, "extensions: [if, foreach]": 1024, "extensions: [foreach]\nquotas: {actions: 256}": 256,
	} {
		m, err := Parse("a.yaml", []byte("dialect: cortex\n"+text))
		if err != nil || m.Quotas.Actions != want {
			t.Errorf("%q: %d, %v", text, m.Quotas.Actions, err)
		}
	}
	if m := (&Manifest{Dialect: "cortex", Extensions: []string{"foreach"}}).WithDefaults(); m.Quotas.Actions != 1024 {
		t.Error(m.Quotas.Actions)
	}
}
