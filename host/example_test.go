package host_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/manifest"
)

// A program that has a server of its own puts the door into it.
func Example() {
	ctx := context.Background()
	m := manifest.Default("plain")
	m.Name = "greeter"
	agent := &stile.Agent{Manifest: m, Model: stile.ScriptedModel("Hello, Ada.")}
	rt, err := stile.New(ctx, stile.Config{InMemory: true, Agents: []*stile.Agent{agent}})
	if err != nil {
		panic(err)
	}
	defer rt.Close(ctx)
	srv, err := host.New(host.Config{Runtime: rt, Agents: []*stile.Agent{agent}})
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/v1/", srv.Handler())

	own := httptest.NewServer(mux)
	defer own.Close()
	res, err := http.Get(own.URL + "/v1/agents")
	if err != nil {
		panic(err)
	}
	res.Body.Close()
	fmt.Println(res.Status)
	// Output: 200 OK
}
