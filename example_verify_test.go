package stile_test

import (
	"context"
	"fmt"
	"os"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/journal"
)

// A journal is checked without the host that wrote it: verify proves that no record
// was changed, replay that the records follow from what happened.
func Example_verify() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "stile")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	rt, err := stile.New(ctx, stile.Config{Dir: dir})
	if err != nil {
		panic(err)
	}
	agent := &stile.Agent{Dialect: "aeiou", Model: stile.ScriptedModel(
		"command\n emit \"counted\"\n emit tool.aeiou.magic(\"LOOP\", {\"action\": \"done\"})\nendcommand")}
	s, err := rt.Open(ctx, "books", agent)
	if err != nil {
		panic(err)
	}
	run, err := s.Submit(ctx, "count")
	if err != nil {
		panic(err)
	}
	if _, err := run.Decision(ctx); err != nil {
		panic(err)
	}
	if err := rt.Close(ctx); err != nil {
		panic(err)
	}

	archive, err := stile.OpenArchive(dir)
	if err != nil {
		panic(err)
	}
	defer archive.Close()
	head, err := archive.Head(ctx, "books")
	if err != nil {
		panic(err)
	}
	// Keys and a head that were exported earlier prove more than those beside the
	// records.
	report, err := archive.Verify(ctx, head.Inc, stile.VerifyOptions{Head: journal.Anchor{Seq: head.Seq, Hash: head.Hash}})
	fmt.Println("verified:", report.OK(), err)
	again, err := archive.Replay(ctx, head.Inc, nil)
	fmt.Println("replayed:", again.Records, "records,", again.Programs, "program, same head:", again.Head == head.Hash, err)
	// Output:
	// verified: true <nil>
	// replayed: 10 records, 1 program, same head: true <nil>
}
