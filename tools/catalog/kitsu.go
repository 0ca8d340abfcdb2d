package catalog

import (
	"cmp"
	"context"
	"errors"
	"time"

	json "github.com/go-json-experiment/json"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/zone"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/kitsu"
	"github.com/seed14be6753/stile/tools"
)

// byMetaController is Verdict.By of the answers for action tokens.
const byMetaController = "meta-controller"

// Companion implements the action tokens of a small model (docs/spec/kitsu.md §§4, 5): the
// executors as tools, and the meta-controller as a policy of the gate. The zero value
// searches offline, has the time in UTC, and asks a person when topics differ.
type Companion struct {
	Permissions kitsu.Permissions
	Continues   int  // for one message; as kitsu.Continuation.Max
	AnyTopic    bool // a search about another topic than the last one needs no confirmation
	// Search replaces the offline stub; so does SearchTool, a tool that gets the query as
	// its parameter "query", else as its first. At most one is set.
	Search     tools.Searcher
	SearchTool *tools.Tool
	Limits     neuroscript.Limits // of a SearchTool that is pure
	Now        func() time.Time   // nil is time.Now
	Zone       string             // of get_time where the user's is not known, as zone.Parse has it; "" is UTC
	// Mood returns the user's intensity in 0…1; nil is 0. An error counts as 0 and is
	// passed to Failed.
	Mood   func(sid string) (float64, error)
	Failed func(sid string, err error)
}

// Tools returns the executors. Their names are the kinds of tokens.
func (c Companion) Tools() []tools.Tool {
	return []tools.Tool{c.search(), c.time(), c.count()}
}

func (c Companion) search() tools.Tool {
	t := tools.Tool{
		Name: string(kitsu.Search), Class: messages.ReadOnly, Timeout: kitsu.ExecutorTime, Description: "Searches.",
		Params: []neuroscript.Param{{Name: "query", Type: "string"}},
	}
	if c.SearchTool != nil {
		t.Class = c.SearchTool.Class
		if t.Class == messages.Pure {
			t.Class = messages.ReadOnly // it has no program to be pure in
		}
	}
	t.Run = func(ctx context.Context, call *tools.Call) (neuroscript.Value, error) {
		query, _ := call.Args[0].AsString()
		switch {
		case c.SearchTool != nil:
			own := *call
			own.Name = c.SearchTool.Name
			return Invoke(ctx, c.SearchTool, &own, neuroscript.MapOf([]neuroscript.Entry{{Key: queryParam(c.SearchTool), Value: call.Args[0]}}), c.Limits)
		case c.Search == nil:
			return neuroscript.FromJSON([]byte(kitsu.SearchStub(query, kitsu.MaxResults)))
		}
		found, err := c.Search.Search(ctx, tools.SearchRequest{SID: call.SID, Query: query, Max: kitsu.MaxResults})
		if err != nil {
			return neuroscript.Value{}, err
		}
		out := struct {
			Query   string               `json:"query"`
			Results []tools.SearchResult `json:"results"`
		}{query, found[:min(len(found), kitsu.MaxResults)]}
		raw, err := json.Marshal(out)
		if err != nil {
			return neuroscript.Value{}, err
		}
		return neuroscript.FromJSON(raw)
	}
	return t
}

// queryParam returns the name of the parameter that takes a query.
func queryParam(t *tools.Tool) string {
	if param(t.Params, "query") < 0 && len(t.Params) > 0 {
		return t.Params[0].Name
	}
	return "query"
}

func (c Companion) time() tools.Tool {
	now := c.Now
	if now == nil {
		now = time.Now
	}
	return tools.Tool{
		Name: string(kitsu.GetTime), Class: messages.ReadOnly, Timeout: kitsu.ExecutorTime, Description: "Tells the time.",
		Run: func(_ context.Context, call *tools.Call) (neuroscript.Value, error) {
			at := now()
			name := cmp.Or(call.Host.Zone, c.Zone)
			place, err := zone.Parse(name)
			if err != nil {
				return neuroscript.FromJSON([]byte(kitsu.Time(name, at))) // an invalid name, from a journal that is older than the check
			}
			layout := time.RFC3339
			if place != time.UTC {
				layout = "2006-01-02T15:04:05-07:00"
			}
			return neuroscript.String(at.In(place).Format(layout)), nil
		},
	}
}

func (c Companion) count() tools.Tool {
	return tools.Tool{
		Name: string(kitsu.Continue), Class: messages.ReadOnly, Timeout: kitsu.ExecutorTime, Description: "Goes on.",
		Params: []neuroscript.Param{{Name: "reason", Type: "string", Optional: true}},
		Run: func(_ context.Context, call *tools.Call) (neuroscript.Value, error) {
			return neuroscript.FromJSON([]byte(kitsu.Continuation{Count: kitsu.Count(call.Host.Memory), Max: c.Continues}.Counted()))
		},
	}
}

// Offers reports whether an action is described to the model: one that is always denied is
// not.
func (c Companion) Offers(kind kitsu.Kind) bool {
	switch kind {
	case kitsu.Search:
		return !c.Permissions.NoIndex && !c.Permissions.DenySearch
	case kitsu.Continue:
		return !c.Permissions.DenyContinue
	}
	return true
}

// Policy returns the meta-controller as a custom policy. It answers for every call, so that
// decision and reason are recorded.
func (c Companion) Policy() tools.CustomPolicy {
	return tools.CustomPolicy{Name: byMetaController, Judge: func(q tools.Request) (messages.GateAnswer, string, bool) {
		a, err := kitsu.ActionOf(q.Tool, q.JSON)
		if err != nil {
			return messages.GateDeny, err.Error(), true
		}
		last := string(q.Keep)
		if c.AnyTopic {
			last = ""
		}
		d := kitsu.Decide(kitsu.Request{
			Action: a, Permissions: c.Permissions, LastTopic: last,
			Continuation: kitsu.Continuation{Count: kitsu.Count(q.State), Max: c.Continues}, Mood: c.mood(a, q.SID),
		})
		switch {
		case d.Approved:
			return messages.GateApprove, d.Reason, true
		case d.RequiresConfirmation:
			return messages.GateConfirm, d.Reason, true
		}
		return messages.GateDeny, d.Reason, true
	}}
}

// mood calls Mood, if the answer matters.
func (c Companion) mood(a *kitsu.Action, sid string) float64 {
	if c.Mood == nil || a.Kind != kitsu.Continue {
		return 0
	}
	m, err := c.Mood(sid)
	if err == nil && m >= 0 && m <= 1 {
		return m
	}
	if err == nil {
		err = errors.New("the mood is not in 0…1")
	}
	if c.Failed != nil {
		c.Failed(sid, err)
	}
	return 0
}
