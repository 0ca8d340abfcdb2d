package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/crypto/keyring"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

func (a *app) verifyCommand() *cobra.Command {
	var opts verifyOptions
	cmd := &cobra.Command{
		Use:   "verify [SID]",
		Short: "Check sessions against change, offline, with public keys alone",
		Long: `Checks the hash chain, the salted bodies and the receipts of a session, or of all
sessions. It needs no key file and no network. Exit status 4 says that something was
changed, removed, added or falsely signed, and the report names every such record.

Without --keys the public keys kept beside the records are used, which who can write there
can replace: that proves little. Pass keys exported earlier (stile keys export) to trust
nothing in the directory: what receipts a session must have is then what its signed
opening says, and a missing one is exit status 4, as is an erasure without its signed
statement. A session with receipts: off is "unproved". Sessions of versions before openings
said so say nothing: give --receipts for them, by name. --allow-missing is for hosts that
had no signer for a while. --late KID believes what a retired key went on to sign, as
hosts of versions before did when stile keys rotate was given beside them. Only a head from
elsewhere shows that the end was cut off: --head, one of stile sessions list, needs SID;
--since takes a checkpoint (stile checkpoint) and shows cut ends, sessions that were rewritten
or dropped since, and those that were erased or whose name another has.

--export verifies a file that stile sessions export wrote, or standard input (-),
instead of a directory. Receipts are checked with --keys alone there.`,
		Example: `  stile verify
  stile verify ledger --keys keys.jwks --head 42:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
  stile verify --export ledger.jsonl --keys keys.jwks`,
		Args: cobra.MaximumNArgs(1),
		RunE: a.do(func(ctx context.Context, args []string) error { return a.verify(ctx, args, opts) }),
	}
	a.dirFlag(cmd)
	a.journalFlag(cmd)
	cmd.Flags().StringVar(&opts.keys, "keys", "", "JWKS file with the public receipt keys")
	cmd.Flags().StringVar(&opts.head, "head", "", "exported head of the session, SEQ:HASH")
	cmd.Flags().StringVar(&opts.receipts, "receipts", "", "what sessions whose opening does not say it have signed: decision, run or off")
	cmd.Flags().StringSliceVar(&opts.late, "late", nil, "believe what these retired keys signed after their time")
	cmd.Flags().BoolVar(&opts.missing, "allow-missing", false, "with --keys: missing receipts and unsigned erasures are no problem")
	cmd.Flags().StringVar(&opts.since, "since", "", "checkpoint (stile checkpoint) that the sessions must go on from")
	cmd.Flags().StringVar(&opts.export, "export", "", "verify this exported file instead of a directory")
	cmd.Flags().BoolVar(&opts.json, "json", false, "print one JSON object a session")
	cmd.Flags().BoolVar(&opts.quiet, "quiet", false, "tell only of sessions with problems; on a terminal with how far it is")
	return cmd
}

type verifyOptions struct {
	keys, head, receipts, export, since string
	json, missing, quiet                bool
	late                                []string
}

const littleProved = "the keys are those beside the records: who can write there can change both. stile keys export, kept elsewhere, and --keys prove more"

// maxJWKSBytes bounds a file of public keys.
const maxJWKSBytes = 16 << 20

func (o verifyOptions) against(names []string) (stile.VerifyOptions, error) {
	out := stile.VerifyOptions{Receipts: journal.Receipts(o.receipts), AllowMissing: o.missing}
	switch out.Receipts {
	case "", journal.ReceiptsDecision, journal.ReceiptsRun, journal.ReceiptsOff:
	default:
		return out, configError("receipts", "want decision, run or off")
	}
	if o.head != "" {
		if len(names) == 0 && o.export == "" {
			return out, configError("head", "a head belongs to one session: name it")
		}
		var err error
		if out.Head, err = parseHead(o.head); err != nil {
			return out, err
		}
	}
	if o.keys == "" {
		return out, nil
	}
	var err error
	if out.Keys, err = publicKeys(o.keys); err != nil {
		return out, err
	}
	out.Keys, err = believingLate(out.Keys, o.late)
	return out, err
}

// believingLate is the set in which the keys of these ids never retired.
func believingLate(set *keyring.Set, kids []string) (*keyring.Set, error) {
	keys := set.Keys()
	for _, kid := range kids {
		i := slices.IndexFunc(keys, func(k *keyring.Key) bool { return k.KID() == kid && k.Purpose() == keyring.Receipt })
		if i < 0 {
			return nil, configError("late", "no receipt key is called "+kid)
		}
		k, err := keyring.NewPublic(keyring.Attributes{KID: kid, Purpose: keyring.Receipt, NotBefore: keys[i].NotBefore()}, keys[i].Public())
		if err != nil {
			return nil, err
		}
		keys[i] = k
	}
	return keyring.NewSet(keys...)
}

func (a *app) verify(ctx context.Context, names []string, opts verifyOptions) error {
	against, err := opts.against(names)
	if err != nil {
		return err
	}
	if opts.since != "" && (len(names) > 0 || opts.export != "" || opts.head != "") {
		return configError("since", "a checkpoint is of all sessions: name no session, --export or --head beside it")
	}
	if opts.export != "" {
		return a.verifyExport(names, opts, against)
	}
	return a.withArchive(ctx, func(ar *stile.Archive) error {
		var sessions, bad int64
		own := against.Keys == nil
		if own && len(opts.late) > 0 {
			set, err := ar.PublicKeys(ctx)
			if err != nil {
				return err
			}
			if against.Keys, err = believingLate(set, opts.late); err != nil {
				return err
			}
			against.AllowMissing = true // as with the keys beside the records
		}
		tell := func(rep journal.Report) error {
			sessions++
			switch {
			case !rep.OK():
				bad++
			case opts.quiet:
				return nil
			}
			if opts.json {
				return a.writeJSON(verifyJSONOf(rep))
			}
			return a.verifyText(rep)
		}
		judge := func(h journal.Head, against stile.VerifyOptions) (journal.Report, error) {
			rep, err := ar.Verify(ctx, h.Inc, against)
			if err != nil {
				return rep, err
			}
			return rep, tell(rep)
		}
		var err error
		if opts.since != "" {
			err = a.since(ctx, ar, opts.since, against, judge, func(what string) error {
				bad++
				if opts.json {
					return a.writeJSON(map[string]any{"ok": false, "lost": what})
				}
				p := a.printer("")
				p.line(red, "FAIL", what)
				return p.err
			}, func(what string) error {
				if opts.json {
					return nil
				}
				_, err := fmt.Fprintln(a.out, what)
				return err
			})
		} else if len(names) > 0 {
			err = pick(ctx, ar, names, func(h journal.Head) error {
				_, err := judge(h, against)
				return err
			})
		} else {
			err = a.verifyAll(ctx, ar, against, opts, tell)
			if errors.Is(err, context.Canceled) && !opts.json { // what it came to until then
				_, bad := fmt.Fprintf(a.out, "interrupted: %s checked, %d with problems\n", count(sessions, "session"), bad)
				return errors.Join(err, bad)
			}
		}
		if err == nil && !opts.json && len(names) == 0 {
			_, err = fmt.Fprintf(a.out, "%s, %d with problems\n", count(sessions, "session"), bad)
		}
		if err == nil && !opts.json && own {
			_, err = fmt.Fprintln(a.out, littleProved)
		}
		if bad > 0 || journal.ReasonOf(err) == journal.ReasonCorrupt {
			err = errors.Join(err, exitDifference)
		}
		return err
	})
}

// verifyAll checks all sessions, as many at once as there are processors, and tells of them in their
// order.
func (a *app) verifyAll(ctx context.Context, ar *stile.Archive, against stile.VerifyOptions, opts verifyOptions, tell func(journal.Report) error) error {
	return everySession(ctx, a, ar, opts.quiet, func(ctx context.Context, h journal.Head) (journal.Report, error) {
		return ar.Verify(ctx, h.Inc, against)
	}, tell)
}

// everySession works on all sessions, as many at once as there are processors, and tells of them in their
// order. With shows a terminal has how far it is.
func everySession[T any](ctx context.Context, a *app, ar *stile.Archive, shows bool, work func(context.Context, journal.Head) (T, error), tell func(T) error) error {
	var shown *progress
	if shows && a.outTerminal {
		var total int64
		for _, err := range ar.Sessions(ctx, "") {
			if err != nil {
				return err
			}
			total++
		}
		shown = a.progressOf("session", total)
		defer shown.end()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type verdict struct {
		of  T
		err error
	}
	workers := runtime.GOMAXPROCS(0)
	order := make(chan chan verdict, 4*workers) // bounds what was worked on and not told
	places := make(chan struct{}, workers)
	var working sync.WaitGroup
	defer working.Wait()
	defer cancel()
	working.Go(func() {
		defer close(order)
		for h, err := range ar.Sessions(ctx, "") {
			one := make(chan verdict, 1)
			select {
			case order <- one:
			case <-ctx.Done():
				return
			}
			if err != nil {
				one <- verdict{err: err}
				return
			}
			places <- struct{}{} // the work ends with ctx
			working.Go(func() {
				defer func() { <-places }()
				of, err := work(ctx, h)
				one <- verdict{of, err}
			})
		}
	})
	for one := range order {
		v := <-one
		if v.err == nil {
			v.err = tell(v.of)
		}
		if v.err != nil {
			return v.err
		}
		shown.step()
	}
	return ctx.Err()
}

// verifyExport checks a file that was exported, in which every line is a record.
func (a *app) verifyExport(names []string, opts verifyOptions, against stile.VerifyOptions) error {
	want := journal.VerifyOptions{Head: against.Head, Receipts: against.Receipts}
	if len(names) > 0 {
		key, err := messages.ParseSID(names[0])
		if err != nil {
			return err
		}
		want.SID = key.SID()
	}
	in, name := a.in, "standard input"
	if opts.export != "-" {
		f, err := os.Open(opts.export)
		if err != nil {
			return unreadable(opts.export, err)
		}
		defer f.Close()
		in, name = f, opts.export
	}
	if against.Keys != nil {
		want.Keys, want.Trusted = stile.ReceiptKeys(against.Keys), !against.AllowMissing
	}
	rep := journal.Verify(journal.ReadExport(in), want)
	if rep.Records == 0 && rep.OK() {
		return &messages.Error{Code: messages.ErrConfig, File: name, Detail: "the export holds no record"}
	}
	show := a.verifyText
	if opts.json {
		show = func(r journal.Report) error { return a.writeJSON(verifyJSONOf(r)) }
	}
	err := show(rep)
	if !rep.OK() {
		err = errors.Join(err, exitDifference)
	}
	return err
}

func (a *app) verifyText(r journal.Report) error {
	p := a.printer("")
	word, sgr := "ok", green
	switch {
	case !r.OK():
		word, sgr = "FAIL", red
	case r.Stated == journal.ReceiptsOff:
		word, sgr = "unproved", yellow
	}
	p.line(sgr, word, fmt.Sprintf("%s  %s, %s valid, head %s", r.SID, count(r.Records, "record"), count(r.Valid, "receipt"), headText(r.Last)))
	for _, x := range r.Problems {
		p.line(red, "", fmt.Sprintf("record %d: %s: %s", x.Seq, x.What, x.Detail))
	}
	if slices.ContainsFunc(r.Problems, func(x journal.Problem) bool { return strings.Contains(x.Detail, "the signature is good") }) {
		p.line(yellow, "", "a key that signed after it retired: a host of a version before went on with it when stile keys rotate was given beside it. If that was so here, --late KID believes these receipts")
	}
	if more := r.Found - int64(len(r.Problems)); more > 0 {
		p.line(red, "", fmt.Sprintf("and %s more", count(more, "problem")))
	}
	if r.Missing > 0 {
		p.line(yellow, "", fmt.Sprintf("%s without a receipt, the first is %d: there was no signer", count(r.Missing, "record"), r.FirstMissing))
	}
	if r.Unchecked > 0 {
		p.line(yellow, "", count(r.Unchecked, "receipt")+" unchecked: there were no keys")
	}
	if r.Stated == journal.ReceiptsOff {
		p.line(yellow, "", "receipts: off, says its opening: nothing proves the records behind the last receipt")
	}
	for _, e := range r.Erased {
		p.line(dim, "", fmt.Sprintf("records %d to %d are erased", e[0], e[1]))
	}
	if n := r.Last.Seq - r.Proved; n > 0 && r.Valid > 0 {
		p.line(dim, "", fmt.Sprintf("receipts prove records 1 to %d; what follows, a head kept elsewhere", r.Proved))
	}
	return p.err
}

type verifyJSON struct {
	SID         string        `json:"sid"`
	Incarnation string        `json:"incarnation"`
	OK          bool          `json:"ok"`
	Records     int64         `json:"records"`
	Head        string        `json:"head"`
	Through     string        `json:"through"` // the chain holds up to here
	Valid       int64         `json:"receipts_valid"`
	Bad         int64         `json:"receipts_bad"`
	Missing     int64         `json:"receipts_missing"`
	Stated      string        `json:"receipts_stated,omitempty"` // by the opening
	Proved      int64         `json:"proved"`                    // the last record with a valid receipt
	Found       int64         `json:"problems_found"`
	Problems    []problemJSON `json:"problems"`
	Erased      [][2]int64    `json:"erased"`
}

type problemJSON struct {
	Seq    int64  `json:"seq"`
	What   string `json:"what"`
	Detail string `json:"detail"`
}

func verifyJSONOf(r journal.Report) verifyJSON {
	out := verifyJSON{
		SID: r.SID, Incarnation: r.Inc.String(), OK: r.OK(), Records: r.Records, Head: headText(r.Last), Through: headText(r.Through),
		Valid: r.Valid, Bad: r.Bad, Missing: r.Missing, Stated: string(r.Stated), Proved: r.Proved, Found: r.Found, Problems: []problemJSON{}, Erased: [][2]int64{},
	}
	for _, p := range r.Problems {
		out.Problems = append(out.Problems, problemJSON(p))
	}
	out.Erased = append(out.Erased, r.Erased...)
	return out
}

// configError is a mistake in a flag or argument.
func configError(field, detail string) error {
	return &messages.Error{Code: messages.ErrConfig, Field: field, Detail: detail}
}
