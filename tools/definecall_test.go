package tools_test

import (
	"context"
	"errors"
	"testing"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

func TestDefineCall(t *testing.T) {
	type refund struct {
		Order string `json:"order"`
	}
	type done struct {
		Key     string `json:"key"`
		Attempt int64  `json:"attempt"`
		Order   string `json:"order"`
	}
	do := func(_ context.Context, c *tools.Call, in refund) (done, error) {
		return done{c.Key, c.Attempt, in.Order}, nil
	}
	tool, err := tools.DefineCall("shop.refund", "Refunds an order.", messages.Keyed, do)
	if err != nil {
		t.Fatal(err)
	}
	v, err := tool.Run(t.Context(), &tools.Call{Key: "k-1", Attempt: 2, Args: []tools.Value{tools.String("o7")}})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(v.AppendText(nil)); got != `{"attempt": 2, "key": "k-1", "order": "o7"}` {
		t.Errorf("got %s", got)
	}
	var bad *messages.Error
	if _, err := tools.DefineCall("shop.sum", "", messages.Pure, do); !errors.As(err, &bad) || bad.Code != messages.ErrConfig || bad.Field != "tools.shop.sum" {
		t.Errorf("a pure tool: %v", err)
	}
}
