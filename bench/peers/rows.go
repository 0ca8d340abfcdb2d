package main

import (
	"path/filepath"
	"slices"
	"strconv"
)

// row is one runtime in one set-up.
type row struct {
	name  string
	about about
	// command is what runs a round in its own process, or serves chat completions if serves.
	command func(file string, port int) []string
	dir     string
	serves  bool
}

// about says what a row is and does, for the page.
type about struct {
	of     string // key of its version
	ours   bool
	keeps  string // where sessions are
	orders string // what orders two runs of one session that are asked for at once
	crash  string // what becomes of a run under way when the process is killed
}

const folder = "bench/peers"

// The rows of one group are compared with each other: in one process with the load, whose own share
// is then in the processor time, and as processes of their own behind chat completions, without and
// with a disk.
const (
	inProcess = "In one process with the load"
	inMemory  = "Behind chat completions, in memory"
	onDisk    = "Behind chat completions, on SQLite"
)

var groups = []string{inProcess, inMemory, onDisk}

func (r *row) group() string {
	switch {
	case !r.serves:
		return inProcess
	case r.about.keeps == disk:
		return onDisk
	default:
		return inMemory
	}
}

const (
	memory = "memory"
	disk   = "SQLite"
	lost   = "lost"
	goesOn = "goes on, no effect twice"
	none   = "nothing"
	queue  = "the session's queue"
)

func rows(bin string) []row {
	peer := func(name, variant string) func(string, int) []string {
		return func(file string, _ int) []string {
			return []string{filepath.Join(bin, name), "-workload", file, "-variant", variant}
		}
	}
	server := func(command ...string) func(string, int) []string {
		return func(file string, port int) []string {
			a := read(file).Agents[0]
			return append(slices.Clone(command), strconv.Itoa(port), strconv.Itoa(a.Calls), strconv.Itoa(a.Tokens), strconv.Itoa(a.TokenBytes))
		}
	}
	node := func(kind string) func(string, int) []string { return server("node", "server.mjs", kind) }
	own := func(flags ...string) func(string, int) []string {
		return func(file string, _ int) []string {
			return append([]string{filepath.Join(bin, "stile"), "bench", file, "--no-own", "--json", "-"}, flags...)
		}
	}
	serve := func(flags ...string) func(string, int) []string {
		return func(file string, port int) []string {
			return append([]string{filepath.Join(bin, "stile"), "bench", "serve", file, "--listen", "127.0.0.1:" + strconv.Itoa(port)}, flags...)
		}
	}
	nodeDir := filepath.Join(folder, "node")
	return []row{
		{name: "a map of histories (floor)", about: about{"", false, memory, none, lost}, command: peer("floor", "map")},
		{name: "eino, ReAct agent", about: about{"eino", false, "the program", none, lost}, command: peer("eino", "react")},
		{name: "eino, ADK runner", about: about{"eino", false, "the program; checkpoints in memory", none, lost}, command: peer("eino", "runner")},
		{name: "stile, memory", about: about{"stile", true, memory, queue, lost}, command: own("--memory")},
		{name: "stile, SQLite", about: about{"stile", true, disk, queue, goesOn}, command: own()},
		{name: "AI SDK", about: about{"ai", false, "the program", none, lost}, command: node("ai"), dir: nodeDir, serves: true},
		{name: "OpenAI Agents", about: about{"@openai/agents", false, memory, none, lost}, command: node("agents"), dir: nodeDir, serves: true},
		{name: "LangGraph, memory", about: about{"@langchain/langgraph", false, memory, none, lost}, command: node("langgraph-memory"), dir: nodeDir, serves: true},
		{name: "ADK-Go, memory", about: about{"adk", false, memory, none, lost}, command: server(filepath.Join(bin, "adk"), "memory"), serves: true},
		{name: "stile serve, memory", about: about{"stile", true, memory, queue, lost}, command: serve("--memory"), serves: true},
		{name: "LangGraph, SQLite", about: about{"@langchain/langgraph", false, disk, none, "the program goes on from the last checkpoint"}, command: node("langgraph-sqlite"), dir: nodeDir, serves: true},
		{name: "ADK-Go, SQLite", about: about{"adk", false, disk, none, "events so far stay"}, command: server(filepath.Join(bin, "adk"), "sqlite"), serves: true},
		{name: "stile serve, SQLite", about: about{"stile", true, disk, queue, goesOn}, command: serve(), serves: true},
	}
}
