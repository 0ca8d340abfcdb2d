package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/crypto/keyring"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/internal/files"
	"github.com/seed14be6753/stile/messages"
)

const passphraseHelp = `The key file is sealed when there is a passphrase, in $STILE_PASSPHRASE or in the
file of --passphrase-file; without one its mode alone protects it.`

func (a *app) keysCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Make, rotate, list, export and trust keys",
		Long: `Keys sign control tokens (with an abort-only fallback) and receipts.

` + passphraseHelp,
		Example: `  STILE_PASSPHRASE=... stile keys generate
  stile keys export > keys.jwks`,
		Args: known,
		RunE: group,
	}
	for _, c := range []*cobra.Command{a.keysGenerateCommand(), a.keysRotateCommand(), a.keysListCommand(), a.keysExportCommand(), a.keysTrustCommand(), a.keysExtendCommand()} {
		a.dirFlag(c)
		a.keyFlag(c)
		cmd.AddCommand(c)
	}
	return cmd
}

func (a *app) keyPath() string { return filepath.Join(a.dir, stile.KeyFile) }

// ring reads the key file.
func (a *app) ring() (*keyring.Ring, error) {
	pass, err := a.passphrase()
	if err != nil {
		return nil, err
	}
	ring, err := stile.ReadKeys(a.keyPath(), pass)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, a.noKeys()
	}
	return ring, err
}

func (a *app) noKeys() error {
	return &messages.Error{Code: messages.ErrConfig, File: a.keyPath(), Detail: "there is no key file; stile keys generate makes one"}
}

func (a *app) keysGenerateCommand() *cobra.Command {
	var alg string
	cmd := &cobra.Command{
		Use:   "generate",
		Short: "Make the key file",
		Long: `Makes a key file with a token key, its fallback and a receipt key, in a data
directory that has none. stile run does the same on its own, with EdDSA.

--alg is the algorithm of tokens: EdDSA, or HS256, a secret that is the host's alone and
faster, with tokens that only this host can verify. Rotation keeps it. Receipts are always
EdDSA.

` + passphraseHelp,
		Example: `  stile keys generate --dir stile-data
  stile keys generate --passphrase-file /run/secrets/stile
  stile keys generate --alg HS256`,
		Args: cobra.NoArgs,
		RunE: a.do(func(context.Context, []string) error { return a.keysGenerate(keyring.Alg(alg)) }),
	}
	cmd.Flags().StringVar(&alg, "alg", string(keyring.EdDSA), "algorithm of tokens: EdDSA or HS256")
	return cmd
}

func (a *app) keysGenerate(alg keyring.Alg) error {
	if alg != keyring.EdDSA && alg != keyring.HS256 {
		return configError("alg", "want EdDSA or HS256")
	}
	cfg, err := a.config()
	if err != nil {
		return err
	}
	if _, err := os.Lstat(a.keyPath()); err == nil {
		return &messages.Error{Code: messages.ErrConflict, File: a.keyPath(), Detail: "there are keys already; stile keys rotate replaces them"}
	}
	if err := os.MkdirAll(a.dir, 0o700); err != nil {
		return unwritable(a.dir, err)
	}
	ring, err := freshKeys(cfg, alg)
	if err != nil {
		return err
	}
	e := host.AuditEntry{Action: "generate-keys", Detail: newKeys(nil, ring)}
	if err := a.onRecord(&e, func() error { return stile.WriteKeys(a.keyPath(), ring, cfg) }); err != nil {
		return err
	}
	return a.keyTable(ring)
}

// freshKeys are those of stile.GenerateKeys, with the algorithm of the tokens.
func freshKeys(cfg stile.Config, alg keyring.Alg) (*keyring.Ring, error) {
	ring, err := stile.GenerateKeys(cfg)
	if err != nil || alg == keyring.EdDSA {
		return ring, err
	}
	now := time.Now()
	tok, err := keyring.Generate("", keyring.Token, alg, rand.Reader, now)
	if err != nil {
		return nil, err
	}
	fallback, err := keyring.GenerateFallback("", alg, rand.Reader, now)
	if err != nil {
		return nil, err
	}
	keys := []*keyring.Key{tok, fallback}
	for _, k := range ring.Set().Keys() {
		if k.Purpose() == keyring.Receipt {
			keys = append(keys, k)
		}
	}
	return keyring.New(keys...)
}

func unwritable(path string, err error) error {
	return &messages.Error{Code: messages.ErrConfig, File: path, Detail: "cannot be made", Cause: files.Cause(err)}
}

func (a *app) keysRotateCommand() *cobra.Command {
	var retention time.Duration
	cmd := &cobra.Command{
		Use:   "rotate",
		Short: "Replace all keys, with grace for the old ones",
		Long: `Makes new keys and retires the old ones. The new keys sign from ten seconds on, so that
a running host has them by then: it takes up the key file by itself. A retired token
key verifies for --retention more; a retired receipt key loses its private half when the
host, or the next command that opens the directory, finds it retired. Its public half
stays in the key file and the journal.

Copies of the key file, on other machines, are to be replaced within these ten seconds,
or while their hosts are stopped.

` + passphraseHelp,
		Example: `  stile keys rotate
  stile keys rotate --retention 10m`,
		Args: cobra.NoArgs,
		RunE: a.do(func(ctx context.Context, _ []string) error { return a.keysRotate(ctx, retention) }),
	}
	a.journalFlag(cmd)
	cmd.Flags().DurationVar(&retention, "retention", (&stile.Agent{Dialect: "aeiou"}).Retention(),
		"token.max_ttl and key.grace of the manifests together")
	return cmd
}

func (a *app) keysRotate(ctx context.Context, retention time.Duration) error {
	if retention < 0 {
		return configError("retention", "is not negative")
	}
	return a.withKeys(ctx, "rotate-keys", "", func(rt *stile.Runtime) error { return rt.RotateKeys(ctx, retention) })
}

func (a *app) keysListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the keys, without their material",
		Long:    "Lists the keys, without their material: when each one signs, whether it has retired, and\nwhether its private half is here or erased.",
		Example: `  stile keys list --json`,
		Args:    cobra.NoArgs,
		RunE: a.do(func(context.Context, []string) error {
			ring, err := a.ring()
			if err != nil {
				return err
			}
			if asJSON {
				return a.writeJSON(ring)
			}
			return a.keyTable(ring)
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) keyTable(ring *keyring.Ring) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KEY\tSIGNS\tALG\tFROM\tRETIRED\tSTATE\tPRIVATE")
	now := time.Now()
	for _, k := range ring.Set().Keys() {
		signs, retired := string(k.Purpose()), "-"
		if k.AbortOnly() {
			signs = "abort only"
		}
		if at, ok := k.RetiredAt(); ok {
			retired = unixText(at)
		}
		state, private := stateOf(k, now)
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", k.KID(), signs, k.Alg(), unixText(k.NotBefore()), retired, state, private)
	}
	return w.Flush()
}

// stateOf returns whether a key signs, and where its private half is: here, erased when the key
// had retired, or none of a key that is trusted and another one's.
func stateOf(k *keyring.Key, now time.Time) (state, private string) {
	retired, is := k.RetiredAt()
	gone := is && now.Unix() >= retired
	switch {
	case gone:
		state = "retired"
	case !k.CanSign():
		state = "verifies"
	case now.Unix() < k.NotBefore():
		state = "to come"
	default:
		state = "signs"
	}
	switch {
	case k.CanSign():
		private = "here"
	case gone:
		private = "erased"
	default:
		private = "none"
	}
	return state, private
}

func unixText(at int64) string { return time.Unix(at, 0).UTC().Format(time.RFC3339) }

func (a *app) keysExportCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "export",
		Short: "Print the public keys as a JSON Web Key Set",
		Long: `Prints the public keys as a JSON Web Key Set, with the interval in which each one's
signatures are believed. stile verify --keys takes it.`,
		Example: `  stile keys export > keys.jwks`,
		Args:    cobra.NoArgs,
		RunE: a.do(func(context.Context, []string) error {
			ring, err := a.ring()
			if err != nil {
				return err
			}
			doc, err := ring.JWKS()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.out, "%s\n", doc)
			return err
		}),
	}
}

func (a *app) keysTrustCommand() *cobra.Command {
	var published bool
	cmd := &cobra.Command{
		Use:   "trust [FILE]",
		Short: "Believe what the public receipt keys of FILE signed",
		Long: `Takes the public receipt keys of FILE, a JSON Web Key Set as stile keys export prints it,
into the key file: the host goes on with sessions that they signed, and forks them. It is for
a key file that was lost, and for journals that come from another host.

--published takes the keys kept beside the records. Who can write there can replace them, so
look at what stile verify --keys says of them first, if there is any export.`,
		Example: `  stile keys trust keys.jwks
  stile keys trust --published`,
		Args: cobra.MaximumNArgs(1),
		RunE: a.do(func(ctx context.Context, args []string) error { return a.keysTrust(ctx, args, published) }),
	}
	a.journalFlag(cmd)
	cmd.Flags().BoolVar(&published, "published", false, "take the keys kept beside the records, in place of FILE")
	return cmd
}

func (a *app) keysTrust(ctx context.Context, args []string, published bool) error {
	if published == (len(args) == 1) {
		return configError("published", "give either a file of public keys or --published")
	}
	var set *keyring.Set
	if !published {
		var err error
		if set, err = publicKeys(args[0]); err != nil {
			return err
		}
	}
	return a.withKeys(ctx, "trust-keys", "", func(rt *stile.Runtime) error {
		if published {
			var err error
			if set, err = rt.Archive().PublicKeys(ctx); err != nil {
				return err
			}
		}
		_, err := rt.TrustKeys(ctx, set)
		return err
	})
}

func (a *app) keysExtendCommand() *cobra.Command {
	var until string
	cmd := &cobra.Command{
		Use:   "extend KID",
		Short: "Believe what a retired receipt key went on to sign",
		Long: `Moves the retirement of the receipt key KID to now, or to --until, so that what it signed
after it had retired is believed: by the host that goes on with sessions, by fork, and by
verify with keys that are exported afterwards. Hosts of versions before went on to sign with
a key that stile keys rotate had retired beside them. The key cannot sign any more.`,
		Example: `  stile keys extend rcp-20260102-9f3a2c --until 2026-02-01T00:00:00Z`,
		Args:    cobra.ExactArgs(1),
		RunE:    a.do(func(ctx context.Context, args []string) error { return a.keysExtend(ctx, args[0], until) }),
	}
	a.journalFlag(cmd)
	cmd.Flags().StringVar(&until, "until", "", "time of the last signature to be believed, RFC 3339 (default now)")
	return cmd
}

func (a *app) keysExtend(ctx context.Context, kid, until string) error {
	at := time.Now()
	if until != "" {
		var err error
		if at, err = time.Parse(time.RFC3339, until); err != nil {
			return configError("until", "want a time such as 2026-02-01T00:00:00Z")
		}
		if at.After(time.Now()) {
			return configError("until", "must not be in the future")
		}
	}
	return a.withKeys(ctx, "extend-key", fmt.Sprintf("key %.64s until %s", kid, at.UTC().Format(time.RFC3339)), func(rt *stile.Runtime) error { return rt.ExtendKey(ctx, kid, at) })
}

// withKeys changes the keys of a directory that has some, and shows them. The audit log says
// detail, or which keys are new.
func (a *app) withKeys(ctx context.Context, action, detail string, change func(*stile.Runtime) error) error {
	if _, err := os.Lstat(a.keyPath()); err != nil {
		return a.noKeys() // New would make some
	}
	cfg, err := a.config()
	if err != nil {
		return err
	}
	return a.withRuntime(ctx, cfg, func(rt *stile.Runtime) error {
		e, before := host.AuditEntry{Action: action}, kids(rt.Keys())
		if err := a.onRecord(&e, func() error {
			err := change(rt)
			e.Detail = cmp.Or(detail, newKeys(before, rt.Keys()))
			return err
		}); err != nil {
			return err
		}
		return a.keyTable(rt.Keys())
	})
}

func publicKeys(path string) (*keyring.Set, error) {
	b, err := readFile(path, maxJWKSBytes)
	if err != nil {
		return nil, err
	}
	set, err := keyring.ParseJWKS(b)
	return set, messages.InFile(err, path)
}
