package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/host/access"
	"github.com/seed14be6753/stile/internal/board"
	"github.com/seed14be6753/stile/internal/files"
	"github.com/seed14be6753/stile/messages"
)

// tokenFile is the name of the file of tokens in the data directory.
const tokenFile = "tokens.json"

// Who may ask a host.
const (
	authAuto   = "auto"
	authTokens = "tokens"
	authNone   = "none"
)

// tokens opens the tokens of a host: those of its cluster, else the file in its directory.
func (a *app) tokens(ctx context.Context, s *settings) (toks *access.Tokens, end func(), err error) {
	path := filepath.Join(a.dir, tokenFile)
	if s.Cluster.Address == "" {
		toks, err = access.Open(path, nil)
		return toks, func() {}, err
	}
	if err := files.MakeDir(a.dir); err != nil { // for the audit log
		return nil, nil, err
	}
	a.journal = cmp.Or(a.journal, s.Journal)
	store, err := a.openShared(ctx, false)
	if err != nil {
		return nil, nil, err
	}
	toks, err = a.tokensIn(ctx, s, store, nil)
	if err != nil {
		return nil, nil, errors.Join(err, closed(store))
	}
	return toks, func() {
		toks.Close()
		_ = store.Close() // what was changed is committed
	}, nil
}

func closed(store sharedJournal) error {
	if store == nil {
		return nil
	}
	return store.Close()
}

// tokensIn opens the tokens of a cluster.
func (a *app) tokensIn(ctx context.Context, s *settings, store sharedJournal, log *zap.Logger) (*access.Tokens, error) {
	place, ok := store.(interface{ Board() (board.Port, error) })
	if !ok {
		return nil, configError("cluster.address", "hosts of a cluster share a journal in a database: name it with journal or $"+envJournal)
	}
	secret, old, err := clusterSecrets(s)
	if err != nil {
		return nil, err
	}
	b, err := place.Board()
	if err != nil {
		return nil, err
	}
	return access.OpenShared(ctx, b, secret, filepath.Join(a.dir, tokenFile), log, nil, old...)
}

// withTokens runs f with the tokens of a host.
func (a *app) withTokens(ctx context.Context, s *settings, f func(*access.Tokens) error) error {
	toks, end, err := a.tokens(ctx, s)
	if err != nil {
		return err
	}
	defer end()
	return f(toks)
}

// access identifies the callers of a host; nil when every caller is the local user. shared are the
// tokens of its cluster; nil without one.
func (a *app) access(s *settings, shared *access.Tokens) (access.Authenticator, error) {
	_, err := os.Stat(filepath.Join(a.dir, tokenFile))
	none := errors.Is(err, fs.ErrNotExist)
	var now func() time.Time
	if shared != nil {
		now = shared.Now // hosts of a cluster agree when a JWT expires, too
		all, err := shared.List()
		if err != nil {
			return nil, err
		}
		none = len(all) == 0
	}
	var jwts access.Authenticator // and the bootstrap token
	if s.OIDC.given() {
		o := s.OIDC
		if jwts, err = access.NewIssuer(access.Issuer{
			URL: o.Issuer, Audience: o.Audience, JWKS: o.JWKS, Tenant: o.Tenant, TenantClaim: o.TenantClaim, UserClaim: o.UserClaim, ScopesClaim: o.ScopesClaim, Clients: o.Clients, Algorithms: o.Algorithms, Now: now,
		}); err != nil {
			return nil, messages.At(err, "oidc")
		}
	}
	if s.Bootstrap != "" {
		sum, err := hex.DecodeString(s.Bootstrap)
		if err != nil || len(sum) != sha256.Size {
			return nil, configError("bootstrap_token_sha256", "want 64 hex digits: printf %s TOKEN | sha256sum")
		}
		first := access.Bootstrap([sha256.Size]byte(sum))
		if jwts != nil {
			first = access.First(first, jwts)
		}
		jwts = first
	}
	switch {
	case s.Auth == authNone && jwts != nil:
		return nil, configError("auth", "none goes not together with oidc or a bootstrap token")
	case s.Auth == authNone:
		return nil, nil
	case s.Auth == authTokens && none && jwts == nil:
		where := a.dir
		if shared != nil {
			where = "the database of the cluster"
		}
		return nil, configError("auth", "there are no tokens in "+where+"; stile tokens create makes one")
	case s.Auth != authTokens && s.Auth != authAuto:
		return nil, configError("auth", "want auto, tokens or none")
	case none && s.Bootstrap == "": // with it tokens are kept from the first on
		return jwts, nil
	}
	toks := shared
	if toks == nil {
		if toks, err = access.Open(filepath.Join(a.dir, tokenFile), nil); err != nil {
			return nil, err
		}
	}
	if jwts == nil {
		return toks, nil
	}
	return access.First(toks, jwts), nil
}

func (a *app) tokensCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tokens",
		Short: "Make, list, rotate and revoke the tokens of callers",
		Long: `Tokens tell a host who calls: a tenant and a user, and what they may do. A token is
shown once, when it is made; what is kept in the data directory does not give it away.
A running host takes changes up at once. The directory is that of the settings of stile
serve, unless --dir names one; hosts of a cluster keep tokens in the database of their
journal; with --host a running host is asked instead, for tokens of the tenant of the
admin whose token is shown. The scopes:
  read      agents, sessions, their events and exports
  submit    begin and fork sessions, submit, cancel
  approve   answer for calls that wait
  admin     delete sessions, make and revoke tokens of the tenant; has read, submit and
            approve in it
  users     act for any user of the tenant, named by X-Stile-User
  metrics   /metrics, the numbers of all tenants
  feeds     values of named feeds, for other hosts
  operator  what all tenants share: settings read again, keys rotated`,
		Example: `  stile tokens create --tenant acme --user ann --scope read,submit
  stile tokens list
  stile tokens rotate 5f3a0c9be214
  stile tokens revoke 5f3a0c9be214
  stile tokens list --host https://stile.example.com --token-file admin.token`,
		Args: known,
		RunE: group,
	}
	cmd.AddCommand(a.tokensCreateCommand(), a.tokensListCommand(), a.tokensRotateCommand(), a.tokensRevokeCommand())
	return cmd
}

// defaultTokenLife is how long a token is good for unless something else is said.
const defaultTokenLife = 90 * 24 * time.Hour

func (a *app) tokensCreateCommand() *cobra.Command {
	var wish access.Wish
	life := defaultTokenLife
	var at remoteFlags
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make a token, and show it this once",
		Long: `Makes a token and prints it, alone, to standard output. It cannot be shown again.
Hosts that use this directory ask for tokens from the next start on.`,
		Example: `  stile tokens create --tenant acme --user ann --scope read,submit > ann.token
  stile tokens create --scope metrics --note prometheus --expires 0`,
		Args: cobra.NoArgs,
	}
	a.ofHost(cmd, func(ctx context.Context, s *settings, _ []string) error {
		return a.withTokens(ctx, s, func(toks *access.Tokens) error { return a.tokensCreate(s, toks, wish, life) })
	})
	a.orAtHost(cmd, &at, func(ctx context.Context, r *remote, _ []string) error {
		if cmd.Flags().Changed("tenant") {
			return configError("tenant", "a host makes tokens of the caller's tenant alone")
		}
		ask := tokenWish{Scopes: wish.Scopes, Note: wish.Note}
		if cmd.Flags().Changed("user") {
			ask.User = wish.User
		}
		if life < 0 {
			return configError("expires", "is not negative")
		}
		ask.Seconds = int64(life / time.Second)
		var made struct {
			tokenJSON
			Secret string `json:"secret"`
		}
		if err := r.call(ctx, http.MethodPost, "/v1/tokens", ask, &made); err != nil {
			return err
		}
		return a.tokenMade(&made.tokenJSON, made.Secret)
	})
	cmd.Flags().StringVar(&wish.Tenant, "tenant", "local", "the tenant whose sessions it reaches")
	cmd.Flags().StringVar(&wish.User, "user", "local", "the user of the tenant")
	cmd.Flags().StringSliceVar(&wish.Scopes, "scope", []string{"read", "submit", "approve"}, "what it may do")
	chooses(cmd, "scope", scopeNames()...)
	cmd.Flags().StringVar(&wish.Note, "note", "", "what it is for, as tokens list shows it")
	cmd.Flags().DurationVar(&life, "expires", life, "how long it is good for; 0 is for ever")
	return cmd
}

func (a *app) tokensCreate(s *settings, toks *access.Tokens, wish access.Wish, life time.Duration) error {
	if life < 0 {
		return configError("expires", "is not negative")
	}
	if life > 0 {
		wish.Expires = toks.Now().Add(life).Truncate(time.Second)
	}
	secret, tok, err := toks.Create(wish)
	if err != nil {
		return err
	}
	if err := a.tokenAudit(s, "create-token", tok, "scopes "+scopesText(tok.Scopes)+", "+untilText(tok.Expires)); err != nil {
		// No person has seen it: it must not stay good unrecorded.
		_, _, undo := toks.Revoke(access.Revocation{ID: tok.ID})
		return errors.Join(err, undo)
	}
	line := jsonOf(&tok, toks.Now())
	return a.tokenMade(&line, secret)
}

// tokenMade shows a token this once.
func (a *app) tokenMade(tok *tokenJSON, secret string) error {
	until := time.Time{}
	if tok.Expires != nil {
		until = *tok.Expires
	}
	fmt.Fprintf(a.err, "stile: token %s of %s:%s, %s, %s\n", tok.ID, tok.Tenant, tok.User, scopesText(tok.Scopes), untilText(until))
	_, err := fmt.Fprintln(a.out, secret)
	return err
}

// tokenWish is what a host is asked for.
type tokenWish struct {
	User    string   `json:"user,omitempty"`
	Scopes  []string `json:"scopes"`
	Note    string   `json:"note,omitempty"`
	Seconds int64    `json:"expires_in_s"`
}

// orAtHost has a command that works on a data directory ask a running host instead, when
// --host names one.
func (a *app) orAtHost(cmd *cobra.Command, at *remoteFlags, there func(ctx context.Context, r *remote, args []string) error) {
	here := cmd.RunE
	cmd.Flags().StringVar(&at.host, "host", "", "address of a running host to ask, in place of a data directory")
	cmd.Flags().StringVar(&at.tokenFile, "token-file", "", "file with the token to show the host (default $"+envToken+")")
	cmd.MarkFlagsMutuallyExclusive("host", "dir")
	cmd.MarkFlagsMutuallyExclusive("host", "config")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !cmd.Flags().Changed("host") {
			if cmd.Flags().Changed("token-file") {
				return configError("token-file", "is shown to a host; name it with --host")
			}
			return here(cmd, args)
		}
		a.ran = true
		r, err := a.hostAt(*at)
		if err != nil {
			return err
		}
		return there(cmd.Context(), r, args)
	}
}

// tokenAudit leaves a line in the audit log, if the host keeps one.
func (a *app) tokenAudit(s *settings, action string, tok access.Token, detail string) error {
	log, path := a.auditOf(s)
	if log == nil {
		return nil
	}
	err := host.WriteAudit(log, host.AuditEntry{
		At: time.Now(), Token: "command by " + userName(), Tenant: tok.Tenant, User: tok.User, Action: action, Detail: strings.TrimSpace("token " + tok.ID + " " + detail),
	})
	if err != nil {
		return unwritable(path, err)
	}
	return nil
}

func untilText(at time.Time) string {
	if at.IsZero() {
		return "for ever"
	}
	return "until " + at.Format(time.RFC3339)
}

func scopesText(all []access.Scope) string {
	var names []string
	for _, s := range all {
		names = append(names, string(s))
	}
	return strings.Join(names, ",")
}

func (a *app) tokensListCommand() *cobra.Command {
	var asJSON bool
	var at remoteFlags
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the tokens, without their secrets",
		Example: `  stile tokens list --json`,
		Args:    cobra.NoArgs,
	}
	a.ofHost(cmd, func(ctx context.Context, s *settings, _ []string) error {
		return a.withTokens(ctx, s, func(toks *access.Tokens) error {
			all, err := toks.List()
			if err != nil {
				return err
			}
			var lines []tokenJSON
			for i := range all {
				lines = append(lines, jsonOf(&all[i], toks.Now()))
			}
			return a.tokensList(lines, asJSON)
		})
	})
	a.orAtHost(cmd, &at, func(ctx context.Context, r *remote, _ []string) error {
		var all []tokenJSON
		for after := ""; ; {
			var page struct {
				Tokens []tokenJSON
				Next   string
			}
			if err := r.call(ctx, http.MethodGet, "/v1/tokens?limit=1000&after="+url.QueryEscape(after), nil, &page); err != nil {
				return err
			}
			all = append(all, page.Tokens...)
			if after = page.Next; after == "" {
				return a.tokensList(all, asJSON)
			}
		}
	})
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a token")
	return cmd
}

// tokenJSON is a token in a list.
type tokenJSON struct {
	ID      string         `json:"id"`
	Tenant  string         `json:"tenant"`
	User    string         `json:"user"`
	Scopes  []access.Scope `json:"scopes"`
	State   string         `json:"state"` // good, expired or revoked
	Created time.Time      `json:"created"`
	Expires *time.Time     `json:"expires,omitempty"`
	Revoked *time.Time     `json:"revoked,omitempty"`
	Note    string         `json:"note,omitempty"`
	Maker   string         `json:"maker,omitempty"` // id of the token that made it at a host
}

func jsonOf(tok *access.Token, now time.Time) tokenJSON {
	line := tokenJSON{ID: tok.ID, Tenant: tok.Tenant, User: tok.User, Scopes: tok.Scopes, State: tok.State(now), Created: tok.Created, Note: tok.Note, Maker: tok.Maker}
	if !tok.Expires.IsZero() {
		line.Expires = &tok.Expires
	}
	if !tok.Revoked.IsZero() {
		line.Revoked = &tok.Revoked
	}
	return line
}

func (a *app) tokensList(all []tokenJSON, asJSON bool) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	if !asJSON {
		fmt.Fprintln(w, "TOKEN\tTENANT\tUSER\tSCOPES\tSTATE\tEXPIRES\tMADE BY\tNOTE")
	}
	for i := range all {
		tok := &all[i]
		if asJSON {
			if err := a.writeJSON(tok); err != nil {
				return err
			}
			continue
		}
		until := "-"
		if tok.Expires != nil {
			until = tok.Expires.Format(time.RFC3339)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			harmless(tok.ID), harmless(tok.Tenant), harmless(tok.User), harmless(scopesText(tok.Scopes)), harmless(tok.State), until, cmp.Or(harmless(tok.Maker), "-"), harmless(tok.Note))
	}
	return w.Flush()
}

// defaultGrace is how long a token that was rotated stays good unless something else is said.
const defaultTokenGrace = 24 * time.Hour

func (a *app) tokensRotateCommand() *cobra.Command {
	var life time.Duration
	grace := defaultTokenGrace
	var at remoteFlags
	cmd := &cobra.Command{
		Use:   "rotate ID",
		Short: "Make a token in the place of another one, and show it this once",
		Long: `Makes a token with tenant, user, scopes and note of another one and prints it, alone, to
standard output. The old one stays good for --grace, so that its holder can go over; with
--grace 0 it is revoked. The new one is good for as long as the old one was, unless --expires
says otherwise. It does not count as made by the old one.`,
		Example: `  stile tokens rotate 5f3a0c9be214 > ann.token
  stile tokens rotate 5f3a0c9be214 --grace 1h --host https://stile.example.com --token-file admin.token > ann.token`,
		Args: cobra.ExactArgs(1),
	}
	negative := func() error {
		switch {
		case grace < 0:
			return configError("grace", "is not negative")
		case life < 0:
			return configError("expires", "is not negative")
		}
		return nil
	}
	a.ofHost(cmd, func(ctx context.Context, s *settings, args []string) error {
		if err := negative(); err != nil {
			return err
		}
		toks, end, err := a.tokens(ctx, s)
		if err != nil {
			return err
		}
		defer end()
		r := access.Rotation{ID: args[0], Grace: grace}
		if cmd.Flags().Changed("expires") {
			r.Life = &life
		}
		secret, tok, old, err := toks.Rotate(r)
		if err != nil {
			return err
		}
		if err := a.tokenAudit(s, "rotate-token", tok, tok.Grant()+", for "+old.ID); err != nil {
			// No person has seen it: it must not stay good unrecorded.
			_, _, undo := toks.Revoke(access.Revocation{ID: tok.ID})
			return errors.Join(err, undo)
		}
		line, was := jsonOf(&tok, toks.Now()), jsonOf(&old, toks.Now())
		return a.tokenRotated(&line, &was, secret)
	})
	a.orAtHost(cmd, &at, func(ctx context.Context, r *remote, args []string) error {
		if err := negative(); err != nil {
			return err
		}
		ask := map[string]int64{"grace_s": int64(grace / time.Second)}
		if cmd.Flags().Changed("expires") {
			ask["expires_in_s"] = int64(life / time.Second)
		}
		var made struct {
			Token struct {
				tokenJSON
				Secret string `json:"secret"`
			} `json:"token"`
			Old tokenJSON `json:"old"`
		}
		if err := r.call(ctx, http.MethodPost, "/v1/tokens/"+url.PathEscape(args[0])+"/rotate", ask, &made); err != nil {
			return err
		}
		return a.tokenRotated(&made.Token.tokenJSON, &made.Old, made.Token.Secret)
	})
	cmd.Flags().DurationVar(&life, "expires", 0, "how long the new one is good for, 0 being for ever (default as long as the old one was)")
	cmd.Flags().DurationVar(&grace, "grace", grace, "how long the old one stays good, at most; 0 revokes it")
	return cmd
}

// tokenRotated shows a token this once, and what became of the one that it replaces.
func (a *app) tokenRotated(tok, old *tokenJSON, secret string) error {
	until := "is revoked"
	if old.Revoked == nil && old.Expires != nil {
		until = "is good until " + old.Expires.Format(time.RFC3339)
	}
	fmt.Fprintf(a.err, "stile: token %s, which it replaces, %s\n", harmless(old.ID), until)
	return a.tokenMade(tok, secret)
}

func (a *app) tokensRevokeCommand() *cobra.Command {
	var withMade bool
	var at remoteFlags
	cmd := &cobra.Command{
		Use:   "revoke ID",
		Short: "Refuse a token from now on",
		Long: `Refuses a token from now on, at running hosts too. Streams that it opened end within 15
seconds. What an admin's token made stays good, and is named; --with-made takes it along,
and what that made.`,
		Example: `  stile tokens revoke 5f3a0c9be214
  stile tokens revoke 5f3a0c9be214 --with-made --host https://stile.example.com --token-file admin.token`,
		Args: cobra.ExactArgs(1),
	}
	a.ofHost(cmd, func(ctx context.Context, s *settings, args []string) error {
		toks, end, err := a.tokens(ctx, s)
		if err != nil {
			return err
		}
		defer end()
		gone, left, err := toks.Revoke(access.Revocation{ID: args[0], WithMade: withMade})
		if err != nil {
			return err
		}
		var out revokedJSON
		for i := range gone {
			if err := a.tokenAudit(s, "revoke-token", gone[i], ""); err != nil {
				return err // it is revoked all the same
			}
			out.Revoked = append(out.Revoked, jsonOf(&gone[i], toks.Now()))
		}
		for i := range left {
			out.Left = append(out.Left, jsonOf(&left[i], toks.Now()))
		}
		return a.tokensRevoked(&out)
	})
	a.orAtHost(cmd, &at, func(ctx context.Context, r *remote, args []string) error {
		var out revokedJSON
		if err := r.call(ctx, http.MethodDelete, "/v1/tokens/"+url.PathEscape(args[0])+"?with_made="+strconv.FormatBool(withMade), nil, &out); err != nil {
			return err
		}
		return a.tokensRevoked(&out)
	})
	cmd.Flags().BoolVar(&withMade, "with-made", false, "and all that it made, and that those made")
	return cmd
}

// revokedJSON is what a revocation did.
type revokedJSON struct {
	Revoked []tokenJSON `json:"revoked"`
	Left    []tokenJSON `json:"left"`
}

func (a *app) tokensRevoked(out *revokedJSON) error {
	for i := range out.Revoked {
		tok := &out.Revoked[i]
		since := ""
		if tok.Revoked != nil {
			since = " since " + tok.Revoked.Format(time.RFC3339)
		}
		if _, err := fmt.Fprintf(a.out, "%s of %s:%s is revoked%s\n", harmless(tok.ID), harmless(tok.Tenant), harmless(tok.User), since); err != nil {
			return err
		}
	}
	if len(out.Left) == 0 {
		return nil
	}
	var ids []string
	for i := range out.Left {
		ids = append(ids, harmless(out.Left[i].ID))
	}
	_, err := fmt.Fprintf(a.err, "stile: it made %s, still good; --with-made revokes what it made\n", strings.Join(ids, ", "))
	return err
}

func scopeNames() (all []string) {
	for _, scope := range access.Scopes() {
		all = append(all, string(scope))
	}
	return all
}
