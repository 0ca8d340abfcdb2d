package feeds

import (
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/internal/prompt"
)

// A Counter counts the tokens of a text. It is used by many goroutines. A prefix of a
// text must not have more tokens than the text; where a tokenizer breaks that rule
// for a few bytes, what is kept is still within the limit, and perhaps shorter than
// it could be.
type Counter interface{ Count(text string) int }

// CodePoints is the default Counter: a token for every four code points begun
// (docs/spec/streaming.md §7.2).
type CodePoints struct{}

// Count implements Counter.
func (CodePoints) Count(text string) int { return (utf8.RuneCountInString(text) + 3) / 4 }

// limit cuts a text at a code point so that it keeps to both bounds, 0 being none, and
// adds the line that says so, which is not counted. When both cut, the one that keeps
// less decides and is the one named.
func limit(text string, maxTokens, maxBytes int64, count Counter) (string, bool) {
	keep, line := len(text), ""
	if maxBytes > 0 && int64(len(text)) > maxBytes {
		keep = len(clip.Start(text, int(maxBytes)))
		line = fmt.Sprintf("[truncated: %d of %d bytes]", keep, len(text))
	}
	if maxTokens > 0 {
		if total := count.Count(text); int64(total) > maxTokens {
			if n := tokenCut(text, int(maxTokens), count); n < keep {
				keep = n
				line = fmt.Sprintf("[truncated: %d of %d tokens]", count.Count(text[:n]), total)
			}
		}
	}
	if line == "" {
		return text, false
	}
	kept := text[:keep]
	if kept != "" && !strings.HasSuffix(kept, "\n") {
		kept += "\n"
	}
	return kept + line, true
}

// tokenCut finds how many bytes a text of at most so many tokens keeps.
func tokenCut(text string, tokens int, count Counter) int {
	if _, ok := count.(CodePoints); ok {
		n := 0
		for range 4 * tokens {
			if n >= len(text) {
				break
			}
			_, size := utf8.DecodeRuneInString(text[n:])
			n += size
		}
		return n
	}
	// The least cut that is over the limit; the one before it is the last within.
	start := func(n int) int { return len(clip.Start(text, n)) }
	n := start(sort.Search(len(text), func(i int) bool { return count.Count(text[:start(i+1)]) > tokens }))
	for n > 0 && count.Count(text[:n]) > tokens {
		n = start(n - 1)
	}
	return n
}

// injected is a value as a prompt, references and get_context_feed show it: within the
// limits of its feed, and a string once it was cut.
func injected(e *Entry, value string, count Counter) (text string, cut bool, asValue string) {
	if count == nil {
		count = CodePoints{}
	}
	text, cut = limit(prompt.FeedBody(value), e.MaxTokens, e.MaxBytes, count)
	if cut {
		return text, true, string(quoted(text))
	}
	return text, false, value
}
