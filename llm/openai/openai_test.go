package openai

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/seed14be6753/stile/internal/wiretest"
	"github.com/seed14be6753/stile/llm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	for api, format := range map[string]wiretest.Format{Chat: wiretest.Chat(), Responses: wiretest.Responses()} {
		t.Run(api, func(t *testing.T) {
			wiretest.Wire(t, wiretest.Adapter{Format: format, New: func(o wiretest.Options) (llm.Model, error) {
				return New(Options{
					BaseURL: o.URL + "/v1", API: api, Keys: o.Keys, MaxTokens: o.MaxTokens, Options: o.Options, Whole: o.Whole,
					Prices: o.Prices, MaxEventBytes: o.MaxEventBytes, Base: o.Base,
				})
			}})
		})
	}
}
