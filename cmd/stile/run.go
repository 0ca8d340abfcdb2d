package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// maxMessageBytes bounds a message: USERDATA has to hold it.
const maxMessageBytes = 512 << 10

func (a *app) runCommand() *cobra.Command {
	var opts runOptions
	cmd := &cobra.Command{
		Use:   "run [MANIFEST] [MESSAGE]",
		Short: "Submit a message to an agent and watch its run",
		Long: `Submits a message to a session of the agent and shows what happens as it
happens: turns, text, emissions, calls, decisions. Without MESSAGE, or with -, it is
read from standard input. For the aeiou dialect a JSON object with subject and fields
is the USERDATA itself; other text becomes its fields.text.

Without --session every run begins a new session; the first line says which, and
--session goes on with it. What is open in it is shown first, to its end, unless
a --policy or the manifest's loop.busy says what to do with it; --resume does no more
than that. An interrupt (Ctrl-C) cancels the run; that and the HALT
that follows are in the journal. With memory.profile it ends when the user's profile is
learned, if that is due; an interrupt leaves it to a later run.

With --provider and --model no manifest is needed: a single argument is MESSAGE then,
and --dialect says how the model speaks. With a manifest as well they replace its
model. Providers are openai, anthropic, gemini, and what speaks like one of them at
--base-url: Ollama, vLLM, llama.cpp, LM Studio. Keys come from the environment:
OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY. With _1 to _20 added there can be
several, which take turns. A server at an address of its own may need none.`,
		Example: `  stile run examples/plain/agent.yaml "I am Ada."
  stile run examples/ledger/agent.yaml --session ledger < question.txt
  stile run agent.yaml "What is wrong here?" --attach error.png
  stile run agent.yaml "hello" --json | jq .type
  stile run --provider anthropic --model claude-sonnet-4-5 "hello"
  stile run --provider openai --base-url http://localhost:11434/v1 --model llama3.2 "hello"`,
		Args: func(cmd *cobra.Command, args []string) error {
			if opts.provider != "" {
				return cobra.MaximumNArgs(2)(cmd, args)
			}
			if len(args) == 0 && opts.describes() {
				return errNoProvider
			}
			return cobra.RangeArgs(1, 2)(cmd, args)
		},
		RunE: a.do(func(ctx context.Context, args []string) error { return a.run(ctx, args, opts) }),
	}
	a.dirFlag(cmd)
	a.journalFlag(cmd)
	a.keyFlag(cmd)
	cmd.Flags().StringVar(&opts.session, "session", "", "session: an id or tenant:user:id (default a new one)")
	cmd.Flags().BoolVar(&opts.resume, "resume", false, "go on with what is open in --session, without a MESSAGE: a run of a fork, of a process that ended")
	cmd.Flags().StringVar(&opts.policy, "policy", "", "when a run is in flight: reject, enqueue, interrupt, rollback, merge or debounce; answer: yes or no answers the call that waits (default the manifest's loop.busy)")
	cmd.Flags().StringVar(&opts.zone, "zone", "", "the user's time zone, such as Europe/Oslo or UTC+2; the session keeps it (default the manifest's)")
	cmd.Flags().StringArrayVar(&opts.attach, "attach", nil, "picture or file (PNG, JPEG, GIF, WebP, PDF, text) that the model sees with MESSAGE; may be repeated")
	cmd.Flags().StringVar(&opts.title, "title", "", "title of the session, in place of the one it has")
	cmd.Flags().StringArrayVar(&opts.tags, "tag", nil, "tag to add to the session, key or key=value; may be repeated")
	cmd.Flags().StringVar(&opts.provider, "provider", "", "who answers: openai, anthropic or gemini (default the manifest's)")
	chooses(cmd, "provider", "openai", "anthropic", "gemini")
	cmd.Flags().StringVar(&opts.model, "model", "", "the provider's name for the model (default the manifest's)")
	cmd.Flags().StringVar(&opts.baseURL, "base-url", "", "address of the provider, when it is not the vendor's own")
	cmd.Flags().StringVar(&opts.dialect, "dialect", "", "without a manifest: how the model speaks: plain, aeiou, cortex, cogency or kitsu (default plain)")
	decisionFlag(cmd, &opts.decisionLog)
	cmd.Flags().BoolVar(&opts.memory, "memory", false, "keep journal and keys in memory; nothing stays")
	cmd.Flags().BoolVar(&opts.json, "json", false, "print updates as JSON lines")
	return cmd
}

type runOptions struct {
	session, policy, zone string
	title                 string
	tags, attach          []string
	decisionLog           string
	memory, json, resume  bool

	provider, model, baseURL, dialect string
}

// describes reports whether a flag says something of a model.
func (o *runOptions) describes() bool { return o.model != "" || o.baseURL != "" || o.dialect != "" }

// errNoProvider refuses a command that names a model, but not its provider.
var errNoProvider = flagError("--provider", "is missing: openai, anthropic or gemini; without it the first argument is a manifest, and there is none")

// agent is the manifest's, or one that the flags describe, and the arguments that are
// left.
func (o *runOptions) agent(args []string) (*stile.Agent, []string, error) {
	var agent *stile.Agent
	if o.provider == "" || len(args) == 2 {
		switch _, err := os.Stat(args[0]); {
		case err != nil && o.provider == "" && o.describes():
			return nil, nil, errNoProvider // MESSAGE alone
		case errors.Is(err, fs.ErrNotExist):
			return nil, nil, &messages.Error{Code: messages.ErrConfig, File: args[0], Detail: "no such file: this argument is the manifest, unless there is --provider and no other"}
		}
		if o.dialect != "" {
			return nil, nil, flagError("--dialect", "is the manifest's to say; leave one of them out")
		}
		var err error
		if agent, err = stile.LoadAgent(args[0]); err != nil {
			return nil, nil, err
		}
		args = args[1:]
	} else {
		dialect := o.dialect
		if dialect == "" {
			dialect = "plain"
		}
		agent = &stile.Agent{Manifest: manifest.Default(dialect)}
		agent.Manifest.Name = o.provider
	}
	m := &agent.Manifest.Model
	if o.provider != "" && o.provider != m.Provider {
		*m = manifest.Model{Provider: o.provider, Mode: m.Mode}
	}
	if o.provider != "" && o.model == "" && m.Model == "" {
		return nil, nil, flagError("--model", "is missing: the provider's name for the model")
	}
	if o.model != "" {
		m.Model = o.model
	}
	if o.baseURL != "" {
		m.BaseURL = o.baseURL
	}
	return agent, args, agent.Manifest.Validate()
}

func flagError(flag, detail string) error {
	return &messages.Error{Code: messages.ErrConfig, Field: flag, Detail: detail}
}

// configFor returns the configuration for runs of an agent, which it checks before anything is
// made.
func (a *app) configFor(agent *stile.Agent, opts runOptions) (cfg stile.Config, err error) {
	if cfg, err = a.config(); err != nil {
		return cfg, err
	}
	if err := stile.Check(agent, cfg); err != nil {
		return cfg, err
	}
	if cfg.InMemory = opts.memory; opts.memory {
		a.auditLog = nil // nothing of a host is changed
	}
	cfg.DecisionLog, err = decisionLog(opts.decisionLog, decisionLogBytes, decisionLogKeep, a.err)
	return cfg, err
}

func (a *app) run(ctx context.Context, args []string, opts runOptions) error {
	agent, rest, err := opts.agent(args)
	if err != nil {
		return err
	}
	if _, err := opts.about(); err != nil {
		return err
	}
	message := ""
	if opts.resume {
		err = opts.resumes(rest)
	} else {
		message, err = a.message(rest)
	}
	if err != nil {
		return err
	}
	files, err := attachments(opts.attach)
	if err != nil {
		return err
	}
	cfg, err := a.configFor(agent, opts)
	if err != nil {
		return err
	}
	if opts.session == "" {
		if opts.session, err = newSession(agent.Manifest.Name); err != nil {
			return err
		}
	}
	return a.withRuntime(ctx, cfg, func(rt *stile.Runtime) error {
		left, err := leftOpen(ctx, rt, opts.session)
		if err != nil {
			return err
		}
		if !opts.resume && !opts.waits(agent.Manifest) {
			if len(left) > 0 && !opts.json {
				if _, err := fmt.Fprintf(a.out, "open     run %d goes on until the message comes: the policy says what then\n", left[0]); err != nil {
					return err
				}
			}
			left = nil // the message is not to wait for it
		}
		s, err := rt.Open(ctx, opts.session, agent)
		if err != nil {
			return err
		}
		if err := opts.describe(ctx, s); err != nil {
			return err
		}
		if err := a.goOn(ctx, s, left, opts); err != nil || opts.resume {
			return err
		}
		var how []stile.SubmitOption
		if opts.policy != "" {
			how = append(how, stile.Policy(messages.Policy(opts.policy)))
		}
		if opts.zone != "" {
			how = append(how, stile.Zone(opts.zone))
		}
		if len(files) > 0 {
			how = append(how, stile.Attach(files...))
		}
		run, err := s.Submit(ctx, message, how...)
		if err != nil {
			return err
		}
		if !opts.json && len(left) == 0 {
			if _, err := fmt.Fprintf(a.out, "session  %s\n", s.SID()); err != nil {
				return err
			}
		}
		err = a.watch(ctx, s, run, run.Events, opts.json)
		learned(ctx, rt, agent.Manifest)
		return err
	})
}

// about is what the flags describe the session with; nil for nothing. It is refused before
// anything is made.
func (o *runOptions) about() (title *string, err error) {
	if o.title != "" {
		title = &o.title
	}
	return title, (*messages.SessionDescribed)(nil).Changed(title, nil, o.tags, nil).Validate()
}

// describe gives the session the title and tags of the flags.
func (o *runOptions) describe(ctx context.Context, s *stile.Session) error {
	title, err := o.about()
	if err != nil || title == nil && len(o.tags) == 0 {
		return err
	}
	return s.Amend(ctx, "", title, nil, o.tags, nil)
}

// resumes checks the flags and arguments beside --resume.
func (o *runOptions) resumes(rest []string) error {
	switch {
	case o.session == "":
		return flagError("--resume", "needs --session, the session to go on with")
	case len(rest) > 0:
		return flagError("--resume", "goes on with what is open and takes no MESSAGE")
	case len(o.attach) > 0:
		return flagError("--attach", "goes with a MESSAGE, and --resume takes none")
	}
	return nil
}

// attachments reads the files of --attach. Nothing is made when one cannot be sent.
func attachments(paths []string) (files []stile.File, err error) {
	for _, path := range paths {
		data, err := readPart(path)
		if err != nil {
			return nil, err
		}
		files = append(files, stile.File{Name: filepath.Base(path), Data: data})
	}
	return files, nil
}

func readPart(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, flagError("--attach", err.Error())
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, stile.MaxPartBytes+1))
	switch {
	case err != nil:
		return nil, flagError("--attach", err.Error())
	case len(data) > stile.MaxPartBytes:
		return nil, flagError("--attach", fmt.Sprintf("%s has more than %d MiB", path, stile.MaxPartBytes>>20))
	}
	return data, nil
}

// leftOpen are the runs that a session has open before this process opens it: one that is to
// go on, and inputs that wait. A run that waits for approval is not among them.
func leftOpen(ctx context.Context, rt *stile.Runtime, name string) (runs []int64, err error) {
	ar := rt.Archive()
	head, err := ar.Head(ctx, name)
	if journal.IsNotFound(err) || err == nil && (head.Closed || !head.Pending()) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	open := map[int64]bool{}
	for r, err := range ar.Records(ctx, head.Inc) {
		if err != nil {
			return nil, err
		}
		switch r.Body.(type) {
		case *messages.Input:
			open[r.Run] = true
		case *messages.RunEnd:
			delete(open, r.Run)
		}
	}
	return slices.Sorted(maps.Keys(open)), nil
}

// waits reports whether the message comes after what is open: no policy was asked for, and that
// of the manifest has each input be a run of its own. Another policy is about the open run.
func (o *runOptions) waits(m *manifest.Manifest) bool {
	return o.policy == "" && m.WithDefaults().Loop.Busy == messages.Enqueue
}

// goOn shows the runs that were open in a session, to their ends: they come before the message.
// With --resume the last one gives the exit status.
func (a *app) goOn(ctx context.Context, s *stile.Session, runs []int64, opts runOptions) error {
	if opts.resume && len(runs) == 0 {
		return &messages.Error{Code: messages.ErrConflict, Field: "--resume", Detail: "nothing is open in the session " + s.SID()}
	}
	for i, n := range runs {
		if !opts.json {
			if i == 0 {
				if _, err := fmt.Fprintf(a.out, "session  %s\n", s.SID()); err != nil {
					return err
				}
			}
			if _, err := fmt.Fprintf(a.out, "goes on  run %d, which was open\n", n); err != nil {
				return err
			}
		}
		run := s.Run(n)
		err := a.watch(ctx, s, run, run.Events, opts.json)
		if last := opts.resume && i == len(runs)-1; err == nil || !last && (errors.Is(err, exitHalt) || errors.Is(err, exitAbort)) {
			continue
		}
		return err
	}
	return nil
}

// learnWait is how long a process that ends waits for a profile when the manifest does not
// say how long an answer may take to begin.
const learnWait = time.Minute

// learned waits for the profile of the user, if one is due: this process is the only one
// that learns it. An interrupt leaves it to a later run, and so does a model that takes
// longer than it may for an answer.
func learned(ctx context.Context, rt *stile.Runtime, m *manifest.Manifest) {
	if !m.Memory.Profile {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(m.Model.APITimeout, learnWait))
	defer cancel()
	_ = rt.Learned(ctx) // what failed is in the journal of the profile
}

// watch follows a run to its end, or to where it waits for approval. At a terminal the
// calls that wait are shown and asked about; else the run is left there, and anybody may
// take it up.
func (a *app) watch(ctx context.Context, s *stile.Session, run *stile.Run, events func(context.Context) iter.Seq2[stile.Update, error], asJSON bool) error {
	left := map[string]bool{}
	for {
		last := int64(0)
		show, done := a.watcher(asJSON)
		d, err := followFrom(ctx, run, withProgress(events), func(u stile.Update) error {
			if err := show(u); err != nil || u.Record == nil {
				return err
			}
			last = u.Record.Seq
			if _, suspended := u.Record.Body.(*messages.TurnSuspended); suspended {
				return exitSuspended
			}
			return nil
		})
		if ended := done(); err == nil {
			err = ended
		}
		if !errors.Is(err, exitSuspended) || asJSON {
			return conclude(ctx, d, err)
		}
		switch answered, failed := a.decide(ctx, s, left); {
		case failed != nil:
			return failed
		case !answered:
			return err
		}
		events = func(ctx context.Context) iter.Seq2[stile.Update, error] {
			return run.Resume(ctx, stile.Position{Seq: last})
		}
	}
}

// withProgress has running actions say how far they are.
func withProgress(events func(context.Context) iter.Seq2[stile.Update, error]) func(context.Context) iter.Seq2[stile.Update, error] {
	return func(ctx context.Context) iter.Seq2[stile.Update, error] { return events(stile.WithProgress(ctx)) }
}

// message is the argument, or standard input without its last line end.
func (a *app) message(args []string) (string, error) {
	if len(args) == 1 && args[0] != "-" {
		if args[0] == "" {
			return "", &messages.Error{Code: messages.ErrInvalid, Field: "MESSAGE", Detail: "the message is empty"}
		}
		return args[0], nil
	}
	if a.inTerminal {
		return "", &messages.Error{Code: messages.ErrInvalid, Field: "MESSAGE", Detail: "give a message as the second argument or on standard input"}
	}
	b, err := readAll(a.in, maxMessageBytes)
	if err != nil {
		return "", unreadable("standard input", err)
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
	if text == "" {
		return "", &messages.Error{Code: messages.ErrInvalid, File: "standard input", Detail: "the message is empty"}
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
