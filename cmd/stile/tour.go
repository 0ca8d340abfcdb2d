package main

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/crypto/keyring"
	"github.com/seed14be6753/stile/messages"
)

// A stop is one session of the tour.
type stop struct {
	name     string // of the session, after the tour's own prefix
	manifest string // below the folder of the examples
	about    string
	runs     []visit
	// prepare makes the agent of a stop that needs more than its manifest: from is the
	// manifest, session the name. note is told to the visitor.
	prepare func(ctx context.Context, g *guide, from, session string) (agent *stile.Agent, note string, err error)
}

// A visit is one run: what is said, and how its turns must end. What it wants confirmed
// the tour allows.
type visit struct {
	says string
	want []ending
}

// ending is a decision, with the reason of a HALT.
type ending struct {
	decision stile.Decision
	reason   messages.Code
}

func (e ending) String() string {
	return strings.TrimSpace(string(e.decision) + " " + string(e.reason))
}

var (
	goesOn = ending{decision: stile.Continue}
	isDone = ending{decision: stile.Done}
)

func halts(reason messages.Code) ending { return ending{stile.Halt, reason} }

// sound are the stops under the host's own keys.
var sound = []stop{
	{
		name: "plain", manifest: "plain/agent.yaml", about: "A chat: two runs in one session.",
		runs: []visit{
			{"Good morning, I am Ada. What is a stile?", []ending{isDone}},
			{"And why are you called one?", []ending{isDone}},
		},
	},
	{
		name: "ledger", manifest: "ledger/agent.yaml", about: "Programs over a real file: three turns, OUTPUT and SCRATCHPAD carried.",
		runs: []visit{{"The store-keeper's book does not add up. Which entries are wrong?", []ending{goesOn, goesOn, isDone}}},
	},
	{
		name: "research", manifest: "research/agent.yaml", about: "Actions while the model speaks: three files side by side, counts that depend on them.",
		runs: []visit{{"How many kestrels did we count?", []ending{goesOn, isDone}}},
	},
	{
		name: "booking", manifest: "booking/agent.yaml", about: "Bookings that belong together: the car is taken, and what was booked with it is cancelled; a loop, a condition, a group.",
		runs: []visit{
			{"Book me a trip to Oslo on 3 May: flight, hotel and car. I am Ada.", []ending{goesOn, isDone}},
			{"The same for Ben, please.", []ending{goesOn, goesOn, isDone}},
			{"We fly back on 4 May, all with one car to the airport. A train would do.", []ending{goesOn, goesOn, isDone}},
		},
	},
	{
		name: "newsroom", manifest: "newsroom/agent.yaml", about: "Agents that call agents, each in a session of its own.",
		runs: []visit{{"What is new at Hollow Lane?", []ending{isDone}}},
	},
	{
		name: "companion", manifest: "companion/agent.yaml", about: "A small model with action tokens: a search, another that is confirmed, a reply that goes on.",
		runs: []visit{
			{"How will the weather be in Oslo?", []ending{goesOn, isDone}},
			{"And are there trains to Bergen?", []ending{goesOn, isDone}},
			{"Ask me a riddle.", []ending{goesOn, isDone}},
		},
	},
	{
		name: "coder", manifest: "coder/agent.yaml", about: "A failing test is found and fixed: real files, real go test.",
		runs:    []visit{{"The tests of this module fail. Please fix it.", []ending{goesOn, goesOn, goesOn, goesOn, isDone}}},
		prepare: prepareCoder,
	},
	misbehaving("no-token", "A program that never asks for a decision.", halts(messages.ErrTokenMissing)),
	misbehaving("forged-token", "A program that types a control token itself.", halts(messages.ErrTokenVerify)),
	misbehaving("replayed-token", "A program that emits the token of an earlier turn again.", goesOn, halts(messages.ErrTokenScope)),
	misbehaving("endless-loop", "A program that never ends, with a handler that hopes to catch that.", halts(messages.ErrQuota)),
	misbehaving("memory-bomb", "A program whose value doubles without end.", halts(messages.ErrQuota)),
	{
		name: "panicking-tool", manifest: "gallery/panicking-tool.yaml", about: "A tool of the host panics; the session goes on with the next message.",
		runs: []visit{
			{"Call the tool.", []ending{halts(messages.ErrCrash)}},
			{"Are you there?", []ending{isDone}},
		},
	},
	misbehaving("no-progress", "Three turns that say the same.", goesOn, goesOn, halts(messages.ErrNoProgress)),
}

// crippled are the stops under signers that fail.
var crippled = []stop{
	misbehaving("signers-down", "A right program, but neither signer can mint a token.", halts(messages.ErrMagicToolInternal)),
}

func misbehaving(name, about string, want ...ending) stop {
	return stop{name: name, manifest: "gallery/" + name + ".yaml", about: about, runs: []visit{{"Go on.", want}}}
}

func (a *app) tourCommand() *cobra.Command {
	var examples string
	cmd := &cobra.Command{
		Use:         "tour",
		SuggestFor:  []string{"init", "new", "demo", "examples"},
		Annotations: map[string]string{ownDir: "yes"},
		Short:       "Run the examples: a chat, a ledger, and a gallery of misbehaviour",
		Long: `Runs the examples on the scripted model, without a network, and shows turns,
emissions and decisions as they happen. Each session of the gallery misbehaves in its
own way and must end in the HALT that names it; exit status 1 says that one did not.
The sessions stay in the journal as tour-N-..., with an N of their own for every
tour, to be verified, shown and replayed.`,
		Example: `  stile tour
  stile tour --dir /tmp/tour --examples examples`,
		Args: cobra.NoArgs,
		RunE: a.do(func(ctx context.Context, _ []string) error { return a.tour(ctx, examples) }),
	}
	a.dirFlag(cmd)
	a.keyFlag(cmd)
	cmd.Flags().StringVar(&examples, "examples", "", "folder of the examples (default ./examples where it is, else a copy of the command's own beside the data directory)")
	return cmd
}

// guide leads one tour.
type guide struct {
	*app
	examples string
	command  string // as the visitor calls it
	prefix   string
	results  []result
}

// result is what a stop came to.
type result struct{ name, want, got string }

func (a *app) tour(ctx context.Context, examples string) error {
	g := guide{app: a, examples: examples, command: "stile"}
	if inRepository() {
		g.command = "go run ./cmd/stile"
	}
	if examples == "" {
		var err error
		if g.examples, err = a.ownExamples(); err != nil {
			return err
		}
	}
	cfg, err := a.config()
	if err != nil {
		return err
	}
	if err := g.check(); err != nil {
		return err
	}
	var keys *keyring.Ring
	err = withRuntime(ctx, cfg, func(rt *stile.Runtime) error {
		keys = rt.Keys()
		if g.prefix, err = nextTour(ctx, rt.Archive()); err != nil {
			return err
		}
		return g.lead(ctx, rt, sound)
	})
	if err != nil {
		return err
	}
	if cfg.Keys, err = signersDown(keys); err != nil {
		return err
	}
	if err := withRuntime(ctx, cfg, func(rt *stile.Runtime) error { return g.lead(ctx, rt, crippled) }); err != nil {
		return err
	}
	return g.sum()
}

// check loads every manifest before anything runs.
func (g *guide) check() error {
	for _, s := range slices.Concat(sound, crippled) {
		if _, err := stile.LoadAgent(g.path(s)); err != nil {
			return errors.Join(err, configError("examples", "run this at the root of the repository, or say with --examples where its folder examples is"))
		}
	}
	return nil
}

func (g *guide) path(s stop) string { return filepath.Join(g.examples, filepath.FromSlash(s.manifest)) }

// tourPrefix begins the names of the tours' sessions.
const tourPrefix = "tour-"

// nextTour names the sessions of a tour that has not been.
func nextTour(ctx context.Context, ar *stile.Archive) (string, error) {
	key := messages.SessionKey{Tenant: "local", User: "local", ID: tourPrefix}
	last := 0
	for h, err := range ar.Sessions(ctx, key.SID()) {
		if err != nil {
			return "", err
		}
		number, _, _ := strings.Cut(strings.TrimPrefix(h.SID, key.SID()), "-")
		if n, err := strconv.Atoi(number); err == nil {
			last = max(last, n)
		}
	}
	return tourPrefix + strconv.Itoa(last+1) + "-", nil
}

// signersDown returns keys whose token signers fail, both. Receipts are signed as
// ever.
func signersDown(keys *keyring.Ring) (*keyring.Ring, error) {
	public := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)).Public().(ed25519.PublicKey)
	var ring []*keyring.Key
	for _, kid := range []string{"module", "module-fallback"} {
		k, err := keyring.NewExternal(keyring.Attributes{KID: kid, Purpose: keyring.Token, AbortOnly: kid != "module"}, public, deadSigner(kid))
		if err != nil {
			return nil, err
		}
		ring = append(ring, k)
	}
	for _, k := range keys.Set().Keys() {
		if k.Purpose() == keyring.Receipt {
			ring = append(ring, k)
		}
	}
	return keyring.New(ring...)
}

// deadSigner is a signing module that does not answer.
type deadSigner string

// KID returns the key's id.
func (s deadSigner) KID() string { return string(s) }

// Sign fails.
func (s deadSigner) Sign([]byte) ([]byte, error) {
	return nil, errors.New("the signing module does not answer")
}

func (g *guide) lead(ctx context.Context, rt *stile.Runtime, stops []stop) error {
	for _, s := range stops {
		if err := g.visit(ctx, rt, s); err != nil {
			return err
		}
	}
	return nil
}

func (g *guide) agent(ctx context.Context, s stop) (agent *stile.Agent, note string, err error) {
	if s.prepare != nil {
		return s.prepare(ctx, g, g.path(s), g.prefix+s.name)
	}
	agent, err = stile.LoadAgent(g.path(s))
	return agent, "", err
}

// visit runs the runs of a stop and notes how their turns ended.
func (g *guide) visit(ctx context.Context, rt *stile.Runtime, s stop) error {
	agent, note, err := g.agent(ctx, s)
	if errors.Is(err, errNoToolchain) {
		p := g.printer("  ")
		p.print("\n" + p.paint(bold, s.name) + "  Left out: " + err.Error() + ".\n")
		return p.err
	}
	if err != nil {
		return err
	}
	session, err := rt.Open(ctx, g.prefix+s.name, agent)
	if err != nil {
		return err
	}
	p := g.printer("  ")
	p.print("\n" + p.paint(bold, s.name) + "  " + s.about + p.paint(dim, "  "+session.SID()) + "\n")
	if note != "" {
		p.print(p.paint(dim, "  "+note) + "\n")
	}
	var want, got []string
	for _, v := range s.runs {
		run, err := session.Submit(ctx, v.says)
		if err != nil {
			return err
		}
		for _, e := range v.want {
			want = append(want, e.String())
		}
		_, err = follow(ctx, run, func(u stile.Update) error {
			if u.Record != nil {
				if d, ok := u.Record.Body.(*messages.TurnDecided); ok {
					got = append(got, ending{d.Decision, d.Reason}.String())
				}
			}
			if err := p.update(u); err != nil || u.Record == nil || u.Record.Body.Kind() != messages.KindTurnSuspended {
				return err
			}
			return allow(ctx, session)
		})
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
	}
	g.results = append(g.results, result{s.name, strings.Join(want, ", "), strings.Join(got, ", ")})
	return nil
}

// allow answers every question of a session.
func allow(ctx context.Context, s *stile.Session) error {
	list, err := s.Approvals(ctx)
	for _, q := range list {
		err = errors.Join(err, s.Approve(ctx, q, "tour"))
	}
	return err
}

// sum compares what was expected with what came, and says how to go on.
func (g *guide) sum() error {
	wrong := int64(0)
	p := g.printer("")
	p.print("\n")
	w := tabwriter.NewWriter(g.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SESSION\tEXPECTED\tGOT\tRESULT")
	for _, r := range g.results {
		word := "ok"
		if r.want != r.got {
			word = "WRONG"
			wrong++
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", g.prefix+r.name, r.want, r.got, word)
	}
	if err := errors.Join(p.err, w.Flush()); err != nil {
		return err
	}
	dir := g.dir
	if strings.ContainsAny(dir, " \t'\"") {
		dir = strconv.Quote(dir)
	}
	p.print(fmt.Sprintf(`
Everything above is in %[2]s. Check it, look at it, run it again:
  %[4]s verify --dir %[1]s
  %[4]s sessions show %[3]sledger --dir %[1]s
  %[4]s replay %[3]sledger --dir %[1]s
`, dir, filepath.Join(g.dir, stile.JournalFile), g.prefix, g.command))
	if wrong > 0 {
		return errors.Join(p.err, fmt.Errorf("%s ended otherwise than expected", count(wrong, "session")))
	}
	return p.err
}
