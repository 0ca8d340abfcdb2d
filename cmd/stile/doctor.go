package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/host/access"
	"github.com/seed14be6753/stile/internal/confine"
	hooking "github.com/seed14be6753/stile/internal/webhook"
)

// finding is what doctor says of one thing.
type finding struct {
	Check  string `json:"check"`
	State  string `json:"state"` // ok, warn or fail
	Detail string `json:"detail"`
}

// The states of findings.
const (
	isOK   = "ok"
	isWarn = "warn" // it works, and an operator should know
	isFail = "fail" // stile serve would not start, or must not be trusted
)

func (a *app) doctorCommand() *cobra.Command {
	var (
		asJSON, asked, upgrade, pins bool
		each                         time.Duration
	)
	cmd := &cobra.Command{
		Use:        "doctor [--probe] [MANIFEST...]",
		SuggestFor: []string{"check", "lint", "validate"},
		Short:      "Check machine and configuration",
		Long: `Checks what stile serve would use: the settings, the agents and the keys of their
providers, the data directory and its files' modes, how long the disk takes to sync, the
journal, who may ask, the certificate, the address, the sandbox of the kernel, the set-up, the clock and the limit of
open files. It changes nothing but a file beside the journal that it removes again.

With --probe it asks the models of the agents a handful of questions instead, made of the
agents' own tools, and reports mistakes, forgiven habits, made-up results, tokens and time.
The results of calls are canned: no tool runs. It costs what the model costs. With
--upgrade it names the defaults that have changed and the lines that restore them. With
--pins it asks the MCP servers of the agents what they offer, and prints the digests that
a manifest can pin; it fails where one pins something else.

It takes the flags of stile serve, whose values it checks in place of those of the settings.

Exits 0 when nothing fails, with warnings too; 1 when something does; 2 when the
settings cannot be read.`,
		Example: `  stile doctor
  stile doctor --config stile.yaml --json
  stile doctor agent.yaml --tls-cert cert.pem --tls-key key.pem
  stile doctor --probe agent.yaml`,
	}
	config := configFlag(cmd)
	take := a.hostFlags(cmd)
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		a.flagged = take
		switch {
		case asked:
			return a.probe(ctx, *config, args, each, asJSON)
		case upgrade:
			return a.upgrade(*config, args, asJSON)
		case pins:
			return a.pins(ctx, *config, args, asJSON)
		}
		return a.doctor(ctx, *config, args, asJSON)
	})
	cmd.Flags().BoolVar(&asked, "probe", false, "ask the models of the agents a handful of questions")
	cmd.Flags().BoolVar(&upgrade, "upgrade", false, "name the defaults that have changed for the agents")
	cmd.Flags().BoolVar(&pins, "pins", false, "print the digests of what MCP servers offer")
	cmd.MarkFlagsMutuallyExclusive("probe", "upgrade", "pins")
	cmd.Flags().DurationVar(&each, "timeout", 3*time.Minute, "with --probe: how long a question may take")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a finding")
	return cmd
}

func (a *app) doctor(ctx context.Context, config string, manifests []string, asJSON bool) error {
	s, err := a.loadSettings(config)
	if err != nil {
		return err
	}
	if len(manifests) > 0 {
		s.Agents = manifests
	}
	a.dir, a.journal, a.passphraseFile = s.Dir, s.Journal, s.PassphraseFile
	var all []finding
	for _, look := range []func(context.Context, *settings) []finding{
		a.lookAgents, a.lookDirectory, a.lookSync, a.lookKeys, a.lookTokens, a.lookWebhooks, a.lookCertificate, a.lookJournal, a.lookAddress, a.lookSandbox, a.lookSetup, a.lookClock, a.lookFiles,
	} {
		all = append(all, look(ctx, &s)...)
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	failed := false
	for _, f := range all {
		failed = failed || f.State == isFail
		if asJSON {
			if err := a.writeJSON(f); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", f.State, f.Check, harmless(f.Detail))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if failed {
		return exitFailure
	}
	return nil
}

func found(check, state, format string, args ...any) []finding {
	return []finding{{check, state, fmt.Sprintf(format, args...)}}
}

// checking is the configuration of a runtime that would serve by the settings.
func (a *app) checking(ctx context.Context, s *settings) stile.Config {
	a.own = append(a.own, s.ownFiles()...)
	a.own = append(a.own, auditFiles(s.AuditLog)...)
	a.own = append(a.own, decisionLogFiles(s.DecisionLog, s.DecisionKeep)...)
	who, _, end, _ := a.callers(ctx, s) // lookTokens says what is wrong with it
	end()
	return stile.Config{Dir: s.Dir, InMemory: s.Memory, Shared: who != nil, Protect: a.protected(), ProgramUser: s.ProgramUser, Providers: vendors(a.lookup), Databases: databases()}
}

// lookAgents loads every manifest as serving would, which looks for the keys of its
// providers too.
func (a *app) lookAgents(ctx context.Context, s *settings) (all []finding) {
	if len(s.Agents) == 0 {
		return found("agents", isWarn, "none is named; stile serve needs one")
	}
	cfg := a.checking(ctx, s)
	for _, path := range s.Agents {
		agent, err := stile.LoadAgent(path)
		var mode, why string
		if err == nil {
			mode, why, err = stile.CheckMode(agent, cfg)
		}
		if err != nil {
			for _, e := range leaves(err) {
				all = append(all, finding{"agent " + path, isFail, e.Error()})
			}
			continue
		}
		m := agent.Manifest
		all = append(all, finding{"agent " + path, isOK, fmt.Sprintf("%s, %s, model %s", m.Name, m.Dialect, m.Model.Provider)})
		all = append(all, finding{"history " + path, isOK, mode + ": " + why})
		all = append(all, lookTurns(path, m)...)
		all = append(all, lookDocuments(agent)...)
	}
	return all
}

func (a *app) lookDirectory(_ context.Context, s *settings) []finding {
	if s.Memory {
		return found("directory", isWarn, "nothing is kept: memory is on")
	}
	fi, err := os.Stat(s.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return found("directory", isOK, "%s is not there yet, and will be made", s.Dir)
	case err != nil:
		return found("directory", isFail, "%s: %v", s.Dir, unreadable(s.Dir, err))
	case !fi.IsDir():
		return found("directory", isFail, "%s is no directory", s.Dir)
	case fi.Mode().Perm()&0o077 != 0:
		return found("directory", isWarn, "%s has the mode %v: others of this machine can look into it; chmod 700", s.Dir, fi.Mode().Perm())
	}
	return found("directory", isOK, "%s, for its owner alone", s.Dir)
}

// What a sync of the disk should take.
const (
	slowSync   = 50 * time.Millisecond
	syncs      = 9
	syncBytes  = 4096
	fakeSync   = 5 * time.Microsecond // no disk answers so fast: a layer above it only says so
	maxDrift   = 5 * time.Minute
	portWait   = 2 * time.Second
	warnExpiry = 7 * 24 * time.Hour
	// Programs that renew certificates by themselves do so a month before.
	warnCertificate = 14 * 24 * time.Hour
)

// lookSync measures what every acknowledgement waits for.
func (a *app) lookSync(_ context.Context, s *settings) []finding {
	if s.Memory {
		return nil
	}
	dir := s.Dir
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	f, err := os.CreateTemp(dir, ".stile-doctor-*")
	if err != nil {
		return found("disk", isFail, "%s cannot be written: %v", dir, unreadable(dir, err))
	}
	defer os.Remove(f.Name())
	defer f.Close()
	var took []time.Duration
	for range syncs {
		if _, err := f.Write(make([]byte, syncBytes)); err != nil {
			return found("disk", isFail, "%s cannot be written: %v", dir, unreadable(dir, err))
		}
		begin := time.Now()
		if err := f.Sync(); err != nil {
			return found("disk", isFail, "%s cannot be synced: %v", dir, unreadable(dir, err))
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	median, worst := took[len(took)/2].Round(time.Microsecond), took[len(took)-1].Round(time.Microsecond)
	text := fmt.Sprintf("a sync takes %v, %v at worst (of %d)", median, worst, syncs)
	switch {
	case median < fakeSync:
		return found("disk", isWarn, "%s: no disk is so fast, what is acknowledged may be lost with the power", text)
	case median > slowSync:
		return found("disk", isWarn, "%s: every submit waits for one", text)
	}
	return found("disk", isOK, "%s", text)
}

func (a *app) lookKeys(context.Context, *settings) []finding {
	fi, err := os.Stat(a.keyPath())
	if errors.Is(err, fs.ErrNotExist) {
		return found("keys", isOK, "there are none yet, and will be made")
	}
	if err != nil {
		return found("keys", isFail, "%v", unreadable(a.keyPath(), err))
	}
	ring, err := a.ring()
	if err != nil {
		return found("keys", isFail, "%v", err)
	}
	n := len(ring.Set().Keys())
	if fi.Mode().Perm()&0o077 != 0 {
		return found("keys", isFail, "%s has the mode %v: others of this machine can read it; chmod 600", a.keyPath(), fi.Mode().Perm())
	}
	pass, err := a.passphrase()
	if err != nil {
		return found("keys", isFail, "%v", err)
	}
	if len(pass) == 0 {
		return found("keys", isWarn, "%s; the mode of the file alone protects them: no passphrase is set", count(int64(n), "key"))
	}
	return found("keys", isOK, "%s, sealed", count(int64(n), "key"))
}

// callers identifies the callers of a host, which is not running here.
func (a *app) callers(ctx context.Context, s *settings) (who access.Authenticator, toks *access.Tokens, end func(), err error) {
	end = func() {}
	var shared *access.Tokens
	if s.Cluster.Address != "" {
		if shared, end, err = a.tokens(ctx, s); err != nil {
			return nil, nil, func() {}, err
		}
	}
	who, err = a.access(s, shared)
	return who, access.Kept(who), end, err
}

func (a *app) lookTokens(ctx context.Context, s *settings) []finding {
	auth, toks, end, err := a.callers(ctx, s)
	defer end()
	if err != nil {
		return found("access", isFail, "%v", err)
	}
	if auth == nil {
		return found("access", isOK, "anybody on this machine may ask; no token is asked for")
	}
	var all []access.Token
	if toks != nil { // else all of them show JWTs
		if all, err = toks.List(); err != nil {
			return found("access", isFail, "%v", err)
		}
	}
	good, soon := 0, 0
	for _, tok := range all {
		if tok.Revoked.IsZero() && (tok.Expires.IsZero() || tok.Expires.After(toks.Now())) {
			good++
			if !tok.Expires.IsZero() && tok.Expires.Before(toks.Now().Add(warnExpiry)) {
				soon++
			}
		}
	}
	text := count(int64(good), "good token")
	if s.OIDC.Issuer != "" {
		text += ", and JWTs of " + s.OIDC.Issuer
	}
	switch {
	case good == 0 && s.OIDC.Issuer == "":
		return found("access", isWarn, "%s: no caller can ask", text)
	case soon > 0:
		return found("access", isWarn, "%s, %d of them for a week at most: stile tokens rotate", text, soon)
	}
	return found("access", isOK, "%s", text)
}

// lookWebhooks checks webhooks: their secrets, that their addresses are such as are asked, and what could not be
// delivered.
func (a *app) lookWebhooks(ctx context.Context, s *settings) (all []finding) {
	hooks, err := hooksOf(s, a.env)
	if err != nil {
		return found("webhooks", isFail, "%v", err)
	}
	_, dead, err := hooking.Left(filepath.Join(s.Dir, webhookFile))
	if err != nil {
		all = found("webhooks", isFail, "%v", err)
	}
	for _, h := range hooks {
		name := "webhook " + h.Name
		if err := hooking.Check([]hooking.Hook{hooking.Hook(h)}); err != nil {
			all = append(all, finding{name, isFail, err.Error()})
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := hooking.Reach(ctx, hooking.Hook(h))
		cancel()
		switch n := dead[h.Name]; {
		case err != nil:
			all = append(all, finding{name, isFail, "nothing is sent to its address: " + err.Error() + "; networks lists private ones"})
		case n > 0:
			all = append(all, finding{name, isWarn, count(int64(n), "event") + " could not be delivered: stile webhooks dead"})
		default:
			all = append(all, finding{name, isOK, "its secret and its address are good"})
		}
	}
	return all
}

func (a *app) lookCertificate(_ context.Context, s *settings) []finding {
	cert, err := certificateOf(s)
	if err != nil {
		return found("certificate", isFail, "%v", err)
	}
	if cert == nil {
		if _, _, bad := net.SplitHostPort(s.Listen); bad == nil && !host.Loopback(s.Listen) {
			return found("certificate", isWarn, "there is none, and other machines can reach %s: put a proxy in front that speaks TLS", s.Listen)
		}
		return nil
	}
	from, to := cert.Valid()
	now := time.Now()
	switch {
	case now.Before(from):
		return found("certificate", isFail, "it is good from %s on", from.Format(time.RFC3339))
	case now.After(to):
		return found("certificate", isFail, "it expired at %s", to.Format(time.RFC3339))
	}
	for _, name := range s.Hosts {
		if err := cert.Names(name); err != nil {
			return found("certificate", isWarn, "it was not made for %s: %v", name, err)
		}
	}
	if fi, err := os.Stat(s.TLSKey); err == nil && fi.Mode().Perm()&0o077 != 0 {
		return found("certificate", isWarn, "%s has the mode %v: others of this machine can read the key; chmod 600", s.TLSKey, fi.Mode().Perm())
	}
	state := isOK
	if to.Sub(now) < warnCertificate {
		state = isWarn
	}
	return found("certificate", state, "good until %s", to.Format(time.RFC3339))
}

func (a *app) lookJournal(ctx context.Context, s *settings) []finding {
	if s.Memory {
		return nil
	}
	if !a.inDatabase(s) {
		if _, err := os.Stat(filepath.Join(s.Dir, stile.JournalFile)); errors.Is(err, fs.ErrNotExist) {
			return found("journal", isOK, "there is none yet, and will be made")
		}
	}
	var sessions int64
	var late time.Duration
	err := a.withArchive(ctx, func(ar *stile.Archive) error {
		for h, err := range ar.Sessions(ctx, "") {
			if err != nil {
				return err
			}
			if sessions++; sessions <= 100 {
				for r, err := range ar.Records(ctx, h.Inc) {
					if err != nil {
						break // stile verify says what is wrong with it
					}
					late = max(late, time.Until(r.TS))
					break
				}
			}
		}
		return nil
	})
	if err != nil {
		return found("journal", isFail, "%v", err)
	}
	if late > maxDrift {
		return found("journal", isWarn, "%s; one began %v from now: the clock of this machine, or of the one before, is wrong", count(sessions, "session"), late.Round(time.Second))
	}
	return found("journal", isOK, "%s", count(sessions, "session"))
}

func (a *app) lookAddress(ctx context.Context, s *settings) []finding {
	auth, _, end, err := a.callers(ctx, s)
	defer end()
	if err != nil {
		return nil // said above
	}
	l, err := a.doorOf(s, auth).Listen(ctx, s.Listen)
	if err == nil {
		l.Close()
		return found("address", isOK, "%s is free", s.Listen)
	}
	if _, _, bad := net.SplitHostPort(s.Listen); bad == nil && a.answers(ctx, schemeOf(s), s.Listen) {
		return found("address", isWarn, "%s: a host answers there already", s.Listen)
	}
	return found("address", isFail, "%v", err)
}

// answers reports whether a host of ours is at an address.
func (a *app) answers(ctx context.Context, scheme, addr string) bool {
	ctx, cancel := context.WithTimeout(ctx, portWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+addr+"/healthz", nil)
	if err != nil {
		return false
	}
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		// Who it is does not matter here, and nothing is told to it.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	res, err := client.Do(req)
	if err != nil {
		return false
	}
	res.Body.Close()
	return res.StatusCode == http.StatusOK
}

func (a *app) lookSandbox(context.Context, *settings) []finding {
	box := confine.Probe()
	if err := box.Err(); err != nil {
		if _, missing := confine.Bubblewrap(); missing == nil {
			return found("sandbox", isWarn, "agents with the tool shell are refused, but for those with shell.isolation: bubblewrap: %v", err)
		}
		return found("sandbox", isWarn, "programs cannot be confined, agents with shell, commands or programs of MCP servers are refused: %v", err)
	}
	state := isOK
	if !box.Filter || !box.Asks {
		state = isWarn
	}
	wrapper := "bubblewrap can be used"
	if _, err := confine.Bubblewrap(); err != nil {
		wrapper = "bubblewrap cannot be used"
	}
	return found("sandbox", state, "%s (Landlock version %d); %s", box.Layers(), box.ABI, wrapper)
}

func (a *app) lookClock(context.Context, *settings) []finding {
	if now := time.Now(); now.Year() < 2026 {
		return found("clock", isFail, "it says %s", now.Format(time.DateOnly))
	}
	if synced, known := clockSynced(); known && !synced {
		return found("clock", isWarn, "nothing keeps it right; tokens and times of records depend on it")
	} else if !known {
		return found("clock", isOK, "%s; whether anything keeps it right cannot be told here", time.Now().UTC().Format(time.RFC3339))
	}
	return found("clock", isOK, "kept right")
}

func (a *app) lookFiles(_ context.Context, s *settings) []finding {
	n, known := openFiles()
	if !known {
		return nil
	}
	if n < uint64(s.MaxConnections)+256 {
		return found("open files", isWarn, "the limit is %d, and %d connections are to be served: raise it (ulimit -n), or lower max_connections", n, s.MaxConnections)
	}
	return found("open files", isOK, "the limit is %d", n)
}
