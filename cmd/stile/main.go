package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/mattn/go-isatty"
	"golang.org/x/term"
)

func main() {
	ctx, hold := signals()
	os.Exit(execute(ctx, os.Args[1:], console{
		in: os.Stdin, out: os.Stdout, err: os.Stderr, env: os.Getenv, environ: os.Environ,
		inTerminal: isatty.IsTerminal(os.Stdin.Fd()), outTerminal: isatty.IsTerminal(os.Stdout.Fd()), interrupts: hold.interrupts, reloads: hold.reloads,
		size: func() (columns, rows int) {
			columns, rows, _ = term.GetSize(int(os.Stdout.Fd()))
			return columns, rows
		},
	}))
}

// held has signals come over a channel instead of ending the process, until they are released.
type held struct {
	interrupts, reloads func() (came <-chan struct{}, release func())
}

// signals returns a context that the first signal ends; after it the second one ends the process
// at once. A signal that is held ends neither.
func signals() (ctx context.Context, hold held) {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, cancel := context.WithCancel(context.Background())
	came := make(chan os.Signal, 8)
	signal.Notify(came, ends...)
	var interrupts, reloads atomic.Pointer[chan struct{}]
	go func() {
		for s := range came {
			to := interrupts.Load()
			if s == syscall.SIGHUP {
				to = reloads.Load()
			}
			if to != nil && s != syscall.SIGTERM {
				select {
				case *to <- struct{}{}:
				default: // two that were not taken are enough
				}
				continue
			}
			signal.Stop(came)
			cancel()
			return
		}
	}()
	holding := func(at *atomic.Pointer[chan struct{}]) func() (<-chan struct{}, func()) {
		return func() (<-chan struct{}, func()) {
			to := make(chan struct{}, 2)
			at.Store(&to)
			return to, func() { at.CompareAndSwap(&to, nil) }
		}
	}
	return ctx, held{holding(&interrupts), holding(&reloads)}
}

// console is the world as a command sees it.
type console struct {
	in       io.Reader
	out, err io.Writer
	env      func(string) string
	environ  func() []string // all of it, as "name=value"; nil is none

	inTerminal, outTerminal bool
	// interrupts has interrupts come over a channel, and not end the command, until release is
	// called; nil where none come.
	interrupts func() (came <-chan struct{}, release func())
	// reloads is the same of SIGHUP.
	reloads func() (came <-chan struct{}, release func())
	// size is that of the terminal that out is, 0 where it is not known; nil has nothing
	// drawn in place.
	size func() (columns, rows int)
}

// variables are the names of what the environment sets.
func (c console) variables() (names []string) {
	if c.environ == nil {
		return nil
	}
	for _, v := range c.environ() {
		name, _, _ := strings.Cut(v, "=")
		names = append(names, name)
	}
	return names
}

// colour reports whether to paint: on a terminal that can, unless NO_COLOR has a
// value (no-color.org).
func (c console) colour() bool {
	return c.outTerminal && c.env("NO_COLOR") == "" && c.env("TERM") != "dumb"
}

// execute runs one command line and gives the exit status.
func execute(ctx context.Context, args []string, c console) int {
	a := &app{console: c}
	root := a.root()
	root.SetArgs(dashed(root, args))
	strictCompletion(root)
	root.SetIn(c.in)
	root.SetOut(c.out)
	root.SetErr(c.err)
	cmd, err := root.ExecuteContextC(ctx)
	return a.report(ctx, cmd, err)
}
