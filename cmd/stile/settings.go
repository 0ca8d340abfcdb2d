package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
)

// settingsFile is what commands about a host read when it is in the working directory and
// no other is named.
const settingsFile = "stile.yaml"

const maxSettingsBytes = 1 << 20

// What chat_user says.
const (
	chatPerson  = "person"
	chatSession = "session"
)

// settings are those of a host: what a flag says goes before the environment, that
// before the file, that before the default. The tags are the reference (docs/settings.md
// is made of them): doc, and of texts the choices.
type settings struct {
	Agents         []string            `yaml:"agents" doc:"Manifests to serve. In the file relative to its folder."`
	Dir            string              `yaml:"dir" doc:"Data directory: journal, keys, tokens. In the file relative to its folder."`
	Journal        string              `yaml:"journal" doc:"URL of a shared journal; without one SQLite in dir. A password belongs into the environment."`
	Memory         bool                `yaml:"memory" doc:"Keep journal and keys in memory; nothing stays."`
	PassphraseFile string              `yaml:"passphrase_file" doc:"File with the passphrase of the key file."`
	Listen         string              `yaml:"listen" doc:"Address; without authentication one of loopback."`
	TLSCert        string              `yaml:"tls_cert" doc:"File with the certificate of the host and those between it and a root, in PEM; with it the host speaks TLS. Read again when it has changed. In the file relative to its folder."`
	TLSKey         string              `yaml:"tls_key" doc:"File with the key of the certificate, in PEM. In the file relative to its folder."`
	Hosts          []string            `yaml:"hosts" doc:"Further names under which requests may come."`
	Cluster        clusterSettings     `yaml:"cluster" doc:"Has several hosts run the sessions of one shared journal together."`
	Origins        []string            `yaml:"origins" doc:"Origins whose pages may use the host."`
	Auth           string              `yaml:"auth" enum:"auto|tokens|none" doc:"Who may ask: callers with tokens, anybody on this machine, or auto: callers with tokens when there are some or oidc is set."`
	Bootstrap      string              `yaml:"bootstrap_token_sha256" doc:"SHA-256, in hex, of a token of at least 32 bytes that you choose. Its bearer has all rights in tenant local: the first administrator of a host without tokens, who makes those of others over HTTP. Remove it then."`
	OIDC           oidcSettings        `yaml:"oidc" doc:"JWTs of an OpenID Connect issuer, beside tokens."`
	Limits         hostLimitSettings   `yaml:"limits" doc:"What each tenant may use; 0 is no limit."`
	Spending       spendingSettings    `yaml:"spending" doc:"What each user may use of models in a day, and each session in its life; 0 is no limit."`
	Tenants        map[string]tenant   `yaml:"tenants" doc:"Tenants by name, with limits of their own in place of all of the above. Only in the file."`
	MayUse         map[string][]string `yaml:"may_use" doc:"Agents that tenants may use, by tenant: a list of names, or * for all; the tenant * stands for each that is not named. Once it is there, a tenant without a word has none. Only in the file."`
	Webhooks       map[string]webhook  `yaml:"webhooks" doc:"Endpoints that are told of ends of runs and of calls that wait for approval, by name. Only in the file."`
	MaxRuns        int                 `yaml:"max_runs" doc:"Runs of all tenants in flight."`
	MaxStreams     int                 `yaml:"max_streams" doc:"Streams that are open at once."`
	MaxConnections int                 `yaml:"max_connections" doc:"Connections that are served at once."`
	WrongTokens    int                 `yaml:"wrong_tokens" doc:"Wrong tokens that an address may show in ten seconds before their answers wait. Behind a proxy all callers have one address."`
	Grace          time.Duration       `yaml:"grace" doc:"How long turns in flight may take to end when the host stops."`
	IdleTimeout    time.Duration       `yaml:"idle_timeout" doc:"How long a session without work stays in memory."`
	KeyRest        time.Duration       `yaml:"key_rest" doc:"How long a provider's key that met a rate limit rests at most, for the model that was asked; 1s to 1h."`
	Retention      time.Duration       `yaml:"retention" doc:"Sessions that have said nothing for so long are deleted; 0 keeps them."`
	ChatRetention  time.Duration       `yaml:"chat_retention" doc:"Conversations that clients of OpenAI began without a session are deleted when they have said nothing for so long; 0 keeps them."`
	ChatSessions   int                 `yaml:"chat_sessions" doc:"Such conversations of a tenant; when there are more, the oldest are deleted."`
	ChatUser       string              `yaml:"chat_user" enum:"person|session" doc:"What the member user of a request of such a client names: a person, who is passed over, or the session."`
	ProgramUser    string              `yaml:"program_user" doc:"User that programs of the tool shell run as, by name or number; without it the host's own. The host must be root and have the right to mount, else agents with shell are refused."`
	Unproved       string              `yaml:"unproved" enum:"refuse|strict|go_on" doc:"What to do with a session whose receipts do not prove its history, when it is to be gone on with or forked: refuse it; refuse also one of a version before receipts were promised where nothing is signed (strict); or go on and log it."`
	Checkpoint     time.Duration       `yaml:"checkpoint" doc:"How often a signed list of the heads of all sessions is written into dir (checkpoint.jsonl), and its digest to the log; 0 writes none."`
	Backup         backupSettings      `yaml:"backup" doc:"Backups that the host makes by itself."`
	Feeds          feedSettings        `yaml:"feeds" doc:"How context feeds are kept."`
	Boot           bootSettings        `yaml:"boot" doc:"How what was open is taken up at the start."`
	AuditLog       string              `yaml:"audit_log" doc:"File of the audit log, - for standard error, off for none; without a word audit.jsonl in dir. In the file relative to its folder."`
	DecisionLog    string              `yaml:"decision_log" doc:"File that a JSON line is appended to for each decided turn, or stderr. In the file relative to its folder."`
	DecisionBytes  int64               `yaml:"decision_log_bytes" doc:"How large the file of the decision log grows before it is put aside as decision_log.1, and that as .2; 0 is without a bound."`
	DecisionKeep   int                 `yaml:"decision_log_keep" doc:"How many files of the decision log are kept beside the one that is written to."`
	LogLevel       string              `yaml:"log_level" enum:"debug|info|warn|error" doc:"What is logged, as JSON lines on standard error."`
}

type oidcSettings struct {
	Issuer      string   `yaml:"issuer" doc:"The iss of tokens, where the issuer is asked for its keys."`
	Audience    string   `yaml:"audience" doc:"The aud of tokens for this host."`
	JWKS        string   `yaml:"jwks" doc:"Where the keys are, when the issuer has no discovery."`
	Tenant      string   `yaml:"tenant" doc:"The tenant of all tokens."`
	TenantClaim string   `yaml:"tenant_claim" doc:"The claim that says the tenant, in place of tenant."`
	UserClaim   string   `yaml:"user_claim" doc:"The claim that says the user; without a word sub."`
	ScopesClaim string   `yaml:"scopes_claim" doc:"The claim that says the scopes; without a word scope."`
	Clients     []string `yaml:"clients" doc:"Clients of the issuer, beside audience, that tokens with an azp may be made for."`
	Algorithms  []string `yaml:"algorithms" doc:"Of signatures; without a word RS256, ES256, EdDSA."`
}

// given reports whether the operator wants JWTs.
func (o *oidcSettings) given() bool {
	return !reflect.ValueOf(*o).IsZero()
}

type limitSettings struct {
	RequestsPerSecond float64 `yaml:"requests_per_second" doc:"Requests in a second."`
	Burst             int     `yaml:"burst" doc:"Requests at once; 0 is a second's worth."`
	Runs              int     `yaml:"runs" doc:"Runs in flight or waiting."`
	Sessions          int     `yaml:"sessions" doc:"Sessions that exist."`
	Streams           int     `yaml:"streams" doc:"Streams that are open at once."`
	TokensPerDay      int64   `yaml:"tokens_per_day" doc:"Tokens of models, in a day (UTC)."`
	CostPerDay        int64   `yaml:"cost_micro_usd_per_day" doc:"Millionths of a dollar, for models that have a price, in a day."`
	BytesPerDay       int64   `yaml:"bytes_per_day" doc:"Bytes that the journal grows by, in a day."`
	JournalBytes      int64   `yaml:"journal_bytes" doc:"Bytes that the journal keeps of all sessions; at the limit no run and no session begins until sessions are deleted."`
}

// hostLimitSettings are the limits of each tenant, and those that all share.
type hostLimitSettings struct {
	limitSettings `yaml:",inline"`
	ModelSessions int `yaml:"model_sessions" doc:"Conversations that the host keeps open with providers, of all tenants together; at the limit the one that was idle for longest is closed. At least 1."`
}

type spendingSettings struct {
	UserTokens    int64 `yaml:"user_tokens_per_day" doc:"Tokens of a user, in a day (UTC)."`
	UserCost      int64 `yaml:"user_cost_micro_usd_per_day" doc:"Millionths of a dollar of a user, for models that have a price, in a day."`
	SessionTokens int64 `yaml:"session_tokens" doc:"Tokens of a session."`
	SessionCost   int64 `yaml:"session_cost_micro_usd" doc:"Millionths of a dollar of a session."`
}

func (l spendingSettings) runtime() stile.Spending {
	return stile.Spending{UserTokensPerDay: l.UserTokens, UserCostPerDay: l.UserCost, SessionTokens: l.SessionTokens, SessionCostMicroUSD: l.SessionCost}
}

type tenant struct {
	Limits limitSettings `yaml:"limits" doc:"Of this tenant."`
}

type webhook struct {
	URL        string   `yaml:"url" doc:"Address, https; http for networks that are listed alone."`
	Events     []string `yaml:"events" doc:"run.ended, approval.waiting; without a word both."`
	Tenants    []string `yaml:"tenants" doc:"Tenants whose events it is told of; without a word all."`
	SecretEnv  string   `yaml:"secret_env" doc:"Variable of the environment with the secret of signatures, whsec_ and base64; two, with a blank between, both sign."`
	SecretFile string   `yaml:"secret_file" doc:"File with the secret, in place of the variable. Read again by a reload. In the file relative to its folder."`
	Networks   []string `yaml:"networks" doc:"Addresses and prefixes such as 10.0.0.0/8 that the endpoint may have beside public ones."`
}

type clusterSettings struct {
	Address    string        `yaml:"address" doc:"Address at which this host listens for the others, which reach it there: host:port. Without one the host shares no sessions."`
	SecretFile string        `yaml:"secret_file" doc:"File with the secret that all hosts of the cluster have, of at least 32 bytes; while it changes, one a line, of which the first signs and all are believed. In the file relative to its folder."`
	Lease      time.Duration `yaml:"lease" doc:"How long a host that says nothing keeps its sessions, the same for all hosts; 500ms to 1m."`
	Placement  string        `yaml:"placement" enum:"here|spread" doc:"Where sessions begin that a client begins at this host: here, or at the host that has less to do (spread)."`
}

type backupSettings struct {
	Dir   string        `yaml:"dir" doc:"Folder that backups are made in, each in a folder of its own; on another disk. Without one none are made. In the file relative to its folder."`
	Every time.Duration `yaml:"every" doc:"How long after a backup the next one is made, also over a restart."`
	Whole time.Duration `yaml:"whole" doc:"How long after a whole backup the next whole one is made; those between are increments. 0: each backup is whole."`
	Keep  int           `yaml:"keep" doc:"How many whole backups are kept, with their increments; older ones are removed."`
}

type feedSettings struct {
	Deadline time.Duration `yaml:"deadline" doc:"How long a prompt waits for its feeds together."`
	Remotes  []string      `yaml:"remotes" doc:"Hosts that remote feeds may ask: origins such as https://host:8471, and addresses or prefixes such as 10.0.0.0/8 for those in private networks."`
	RemoteCA string        `yaml:"remote_ca" doc:"File of certificates, in PEM, that vouch for these hosts beside those of the system."`
}

type bootSettings struct {
	Off         bool `yaml:"off" doc:"Leave every session alone until it is opened."`
	Concurrency int  `yaml:"concurrency" doc:"Sessions settled at once."`
	PerSecond   int  `yaml:"per_second" doc:"Sessions begun in a second."`
}

func (l limitSettings) host() host.Limits {
	return host.Limits(l)
}

func defaultSettings() settings {
	return settings{
		Dir: stile.DefaultDir, Listen: defaultListen, Auth: authAuto, MaxRuns: host.DefaultMaxRuns, MaxStreams: host.DefaultMaxStreams,
		MaxConnections: host.DefaultMaxConnections, WrongTokens: host.DefaultWrongTokens, Grace: defaultGrace, IdleTimeout: 10 * time.Minute, KeyRest: llm.KeyRest, ChatRetention: host.DefaultChatRetention, ChatSessions: host.DefaultChatSessions, ChatUser: chatPerson, Limits: hostLimitSettings{ModelSessions: stile.DefaultModelSessions}, Unproved: stile.UnprovedRefuse, Checkpoint: time.Hour, Cluster: clusterSettings{Lease: 2 * time.Second, Placement: placeHere}, Backup: backupSettings{Every: 24 * time.Hour, Keep: 7}, Feeds: feedSettings{Deadline: stile.DefaultFeedDeadline}, Boot: bootSettings{Concurrency: 16, PerSecond: 50}, DecisionBytes: decisionLogBytes, DecisionKeep: decisionLogKeep, LogLevel: "info",
	}
}

// configFlag gives a command the way to a file of settings.
func configFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("config", "", "file of settings (default $STILE_CONFIG, or stile.yaml if it is there)")
}

// ofHost makes the body of a command that works on the data directory of a host: the one
// that the host's settings name, unless --dir does.
func (a *app) ofHost(cmd *cobra.Command, f func(ctx context.Context, s *settings, args []string) error) {
	a.dirFlag(cmd)
	config := configFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a.ran = true
		s, err := a.loadSettings(*config)
		if err != nil {
			return err
		}
		if cmd.Flags().Changed("dir") {
			s.Dir = a.dir
		}
		a.dir = s.Dir
		return f(cmd.Context(), &s, args)
	}
}

// ownDir annotates a command whose sessions do not belong into the directory of a host.
const ownDir = "own directory"

// resolve takes what no flag says from the settings, so that all commands look at the journal,
// and with the keys, that the host has: every command with a data directory, but those that
// read the settings themselves.
func (a *app) resolve(cmd *cobra.Command) error {
	flags := cmd.Flags()
	if flags.Lookup("dir") == nil || flags.Lookup("config") != nil || cmd.Annotations[ownDir] != "" {
		return nil
	}
	s, err := a.loadSettings("")
	if err != nil {
		return err
	}
	if !flags.Changed("dir") {
		a.dir = s.Dir
	}
	if a.journal == "" && a.env(envJournal) == "" {
		a.journal = s.Journal
	}
	if a.passphraseFile == "" {
		a.passphraseFile = s.PassphraseFile
	}
	a.keyRest, a.unproved = s.KeyRest, s.Unproved
	if s.Cluster.Address != "" {
		a.cluster = &s
	}
	s.Dir = a.dir
	a.auditLog, a.auditPath = a.auditOf(&s)
	return nil
}

// loadSettings reads the file and the environment. Without a name the file may be
// missing. All mistakes are told at once, with file, line and key.
func (a *app) loadSettings(path string) (settings, error) {
	s := defaultSettings()
	if path == "" {
		path = a.env("STILE_CONFIG")
	}
	named := path != ""
	if !named {
		path = settingsFile
	}
	b, err := readFile(path, maxSettingsBytes)
	where := places{}
	switch {
	case err == nil:
		where, err = s.parse(path, b)
	case !named && errors.Is(err, os.ErrNotExist):
		err = nil
	}
	if err != nil && len(where) == 0 {
		return s, err
	}
	if err == nil && b != nil {
		a.settingsPath = path
	}
	if !slices.Contains(a.own, path) { // it is read again by a reload
		a.own = append(a.own, path)
	}
	if err = errors.Join(err, s.misspelt(a.variables()), s.environment(a.env, where), s.check(where, a.env(envJournal) != "")); err == nil && a.flagged != nil {
		a.flagged(&s)
	}
	return s, err
}

// places are where settings were said: in the file, or by a variable of the environment.
type places map[string]messages.Error

// parse reads the file's bytes into s.
func (s *settings) parse(path string, b []byte) (places, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil {
		return nil, yamlError(path, err)
	}
	r := &settingsReader{file: path, where: places{}}
	if len(doc.Content) == 0 {
		return r.where, nil
	}
	r.read("", doc.Content[0], reflect.ValueOf(s).Elem(), 0)
	for name, h := range s.Webhooks {
		h.SecretFile = beside(path, h.SecretFile)
		s.Webhooks[name] = h
	}
	for _, p := range append([]*string{&s.Dir, &s.Backup.Dir, &s.Cluster.SecretFile, &s.PassphraseFile, &s.TLSCert, &s.TLSKey}, pointers(s.Agents)...) {
		*p = beside(path, *p)
	}
	if s.AuditLog != "" && s.AuditLog != "-" && s.AuditLog != "off" {
		s.AuditLog = beside(path, s.AuditLog)
	}
	if s.DecisionLog != toStandardError {
		s.DecisionLog = beside(path, s.DecisionLog)
	}
	return r.where, errors.Join(r.wrong...)
}

func pointers(all []string) (out []*string) {
	for i := range all {
		out = append(out, &all[i])
	}
	return out
}

// beside is a path of the file as the working directory has it.
func beside(file, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(file), path)
}

// yamlError places what the YAML library says of a text that is no YAML.
func yamlError(path string, err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	e := &messages.Error{Code: messages.ErrConfig, File: path, Line: 1, Detail: text} // of the first line it names none
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		if n, what, ok := strings.Cut(rest, ": "); ok {
			if line, err := strconv.Atoi(n); err == nil {
				e.Line, e.Detail = line, what
			}
		}
	}
	return e
}

type settingsReader struct {
	file  string
	where places
	wrong []error
}

func (r *settingsReader) refuse(n *yaml.Node, key, format string, args ...any) {
	r.wrong = append(r.wrong, &messages.Error{Code: messages.ErrConfig, File: r.file, Line: n.Line, Col: n.Column, Field: key, Detail: fmt.Sprintf(format, args...)})
}

// maxSettingsDepth bounds how deep a value may be: settings have three levels.
const maxSettingsDepth = 5

// read takes a node to a value. An alias is read as what it names.
func (r *settingsReader) read(key string, n *yaml.Node, v reflect.Value, depth int) {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	if depth > maxSettingsDepth {
		r.refuse(n, key, "is deeper than settings are")
		return
	}
	r.where[key] = messages.Error{File: r.file, Line: n.Line, Col: n.Column, Field: key}
	switch v.Kind() {
	case reflect.Struct:
		r.entries(key, n, func(at, value *yaml.Node) {
			f, ok := fieldOf(v, at.Value)
			if !ok {
				r.refuse(at, dotted(key, at.Value), "is no setting; there are %s", strings.Join(keysOf(v.Type()), ", "))
				return
			}
			r.read(dotted(key, at.Value), value, f, depth+1)
		})
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		r.entries(key, n, func(at, value *yaml.Node) {
			one := reflect.New(v.Type().Elem()).Elem()
			r.read(dotted(key, at.Value), value, one, depth+1)
			v.SetMapIndex(reflect.ValueOf(at.Value), one)
		})
	case reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			r.refuse(n, key, "want a list")
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
		for i, item := range n.Content {
			r.read(key+"["+strconv.Itoa(i)+"]", item, v.Index(i), depth+1)
		}
	default:
		if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
			r.refuse(n, key, "want %s", kindText(v))
			return
		}
		if v.Kind() == reflect.String && n.Tag != "!!str" && n.Style == 0 && n.Tag != "!!int" && n.Tag != "!!float" {
			r.refuse(n, key, "want a text; put it in quotes")
			return
		}
		if err := setText(v, n.Value); err != nil {
			r.refuse(n, key, "want %s", kindText(v))
		}
	}
}

// entries returns the pairs of a mapping, each key once.
func (r *settingsReader) entries(key string, n *yaml.Node, each func(at, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		r.refuse(n, key, "want settings by name")
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		at := n.Content[i]
		if at.Kind != yaml.ScalarNode || at.Tag == "!!merge" {
			r.refuse(at, key, "want the name of a setting")
			continue
		}
		if seen[at.Value] {
			r.refuse(at, dotted(key, at.Value), "is there twice")
			continue
		}
		seen[at.Value] = true
		each(at, n.Content[i+1])
	}
}

func dotted(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}

func nameOf(f reflect.StructField) string { return f.Tag.Get("yaml") }

// inlined reports whether the settings of a field are those of the struct around it.
func inlined(f reflect.StructField) bool { return nameOf(f) == ",inline" }

func fieldOf(v reflect.Value, name string) (reflect.Value, bool) {
	for i := range v.NumField() {
		if inlined(v.Type().Field(i)) {
			if f, ok := fieldOf(v.Field(i), name); ok {
				return f, true
			}
			continue
		}
		if nameOf(v.Type().Field(i)) == name {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

func keysOf(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		if inlined(t.Field(i)) {
			names = append(names, keysOf(t.Field(i).Type)...)
			continue
		}
		names = append(names, nameOf(t.Field(i)))
	}
	return names
}

// kindText says what a value has to be.
func kindText(v reflect.Value) string {
	switch {
	case v.Type() == reflect.TypeFor[time.Duration]():
		return "a duration such as 90s or 12h, not negative"
	case v.Kind() == reflect.Bool:
		return "true or false"
	case v.Kind() == reflect.Float64:
		return "a number, not negative"
	case v.CanInt():
		return "a whole number, not negative"
	}
	return "a text"
}

var errNoValue = errors.New("no value of its kind")

// setText takes a text to a value, as the file and the environment have it.
func setText(v reflect.Value, text string) error {
	switch {
	case v.Type() == reflect.TypeFor[time.Duration]():
		d, err := time.ParseDuration(text)
		if text == "0" {
			d, err = 0, nil
		}
		if err != nil || d < 0 {
			return errNoValue
		}
		v.SetInt(int64(d))
	case v.Kind() == reflect.String:
		v.SetString(text)
	case v.Kind() == reflect.Bool:
		b, ok := map[string]bool{"true": true, "false": false}[text]
		if !ok {
			return errNoValue
		}
		v.SetBool(b)
	case v.Kind() == reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || f < 0 || f > 1e9 || f != f {
			return errNoValue
		}
		v.SetFloat(f)
	case v.CanInt():
		n, err := strconv.ParseInt(text, 10, v.Type().Bits())
		if err != nil || n < 0 {
			return errNoValue
		}
		v.SetInt(n)
	case v.Kind() == reflect.Slice:
		var all []string
		for part := range strings.SplitSeq(text, ",") {
			if part = strings.TrimSpace(part); part != "" {
				all = append(all, part)
			}
		}
		v.Set(reflect.ValueOf(all))
	}
	return nil
}

// setting is one that has a name in the environment.
type setting struct {
	key, env, doc string
	choices       []string
	value         reflect.Value
}

// each lists the settings in the order of the reference; what is in a map has no name in
// the environment.
func (s *settings) each() (all []setting) {
	var walk func(prefix string, v reflect.Value)
	walk = func(prefix string, v reflect.Value) {
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if inlined(f) {
				walk(prefix, v.Field(i))
				continue
			}
			one := setting{key: dotted(prefix, nameOf(f)), doc: f.Tag.Get("doc"), value: v.Field(i)}
			if enum := f.Tag.Get("enum"); enum != "" {
				one.choices = strings.Split(enum, "|")
			}
			switch v.Field(i).Kind() {
			case reflect.Struct:
				walk(one.key, v.Field(i))
				continue
			case reflect.Map:
			default:
				one.env = "STILE_" + strings.ToUpper(strings.ReplaceAll(one.key, ".", "_"))
			}
			all = append(all, one)
		}
	}
	walk("", reflect.ValueOf(s).Elem())
	return all
}

// environment takes what variables say, and notes where it was said.
func (s *settings) environment(env func(string) string, where places) error {
	var wrong []error
	for _, one := range s.each() {
		if one.env == "" || one.env == envJournal { // openShared reads that: it may hold a password
			continue
		}
		if text := env(one.env); text != "" {
			where[one.key] = messages.Error{Field: one.env}
			if err := setText(one.value, text); err != nil {
				wrong = append(wrong, &messages.Error{Code: messages.ErrConfig, Field: one.env, Detail: "want " + kindText(one.value)})
			}
		}
	}
	return errors.Join(wrong...)
}

// misspelt finds variables whose names are nearly those of settings: what they say would
// be passed over, and a host be more open than meant. Other names that begin with STILE_
// are left alone: agents may have secrets in such, and Kubernetes sets some for a service
// that is named stile.
func (s *settings) misspelt(names []string) error {
	known := []string{"STILE_CONFIG", "STILE_PASSPHRASE", envToken}
	for _, one := range s.each() {
		if one.env != "" {
			known = append(known, one.env)
		}
	}
	var wrong []error
	for _, name := range names {
		if !strings.HasPrefix(name, "STILE_") || slices.Contains(known, name) {
			continue
		}
		if meant := nearest(name, known); meant != "" {
			wrong = append(wrong, &messages.Error{Code: messages.ErrConfig, Field: name, Detail: "is no setting; " + meant + " is"})
		}
	}
	return errors.Join(wrong...)
}

// check finds what no single value shows. inDatabase says that the environment names a journal there.
func (s *settings) check(where places, inDatabase bool) error {
	var wrong []error
	refuse := func(key, detail string) {
		e := where[key]
		e.Code, e.Detail = messages.ErrConfig, detail
		if e.Field == "" {
			e.Field = key
		}
		wrong = append(wrong, &e)
	}
	for _, one := range s.each() {
		if len(one.choices) > 0 && !slices.Contains(one.choices, one.value.String()) {
			refuse(one.key, "want "+strings.Join(one.choices, ", "))
		}
	}
	if holdsPassword(s.Journal) {
		refuse("journal", "a password in a file of settings is there for all to see; put it into $"+envJournal)
	}
	for name := range s.Tenants {
		if err := (messages.SessionKey{Tenant: name, User: "x", ID: "x"}).Validate(); err != nil {
			refuse("tenants."+name, "is no name of a tenant")
		}
	}
	for name := range s.MayUse {
		if err := (messages.SessionKey{Tenant: name, User: "x", ID: "x"}).Validate(); err != nil && name != "*" {
			refuse("may_use."+name, "is no name of a tenant")
		}
	}
	if s.Limits.ModelSessions < 1 {
		refuse("limits.model_sessions", "want 1 or more; model.mode: replay of a manifest keeps no conversation")
	}
	if d := s.Feeds.Deadline; d <= 0 || d > maxFeedDeadline {
		refuse("feeds.deadline", "want more than 0, and "+maxFeedDeadline.String()+" at most")
	}
	if s.KeyRest < time.Second || s.KeyRest > time.Hour {
		refuse("key_rest", "want 1s to 1h")
	}
	if s.Cluster.Address != "" && s.Cluster.SecretFile == "" {
		refuse("cluster.secret_file", "is missing: hosts of a cluster prove with it that a request is theirs")
	}
	if s.Cluster.Address != "" && s.Memory {
		refuse("cluster.address", "hosts of a cluster share a journal in a database, which memory is not")
	}
	if d := s.Cluster.Lease; d < 500*time.Millisecond || d > time.Minute {
		refuse("cluster.lease", "want 500ms to 1m")
	}
	if s.Backup.Dir != "" && (s.Memory || inDatabase || s.Journal != "") {
		refuse("backup.dir", "backups are made of a journal in dir; a shared one is backed up with the tools of its database")
	}
	if s.Backup.Dir != "" && s.Backup.Every < time.Minute {
		refuse("backup.every", "want 1m or more")
	}
	if s.Backup.Dir != "" && s.Backup.Whole != 0 && s.Backup.Whole < s.Backup.Every {
		refuse("backup.whole", "want 0, or as long as backup.every or longer")
	}
	if s.Backup.Dir != "" && s.Backup.Keep < 1 {
		refuse("backup.keep", "want 1 or more")
	}
	if s.Grace > maxGrace {
		refuse("grace", "is more than an hour")
	}
	return errors.Join(wrong...)
}
