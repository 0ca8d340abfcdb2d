package cogency

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// The errors that the model reads in rendering 2 about a reply that failed.

// tell is answer with one failure that is the host's: in rendering 2 the markers that it names
// stand as the model is to write them.
func (a *assembly) tell(detail string) {
	results := string(AppendResults(nil, []Result{Failure("", detail)}, 0))
	if a.second {
		results = named.Replace(escaped(results))
	}
	a.pair(results)
}

// named are the markers that texts of the host name.
var named = strings.NewReplacer(`\u003cexecute>`, openExecute, `\u003c/execute>`, shutExecute, `\u003c/think>`, shutThink)

// maxQuoteBytes bounds how much of a batch that did not run the model sees again.
const maxQuoteBytes = 2 << 10

// quote adds the part of a reply after its last unit: a model corrects what it sees.
func (a *assembly) quote(reply string, from int64) {
	text := strings.TrimSpace(strings.ToValidUTF8(reply[min(int(from), len(reply)):], "\ufffd"))
	if kept := clip.Start(text, maxQuoteBytes); len(kept) < len(text) {
		text = kept + "\n[truncated]"
	}
	if text != "" {
		a.parts = append(a.parts, text)
	}
}

// shownRunes is how much of a reply an error shows.
const shownRunes = 24

// placed returns an error with its place: line and byte of the reply, and the text there.
func placed(reply string, e *messages.ParseError) string {
	words, ok := strings.CutPrefix(e.Detail, e.Reason)
	at := int(e.Offset)
	if !ok || at < 0 || at > len(reply) {
		return e.Detail
	}
	place := " at line " + strconv.Itoa(1+strings.Count(reply[:at], "\n")) + ", byte " + strconv.Itoa(at)
	rest := reply[at:]
	if len(rest) > shownRunes*utf8.UTFMax {
		rest = rest[:shownRunes*utf8.UTFMax]
	}
	shown := []rune(parse.OneLine(rest))
	if len(shown) > shownRunes {
		shown = append(shown[:shownRunes], '…')
	}
	if len(shown) > 0 {
		place += " (" + string(shown) + ")"
	}
	return e.Reason + place + words
}

// silence adds the error of a reply without text for the user.
func silence(finish messages.Finish, thought bool) string {
	text := "silence: You have said nothing to the user."
	switch {
	case finish == messages.FinishLength:
		text += " The reply was cut at its length limit: think less."
	case thought:
		text += " The reply ended in a thought: close it with </think>, and answer behind that."
	}
	return text + " Answer in plain text" + orCall
}

const orCall = ", or write calls in <execute>."
