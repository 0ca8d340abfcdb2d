package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/cmd/stile/internal/probe"
	"github.com/seed14be6753/stile/messages"
)

// probe asks the models of manifests, those of the settings where none is named.
func (a *app) probe(ctx context.Context, config string, manifests []string, each time.Duration, asJSON bool) error {
	manifests, err := a.manifests(config, manifests)
	if err != nil {
		return err
	}
	failed := false
	for _, path := range manifests {
		agent, err := stile.LoadAgent(path)
		if err != nil {
			return err
		}
		m := agent.Manifest
		if m.Model.Provider == "" || m.Model.Provider == "scripted" {
			return &messages.Error{Code: messages.ErrInvalid, File: path, Field: "model.provider", Detail: "the model is a script, and says what stands there whatever it is asked: name a provider to probe"}
		}
		if !asJSON {
			fmt.Fprintf(a.out, "%s: %s, dialect %s, model %s\n", harmless(path), harmless(m.Name), m.Dialect, harmless(m.Model.Provider+"/"+m.Model.Model))
		}
		var sum probed
		p := probe.Probe{Agent: agent, Config: stile.Config{Providers: vendors(a.lookup), Databases: databases()}, Word: codeWord, Timeout: each}
		err = p.Run(ctx, func(f probe.Finding) error {
			sum.add(&f)
			if asJSON {
				return a.writeJSON(f)
			}
			return a.found(&f)
		})
		if err != nil {
			return err
		}
		if !asJSON {
			fmt.Fprintln(a.out, sum.String())
		}
		failed = failed || sum.answered < sum.asked
	}
	if failed {
		return exitFailure
	}
	return nil
}

// manifests are those that are named, or those of the settings; none is a mistake.
func (a *app) manifests(config string, named []string) ([]string, error) {
	if len(named) > 0 {
		return named, nil
	}
	s, err := a.loadSettings(config)
	if err == nil && len(s.Agents) == 0 {
		err = &messages.Error{Code: messages.ErrInvalid, Field: "MANIFEST", Detail: "is missing, and the settings name no agent"}
	}
	return s.Agents, err
}

// codeWord is a word that no model can guess.
func codeWord() string { return "kestrel-" + strings.ToLower(rand.Text()[:6]) }

// found prints how the model got on with a question.
func (a *app) found(f *probe.Finding) error {
	state := isOK
	if !f.OK {
		state = isFail
	}
	_, err := fmt.Fprintf(a.out, "%-4s  %-14s  %d turns, %d calls, %d+%d tokens, %.1f s\n", state, f.Question, f.Turns, len(f.Calls), f.InputTokens, f.OutputTokens, float64(f.MS)/1000)
	if err == nil && f.Why != "" {
		_, err = fmt.Fprintf(a.out, "      %s\n", harmless(f.Why))
	}
	for _, e := range f.Errors {
		if err == nil {
			_, err = fmt.Fprintf(a.out, "      error  %s\n", harmless(e))
		}
	}
	for _, l := range slices.Sorted(maps.Keys(f.Habits)) {
		if err == nil {
			_, err = fmt.Fprintf(a.out, "      habit  %s, %d times\n", l, f.Habits[l])
		}
	}
	return err
}

// probed sums up findings.
type probed struct {
	asked, answered, errors, habits, madeUp int
	input, output, ms                       int64
	estimated                               bool
}

func (p *probed) add(f *probe.Finding) {
	p.asked++
	if f.OK {
		p.answered++
	}
	if f.MadeUp {
		p.madeUp++
	}
	p.errors += len(f.Errors)
	for _, n := range f.Habits {
		p.habits += n
	}
	p.input, p.output, p.ms = p.input+f.InputTokens, p.output+f.OutputTokens, p.ms+f.MS
	p.estimated = p.estimated || f.Estimated
}

func (p *probed) String() string {
	about := ""
	if p.estimated {
		about = "about "
	}
	return fmt.Sprintf("%d of %d answered, %d errors, %d habits forgiven, %d results made up, %s%d+%d tokens, %.1f s",
		p.answered, p.asked, p.errors, p.habits, p.madeUp, about, p.input, p.output, float64(p.ms)/1000)
}
