// Package page is the page that a host shows at its address: it lists sessions, follows
// one live, and lets a person answer for calls that wait.
//
// One idea: the page is a client like any other. It has no route of its own and reaches
// the host by the JavaScript client, so it may do what its reader may.
//
// What holds:
//   - No script, style or picture but the page's own, none inline, and no request to
//     another host: the policy in its header says so to the browser.
//   - What comes from the host is text. The page never makes markup of it, and the
//     policy lets no script try (Trusted Types).
//   - No other page may put this one in a frame: it can approve.
package page

import (
	"embed"
	"net/http"

	js "github.com/seed14be6753/stile/clients/js"
)

//go:embed index.html page.css page.js plain.js words.js
var files embed.FS

// Policy is the Content-Security-Policy of the page.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Register serves the page at / and its parts below /assets/, and gives the patterns of
// their routes. They hold nothing of any user, so every caller may have them: a person
// without a token could not enter one otherwise.
func Register(mux *http.ServeMux) (patterns []string) {
	for _, f := range []struct{ path, file, kind string }{
		{"/{$}", "index.html", "text/html"},
		{"/assets/page.css", "page.css", "text/css"},
		{"/assets/page.js", "page.js", "text/javascript"},
		{"/assets/plain.js", "plain.js", "text/javascript"},
		{"/assets/words.js", "words.js", "text/javascript"},
		{"/assets/stile.js", "", "text/javascript"},
	} {
		body := js.Source
		if f.file != "" {
			var err error
			if body, err = files.ReadFile(f.file); err != nil {
				panic(err) // it is in the binary
			}
		}
		patterns = append(patterns, "GET "+f.path)
		mux.HandleFunc("GET "+f.path, func(w http.ResponseWriter, _ *http.Request) {
			h := w.Header()
			h.Set("Content-Type", f.kind+"; charset=utf-8")
			h.Set("Content-Security-Policy", Policy)
			h.Set("X-Content-Type-Options", "nosniff")
			h.Set("Cross-Origin-Opener-Policy", "same-origin")
			h.Set("Cross-Origin-Resource-Policy", "same-origin")
			_, _ = w.Write(body)
		})
	}
	return patterns
}
