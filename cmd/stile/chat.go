package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

func (a *app) chatCommand() *cobra.Command {
	var opts runOptions
	cmd := &cobra.Command{
		Use:   "chat MANIFEST",
		Short: "Talk to an agent, message by message",
		Long: `Talks to an agent in one session: a line is a message, and its run is shown as stile run
shows it. On a terminal the arrows bring earlier messages back, and lines that are pasted
together are one message. Calls that wait for approval are shown whole and answered in
place; one that is left for later is asked about again before the next message, which is
not sent while the call waits, unless the manifest's loop.busy says what to do with it.
From a pipe each line is a message.

Ctrl-C cancels the run in flight, which is in the journal like all else; a second one
leaves. At the prompt it clears the line, and twice in a row it leaves, as Ctrl-D does.

  /new        begin another session     /session  say which session this is
  /approvals  answer calls that wait    /cancel   cancel the run that waits
  /help       say this                  /quit     leave
  //text      a message that begins with a slash`,
		Example: `  stile chat examples/demo/agent.yaml
  stile chat agent.yaml --session ada`,
		Args: cobra.ExactArgs(1),
		RunE: a.do(func(ctx context.Context, args []string) error { return a.chat(ctx, args, opts) }),
	}
	a.dirFlag(cmd)
	a.journalFlag(cmd)
	a.keyFlag(cmd)
	cmd.Flags().StringVar(&opts.session, "session", "", "session: an id or tenant:user:id (default a new one)")
	cmd.Flags().StringVar(&opts.zone, "zone", "", "the user's time zone, such as Europe/Oslo or UTC+2; the session keeps it (default the manifest's)")
	decisionFlag(cmd, &opts.decisionLog)
	cmd.Flags().BoolVar(&opts.memory, "memory", false, "keep journal and keys in memory; nothing stays")
	return cmd
}

// talk is a chat under way.
type talk struct {
	*app
	rt    *stile.Runtime
	agent *stile.Agent
	opts  runOptions
	s     *stile.Session
	lines lineReader
}

func (a *app) chat(ctx context.Context, args []string, opts runOptions) error {
	agent, _, err := opts.agent(args)
	if err != nil {
		return err
	}
	cfg, err := a.configFor(agent, opts)
	if err != nil {
		return err
	}
	t := &talk{app: a, agent: agent, opts: opts, lines: a.lineReader()}
	a.ask = t.ask
	return a.withRuntime(ctx, cfg, func(rt *stile.Runtime) error {
		t.rt = rt
		if err := t.open(ctx, opts.session); err != nil {
			return err
		}
		err := t.loop(ctx)
		if err == nil {
			learned(ctx, rt, agent.Manifest)
		}
		return err
	})
}

// open begins with a session, "" for a new one, and shows to its end what is open in it.
func (t *talk) open(ctx context.Context, name string) (err error) {
	if name == "" {
		if name, err = newSession(t.agent.Manifest.Name); err != nil {
			return err
		}
	}
	left, err := leftOpen(ctx, t.rt, name)
	if err != nil {
		return err
	}
	if t.s, err = t.rt.Open(ctx, name, t.agent); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(t.out, "session  %s\n", t.s.SID()); err != nil {
		return err
	}
	for _, n := range left {
		if _, err := fmt.Fprintf(t.out, "goes on  run %d, which was open\n", n); err != nil {
			return err
		}
		if err := t.follow(ctx, t.s.Run(n), 0); err != nil {
			return err
		}
	}
	_, err = t.settled(ctx)
	return err
}

// ask reads an answer as the messages are read. An interrupt, or the end of the input, is no
// answer.
func (t *talk) ask(ctx context.Context, question string) (string, error) {
	if at, ok := t.lines.(*terminal); ok {
		at.keys.question = true
		defer func() { at.keys.question = false }()
	}
	answer, err := t.lines.next(ctx, question)
	if errors.Is(err, io.EOF) {
		return "", nil
	}
	return answer, err
}

// settled asks about the calls that wait in the session, and shows how their run goes on. It
// reports whether none waits any more.
func (t *talk) settled(ctx context.Context) (bool, error) {
	for {
		head, err := t.s.Head(ctx)
		if err != nil {
			return false, err
		}
		waiting, err := t.s.Approvals(ctx)
		if err != nil || len(waiting) == 0 || !t.asks() {
			return err == nil && len(waiting) == 0, err
		}
		answered, err := t.decide(ctx, t.s, map[string]bool{})
		if err != nil || !answered {
			return false, err
		}
		if err := t.follow(ctx, t.s.Run(waiting[0].Run), head.Seq); err != nil {
			return false, err
		}
	}
}

// approvals shows the calls that wait, and asks about them.
func (t *talk) approvals(ctx context.Context) error {
	waiting, err := t.s.Approvals(ctx)
	switch {
	case err != nil:
		return err
	case len(waiting) == 0:
		_, err = fmt.Fprintln(t.out, "no call waits for approval")
	case t.asks():
		_, err = t.settled(ctx)
	default:
		_, err = t.decide(ctx, t.s, map[string]bool{}) // no person to ask: the commands that answer
	}
	return err
}

// cancel cancels the run that waits for approval, and shows its end.
func (t *talk) cancel(ctx context.Context) error {
	head, err := t.s.Head(ctx)
	if err != nil {
		return err
	}
	waiting, err := t.s.Approvals(ctx)
	if err != nil {
		return err
	}
	if len(waiting) == 0 {
		return t.told(&messages.Error{Code: messages.ErrConflict, Detail: "no run waits for approval"})
	}
	if err := t.s.Cancel(ctx, "interrupt"); err != nil {
		return err
	}
	return t.follow(ctx, t.s.Run(waiting[0].Run), head.Seq)
}

// loop takes messages until there are no more.
func (t *talk) loop(ctx context.Context) error {
	for {
		text, err := t.lines.next(ctx, "> ")
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch command := strings.TrimSpace(text); {
		case command == "":
		case command == "/quit", command == "/exit":
			return nil
		case strings.HasPrefix(command, "//"):
			err = t.say(ctx, command[1:])
		case strings.HasPrefix(command, "/"):
			err = t.command(ctx, command)
		default:
			err = t.say(ctx, text)
		}
		if err != nil {
			return err
		}
	}
}

func (t *talk) command(ctx context.Context, name string) error {
	switch name {
	case "/new":
		return t.open(ctx, "")
	case "/session":
		_, err := fmt.Fprintf(t.out, "session  %s\n", t.s.SID())
		return err
	case "/approvals":
		return t.approvals(ctx)
	case "/cancel":
		return t.cancel(ctx)
	}
	_, err := fmt.Fprint(t.out, "/new  /session  /approvals  /cancel  /help  /quit, and // for a message that begins with a slash; Ctrl-C cancels a run, Ctrl-D leaves\n")
	return err
}

// say submits a message and shows its run. What the agent refuses is told, and the chat goes
// on; what the journal refuses ends it.
func (t *talk) say(ctx context.Context, text string) error {
	if len(text) > maxMessageBytes {
		return t.told(&messages.Error{Code: messages.ErrInvalid, Field: "message", Detail: fmt.Sprintf("it has more than %d bytes", maxMessageBytes)})
	}
	if t.opts.waits(t.agent.Manifest) {
		switch settled, err := t.settled(ctx); {
		case err != nil:
			return err
		case !settled:
			return t.told(&messages.Error{Code: messages.ErrApproval, Field: "message", Detail: "it is not sent while a call waits for approval: /approvals answers the call, /cancel cancels its run"})
		}
	}
	var how []stile.SubmitOption
	if t.opts.zone != "" {
		how = append(how, stile.Zone(t.opts.zone))
	}
	run, err := t.s.Submit(ctx, text, how...)
	if err != nil {
		if ctx.Err() != nil || messages.CodeOf(err) == messages.ErrJournal {
			return err
		}
		return t.told(err)
	}
	return t.follow(ctx, run, 0)
}

func (t *talk) told(err error) error {
	p := t.printer("")
	p.line(red, "refused", err.Error())
	return p.err
}

// follow shows a run to its end, from its input on, or from behind the record after. The first
// interrupt cancels it, the second one leaves, also at the prompt that comes then.
func (t *talk) follow(ctx context.Context, run *stile.Run, after int64) error {
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	interrupts, release := t.hold()
	defer release()
	over, leaves := make(chan struct{}), make(chan struct{})
	go func() {
		for n := 0; ; n++ {
			select {
			case <-interrupts:
			case <-over:
				return
			}
			if n == 0 {
				t.lines.interrupted()
				cancel()
				continue
			}
			close(leaves)
			return
		}
	}()
	ended := make(chan error, 1)
	events := run.Events
	if after > 0 {
		events = func(ctx context.Context) iter.Seq2[stile.Update, error] {
			return run.Resume(ctx, stile.Position{Seq: after})
		}
	}
	go func() { ended <- t.watch(within, t.s, run, events, false) }()
	var err error
	select {
	case err = <-ended:
		close(over)
	case <-leaves:
		return exitInterrupted
	}
	var status status
	if errors.As(err, &status) && ctx.Err() == nil {
		return nil // how it ended was shown
	}
	return err
}

// hold has interrupts come here, and not end the command, until release is called.
func (a *app) hold() (interrupts <-chan struct{}, release func()) {
	if a.interrupts == nil {
		return nil, func() {}
	}
	return a.interrupts()
}

// lineReader gives messages: io.EOF ends them.
type lineReader interface {
	next(ctx context.Context, prompt string) (string, error)
	// interrupted has the next interrupt count as the second one.
	interrupted()
}

func (a *app) lineReader() lineReader {
	if file, ok := a.in.(*os.File); ok && a.asks() {
		return newTerminal(a, file)
	}
	return &plainLines{a}
}

// plainLines reads lines from what is no terminal. No byte of the next line is taken.
type plainLines struct{ a *app }

func (p *plainLines) interrupted() {}

func (p *plainLines) next(ctx context.Context, prompt string) (string, error) {
	if p.a.asks() {
		if _, err := io.WriteString(p.a.out, prompt); err != nil {
			return "", err
		}
	}
	return awaited(ctx, func() (string, error) {
		var b strings.Builder
		for c := make([]byte, 1); ; {
			n, err := p.a.in.Read(c)
			switch {
			case n > 0 && c[0] == '\n':
				return strings.TrimSuffix(b.String(), "\r"), nil
			case n > 0:
				if b.Len() <= maxMessageBytes { // one more says that it is too long
					b.WriteByte(c[0])
				}
			case errors.Is(err, io.EOF) && b.Len() > 0:
				return b.String(), nil
			case err != nil:
				return "", err
			}
		}
	})
}

// awaited waits for what read gives, or for ctx; what read gives after that is lost.
func awaited(ctx context.Context, read func() (string, error)) (string, error) {
	type line struct {
		text string
		err  error
	}
	came := make(chan line, 1)
	go func() {
		text, err := read()
		came <- line{text, err}
	}()
	select {
	case l := <-came:
		return l.text, l.err
	case <-ctx.Done():
		return "", exitInterrupted
	}
}

// terminal edits lines, with a history. The terminal is raw while a line is read and at no
// other time, so that Ctrl-C is a signal while a run is shown.
type terminal struct {
	a    *app
	file *os.File
	keys *keys
	t    *term.Terminal
	// again says that a run was interrupted since the last line: the next interrupt leaves.
	again atomic.Bool
}

func (t *terminal) interrupted() { t.again.Store(true) }

func newTerminal(a *app, file *os.File) *terminal {
	k := &keys{in: file}
	return &terminal{a: a, file: file, keys: k, t: term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{k, a.out}, "")}
}

func (t *terminal) next(ctx context.Context, prompt string) (string, error) {
	fd := int(t.file.Fd())
	was, err := term.MakeRaw(fd)
	if err != nil {
		return "", err
	}
	defer func() { _ = term.Restore(fd, was) }()
	if t.a.size != nil {
		if columns, rows := t.a.size(); columns > 0 && rows > 0 {
			_ = t.t.SetSize(columns, rows)
		}
	}
	t.t.SetPrompt(prompt)
	t.t.SetBracketedPasteMode(true)
	defer t.t.SetBracketedPasteMode(false)
	t.keys.interrupted = t.again.Swap(false)
	return awaited(ctx, func() (string, error) {
		var pasted []string
		for {
			line, err := t.t.ReadLine()
			if errors.Is(err, term.ErrPasteIndicator) { // a line that ends within what is pasted
				pasted = append(pasted, line)
				continue
			}
			return strings.Join(append(pasted, line), "\n"), err
		}
	})
}

// keys are what is typed. An interrupt clears the line, and a second one right behind it is the
// end of the input. At a question an interrupt and the end are an empty line.
type keys struct {
	in          io.Reader
	interrupted bool
	question    bool
	rest        []byte
}

// What the keys are to the terminal.
const (
	keyInterrupt = 0x03
	keyEnd       = 0x04 // of the input, on an empty line
)

// clearLine goes to the end of the line and erases to its begin.
var clearLine = []byte{0x05, 0x15}

// Read implements io.Reader.
func (k *keys) Read(p []byte) (int, error) {
	for len(k.rest) == 0 {
		var b [256]byte
		n, err := k.in.Read(b[:])
		for _, c := range b[:n] {
			switch {
			case k.question && (c == keyInterrupt || c == keyEnd):
				k.rest = append(append(k.rest, clearLine...), '\r')
			case c != keyInterrupt:
				k.rest, k.interrupted = append(k.rest, c), false
			case k.interrupted:
				k.rest = append(k.rest, keyEnd)
			default:
				k.rest, k.interrupted = append(k.rest, clearLine...), true
			}
		}
		if err != nil && len(k.rest) == 0 {
			return 0, err
		}
	}
	n := copy(p, k.rest)
	k.rest = k.rest[n:]
	return n, nil
}
