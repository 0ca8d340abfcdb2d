package host

import (
	"net/http"
	"slices"
	"strings"

	"github.com/seed14be6753/stile/messages"
)

// What the doors for clients of OpenAI have in common.

// openAIPaths are the first segments, behind /v1/, of what clients of OpenAI ask for. None of
// them is the first segment of a route of the host's own.
var openAIPaths = []string{
	"assistants", "audio", "batches", "chat", "completions", "containers", "conversations", "embeddings", "evals", "files", "fine_tuning",
	"images", "models", "moderations", "organization", "realtime", "responses", "threads", "uploads", "vector_stores", "videos",
}

// isOpenAI reports whether a request comes from a client of OpenAI, by its path: it is answered
// in the words of that protocol, also when there is no such route.
func isOpenAI(r *http.Request) bool {
	path := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/v1"), "/")
	first, _, _ := strings.Cut(path, "/")
	return slices.Contains(openAIPaths, first)
}

// noSuchPath refuses a path that no route has. A client of OpenAI that asks for more than there
// is shows its user this text.
func noSuchPath(r *http.Request) *problem {
	detail := "there is nothing here"
	switch {
	case !isOpenAI(r):
	case !strings.HasPrefix(r.URL.Path, "/v1/"):
		detail = "there is nothing at " + clipped(r.URL.Path) + ": the base URL of the client must end with /v1"
	default:
		detail = "there is nothing at " + clipped(r.URL.Path) + ": agents answer at POST /v1/chat/completions and POST /v1/responses"
	}
	return refusalOf(messages.ErrNotFound, "path", detail)
}

// clipped is a path as an error quotes it.
func clipped(path string) string {
	const most = 80
	if len(path) > most {
		path = path[:most] + "…"
	}
	return strings.ToValidUTF8(path, "?")
}
