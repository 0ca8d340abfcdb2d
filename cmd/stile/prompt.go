package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/promptview"
	"github.com/seed14be6753/stile/internal/textdiff"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

type promptOptions struct {
	at                  remoteFlags
	remote              bool
	turn, request, diff int64
	reply, json         bool
	manifest            string
}

func (a *app) sessionsPromptCommand() *cobra.Command {
	var o promptOptions
	cmd := &cobra.Command{
		Use:   "prompt SID",
		Short: "Show what a model saw in a turn, and what it replied",
		Long: `Shows the prompt of a turn as the model saw it: each message under a line with its
role. It is made again from the journal, by a replay up to the turn, and compared with
the digest of what was sent: exact says that it is the same byte for byte, else the
first line says what differs and why. --reply shows the model's raw reply in its place,
--diff the difference to the prompt of another turn, and both the difference of the replies.

The session is one of --dir. With --host a running host is asked. Agents with tools in
Go are named by --manifest where they have one.`,
		Example: `  stile sessions prompt ledger
  stile sessions prompt ledger --turn 2 --diff 1
  stile sessions prompt ledger --turn 2 --reply
  stile sessions prompt ledger --turn 2 --reply --diff 1
  stile sessions prompt ada --host http://127.0.0.1:8471 --json`,
		Args: cobra.ExactArgs(1),
	}
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		o.remote = cmd.Flags().Changed("host")
		return a.sessionsPrompt(ctx, args[0], o)
	})
	a.dirFlag(cmd)
	a.journalFlag(cmd)
	o.at.add(cmd)
	flags := cmd.Flags()
	flags.Int64Var(&o.turn, "turn", 0, "the turn (default the last one that asked a model)")
	flags.Int64Var(&o.request, "request", 0, "the request, from 1, of a turn that has several (default the last)")
	flags.Int64Var(&o.diff, "diff", 0, "show the difference to the prompt, or with --reply to the reply, of this turn")
	flags.BoolVar(&o.reply, "reply", false, "show the raw reply")
	flags.StringVar(&o.manifest, "manifest", "", "manifest of the agent, where the journal has none that is enough")
	flags.BoolVar(&o.json, "json", false, "print the requests of the turn as JSON, with their replies")
	cmd.MarkFlagsMutuallyExclusive("host", "dir")
	cmd.MarkFlagsMutuallyExclusive("reply", "json")
	cmd.MarkFlagsMutuallyExclusive("diff", "json")
	return cmd
}

// sessionsPrompt shows one request, or all of a turn as JSON.
func (a *app) sessionsPrompt(ctx context.Context, name string, o promptOptions) error {
	for flag, n := range map[string]int64{"--turn": o.turn, "--request": o.request, "--diff": o.diff} {
		if n < 0 {
			return configError(flag, "want a number from 1 on")
		}
	}
	prompts, err := a.prompts(ctx, name, o, o.turn)
	if err != nil {
		return err
	}
	if o.json {
		return a.writeJSON(struct {
			Requests []promptview.PromptView `json:"requests"`
		}{prompts})
	}
	one, err := requestOf(prompts, o.request)
	if err != nil {
		return err
	}
	p := a.printer("")
	asked := strings.TrimSuffix(one.Provider+"/"+one.Model, "/") // the scripted model has no name
	head := fmt.Sprintf("turn %d, run %d, request %d of %d, %s, %s", one.Turn, one.Run, cmp.Or(o.request, int64(len(prompts))), len(prompts), one.At.Format(time.RFC3339), asked)
	switch {
	case o.reply && o.diff == 0:
		return a.showReply(p, one, head)
	case o.diff > 0:
		others, err := a.prompts(ctx, name, o, o.diff)
		if err != nil {
			return err
		}
		other := &others[len(others)-1]
		if o.reply {
			return a.diffReplies(p, one, other, head)
		}
		p.line(dim, "prompt", head+", "+exactly(one)+", beside turn "+fmt.Sprint(o.diff)+", "+exactly(other))
		p.print(a.shown(textdiff.Unified(other.Text(), one.Text(), diffAround)))
		return p.err
	}
	p.line(dim, "prompt", head+", "+count(int64(len(one.Messages)), "message")+", "+exactly(one))
	if len(one.Options) > 0 {
		p.line(dim, "options", a.shown(string(one.Options)))
	}
	for _, t := range one.Tools {
		p.line(dim, "tool", a.shown(t.Name+" "+string(t.Schema)+" "+t.Description))
	}
	p.print(a.shown(one.Text()))
	return p.err
}

// showReply shows what came back, as it came.
func (a *app) showReply(p *printer, one *promptview.PromptView, head string) error {
	if one.Reply == nil {
		p.line(dim, "reply", head+", none is recorded")
		return p.err
	}
	r := one.Reply
	p.line(dim, "reply", fmt.Sprintf("%s, %s, %d tokens in, %d out", head, cmp.Or(r.Finish, "no end"), r.Usage.Input, r.Usage.Output))
	switch {
	case r.Lost != "":
		p.line(red, "lost", r.Lost)
	case r.Error != "":
		p.line(red, "error", a.shown(r.Error))
	}
	p.print(a.shown(r.Text))
	if n := len(r.Text); n > 0 && r.Text[n-1] != '\n' {
		p.print("\n")
	}
	return p.err
}

// diffReplies shows how the reply of one request differs from that of the other.
func (a *app) diffReplies(p *printer, one, other *promptview.PromptView, head string) error {
	var texts [2]string
	for i, v := range []*promptview.PromptView{other, one} {
		switch {
		case v.Reply == nil:
			return messages.Errorf(messages.ErrNotFound, "no reply is recorded of turn %d", v.Turn)
		case v.Reply.Lost != "":
			return messages.Errorf(messages.ErrNotFound, "the reply of turn %d is lost: %s", v.Turn, v.Reply.Lost)
		}
		if texts[i] = v.Reply.Text; texts[i] != "" && !strings.HasSuffix(texts[i], "\n") {
			texts[i] += "\n"
		}
	}
	p.line(dim, "reply", fmt.Sprintf("%s, %s, beside turn %d, %s", head, cmp.Or(one.Reply.Finish, "no end"), other.Turn, cmp.Or(other.Reply.Finish, "no end")))
	if texts[0] == texts[1] {
		p.line("", "same", "no difference")
	}
	p.print(a.shown(textdiff.Unified(texts[0], texts[1], diffAround)))
	return p.err
}

func exactly(v *promptview.PromptView) string {
	if v.Exact {
		return "exact"
	}
	return v.Why
}

// shown is a text of others as the terminal may have it; a file or a pipe gets its bytes.
func (a *app) shown(s string) string {
	if a.outTerminal {
		return harmless(s)
	}
	return s
}

func requestOf(all []promptview.PromptView, n int64) (*promptview.PromptView, error) {
	switch {
	case n > int64(len(all)):
		return nil, configError("--request", fmt.Sprintf("the turn has %s", count(int64(len(all)), "request")))
	case n == 0:
		n = int64(len(all))
	}
	return &all[n-1], nil
}

// prompts are the requests of a turn, 0 for the last one that has some: at least one.
func (a *app) prompts(ctx context.Context, name string, o promptOptions, turn int64) (out []promptview.PromptView, err error) {
	if o.remote {
		r, id, err := a.remote(o.at, name)
		if err != nil {
			return nil, err
		}
		var answer struct {
			Requests []promptview.PromptView `json:"requests"`
		}
		at := "last"
		if turn > 0 {
			at = fmt.Sprint(turn)
		}
		if err := r.call(ctx, http.MethodGet, sessionPath(id)+"/turns/"+at+"/prompt?reply=true", nil, &answer); err != nil {
			return nil, err
		}
		if len(answer.Requests) == 0 {
			return nil, messages.Errorf(messages.ErrNotFound, "the host shows no request of turn %s", at)
		}
		return answer.Requests, nil
	}
	var agent *stile.Agent
	if o.manifest != "" {
		if agent, err = stile.LoadAgent(o.manifest); err != nil {
			return nil, err
		}
	}
	err = a.withArchive(ctx, func(ar *stile.Archive) error {
		head, err := named(ctx, ar, name)
		if err != nil {
			return err
		}
		if turn == 0 {
			if turn, err = lastAsked(ctx, ar, head); err != nil {
				return err
			}
		}
		all, err := ar.Prompts(ctx, head.Inc, agent, turn)
		for i := range all {
			out = append(out, promptview.Of(&all[i], true))
		}
		return err
	})
	return slices.Clip(out), err
}

// lastAsked is the last turn of a session that asked a model.
func lastAsked(ctx context.Context, ar *stile.Archive, head journal.Head) (turn int64, err error) {
	for r, err := range ar.Records(ctx, head.Inc) {
		if err != nil {
			return 0, err
		}
		if r.Body != nil && r.Body.Kind() == messages.KindModelRequest {
			turn = r.Turn
		}
	}
	if turn == 0 {
		return 0, messages.Errorf(messages.ErrNotFound, "the session has asked no model")
	}
	return turn, nil
}
