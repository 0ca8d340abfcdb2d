package attacks

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// route is what the walk knows of a route of the host.
type route struct {
	scope string // that it asks for; public is none
	body  string
	// names is what its path names: a session, a token, a user, or nothing. What another
	// tenant has is answered as what is not there.
	names string
	// lists says that it tells of what its caller's tenant or user has.
	lists bool
	// headers of a client that means well.
	headers []string
}

// public are routes that need no token.
const public = "public"

var mcpHeaders = []string{"Accept", "application/json, text/event-stream"}

// routes has a row for each route of the host; TestRoutes finds what lacks one.
var routes = map[string]route{
	"GET /v1/agents":                                {scope: "read"},
	"GET /v1/keys":                                  {scope: public},
	"POST /v1/keys/rotate":                          {scope: "operator"},
	"POST /v1/reload":                               {scope: "operator"},
	"GET /v1/sessions":                              {scope: "read", lists: true},
	"POST /v1/sessions":                             {scope: "submit", body: `{"agent": "talker"}`},
	"GET /v1/sessions/{id}":                         {scope: "read", names: "session"},
	"DELETE /v1/sessions/{id}":                      {scope: "admin", names: "session"},
	"GET /v1/sessions/{id}/export":                  {scope: "read", names: "session"},
	"GET /v1/sessions/{id}/parts/{digest}":          {scope: "read", names: "session"},
	"GET /v1/sessions/{id}/events":                  {scope: "read", names: "session"},
	"GET /v1/sessions/{id}/records":                 {scope: "read", names: "session"},
	"GET /v1/search":                                {scope: "read", lists: true},
	"GET /v1/approvals":                             {scope: "read", lists: true},
	"GET /v1/sessions/{id}/decisions":               {scope: "read", names: "session"},
	"GET /v1/sessions/{id}/runs":                    {scope: "read", names: "session"},
	"PATCH /v1/sessions/{id}":                       {scope: "submit", names: "session", body: `{"title": "x"}`},
	"GET /v1/sessions/{id}/turns/{turn}/prompt":     {scope: "read", names: "session"},
	"GET /v1/sessions/{id}/feeds":                   {scope: "read", names: "session"},
	"GET /v1/sessions/{id}/approvals":               {scope: "read", names: "session"},
	"POST /v1/sessions/{id}/approvals/{approval}":   {scope: "approve", names: "session", body: `{"allow": true, "digest": "` + strings.Repeat("0", 64) + `"}`},
	"POST /v1/sessions/{id}/fork":                   {scope: "submit", names: "session", body: `{}`},
	"POST /v1/sessions/{id}/runs":                   {scope: "submit", names: "session", body: `{"input": "hello"}`},
	"GET /v1/sessions/{id}/runs/{run}":              {scope: "read", names: "session"},
	"GET /v1/sessions/{id}/runs/{run}/events":       {scope: "read", names: "session"},
	"POST /v1/sessions/{id}/runs/{run}/cancel":      {scope: "submit", names: "session"},
	"GET /v1/audit":                                 {scope: "admin"}, // has what the walk itself asked for, by the names that it tries: host.TestAuditIsRead
	"GET /v1/health":                                {scope: "metrics"},
	"GET /v1/usage":                                 {scope: "read", lists: true},
	"POST /v1/tokens":                               {scope: "admin", body: `{"scopes": ["read"]}`},
	"GET /v1/tokens":                                {scope: "admin", lists: true},
	"POST /v1/tokens/{token}/rotate":                {scope: "admin", names: "token", body: `{}`},
	"DELETE /v1/tokens/{token}":                     {scope: "admin", names: "token"},
	"GET /v1/webhooks":                              {scope: "admin", lists: true},
	"GET /v1/webhooks/dead":                         {scope: "admin", lists: true},
	"POST /v1/webhooks/dead/{letter}/retry":         {scope: "admin"},
	"DELETE /v1/webhooks/dead/{letter}":             {scope: "admin"},
	"DELETE /v1/users/{user}":                       {scope: "admin", names: "user"},
	"GET /v1/models":                                {scope: "read"},
	"GET /v1/models/{model}":                        {scope: "read"},
	"POST /v1/chat/completions":                     {scope: "submit", body: `{"model": "talker", "messages": [{"role": "user", "content": "hello"}]}`},
	"POST /v1/responses":                            {scope: "submit", body: `{"model": "talker", "input": "hello"}`},
	"GET /mcp":                                      {scope: "submit", headers: mcpHeaders},
	"POST /mcp":                                     {scope: "submit", headers: mcpHeaders, body: `{"jsonrpc": "2.0", "id": 1, "method": "ping"}`},
	"DELETE /mcp":                                   {scope: "submit", headers: mcpHeaders},
	"GET /metrics":                                  {scope: "metrics"},
	"GET /.well-known/oauth-protected-resource":     {scope: public},
	"GET /.well-known/oauth-protected-resource/mcp": {scope: public},
	"GET /healthz":                                  {scope: public},
	"GET /readyz":                                   {scope: public},
	"GET /openapi.json":                             {scope: public},
	"GET /openapi.yaml":                             {scope: public},
	"GET /openapi-3.0.json":                         {scope: public},
	"GET /openapi-3.0.yaml":                         {scope: public},
	"GET /{$}":                                      {scope: public},
	"GET /assets/{file}":                            {scope: public},
	"/":                                             {scope: public},
}

// computed are patterns that the host's source puts together, by how it does.
var computed = map[string][]string{
	`method+" /mcp"`: {"GET /mcp", "POST /mcp", "DELETE /mcp"},
	`"GET "+p`:       nil, // the page's: its paths are literals, and are found as such
	// What says whose the scopes of other patterns are.
	`p`: nil, `op.Method+" "+op.Path`: nil, `page.Register(mux, s.noPath)`: nil,
}

// patterns are the routes that the host registers beside those of its description, as its
// source says them.
func patterns(t *testing.T, described map[string]bool) (all []string) {
	t.Helper()
	fset := token.NewFileSet()
	consts := map[string]string{}
	var files []*ast.File
	for _, dir := range []string{"host", "host/internal/page", "host/internal/mcp"} {
		names, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(dir), "*.go"))
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v", dir, err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(fset, name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
			ast.Inspect(f, func(n ast.Node) bool {
				v, ok := n.(*ast.ValueSpec)
				if ok && len(v.Values) == len(v.Names) {
					for i, name := range v.Names {
						if s, ok := literal(v.Values[i]); ok {
							consts[name.Name] = s
						}
					}
				}
				return true
			})
			if dir == "host/internal/page" {
				ast.Inspect(f, func(n ast.Node) bool {
					if e, ok := n.(ast.Expr); ok {
						if s, ok := literal(e); ok && (strings.HasPrefix(s, "/assets/") || strings.HasPrefix(s, "/{")) {
							all = append(all, "GET "+s)
						}
					}
					return true
				})
			}
		}
	}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			c, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := c.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			var args []ast.Expr
			switch sel.Sel.Name {
			case "Handle", "HandleFunc":
				args = c.Args[:min(1, len(c.Args))]
			case "require":
				args = c.Args[1:]
			}
			for _, arg := range args {
				if s, ok := literal(arg); ok {
					all = append(all, s)
					continue
				}
				if id, ok := arg.(*ast.Ident); ok && consts[id.Name] != "" {
					all = append(all, consts[id.Name])
					continue
				}
				text := source(t, fset, arg)
				if made, ok := computed[text]; ok {
					all = append(all, made...)
				} else {
					t.Errorf("%s: the walk does not know what route %s is: say it in computed", fset.Position(arg.Pos()), text)
				}
			}
			return true
		})
	}
	return slices.Concat(all, slices.Collect(maps.Keys(described)))
}

func literal(e ast.Expr) (string, bool) {
	b, ok := e.(*ast.BasicLit)
	if !ok || b.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(b.Value)
	return s, err == nil
}

// source is the text of a node.
func source(t *testing.T, fset *token.FileSet, n ast.Node) string {
	t.Helper()
	from, to := fset.Position(n.Pos()), fset.Position(n.End())
	b, err := os.ReadFile(from.Filename)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[from.Offset:to.Offset])
}

// Every route of the host has a row, and no row is of a route that is gone.
func TestRoutes(t *testing.T) {
	w := newWorld(t)
	described := w.described()
	there := map[string]bool{}
	for _, p := range patterns(t, described) {
		there[p] = true
		if _, ok := routes[p]; !ok {
			t.Errorf("%s has no row: say in routes who may do what there", p)
		}
	}
	for p := range routes {
		if !there[p] {
			t.Errorf("%s has a row, and the host has no such route", p)
		}
	}
	if len(there) < 30 || len(described) < 20 {
		t.Errorf("%d routes, %d of them described: the search finds too few", len(there), len(described))
	}
}

// described are the routes of the host's description.
func (w *world) described() map[string]bool {
	w.t.Helper()
	var doc struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal([]byte(w.must(200, "", "GET", "/openapi.json", "").body), &doc); err != nil {
		w.t.Fatal(err)
	}
	all := map[string]bool{}
	for path, ops := range doc.Paths {
		for method := range ops {
			all[strings.ToUpper(method)+" "+path] = true
		}
	}
	return all
}

// The walk over tenants: to each route come the owner's neighbours, a token for each scope
// that is not enough, and no token; what others have is answered as what is not there, and in
// what a caller is told of its own there is nothing of another's.
func TestWalkOverTenants(t *testing.T) {
	w := newWorld(t)
	for _, scope := range []string{"read", "submit", "approve", "admin", "users", "metrics", "feeds", "operator"} {
		w.token("acme/ann/only "+scope, scope)
	}
	tries := 0
	ask := func(holder, pattern string, names map[string]string) answer {
		t.Helper()
		tries++
		r := routes[pattern]
		method, path, ok := strings.Cut(pattern, " ")
		if !ok {
			method, path = "GET", "/nothing-here"
		}
		path = strings.NewReplacer("{id}", names["session"], "{token}", names["token"], "{user}", names["user"], "{run}", "1", "{approval}", "abc", "{model}", "talker", "{$}", "").Replace(path)
		a, err := w.ask(holder, method, path, r.body, r.headers...)
		if err != nil {
			t.Fatalf("%s by %q: %v", pattern, holder, err)
		}
		return a
	}
	of := map[string]string{"session": "secret", "token": w.ids["acme/ann/all"], "user": "ann"}
	missing := map[string]string{"session": "absent", "token": strings.Repeat("0", len(of["token"])), "user": "stranger"}
	told := []string{secret, w.ids["acme/ann/all"], "acme"}
	for pattern, r := range routes {
		if r.scope == public {
			for holder := range map[string]bool{"": true, "evil/eve/all": true} {
				if a := ask(holder, pattern, of); slices.ContainsFunc(told, func(s string) bool { return strings.Contains(a.body, s) }) {
					t.Errorf("%s shows data of a user to all: %s", pattern, a)
				}
			}
			continue
		}
		if a := ask("", pattern, of); a.status != http.StatusUnauthorized {
			t.Errorf("%s without a token: %s", pattern, a)
		}
		for _, scope := range []string{"read", "submit", "approve", "admin", "users", "metrics", "feeds", "operator"} {
			implied := scope == "admin" && slices.Contains([]string{"read", "submit", "approve"}, r.scope)
			if scope == r.scope || implied {
				continue
			}
			if a := ask("acme/ann/only "+scope, pattern, of); a.status != http.StatusForbidden || strings.Contains(a.body, secret) {
				t.Errorf("%s with the scope %s: %s", pattern, scope, a)
			}
		}
		for holder, same := range map[string]bool{"evil/eve/all": false, "evil/mallory/admin": false, "acme/bob/admin": true} {
			switch {
			case r.names == "session", r.names == "token" && !same:
				there, absent := ask(holder, pattern, of), ask(holder, pattern, missing)
				hide := func(a answer) string {
					return strings.NewReplacer(of[r.names], "ID", missing[r.names], "ID").Replace(a.body)
				}
				if there.status != http.StatusNotFound || there.status != absent.status || hide(there) != hide(absent) {
					t.Errorf("%s by %s: %s; of what is not there: %s", pattern, holder, there, absent)
				}
			case r.names == "user" && !same:
				there, absent := ask(holder, pattern, of), ask(holder, pattern, missing)
				hide := func(a answer) string { return strings.NewReplacer("ann", "USER", "stranger", "USER").Replace(a.body) }
				if there.status != absent.status || hide(there) != hide(absent) {
					t.Errorf("%s by %s: %s; of a user who is not there: %s", pattern, holder, there, absent)
				}
			case r.names == "user":
				if a := ask(holder, pattern, of); a.status != http.StatusForbidden {
					t.Errorf("%s by %s: %s", pattern, holder, a)
				}
			case r.lists:
				a := ask(holder, pattern, of)
				if a.status != http.StatusOK || strings.Contains(a.body, `"secret"`) || !same && strings.Contains(a.body, "acme") {
					t.Errorf("%s by %s: %s", pattern, holder, a)
				}
			}
		}
	}
	// A token for other hosts has values of feeds, which is a right of its own on a route that
	// others have too.
	for holder, want := range map[string]int{
		"acme/ann/only feeds": http.StatusOK, "acme/ann/only read": http.StatusForbidden, "acme/ann/only admin": http.StatusForbidden,
		"evil/eve/all": http.StatusForbidden, "evil/eve/feeds": http.StatusNotFound, "acme/bob/feeds": http.StatusNotFound, "": http.StatusUnauthorized,
	} {
		if strings.HasSuffix(holder, "/feeds") {
			w.token(holder, "feeds")
		}
		if a, err := w.ask(holder, "GET", "/v1/sessions/secret/feeds?values=now,", ""); err != nil || a.status != want || strings.Contains(a.body, secret) {
			t.Errorf("values of feeds by %q: %s, %v; want %d", holder, a, err, want)
		}
	}
	if err := w.whole(); err != nil {
		t.Error(err)
	}
	if a, err := w.ask("acme/ann/all", "GET", "/v1/sessions/secret/export", ""); err != nil || a.status != 200 || !strings.Contains(a.body, secret) {
		t.Errorf("the owner: %s, %v", a, err)
	}
	t.Logf("%d routes, %d requests", len(routes), tries)
}
