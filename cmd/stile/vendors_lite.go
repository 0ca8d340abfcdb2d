//go:build lite

package main

import (
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
)

// vendors of a lite build say why they are not there.
func vendors(func(string) (string, bool)) map[string]llm.Provider {
	out := map[string]llm.Provider{}
	for _, name := range []string{"openai", "anthropic", "gemini"} {
		out[name] = func(llm.Settings) (llm.Model, error) {
			return nil, &messages.Error{Code: messages.ErrConfig, Field: "provider", Detail: name + " is not in this build, which was made with the tag lite; build without it"}
		}
	}
	return out
}
