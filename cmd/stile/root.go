package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/files"
	"github.com/seed14be6753/stile/messages"
)

// app is one command line.
type app struct {
	console
	dir            string
	journal        string
	noticed        map[string]bool // what the shared journal has said
	passphraseFile string
	keyRest        time.Duration   // of the settings, where they are read; goes before $STILE_KEY_REST
	programUser    string          // of the settings, where they are read; goes before $STILE_PROGRAM_USER
	unproved       string          // of the settings, where they are read; goes before $STILE_UNPROVED
	cluster        *settings       // where they are read, and of a host of a cluster: it believes keys that are shared under the secret
	own            []string        // further files of the host
	auditLog       io.Writer       // of the settings, where they are read: the audit log of a host of the directory; nil without one
	auditPath      string          // its name
	flagged        func(*settings) // takes what flags say, where a command has those of a host; nil elsewhere
	settingsPath   string          // of the file of settings that was read; "" without one
	demo           bool            // the host serves the command's own agent

	// ask asks a person at the terminal; nil is typed.
	ask func(ctx context.Context, question string) (string, error)

	ran bool // the command began: what fails from here on is no usage mistake by itself
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "stile",
		Short: "Host sessions of language-model agents",
		Long: `stile hosts sessions of language-model agents: one turn in flight per session,
every turn ended by exactly one decision (CONTINUE, DONE, ABORT or HALT) that is
journaled, signed, verifiable and replayable.

` + exitHelp,
		Example: `  stile tour
  stile run examples/plain/agent.yaml "I am Ada."
  stile verify`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	// Not Command.Version: another text than cobra's needs a template, and text/template calls
	// methods by name, for which the linker keeps every exported method of every type.
	version := root.Flags().BoolP("version", "v", false, "print the version")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if !*version {
			return cmd.Help()
		}
		_, err := fmt.Fprintln(a.out, versionOf(debug.ReadBuildInfo()))
		return err
	}
	root.AddCommand(a.runCommand(), a.chatCommand(), a.evalCommand(), a.execCommand(), a.sessionsCommand(), a.approvalsCommand(), a.verifyCommand(), a.replayCommand(),
		a.forkCommand(), a.keysCommand(), a.conformCommand(), a.serveCommand(), a.consoleCommand(), a.tokensCommand(), a.webhooksCommand(), a.hostsCommand(), a.auditCommand(), a.checkpointCommand(), a.backupCommand(), a.restoreCommand(), a.doctorCommand(), a.healthCommand(), a.benchCommand(), a.simCommand(), a.tourCommand(), a.versionCommand())
	return root
}

// do makes a command's body out of f.
func (a *app) do(f func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a.ran = true
		if err := a.resolve(cmd); err != nil {
			return err
		}
		return f(cmd.Context(), args)
	}
}

// strictCompletion has cobra's command completion refuse what is no shell, which cobra would
// answer with the help and status 0.
func strictCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			cmd.Args, cmd.RunE = known, group
		}
	}
}

// group is the body of a command that is only the name of its subcommands.
func group(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// known are the arguments of such a command: none, and a name that it does not have is told
// with those that are near.
func known(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
	if cmd.SuggestionsMinimumDistance <= 0 {
		cmd.SuggestionsMinimumDistance = 2
	}
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		text += "\n\nDid you mean this?\n\t" + strings.Join(near, "\n\t") + "\n"
	}
	return errors.New(text)
}

func (a *app) dirFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.dir, "dir", stile.DefaultDir, "data directory: journal and keys; without it the one of $STILE_DIR, or of stile.yaml")
}

// keyFlag gives a command the way to the passphrase.
func (a *app) keyFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.passphraseFile, "passphrase-file", "", "file with the passphrase of the key file (default $STILE_PASSPHRASE)")
}

// maxPassphraseBytes bounds a passphrase file; a larger one is the wrong file.
const maxPassphraseBytes = 4096

// passphrase reads the passphrase: the file's first line, or the environment.
func (a *app) passphrase() ([]byte, error) {
	if a.passphraseFile == "" {
		if pass := a.env("STILE_PASSPHRASE"); pass != "" {
			return []byte(pass), nil
		}
		return nil, nil
	}
	b, err := readFile(a.passphraseFile, maxPassphraseBytes)
	if err != nil {
		return nil, err
	}
	line, _, _ := bytes.Cut(b, []byte("\n"))
	if line = bytes.TrimSuffix(line, []byte("\r")); len(line) == 0 {
		return nil, &messages.Error{Code: messages.ErrConfig, File: a.passphraseFile, Detail: "the passphrase is empty"}
	}
	return line, nil
}

// config is how this command line wants its runtime.
func (a *app) config() (stile.Config, error) {
	pass, err := a.passphrase()
	return stile.Config{Dir: a.dir, Protect: a.protected(), Passphrase: pass, Providers: vendors(a.lookup), Databases: databases(), Unproved: cmp.Or(a.unproved, a.env("STILE_UNPROVED")), ProgramUser: cmp.Or(a.programUser, a.env("STILE_PROGRAM_USER"))}, err
}

// protected are the files of the host beside the data directory: those that settings name,
// and the settings themselves, also when there are none yet.
func (a *app) protected() []string {
	all := []string{settingsFile}
	for _, p := range append([]string{a.passphraseFile, a.env("STILE_CONFIG")}, a.own...) {
		if p != "" && p != "-" && p != "off" && p != toStandardError {
			all = append(all, p)
		}
	}
	return all
}

// envKeyRest is the variable in which providers find the longest rest of their keys.
const envKeyRest = "STILE_KEY_REST"

// lookup reads the environment; an empty variable is none.
func (a *app) lookup(name string) (string, bool) {
	if name == envKeyRest && a.keyRest > 0 {
		return a.keyRest.String(), true
	}
	v := a.env(name)
	return v, v != ""
}

// closeWait is how long a runtime may take to close.
const closeWait = 10 * time.Second

// withRuntime runs f with a new runtime and closes it, also after an interrupt.
func withRuntime(ctx context.Context, cfg stile.Config, f func(*stile.Runtime) error) error {
	rt, err := stile.New(ctx, cfg)
	if err != nil {
		return err
	}
	return using(ctx, rt, f)
}

// using runs f with a runtime and closes it, also after an interrupt.
func using(ctx context.Context, rt *stile.Runtime, f func(*stile.Runtime) error) error {
	err := f(rt)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWait)
	defer cancel()
	return errors.Join(err, rt.Close(end))
}

// readFile reads a file the user named, at most limit bytes of it.
func readFile(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	defer f.Close()
	b, err := readAll(f, limit)
	if err != nil {
		return nil, unreadable(path, err)
	}
	return b, nil
}

// readAll reads at most limit bytes and refuses more.
func readAll(r io.Reader, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = errors.New("more than " + sizeText(limit))
	}
	return b, err
}

// unreadable names the file as the user did, and not as the system does.
func unreadable(path string, err error) error {
	return &messages.Error{Code: messages.ErrConfig, File: path, Detail: "cannot be read", Cause: files.Cause(err)}
}

func (a *app) writeJSON(v any) error {
	enc := json.NewEncoder(a.out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
