package crash

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// A context feed whose value changes with what happens outside: what a turn saw of it is
// what its actions and its texts mean by it, also when the turn is restored long after the
// world has moved on, and what its journal says.

const newsTool = "world.news"

// newspaper gives the scenario's agent a feed.
func newspaper(m *manifest.Manifest) {
	m.ContextFeeds = []manifest.Feed{{ID: "news", Source: manifest.FeedSource{Type: "tool", Name: newsTool}}}
}

// headlines is the source: it counts what was done outside.
func headlines(o outside) tools.Tool {
	return tools.Tool{Name: newsTool, Class: messages.ReadOnly, Run: func(context.Context, *tools.Call) (neuroscript.Value, error) {
		b, err := os.ReadFile(o.path)
		if err != nil && !os.IsNotExist(err) {
			return neuroscript.Value{}, err
		}
		return neuroscript.String(fmt.Sprintf("%d deeds", strings.Count(string(b), "\n"))), nil
	}}
}

var headline = regexp.MustCompile(`<context_feed id="news">\n(.*)\n</context_feed>`)

// informed repeats what its prompt has of the feed, acts on it twice, and quotes it.
func informed(_ *scenario, req llm.Request) string {
	step, cut := steps(req)
	read := "nothing"
	for _, m := range req.Messages {
		if found := headline.FindStringSubmatch(m.Text); found != nil {
			read = found[1]
		}
	}
	text := fmt.Sprintf("<thought>I read: %s.</thought>", read)
	quoted := ""
	switch {
	case cut:
		quoted = ", what was cut off is not done again"
	case step < turns:
		for i, mode := range []string{"sync", "async"} {
			text += fmt.Sprintf(`<action id="a%d" mode="%s">{"name":"world.keyed","parameters":{"what":"%d-%d after $news"}}</action>`, i, mode, step, i)
			quoted += fmt.Sprintf(", it $a%d", i)
		}
	}
	return text + fmt.Sprintf(`<response final="%v">step %d ends%s, with $news. </response>`, step == turns, step, quoted)
}

// informed: what a turn's model read, what its actions began with and what its texts quote
// is the value of the feed that the turn has in the journal.
func (tr *trial) informed(ctx context.Context, v *verdict, head journal.Head, recs []*stile.Record) {
	value := ""
	for _, r := range recs {
		switch b := r.Body.(type) {
		case *messages.TurnBegin:
			value = ""
		case *messages.FeedInjected:
			if value != "" || b.ID != "news" || b.Error != "" || b.Stale {
				v.fault("turn %d has %q and takes feed %+v", r.Turn, value, b)
			}
			kept, err := tr.archive.Blob(ctx, head.Inc, b.Digest)
			if err != nil {
				v.fault("lost: the feed of turn %d: %v", r.Turn, err)
			}
			value = strings.Trim(string(kept), `"`)
		case *messages.ActionStarted:
			if b.Attempt == 1 && !strings.HasSuffix(b.Args, "after "+value+`"}`) {
				v.fault("action %d%s begins with %s, its turn has the feed %q", r.Turn, b.ID, b.Args, value)
			}
		case *messages.UnitText:
			if said := "I read: " + value + "."; b.UnitKind == messages.ThoughtUnit && b.Complete && b.Text != said {
				v.fault("turn %d thinks %q, its feed is %q", r.Turn, b.Text, value)
			}
			if b.UnitKind == messages.ResponseUnit && b.Complete && !strings.HasSuffix(b.Text, ", with "+value+". ") {
				v.fault("turn %d says %q, its feed is %q", r.Turn, b.Text, value)
			}
		}
	}
}
