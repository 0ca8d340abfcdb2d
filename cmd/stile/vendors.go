//go:build !lite

package main

import (
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/anthropic"
	"github.com/seed14be6753/stile/llm/gemini"
	"github.com/seed14be6753/stile/llm/openai"
)

// vendors are the providers that ask over a network. Keys are looked up in the
// environment when an agent that needs one is opened.
func vendors(lookup func(string) (string, bool)) map[string]llm.Provider {
	return map[string]llm.Provider{
		"openai":    openai.Provider(lookup),
		"anthropic": anthropic.Provider(lookup),
		"gemini":    gemini.Provider(lookup),
	}
}
