// Package workload is the host's own and no part of the public API: it may change in any release.
//
// It holds the load of a benchmark as data: which agents answer, which submits
// arrive when, and what their readers do (docs/bench-format.md).
//
// What holds:
//   - A workload and a seed give the same arrivals and the same draws, on every machine.
//   - Parse reports all mistakes of a file, each with file, line and key.
//   - Everything is bounded: see the Max constants.
//
// It has no clock, no goroutines and no files: load runs what it describes.
package workload

import (
	"embed"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Version is that of the format.
const Version = 1

// Bounds of a workload.
const (
	MaxFileBytes = 256 << 10
	MaxRate      = 100_000 // submits a second
	MaxFor       = 24 * time.Hour
	MaxSubmits   = 20_000_000
	MaxSessions  = 1_000_000
	MaxAgents    = 64
	MaxJobs      = 64
	MaxTokens    = 100_000
	MaxCalls     = 256
	MaxInput     = 64 << 10 // bytes
	MaxCuts      = 64
)

// Workload is what a file describes. Its JSON is the part "workload" of a result.
type Workload struct {
	Version  int      `json:"version"`
	Name     string   `json:"name"`
	About    string   `json:"about,omitempty"`
	Seed     uint64   `json:"seed"`
	Arrivals Arrivals `json:"arrivals"`
	// Sessions is the number of sessions that the submits go to, in turn; 0 gives each submit a
	// session of its own.
	Sessions int     `json:"sessions"`
	Agents   []Agent `json:"agents"`
	Jobs     []Job   `json:"jobs"`
	// Thresholds are what must hold of the result, as measure.ParseThreshold reads it.
	Thresholds []string `json:"thresholds,omitempty"`
}

// Arrivals are when submits arrive. They are fixed before the first one: a target that is slow
// does not slow them down.
type Arrivals struct {
	Rate    float64  `json:"rate"` // submits a second behind the ramp
	Ramp    Duration `json:"ramp"` // in which the rate grows from 0, linearly
	For     Duration `json:"for"`  // of all arrivals, with the ramp
	Process Process  `json:"process"`
}

// Process is how arrivals lie in time.
type Process string

// The processes.
const (
	Poisson Process = "poisson" // independent of each other
	Even    Process = "even"    // at equal distances
)

// Agent is a scripted agent: how its model speaks and what its tool takes.
type Agent struct {
	Name string `json:"name"`
	// First is the time before a reply's first token, Gap that before each further one.
	First Dist `json:"first,omitzero"`
	Gap   Dist `json:"gap,omitzero"`
	// Tokens is the number of tokens of an answer, of TokenBytes bytes each.
	Tokens     int `json:"tokens"`
	TokenBytes int `json:"token_bytes"`
	// Calls is the number of calls that a first reply asks for, side by side; 0 is an answer
	// at once. Tool is the time that each takes.
	Calls int  `json:"calls,omitempty"`
	Tool  Dist `json:"tool,omitzero"`
	// Class is the effect class of the tool: pure, read_only, keyed or effectful.
	Class string `json:"class,omitempty"`
	// Approval has a person asked before a call. The bench answers after Approve.
	Approval bool `json:"approval,omitempty"`
	Approve  Dist `json:"approve,omitzero"`
	// Feeds is the number of feeds that a prompt has, each a call of a tool that takes Feed.
	Feeds int  `json:"feeds,omitempty"`
	Feed  Dist `json:"feed,omitzero"`
}

// Job is one kind of submit.
type Job struct {
	Name   string  `json:"name"`
	Agent  string  `json:"agent"`
	Weight float64 `json:"weight"` // its share of the submits, beside the weights of the others
	Input  int     `json:"input"`  // bytes of the input's text
	Reader Reader  `json:"reader"`
	Cuts   int     `json:"cuts,omitempty"` // of a reader that reconnects: how often a stream is cut
}

// Reader is what the client of a run does.
type Reader string

// The readers.
const (
	Stream    Reader = "stream"    // reads the run as it streams
	Wait      Reader = "wait"      // waits for the answer, without a stream
	Reconnect Reader = "reconnect" // cuts its stream and resumes it, Job.Cuts times
	Dead      Reader = "dead"      // opens the stream and reads nothing; the answer is asked for apart
)

//go:embed builtin/*.yaml
var files embed.FS

// Builtin returns the names of the built-in workloads, in the order of a list for people.
func Builtin() []string {
	return []string{"echo", "call", "parallel", "stream", "approvals", "feeds", "readers", "recovery", "mix"}
}

// BuiltinFile returns the file of a built-in workload; ok is false for another name.
func BuiltinFile(name string) (data []byte, ok bool) {
	if !slices.Contains(Builtin(), name) {
		return nil, false
	}
	data, err := files.ReadFile("builtin/" + name + ".yaml")
	return data, err == nil
}

// Agent returns the agent of a name.
func (w *Workload) Agent(name string) (a Agent, ok bool) {
	i := slices.IndexFunc(w.Agents, func(a Agent) bool { return a.Name == name })
	if i < 0 {
		return Agent{}, false
	}
	return w.Agents[i], true
}

// Input is the text of submit n of a job: it begins with the number, from which the agent's draws
// are made, and has Job.Input bytes or more.
func Input(n int, j Job) string {
	text := fmt.Sprintf("submit %d ", n)
	if rest := j.Input - len(text); rest > 0 {
		text += strings.Repeat("lorem ipsum ", rest/12+1)[:rest]
	}
	return text
}

// Number is the number that an input begins with; ok is false for a text that Input did not make.
func Number(input string) (n int, ok bool) {
	i := strings.LastIndex(input, "submit ")
	if i < 0 {
		return 0, false
	}
	rest := input[i+len("submit "):]
	end := 0
	for end < len(rest) && end < 9 && '0' <= rest[end] && rest[end] <= '9' {
		n = n*10 + int(rest[end]-'0')
		end++
	}
	return n, end > 0
}

// Token is the i-th token of an answer, of so many bytes.
func Token(i, size int) string {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	b := make([]byte, size)
	for k := range b {
		b[k] = letters[(i+k)%len(letters)]
	}
	if size > 1 {
		b[size-1] = ' '
	}
	return string(b)
}
