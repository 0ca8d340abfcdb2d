package stile_test

import (
	"context"
	"fmt"

	"github.com/seed14be6753/stile"
)

// Sessions with a title and tags are found again, the one that changed last first.
func Example_lists() {
	ctx := context.Background()
	rt, err := stile.New(ctx, stile.Config{InMemory: true})
	if err != nil {
		panic(err)
	}
	defer rt.Close(ctx)
	agent := &stile.Agent{Name: "ledger", Dialect: "plain", Model: stile.ScriptedModel()}
	for _, id := range []string{"a", "b", "c"} {
		session, err := rt.Open(ctx, "acme:ann:"+id, agent)
		if err != nil {
			panic(err)
		}
		if id == "c" {
			continue
		}
		if err := session.Describe(ctx, "Refund of order 17", "desk=3", "arm="+id); err != nil {
			panic(err)
		}
	}
	q := stile.SessionQuery("acme:ann:")
	q.Tags, q.Limit = []string{"arm"}, 50
	page, err := rt.Archive().Listings(ctx, q)
	for _, l := range page {
		fmt.Println(l.SID, l.Agent, l.Title, l.Tags)
	}
	fmt.Println(err)
	// Output:
	// acme:ann:b ledger Refund of order 17 [arm=b desk=3]
	// acme:ann:a ledger Refund of order 17 [arm=a desk=3]
	// <nil>
}
