package catalog

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// RecallName is the tool that searches earlier sessions.
const RecallName = "recall"

// Bounds of a recall (docs/spec/cogency.md §10).
const (
	maxRecallQuery = 200 // runes
	recallHits     = 3
)

// Memory is a message of a user, or the reply to one, in another session.
type Memory struct {
	At   time.Time
	Text string // its beginning, on one line
}

// Recall returns the tool recall of docs/spec/cogency.md §10. search finds at most limit
// texts, the best first, in all other sessions of the user of session sid; query has the
// words as they were written. now is the clock.
func Recall(search func(ctx context.Context, sid, query string, limit int) ([]Memory, error), now func() time.Time) tools.Tool {
	return Reporting(RecallName, "Searches what you and this user said in earlier sessions. Any of the words may match, also inside longer ones.", messages.ReadOnly,
		Parameters{{Name: "query", Type: "string", Description: "Words to look for, at most 200 characters.", Required: true}},
		func(ctx context.Context, c *tools.Call) (outcome, content string, err error) {
			query, _ := c.Args[0].AsString()
			switch n := utf8.RuneCountInString(query); {
			case strings.TrimSpace(query) == "":
				return "", "", neuroscript.Errorf(neuroscript.CodeArgument, "argument query: it has no words")
			case n > maxRecallQuery:
				return "", "", neuroscript.Errorf(neuroscript.CodeArgument, "argument query: %d characters; at most %d", n, maxRecallQuery)
			}
			if key, err := messages.ParseSID(c.SID); err != nil || key.User == "" {
				return "", "", Failed("there is no user whose sessions could be searched")
			}
			hits, err := search(ctx, c.SID, query, recallHits)
			if err != nil {
				return "", "", err
			}
			lines := make([]string, len(hits))
			for i, h := range hits {
				lines[i] = age(now().Sub(h.At)) + ": " + h.Text
			}
			if len(hits) == 0 {
				return "No matches", "", nil
			}
			return fmt.Sprintf("Found %d", len(hits)), strings.Join(lines, "\n"), nil
		})
}

// age describes how long ago something was.
func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "<1min ago"
	case d < time.Hour:
		return fmt.Sprintf("%dmin ago", d/time.Minute)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh ago", d/time.Hour)
	}
	return fmt.Sprintf("%dd ago", d/(24*time.Hour))
}
