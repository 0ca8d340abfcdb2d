package crash

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

// desk is an agent of the command whose searches wait for approval, over a journal of its
// own.
type desk struct {
	bin, manifest, dir string
	tries              int
}

// newDesk makes one whose questions expire after wait. The pass behind an approved search
// hangs for a minute, once; the one behind a denied search does not.
func newDesk(t *testing.T, wait string) *desk {
	t.Helper()
	bin, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{bin: bin, dir: t.TempDir()}
	agent := t.TempDir()
	for name, text := range map[string]string{
		"desk.yaml": "name: desk\ndialect: kitsu\nmodel: {script: desk.jsonl}\napproval: {tools: {search: confirm}, wait: " + wait + "}\n",
		"desk.jsonl": `{"chunks":[{"text":"Shall I look?\n<action:search query=\"trains\">\n"}]}` + "\n" +
			`{"chunks":[{"text":"There are\n"},{"at_ms":60000,"text":"trains."}]}` + "\n" +
			`{"chunks":[{"text":"There are trains."}]}` + "\n" +
			`{"match":{"contains":"denied"},"chunks":[{"text":"Then I do not look."}]}` + "\n" +
			`{"match":{"contains":"goodbye"},"chunks":[{"text":"Goodbye."}]}` + "\n",
	} {
		if err := os.WriteFile(filepath.Join(agent, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d.manifest = filepath.Join(agent, "desk.yaml")
	return d
}

// killAt runs a command and kills it by SIGKILL when it has printed a text. It tells
// whether that was before it ended.
func (d *desk) killAt(t *testing.T, text string, args ...string) (killed bool) {
	t.Helper()
	cmd := exec.Command(d.bin, append(args, "--dir", d.dir)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	seen := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if !seen && strings.Contains(lines.Text(), text) {
			seen = true
			_ = cmd.Process.Kill() // it may have ended
		}
	}
	_ = cmd.Wait()
	if !seen {
		t.Fatalf("%v never printed %q\n%s", args, text, &errs)
	}
	return !cmd.ProcessState.Exited()
}

// wait has a session wait for an answer whose process was killed, and gives its name and
// the question. A process that was quicker than the kill does not count.
func (d *desk) wait(t *testing.T) (name string, q stile.Approval) {
	t.Helper()
	for d.tries++; ; d.tries++ {
		name = fmt.Sprint("s", d.tries)
		if d.killAt(t, `"turn.suspended"`, "run", d.manifest, "trains?", "--json", "--session", name) {
			break
		}
		if d.tries == 50 {
			t.Fatal("no process could be killed")
		}
	}
	var list []stile.Approval
	d.read(t, name, func(ar *stile.Archive, h stile.Head, _ []*stile.Record) {
		var err error
		if list, err = ar.Approvals(t.Context(), h); err != nil {
			t.Fatal(err)
		}
	})
	if len(list) != 1 || list[0].Tool != "search" {
		t.Fatalf("waiting: %+v", list)
	}
	return name, list[0]
}

func (d *desk) read(t *testing.T, name string, look func(*stile.Archive, stile.Head, []*stile.Record)) {
	t.Helper()
	ar, err := stile.OpenArchive(d.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := ar.Close(); err != nil {
			t.Error(err)
		}
	}()
	head, err := ar.Head(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	var recs []*stile.Record
	for r, err := range ar.Records(context.Background(), head.Inc) {
		if err != nil {
			t.Fatal(err)
		}
		recs = append(recs, r)
	}
	look(ar, head, recs)
}

// do runs a command to its end.
func (d *desk) do(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	cmd := exec.Command(d.bin, append(args, "--dir", d.dir)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

// refused answers both ways, and wants status 1 and the reason.
func (d *desk) refused(t *testing.T, reason, name, id string, more ...string) {
	t.Helper()
	code := string(messages.ErrApproval)
	if reason == stile.ApprovalUnknown {
		code = string(messages.ErrNotFound)
	}
	for _, verb := range []string{"allow", "deny"} {
		status, out, errs := d.do(t, append([]string{"approvals", verb, d.manifest, name, id}, more...)...)
		if status != 1 || !strings.Contains(errs, code+"/"+reason) {
			t.Errorf("%s %v: status %d, want 1 and %s\n%s%s", verb, more, status, reason, out, errs)
		}
	}
}

// settled checks what a session came to: the states of its question, how often its search
// began, what its last run ended with, and that its journal verifies and replays.
func (d *desk) settled(t *testing.T, name string, began int, decision messages.Decision, states ...messages.GateAnswer) {
	t.Helper()
	d.read(t, name, func(_ *stile.Archive, _ stile.Head, recs []*stile.Record) {
		var said []messages.GateAnswer
		starts, ended := 0, messages.Decision("")
		for _, r := range recs {
			switch b := r.Body.(type) {
			case *messages.ActionApproval:
				said = append(said, b.State)
			case *messages.ActionStarted:
				starts++
			case *messages.RunEnd:
				ended = b.Decision
			}
		}
		if !slices.Equal(said, states) || starts != began || ended != decision {
			t.Errorf("%s: the gate said %v, want %v; %d searches, want %d; the run ended %q, want %q", name, said, states, starts, began, ended, decision)
		}
	})
	for _, command := range []string{"verify", "replay"} {
		if status, out, errs := d.do(t, command, name); status != 0 {
			t.Errorf("%s %s: status %d\n%s%s", command, name, status, out, errs)
		}
	}
}

// A process dies by SIGKILL while its turn waits for approval. The command gives it: an
// approval that is forged, foreign, of other arguments, without a name, double or late is
// refused, each by its reason and with status 1, and no search begins for it. Between the
// first answer and the second a process dies again, in the pass that the first one let
// begin.
func TestAnswersAfterKills(t *testing.T) {
	d := newDesk(t, "1h")
	s, q := d.wait(t)
	other, foreign := d.wait(t)
	d.refused(t, stile.ApprovalUnknown, s, "forged")
	d.refused(t, stile.ApprovalUnknown, s, foreign.ID)
	d.refused(t, stile.ApprovalChanged, s, q.ID, "--digest", "deadbeef")
	d.refused(t, stile.ApprovalPrincipal, s, q.ID, "--by", "")
	d.settled(t, s, 0, "", messages.GateConfirm)

	if !d.killAt(t, "is taken back", "approvals", "allow", d.manifest, s, q.ID, "--by", "ann", "--digest", q.Digest.String()) {
		t.Error("the process that was let go on ended before it was killed")
	}
	d.refused(t, stile.ApprovalAnswered, s, q.ID)
	if status, out, errs := d.do(t, "run", d.manifest, "thanks", "--session", s); status != 0 {
		t.Errorf("the session does not go on: status %d\n%s%s", status, out, errs)
	}
	d.settled(t, s, 1, messages.Done, messages.GateConfirm, messages.GateApprove)

	if status, out, errs := d.do(t, "approvals", "deny", d.manifest, other, foreign.ID, "--reason", "not now"); status != 0 {
		t.Errorf("deny: status %d\n%s%s", status, out, errs)
	}
	d.refused(t, stile.ApprovalAnswered, other, foreign.ID)
	d.settled(t, other, 0, messages.Done, messages.GateConfirm, messages.GateDeny)
}

// The question expires while no host runs. The answer is late, and wakes no session; the next
// message finds that the call has failed.
func TestAnswerAfterExpiry(t *testing.T) {
	d := newDesk(t, "1s")
	s, q := d.wait(t)
	<-time.After(time.Until(q.Expires))
	d.refused(t, stile.ApprovalLate, s, q.ID)
	d.refused(t, stile.ApprovalLate, s, q.ID, "--digest", q.Digest.String())
	d.settled(t, s, 0, "", messages.GateConfirm)
	if status, out, errs := d.do(t, "run", d.manifest, "goodbye", "--session", s); status != 0 {
		t.Errorf("the session does not go on: status %d\n%s%s", status, out, errs)
	}
	d.settled(t, s, 0, messages.Done, messages.GateConfirm, messages.GateExpired)
}
