package anthropic

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/llmtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	llmtest.Wire(t, llmtest.Adapter{Format: llmtest.Anthropic(), New: func(o llmtest.Options) (llm.Model, error) {
		return New(Options{BaseURL: o.URL, Keys: o.Keys, MaxTokens: o.MaxTokens, Prices: o.Prices, MaxEventBytes: o.MaxEventBytes, Base: o.Base})
	}})
}
