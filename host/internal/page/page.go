// Package page is the console: the page that a host shows at its address, with which a person
// finds sessions, follows them live, sees where their time went, and answers for calls that
// wait.
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
//   - All of it together is at most 150 KB on the wire.
package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"

	js "github.com/seed14be6753/stile/clients/js"
)

// The modules are in app; vendor has the libraries of others, as vendor/fetch.sh brings them.
//
//go:embed app/* vendor/*.js vendor/*.css
var files embed.FS

// Policy is the Content-Security-Policy of the page.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// An asset is a part of the page as it is served.
type asset struct {
	kind      string
	body, zip []byte
	tag       string
}

// index is the document; the other assets have the names of their files.
const index = "index.html"

// modulesMark stands in the document for what a browser should fetch before it is asked for.
const modulesMark = "<!-- modules -->\n"

// assets are all parts by name.
var assets = sync.OnceValue(func() map[string]*asset {
	all := map[string]*asset{"stile.js": newAsset("stile.js", js.Source)}
	for _, dir := range []string{"app", "vendor"} {
		entries, err := files.ReadDir(dir)
		if err != nil {
			panic(err) // they are in the binary
		}
		for _, e := range entries {
			body, err := fs.ReadFile(files, path.Join(dir, e.Name()))
			if err != nil {
				panic(err)
			}
			if e.Name() != index {
				all[e.Name()] = newAsset(e.Name(), body)
			}
		}
	}
	var preload []string
	for name := range all {
		if strings.HasSuffix(name, ".js") {
			preload = append(preload, `<link rel="modulepreload" href="assets/`+name+"\">\n")
		}
	}
	slices.Sort(preload)
	body, err := files.ReadFile("app/" + index)
	if err != nil {
		panic(err)
	}
	all[index] = newAsset(index, bytes.Replace(body, []byte(modulesMark), []byte(strings.Join(preload, "")), 1))
	return all
})

func newAsset(name string, body []byte) *asset {
	kinds := map[string]string{".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
	sum := sha256.Sum256(body)
	var zip bytes.Buffer
	w, err := gzip.NewWriterLevel(&zip, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(body)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err) // a buffer takes everything
	}
	return &asset{kind: kinds[path.Ext(name)] + "; charset=utf-8", body: body, zip: zip.Bytes(), tag: `"` + hex.EncodeToString(sum[:12]) + `"`}
}

// Register serves the page at / and its parts below /assets/, and gives the patterns of
// their routes. They hold nothing of any user, so every caller may have them: a person
// without a token could not enter one otherwise. missing answers for a part that there is not.
func Register(mux *http.ServeMux, missing http.HandlerFunc) (patterns []string) {
	for _, p := range []string{"/{$}", "/assets/{file}"} {
		patterns = append(patterns, "GET "+p)
		mux.HandleFunc("GET "+p, func(w http.ResponseWriter, r *http.Request) {
			name := index
			if file := r.PathValue("file"); file != "" {
				name = file
			}
			a := assets()[name]
			if a == nil || name == index && r.PathValue("file") != "" {
				missing(w, r)
				return
			}
			a.serve(w, r)
		})
	}
	return patterns
}

func (a *asset) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("Content-Security-Policy", Policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-cache") // ask again, and have it if it is another one
	h.Set("ETag", a.tag)
	h.Set("Vary", "Accept-Encoding")
	if r.Header.Get("If-None-Match") == a.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := a.body
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = a.zip
	}
	_, _ = w.Write(body)
}
