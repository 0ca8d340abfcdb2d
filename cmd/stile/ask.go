package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/visible"
	"github.com/seed14be6753/stile/messages"
)

// showApproval writes a call that waits, with all of its arguments and nothing hidden in
// them: what a person decides about is what is here.
func (a *app) showApproval(sid string, q *stile.Approval) error {
	call := visible.Exact(q.Tool)
	args := visible.Exact(q.Args)
	note := ""
	if args != q.Args || call != q.Tool {
		note = `note      \u{…} stands for a character that shows nothing, or not what it is` + "\n"
	}
	if q.Basis != "" {
		note += "rests on  " + visible.Exact(q.Basis) + "\n"
	}
	_, err := fmt.Fprintf(a.out, "session   %s\napproval  %s\nasked     %s, expires %s\ntool      %s (%s)\narguments %s\n%s\n%sdigest    %s\n",
		sid, q.ID, q.Asked.Format(time.RFC3339), q.Expires.Format(time.RFC3339), call, q.Class, count(int64(len(q.Args)), "byte"), args, note, q.Digest)
	return err
}

// asks reports whether there is a person at a terminal.
func (a *app) asks() bool { return a.inTerminal && a.outTerminal }

// maxTypedBytes bounds an answer that is typed.
const maxTypedBytes = 4096

// typed asks a person, and gives the line that comes, "" at the end of the input. It ends
// with ctx; what is typed after that is lost.
func (a *app) typed(ctx context.Context, question string) (string, error) {
	if _, err := io.WriteString(a.out, question); err != nil {
		return "", err
	}
	line := make(chan string, 1)
	go func() {
		var b strings.Builder
		for c := make([]byte, 1); b.Len() < maxTypedBytes; { // no byte of the next line is taken
			if n, err := a.in.Read(c); n == 0 && err != nil || n > 0 && c[0] == '\n' {
				break
			} else if n > 0 {
				b.WriteByte(c[0])
			}
		}
		line <- strings.TrimSpace(b.String())
	}()
	select {
	case s := <-line:
		return s, nil
	case <-ctx.Done():
		return "", exitInterrupted
	}
}

// yesOrNo asks whether a call may run until the answer is yes, no or nothing, which is "".
// Nothing shorter than the word lets a call happen: a letter may be typed ahead.
func (a *app) yesOrNo(ctx context.Context) (answer string, err error) {
	ask := a.ask
	if ask == nil {
		ask = a.typed
	}
	question := "Allow this call? yes, no, or nothing for later: "
	for {
		if answer, err = ask(ctx, question); err != nil {
			return "", err
		}
		switch answer = strings.ToLower(strings.TrimSpace(answer)); answer {
		case "yes", "no", "":
			return answer, nil
		}
		question = "Type yes or no, or press Enter to answer later: "
	}
}

// decide shows the calls of a session that wait, but for those in left, and asks a person
// about each, where there is one. It reports whether some were answered. The others are
// noted in left, with the command that answers them.
func (a *app) decide(ctx context.Context, s *stile.Session, left map[string]bool) (answered bool, err error) {
	list, err := s.Approvals(ctx)
	if err != nil {
		return false, err
	}
	by := userName()
	key, err := messages.ParseSID(s.SID())
	if err != nil {
		return false, err
	}
	for i := range list {
		q := &list[i]
		if left[q.ID] {
			continue
		}
		if err := a.showApproval(s.SID(), q); err != nil {
			return answered, err
		}
		answer := ""
		if a.asks() && by != "" {
			if answer, err = a.yesOrNo(ctx); err != nil {
				return answered, err
			}
		}
		e := about("answer-approval", key)
		e.Run, e.Approval = strconv.FormatInt(q.Run, 10), q.ID
		switch answer {
		case "yes":
			e.Detail = fmt.Sprintf("%s by %.256s", messages.GateApprove, by)
			err = a.onRecord(&e, func() error { return s.Approve(ctx, *q, by) })
		case "no":
			e.Detail = fmt.Sprintf("%s by %.256s", messages.GateDeny, by)
			err = a.onRecord(&e, func() error { return s.Deny(ctx, *q, by, "the user said no") })
		default:
			left[q.ID] = true
			_, err = fmt.Fprintf(a.out, "answer    %s\n", allowCommand("MANIFEST", s.SID(), q)+a.where())
			if err != nil {
				return answered, err
			}
			continue
		}
		if err != nil {
			return answered, err
		}
		answered = true
	}
	return answered, nil
}

// allowCommand is the command that lets a call happen, for a person who has seen it.
func allowCommand(manifest, sid string, q *stile.Approval) string {
	return fmt.Sprintf("stile approvals allow %s %s %s --digest %s", manifest, sid, q.ID, q.Digest)
}

// where is what a further command needs to find the same journal. The URL of a shared one
// may hold a password, and is left out.
func (a *app) where() string {
	if a.dir == "" || a.dir == stile.DefaultDir {
		return ""
	}
	if strings.ContainsAny(a.dir, " \t\n'\"\\$`&|;<>()*?[]#~!{}") {
		return " --dir '" + strings.ReplaceAll(visible.Exact(a.dir), "'", `'\''`) + "'"
	}
	return " --dir " + visible.Exact(a.dir)
}
