// Package adapter is the host's own and no part of the public API: it may change in any release.
//
// It is the main function of a peer: a program that puts a workload on another runtime in its own
// process, and writes the result of a round (bench/peers).
package adapter

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"time"

	"github.com/seed14be6753/stile/bench/load"
	"github.com/seed14be6753/stile/bench/measure"
	"github.com/seed14be6753/stile/bench/workload"
)

// Main runs the peer that open makes for a variant. The names of its variants come first: without
// -variant the first runs.
func Main(variants []string, open func(w *workload.Workload, variant string) (load.Target, error)) {
	file := flag.String("workload", "", "file of the workload")
	variant := flag.String("variant", variants[0], fmt.Sprint(variants))
	flag.Parse()
	if err := run(*file, *variant, open); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(file, variant string, open func(*workload.Workload, string) (load.Target, error)) error {
	doc, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	w, err := workload.Parse(file, doc)
	if err != nil {
		return err
	}
	t, err := open(w, variant)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r := &measure.Result{
		Format: measure.Format, Tool: "bench/peers", Target: t.Name(), Workload: *w, Started: time.Now(),
		Machine: measure.Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU()},
	}
	arrivals := w.Schedule()
	r.Rounds = append(r.Rounds, load.Run(ctx, w, arrivals, t, measure.NewRecorder(len(arrivals)), load.Options{}))
	return r.Write(os.Stdout)
}
