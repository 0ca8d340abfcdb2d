package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/internal/confine"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/internal/seam"
)

// Command describes a tool that is a program of its own (docs/spec/streaming.md §7.1). The
// program reads the arguments as one JSON object on its standard input and writes its result
// as JSON on its standard output; its command line has nothing of a call.
type Command struct {
	Name       string
	Summary    string
	Class      messages.Class
	Params     Parameters
	Dir        string   // working directory; a relative program is in it
	Entrypoint []string // program and arguments
	Memory     int64    // bytes of address space of a process; 0 is 1 GiB
	CPU        time.Duration
	Files      int64
	Output     int64 // bytes of standard output
	Timeout    time.Duration
	Stream     string         // StreamLines, StreamJSONLines, or "" for a result that is one JSON text
	Reach      *confine.Reach // what it may reach; nil is what the host's user reaches
	Absent     bool           // the program need not exist: a replay declares it and runs nothing
}

// Default bounds of a command, and bounds that a command cannot set.
const (
	commandMemory    = 1 << 30 // a program in Go reserves some 700 MiB of address space before it begins
	commandCPU       = time.Minute
	commandFiles     = 64
	commandOutput    = 1 << 20
	commandFileBytes = 64 << 20 // of one file that it writes
	commandErrors    = 4 << 10  // of its standard error that are kept
)

// errOutput ends a command that writes too much.
var errOutput = errors.New("it wrote too much")

// NewCommand returns the tool. The error is ERR_CONFIG with Field implementation.entrypoint
// for a program that does not exist, is not executable, or is outside Dir and not named by
// an absolute path, and for every command on a system that cannot enforce its limits.
func NewCommand(d Command) (tools.Tool, error) {
	bad := func(detail string) (tools.Tool, error) {
		return tools.Tool{}, invalid("implementation.entrypoint", detail)
	}
	if len(d.Entrypoint) == 0 {
		return bad("there is none")
	}
	program := d.Entrypoint[0]
	if !d.Absent {
		if !confine.Supported {
			return bad("commands cannot be limited on this system")
		}
		var err error
		if program, err = confine.Program(d.Dir, program); err != nil {
			return bad(err.Error())
		}
	}
	for _, set := range []struct {
		p *int64
		d int64
	}{{&d.Memory, commandMemory}, {&d.Files, commandFiles}, {&d.Output, commandOutput}} {
		if *set.p <= 0 {
			*set.p = set.d
		}
	}
	if d.CPU <= 0 {
		d.CPU = commandCPU
	}
	d.Params = slices.Clone(d.Params)
	slices.SortStableFunc(d.Params, func(a, b Parameter) int {
		switch {
		case a.Required == b.Required:
			return 0
		case a.Required:
			return -1
		}
		return 1
	})
	t := tools.Tool{Name: d.Name, Description: d.Summary, Class: d.Class, Timeout: d.Timeout}
	t.Form.Schema = d.Params.Schema()
	for _, p := range d.Params {
		t.Params = append(t.Params, neuroscript.Param{Name: p.Name, Type: seam.TypeOf(p.Type), Optional: !p.Required})
	}
	t.Run = func(ctx context.Context, c *tools.Call) (neuroscript.Value, error) {
		args, err := d.arguments(c.Args)
		if err != nil {
			return neuroscript.Value{}, err
		}
		return d.run(ctx, c, program, args)
	}
	return t, nil
}

// arguments returns the JSON object of positional arguments.
func (d *Command) arguments(args []neuroscript.Value) ([]byte, error) {
	given := map[string]jsontext.Value{}
	for i, v := range args {
		if v.IsNil() {
			continue
		}
		raw, err := neuroscript.AppendJSON(nil, v)
		if err != nil {
			return nil, neuroscript.Errorf(neuroscript.CodeArgument, "argument %s: %s", d.Params[i].Name, err)
		}
		given[d.Params[i].Name] = raw
	}
	raw, err := json.Marshal(given)
	if err != nil {
		return nil, err
	}
	if given, err = d.Params.Bind(string(raw)); err != nil {
		return nil, err
	}
	return json.Marshal(given, json.Deterministic(true))
}

// run runs the program once, in a process group of its own that does not outlive it.
func (d *Command) run(ctx context.Context, c *tools.Call, program string, args []byte) (neuroscript.Value, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := &bounded{limit: d.Output, over: func() { cancel(errOutput) }}
	stderr := &bounded{limit: commandErrors}
	cmd := exec.CommandContext(ctx, program, d.Entrypoint[1:]...)
	cmd.Dir = d.Dir
	cmd.Env = []string{
		"PATH=" + confine.Path, "LANG=C.UTF-8", "STILE_SESSION=" + c.SID, "STILE_KEY=" + c.Key,
		fmt.Sprintf("STILE_ATTEMPT=%d", c.Attempt), fmt.Sprintf("STILE_EPOCH=%d", c.Epoch),
	}
	jail, own, clean, err := d.Reach.Jail()
	if err != nil {
		return neuroscript.Value{}, neuroscript.Errorf(neuroscript.CodeToolFailed, "the command cannot be confined: %s", err)
	}
	defer clean()
	cmd.Env = append(cmd.Env, own...)
	given, err := confine.Given(args)
	if err != nil {
		return neuroscript.Value{}, neuroscript.Errorf(neuroscript.CodeToolFailed, "the command cannot be given its arguments: %s", err)
	}
	defer given.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = given, out, stderr
	grows := growing{form: d.Stream, call: c}
	rest := func() error { return grows.take(ctx, out.b, true) }
	if d.Stream != "" && c.Sink != nil {
		cmd.Stdout, rest = grows.follow(ctx, out, cancel)
	}
	err = confine.Run(cmd, &confine.Limits{Memory: d.Memory, CPU: d.CPU, Files: d.Files, FileBytes: commandFileBytes}, jail)
	var ungrown error
	if d.Stream != "" {
		ungrown = rest()
	}
	switch {
	case errors.Is(context.Cause(ctx), errOutput):
		return neuroscript.Value{}, neuroscript.Errorf(neuroscript.CodeToolFailed, "the result is over its limit of %d bytes", d.Output)
	case ctx.Err() != nil:
		return neuroscript.Value{}, context.Cause(ctx)
	case err != nil:
		text := "the command cannot be run"
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			text = exit.Error()
		}
		if more := clip.Excerpt(string(stderr.b)); more != "" {
			text += ": " + more
		}
		if short(stderr.b) {
			text += fmt.Sprintf("; it may have %d bytes of address space: resources.memory of the tool sets that", d.Memory)
		}
		if d.Reach != nil && refused(stderr.b) {
			text += "; " + d.Reach.Rule() + "; implementation.confine of the tool changes that"
		}
		return neuroscript.Value{}, neuroscript.Errorf(neuroscript.CodeToolFailed, "%s", text)
	}
	if d.Stream != "" {
		return grows.value(), ungrown
	}
	if len(bytes.TrimSpace(out.b)) == 0 {
		return neuroscript.Value{}, nil
	}
	v, err := neuroscript.FromJSON(out.b)
	if err != nil {
		return neuroscript.Value{}, neuroscript.Errorf(neuroscript.CodeToolFailed, "the result is no JSON: %s", err)
	}
	return v, nil
}

// short reports whether the error output of a program says that it ran out of memory, in
// the words of the C library, Go, C++, Python, Java and Node.
func short(stderr []byte) bool {
	return says(stderr, "out of memory", "cannot allocate memory", "failed to reserve", "bad_alloc", "memoryerror", "could not reserve enough space", "memory exhausted")
}

// refused reports whether the error output of a program says that something was out of its
// reach.
func refused(stderr []byte) bool {
	return says(stderr, "permission denied", "operation not permitted", "eacces", "eperm", "network is unreachable")
}

func says(stderr []byte, words ...string) bool {
	stderr = bytes.ToLower(stderr)
	return slices.ContainsFunc(words, func(w string) bool { return bytes.Contains(stderr, []byte(w)) })
}

// bounded is a writer that keeps the beginning of what is written to it. It belongs to one
// goroutine until that has ended.
type bounded struct {
	b     []byte
	limit int64
	over  func() // called once more is written; may be nil
}

// Write implements io.Writer. It accepts everything, so that output beyond the bound does
// not stop the command.
func (w *bounded) Write(p []byte) (int, error) {
	room := w.limit - int64(len(w.b))
	if int64(len(p)) > room && w.over != nil {
		w.over()
	}
	w.b = append(w.b, p[:min(int64(len(p)), room)]...)
	return len(p), nil
}
