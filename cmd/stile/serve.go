package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/host/access"
	"github.com/seed14be6753/stile/internal/audit"
)

// defaultListen is a port of no well-known service.
const defaultListen = "127.0.0.1:8471"

func (a *app) serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve [MANIFEST...]",
		Short: "Serve agents over HTTP",
		Long: `Serves the agents of the manifests over HTTP: sessions and runs under /v1, their
updates as server-sent events that resume at the byte, /openapi.json, /healthz,
/readyz, /metrics. Runs that were in flight when the process before it ended go on.

Settings come from flags, else from the environment (STILE_LISTEN and so on), else from
stile.yaml or the file of --config, else they have their defaults: docs/settings.md.
stile doctor checks them.

With tokens in the data directory (stile tokens create) callers have to show one.
Without, every caller is the local user, and it refuses an address that other machines
can reach. With --tls-cert and --tls-key it speaks TLS, and takes a renewed certificate
up by itself; without, put a proxy in front that does. Requests that name another host,
or come from pages of another origin, are refused; --host and --origin allow more.

SIGHUP, or POST /v1/reload, has it read its settings again: agents, limits, tenants, may_use,
hosts, origins and webhooks are taken up as a whole, or with a mistake not at all. On a terminal SIGHUP
ends it, as an interrupt and SIGTERM do: no new work is taken, turns in flight have --grace to
end, streams are told, and the journal is closed last. Turns that did not end go on at
the next start; then the exit status is 8.`,
		Example: `  stile serve --demo
  stile serve examples/plain/agent.yaml
  curl -s localhost:8471/v1/sessions -d '{"agent": "plain", "id": "ada"}' -H 'Content-Type: application/json'
  curl -N 'localhost:8471/v1/sessions/ada/runs?stream=token' -d '{"input": "I am Ada."}' -H 'Content-Type: application/json'`,
	}
	flags := cmd.Flags()
	config := configFlag(cmd)
	var demo bool
	flags.BoolVar(&demo, "demo", false, "serve an agent of the command's own, on the scripted model, in memory: no key, no file")
	take := a.hostFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a.ran, a.flagged = true, take
		read := func() (settings, error) {
			s, err := a.loadSettings(*config)
			if err == nil && len(args) > 0 {
				s.Agents = args
			}
			return s, err
		}
		s, err := read()
		if err != nil {
			return err
		}
		if demo {
			if len(args) > 0 {
				return configError("--demo", "it brings an agent of its own; leave the manifests out")
			}
			undo, err := a.demonstrate(&s)
			if err != nil {
				return err
			}
			defer undo()
			shown := s
			read = func() (settings, error) { return shown, nil }
		}
		return a.serve(cmd.Context(), &s, read)
	}
	return cmd
}

// hostFlags gives a command the flags of a host's settings, and returns what puts their values in the
// place of those of file and environment.
func (a *app) hostFlags(cmd *cobra.Command) (take func(*settings)) {
	given, flags := defaultSettings(), cmd.Flags()
	a.dirFlag(cmd)
	a.journalFlag(cmd)
	a.keyFlag(cmd)
	flags.StringVar(&given.Listen, "listen", given.Listen, "address; without tokens one of loopback")
	flags.StringVar(&given.TLSCert, "tls-cert", "", "file with the certificate (PEM), to speak TLS")
	flags.StringVar(&given.TLSKey, "tls-key", "", "file with the certificate's key (PEM)")
	flags.StringVar(&given.Auth, "auth", given.Auth, "who may ask: tokens, anybody on this machine (none), or auto: tokens when there are some")
	flags.StringSliceVar(&given.Hosts, "host", nil, "a further name under which requests may come")
	flags.StringSliceVar(&given.Origins, "origin", nil, "an origin whose pages may use the host, such as https://app.example.com")
	flags.DurationVar(&given.Grace, "grace", given.Grace, "how long turns in flight may take to end")
	decisionFlag(cmd, &given.DecisionLog)
	flags.BoolVar(&given.Memory, "memory", false, "keep journal and keys in memory; nothing stays")
	chooses(cmd, "auth", "auto", "tokens", "none")
	return func(s *settings) {
		for flag, take := range map[string]func(){
			"dir": func() { s.Dir = a.dir }, "journal": func() { s.Journal = a.journal }, "passphrase-file": func() { s.PassphraseFile = a.passphraseFile },
			"listen": func() { s.Listen = given.Listen }, "auth": func() { s.Auth = given.Auth }, "host": func() { s.Hosts = given.Hosts },
			"origin": func() { s.Origins = given.Origins }, "grace": func() { s.Grace = given.Grace }, "memory": func() { s.Memory = given.Memory },
			"tls-cert": func() { s.TLSCert = given.TLSCert }, "tls-key": func() { s.TLSKey = given.TLSKey },
			"decision-log": func() { s.DecisionLog = given.DecisionLog },
		} {
			if flags.Changed(flag) {
				take()
			}
		}
	}
}

// chooses has a shell complete the values of a flag.
func chooses(cmd *cobra.Command, flag string, values ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is there
	}
}

// usageFile is the name of what tenants used today, in the data directory.
const usageFile = "usage.json"

// webhookFile is the name of how far webhooks were told, in the data directory.
const webhookFile = "webhooks.json"

const (
	defaultGrace = 10 * time.Second
	maxGrace     = time.Hour
	// maxFeedDeadline is how long a prompt may be made to wait for its feeds.
	maxFeedDeadline = 5 * time.Minute
)

// ownFiles are files and folders of the host that the settings name, beside its logs.
func (s *settings) ownFiles() []string {
	all := []string{s.TLSCert, s.TLSKey, s.Backup.Dir, s.Cluster.SecretFile}
	for _, w := range s.Webhooks {
		all = append(all, w.SecretFile)
	}
	return all
}

// doorOf is what the settings make of the door.
func (a *app) doorOf(s *settings, who access.Authenticator) host.Config {
	o := s.offer()
	door := host.Config{
		Hosts: o.Hosts, Origins: o.Origins, Version: versionOf(debug.ReadBuildInfo()).Version, Access: who, Limits: o.Limits, TenantLimits: o.TenantLimits, MayUse: o.MayUse,
		MaxRuns: s.MaxRuns, MaxStreams: s.MaxStreams, MaxConnections: s.MaxConnections, WrongTokens: s.WrongTokens, Retention: s.Retention, ChatRetention: s.ChatRetention, ChatSessions: s.ChatSessions, ChatUserSession: s.ChatUser == chatSession,
	}
	if door.ChatRetention == 0 {
		door.ChatRetention = -1
	}
	door.Audit, _ = a.auditOf(s)
	if !s.Memory {
		door.UsageFile, door.WebhookFile = filepath.Join(s.Dir, usageFile), filepath.Join(s.Dir, webhookFile)
	}
	return door
}

// certificateOf opens the certificate of the settings; nil without one.
func certificateOf(s *settings) (*host.Certificate, error) {
	if s.TLSCert == "" && s.TLSKey == "" {
		return nil, nil
	}
	return host.OpenCertificate(s.TLSCert, s.TLSKey)
}

func schemeOf(s *settings) string {
	if s.TLSCert != "" {
		return "https"
	}
	return "http"
}

// auditOf is where the audit log goes, with its name as the user knows it; nil where none
// is kept.
func (a *app) auditOf(s *settings) (io.Writer, string) {
	switch {
	case s.AuditLog == "-":
		return a.err, "standard error"
	case s.AuditLog == "off", s.AuditLog == "" && s.Memory:
		return nil, ""
	}
	path := cmp.Or(s.AuditLog, filepath.Join(s.Dir, audit.Name))
	return host.AuditFile(path), path
}

// tellStart logs what serves, and with what.
func (a *app) tellStart(log *zap.Logger, s *settings, address string, tells bool, agents []*stile.Agent) {
	v := versionOf(debug.ReadBuildInfo())
	var names []string
	for _, agent := range agents {
		names = append(names, agent.Manifest.Name)
	}
	where := "SQLite in " + s.Dir
	switch {
	case s.Memory:
		where = "memory"
	case a.inDatabase(s):
		where = "PostgreSQL" // its address may hold a password
	}
	log.Info("serving",
		zap.String("version", v.Version), zap.String("revision", v.Revision), zap.String("go", v.Go), zap.String("address", address), zap.Strings("agents", names),
		zap.String("journal", where), zap.String("cluster", s.Cluster.Address), zap.Bool("callers_show_tokens", tells), zap.String("settings", cmp.Or(a.settingsPath, "flags, environment and defaults")))
}

// watched tells the service manager that the host serves, lives, and stops when ctx ends.
func (a *app) watched(ctx context.Context, manager *notifier, s *settings, address string) (end func()) {
	manager.tell("READY=1", "STATUS=serving on "+address)
	stopping := context.AfterFunc(ctx, func() { manager.tell("STOPPING=1", "STATUS=turns in flight end") })
	looks, cancel := context.WithCancel(context.WithoutCancel(ctx)) // it lives also while it stops
	var watch sync.WaitGroup
	watch.Go(func() {
		manager.watch(looks, watchdogEvery(a.env, os.Getpid()), func(look context.Context) error {
			if ctx.Err() == nil && !a.answers(look, schemeOf(s), address) { // it does not listen while it stops
				return errors.New("no answer of /healthz")
			}
			return nil
		})
	})
	return func() {
		stopping()
		cancel()
		watch.Wait()
	}
}

// turnsLeft is how many turns were in flight when the serving ended.
func turnsLeft(err error) int64 {
	if left := (*host.LeftError)(nil); errors.As(err, &left) {
		return left.Turns
	}
	return 0
}

// settledBy is the error of a host that was told to stop. One that did not get everything to
// end in time has left it to the next start.
func settledBy(err error, log *zap.Logger) error {
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	log.Warn("the host was left before all that ran in it had ended; what was in flight goes on at the next start", zap.Error(err))
	return exitUnsettled
}
