package stile_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// A window keeps prompts small; what it leaves out goes into a summary that the host
// makes of the journal, and that Transform puts in front.
func Example_compaction() {
	ctx := context.Background()
	rt, err := stile.New(ctx, stile.Config{InMemory: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close(ctx)

	var summary atomic.Pointer[string]
	m := manifest.Default("plain")
	m.Memory.HistoryWindow = 3
	agent := &stile.Agent{
		Manifest: m,
		Model:    stile.ScriptedModel("Hello, Ada.", "It is a boat.", "You are welcome."),
		Transform: func(h stile.History) []stile.Message {
			for _, msg := range h.Messages {
				fmt.Println("   sent:", msg.Role, "-", msg.Text)
			}
			if s := summary.Load(); s != nil {
				fmt.Println("   sent: system -", *s)
				return append([]stile.Message{{Role: stile.RoleSystem, Text: *s}}, h.Messages...)
			}
			return h.Messages
		},
	}
	s, err := rt.Open(ctx, "talk", agent)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, text := range []string{"I am Ada.", "What is a dory?", "Thanks."} {
		run, err := s.Submit(ctx, text)
		if err != nil {
			fmt.Println(err)
			return
		}
		if _, err := run.Decision(ctx); err != nil {
			fmt.Println(err)
			return
		}
		// All that the user has said, from the journal: a model could sum it up.
		var said []string
		for r, err := range s.Query(ctx, stile.RecordQuery{Kinds: []stile.Kind{messages.KindInput}, Latest: 100}) {
			if err != nil {
				fmt.Println(err)
				return
			}
			said = append(said, r.Body.(*messages.Input).Text)
		}
		text := "The user has said: " + strings.Join(said, " ")
		summary.Store(&text)
	}
	// Output:
	//    sent: user - I am Ada.
	//    sent: user - I am Ada.
	//    sent: assistant - Hello, Ada.
	//    sent: user - What is a dory?
	//    sent: system - The user has said: I am Ada.
	//    sent: user - What is a dory?
	//    sent: assistant - It is a boat.
	//    sent: user - Thanks.
	//    sent: system - The user has said: I am Ada. What is a dory?
}
