//go:build !lite

package tests_test

import (
	"context"
	"fmt"
	"os"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/openai"
	"github.com/seed14be6753/stile/manifest"
)

func Example_provider() {
	ctx := context.Background()
	rt, err := stile.New(ctx, stile.Config{Providers: map[string]llm.Provider{"openai": openai.Provider(os.LookupEnv)}})
	if err != nil {
		panic(err)
	}
	defer rt.Close(ctx)
	m := manifest.Default("plain")
	m.Model = manifest.Model{Provider: "openai", Model: "llama3.2", BaseURL: "http://localhost:11434/v1"}
	s, err := rt.Open(ctx, "talk", &stile.Agent{Manifest: m})
	if err != nil {
		panic(err)
	}
	run, err := s.Submit(ctx, "Why is a stile called a stile?")
	if err != nil {
		panic(err)
	}
	o, err := run.Decision(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println(o.Decision)
}
