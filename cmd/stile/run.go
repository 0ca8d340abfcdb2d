package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

// maxMessageBytes bounds a message: USERDATA has to hold it.
const maxMessageBytes = 512 << 10

func (a *app) runCommand() *cobra.Command {
	var opts runOptions
	cmd := &cobra.Command{
		Use:   "run MANIFEST [MESSAGE]",
		Short: "Submit a message to an agent and watch its run",
		Long: `Submits a message to a session of the agent and shows what happens as it
happens: turns, text, emissions, calls, decisions. Without MESSAGE it is read from
standard input. For the aeiou dialect a JSON object with subject and fields is the
USERDATA itself; other text becomes its fields.text.

Without --session every run begins a new session; the first line says which, and
--session goes on with it. An interrupt (Ctrl-C) cancels the run; that and the HALT
that follows are in the journal.`,
		Example: `  stile run examples/plain/agent.yaml "I am Ada."
  stile run examples/ledger/agent.yaml --session ledger < question.txt
  stile run agent.yaml "hello" --json | jq .type`,
		Args: cobra.RangeArgs(1, 2),
		RunE: a.do(func(ctx context.Context, args []string) error { return a.run(ctx, args, opts) }),
	}
	a.dirFlag(cmd)
	a.journalFlag(cmd)
	a.keyFlag(cmd)
	cmd.Flags().StringVar(&opts.session, "session", "", "session: an id or tenant:user:id (default a new one)")
	cmd.Flags().StringVar(&opts.policy, "policy", "", "when a run is in flight: enqueue or reject (default the manifest's loop.busy)")
	cmd.Flags().BoolVar(&opts.memory, "memory", false, "keep journal and keys in memory; nothing stays")
	cmd.Flags().BoolVar(&opts.json, "json", false, "print updates as JSON lines")
	return cmd
}

type runOptions struct {
	session, policy string
	memory, json    bool
}

func (a *app) run(ctx context.Context, args []string, opts runOptions) error {
	agent, err := stile.LoadAgent(args[0])
	if err != nil {
		return err
	}
	message, err := a.message(args[1:])
	if err != nil {
		return err
	}
	cfg, err := a.config()
	if err != nil {
		return err
	}
	cfg.InMemory = opts.memory
	if opts.session == "" {
		if opts.session, err = newSession(agent.Manifest.Name); err != nil {
			return err
		}
	}
	return a.withRuntime(ctx, cfg, func(rt *stile.Runtime) error {
		s, err := rt.Open(ctx, opts.session, agent)
		if err != nil {
			return err
		}
		var how []stile.SubmitOption
		if opts.policy != "" {
			how = append(how, stile.Policy(messages.Policy(opts.policy)))
		}
		run, err := s.Submit(ctx, message, how...)
		if err != nil {
			return err
		}
		if !opts.json {
			if _, err := fmt.Fprintf(a.out, "session  %s\n", s.SID()); err != nil {
				return err
			}
		}
		d, err := follow(ctx, run, a.shower(opts.json))
		return conclude(ctx, d, err)
	})
}

// message is the argument, or standard input without its last line end.
func (a *app) message(args []string) (string, error) {
	if len(args) == 1 {
		if args[0] == "" {
			return "", &messages.Error{Code: messages.ErrConfig, Field: "MESSAGE", Detail: "the message is empty"}
		}
		return args[0], nil
	}
	if a.inTerminal {
		return "", &messages.Error{Code: messages.ErrConfig, Field: "MESSAGE", Detail: "give a message as the second argument or on standard input"}
	}
	b, err := readAll(a.in, maxMessageBytes)
	if err != nil {
		return "", unreadable("standard input", err)
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
	if text == "" {
		return "", &messages.Error{Code: messages.ErrConfig, File: "standard input", Detail: "the message is empty"}
	}
	return text, nil
}

// newSession names a session that is not there yet.
func newSession(agent string) (string, error) {
	if agent == "" {
		agent = "session"
	}
	agent = agent[:min(len(agent), 64)] // of 128 that the whole SID may have
	var b [4]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", err
	}
	return agent + "-" + hex.EncodeToString(b[:]), nil
}
