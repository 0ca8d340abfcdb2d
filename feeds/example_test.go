package feeds_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/seed14be6753/stile/feeds"
)

// tools stands for whatever calls the tools of a session.
type tools struct{}

func (tools) Fetch(_ context.Context, src feeds.Source) (string, error) {
	return fmt.Sprintf(`{"tool":%q,"given":%s}`, src.Name, src.Params), nil
}

func Example() {
	noon := time.Date(2024, 6, 15, 12, 34, 56, 0, time.UTC)
	keeper, err := feeds.NewKeeper(feeds.Config{Internals: feeds.Internals{Now: func() time.Time { return noon }}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer keeper.Close()

	// What the manifest says.
	set, err := feeds.NewSet([]feeds.Spec{
		{ID: "now", Type: "internal", Source: feeds.SourceSpec{Action: feeds.SystemClock}},
		{ID: "news", Type: "on_demand", Source: feeds.SourceSpec{Type: "tool", Name: "search", Params: `{"until":"$now"}`}},
	}, feeds.Rules{})
	if err != nil {
		fmt.Println(err)
		return
	}

	// What the model does to it.
	out, err := set.Do(feeds.Call{
		Name: feeds.AddFeed, Params: `{"id":"dice","type":"internal","source":{"action":"random","params":{"min":1,"max":6,"seed":7}}}`,
	})
	if err != nil {
		fmt.Println(feeds.FailureReason(err))
		return
	}
	_, err = out.Set.Do(feeds.Call{Name: feeds.RemoveFeed, Params: `{"id":"weather"}`})
	fmt.Println(out.Result, feeds.FailureReason(err))

	// The session is awake: its actor has the states of its feeds.
	mailbox := make(chan any, 16)
	states := keeper.Open(feeds.Session{Key: "s1", Fetcher: tools{}}, func(msg any) { mailbox <- msg })
	states.Sync(out.Set)
	asleep := make(chan struct{})
	go func() {
		defer close(asleep)
		defer states.Stop()
		for msg := range mailbox {
			switch msg := msg.(type) {
			case *feeds.Want:
				states.Want(msg)
			case *feeds.Fetch:
				states.Ended(msg)
			}
		}
	}()

	// What a prompt begins with.
	for _, e := range states.Client().Prompt(context.Background(), out.Set) {
		_, _ = os.Stdout.Write(e.Append(nil))
	}
	close(mailbox)
	<-asleep
	// Output:
	// {"id":"dice"} feed_not_found
	// <context_feed id="now">
	// 2024-06-15T12:34:56Z
	// </context_feed>
	// <context_feed id="news">
	// {"given":{"until":"2024-06-15T12:34:56Z"},"tool":"search"}
	// </context_feed>
	// <context_feed id="dice">
	// 2
	// </context_feed>
}
