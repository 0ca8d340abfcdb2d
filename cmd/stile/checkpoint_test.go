package main

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

// A checkpoint kept elsewhere shows a cut end and a dropped session, which a journal alone and
// its keys do not, and passes what was erased, used again or gone on with honestly.
func TestVerifySince(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	write(t, dir, "yes.jsonl", "{\"match\":{\"contains\":\"Ada\"},\"chunks\":[{\"text\":\"yes\"}]}\n")
	agent := write(t, dir, "agent.yaml", "dialect: plain\nmodel: {provider: scripted, script: yes.jsonl}\n")
	run := func(name string) { must(t, "run", agent, "I am Ada.", "--dir", data, "--session", name) }
	for _, name := range []string{"cut", "cut", "dropped", "erased", "on", "again"} {
		run(name)
	}
	keys := write(t, dir, "keys.jwks", must(t, "keys", "export", "--dir", data))
	heads := write(t, dir, "heads.jsonl", must(t, "checkpoint", "--dir", data))
	verify := func(want status, heads string, more ...string) string {
		t.Helper()
		a := stileDo(t, append([]string{"verify", "--since", heads, "--keys", keys, "--dir", data}, more...)...)
		if a.status != int(want) {
			t.Errorf("status %d: %s%s", a.status, a.out, a.err)
		}
		return a.out + a.err
	}
	holds(t, verify(exitOK, heads), "checkpoint of", "5 sessions", "0 sessions of the checkpoint erased")

	run("on")
	run("new")
	rt, err := stile.New(t.Context(), stile.Config{Dir: data})
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(rt.Delete(t.Context(), "erased", "test"), rt.Delete(t.Context(), "again", "test"), rt.Close(context.Background()))
	if err != nil {
		t.Fatal(err)
	}
	run("again")
	holds(t, verify(exitOK, heads), "local:local:new", "2 sessions of the checkpoint erased by a signed session.closed", "7 sessions, 0 with problems")

	db, err := sql.Open("sqlite", filepath.Join(data, stile.JournalFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{
		`DELETE FROM records WHERE pos >> 32 = (SELECT id FROM sessions WHERE sid LIKE '%:dropped')`,
		`DELETE FROM sessions WHERE sid LIKE '%:dropped'`,
		// The second run is cut off.
		`DELETE FROM records WHERE pos >> 32 = (SELECT id FROM sessions WHERE sid LIKE '%:cut') AND run = 2`,
		`UPDATE sessions SET run = 1, turn = 1, seq = (SELECT max(pos) & 4294967295 FROM records WHERE pos >> 32 = sessions.id),
			hash = (SELECT hash FROM records WHERE pos >> 32 = sessions.id ORDER BY pos DESC LIMIT 1) WHERE sid LIKE '%:cut'`,
	} {
		if _, bad := db.ExecContext(t.Context(), s); bad != nil {
			err = errors.Join(err, bad)
		}
	}
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	must(t, "verify", "--keys", keys, "--dir", data) // finds neither
	out := verify(exitDifference, heads)
	holds(t, out, "FAIL", "local:local:cut", "since", "the end was cut off")
	holds(t, out, "FAIL", "local:local:dropped  the session is gone")
	holds(t, verify(exitDifference, heads, "--json"), `"since"`, `"lost":"local:local:dropped`)

	// A checkpoint that was changed is none.
	text, err := os.ReadFile(heads)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	without := append([]string{lines[0]}, lines[2:len(lines)-2]...)
	holds(t, verify(exitUsage, write(t, dir, "short.jsonl", strings.Join(without, ""))), "ends before its seal")
	holds(t, verify(exitUsage, write(t, dir, "fewer.jsonl", strings.Join(without, "")+lines[len(lines)-2])), "seal")
	sum := sha256.Sum256([]byte(strings.Join(without, "")))
	_, sig, _ := strings.Cut(lines[len(lines)-2], `"kid"`)
	resealed := strings.Join(without, "") + `{"sessions":4,"digest":"` + hex.EncodeToString(sum[:]) + `","kid"` + sig
	holds(t, verify(exitDifference, write(t, dir, "resealed.jsonl", resealed)), "FAIL", "not signed by a trusted key")
	if a := stileDo(t, "verify", "cut", "--since", heads, "--dir", data); a.status != int(exitUsage) {
		t.Errorf("status %d: %s", a.status, a.err)
	}
}

// A host writes its checkpoint by the clock, and logs its digest.
func TestCheckpointsOfAHost(t *testing.T) {
	data := t.TempDir()
	must(t, "run", example("plain/agent.yaml"), "I am Ada.", "--dir", data, "--session", "s")
	rt, err := stile.New(t.Context(), stile.Config{Dir: data})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close(context.Background())
	core, logged := observer.New(zap.InfoLevel)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	log := zap.New(core, zap.Hooks(func(zapcore.Entry) error { cancel(); return nil }))
	checkpoints(ctx, rt, data, time.Millisecond, log)
	text, err := os.ReadFile(filepath.Join(data, checkpointFile))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	digest := messages.Digest(sha256.Sum256([]byte(strings.Join(lines[:len(lines)-2], ""))))
	said := logged.All()[0].ContextMap()
	if said["digest"] != digest.String() || said["sessions"] != int64(1) {
		t.Errorf("logged %v, the digest is %s", said, digest)
	}
	checkpoints(ctx, rt, data, 0, log) // returns at once
}
