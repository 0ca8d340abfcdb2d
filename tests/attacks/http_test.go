package attacks

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// spellings are ways to name ann's session that are not its id.
func spellings(w *world) map[string]string {
	return map[string]string{
		"as it is":            "secret",
		"with tenant":         "acme:ann:secret",
		"with user":           "ann:secret",
		"colons in percent":   "acme%3Aann%3Asecret",
		"twice in percent":    "acme%253Aann%253Asecret",
		"up and down":         "..%2Fann%2Fsecret",
		"up in percent":       "%2e%2e%2fann%2fsecret",
		"a path":              "acme%2Fann%2Fsecret",
		"backslashes":         "acme%5Cann%5Csecret",
		"NUL":                 "acme:ann:secret%00",
		"NUL in front":        "%00secret",
		"capitals":            "SECRET",
		"full width":          "%EF%BD%93%EF%BD%85%EF%BD%83%EF%BD%92%EF%BD%85%EF%BD%94",
		"soft hyphen":         "se%C2%ADcret",
		"zero width":          "secret%E2%80%8B",
		"overlong slash":      "acme%C0%AFann%C0%AFsecret",
		"no UTF-8":            "secret%FF",
		"CR LF":               "secret%0D%0AX-Stile-User:%20ann",
		"space":               "%20secret",
		"dot":                 "secret.",
		"a pattern":           "secre%25",
		"a placeholder":       "%7Bid%7D",
		"a quote":             "x'%20OR%20'1'='1",
		"a semicolon":         "secret;user=ann",
		"a query in percent":  "secret%3Fuser=ann",
		"a fragment":          "secret%23",
		"reserved":            "stile.profile",
		"the longest there's": strings.Repeat("a", 128),
		"longer":              strings.Repeat("a", 129),
	}
}

// idRows name ann's session in every way, from another tenant and as another user.
func idRows(w *world) (rows []row) {
	for what, id := range spellings(w) {
		for holder, who := range map[string]string{"evil/eve/all": "another tenant", "acme/bob/admin": "another user"} {
			for kind, c := range map[string][3]string{
				"read":   {"GET", "/v1/sessions/" + id, ""},
				"export": {"GET", "/v1/sessions/" + id + "/export", ""},
				"submit": {"POST", "/v1/sessions/" + id + "/runs", `{"input": "hello"}`},
				"delete": {"DELETE", "/v1/sessions/" + id, ""},
			} {
				if who == "another user" && kind != "export" {
					continue
				}
				rows = append(rows, row{
					class: "foreign sessions", by: byToken, tries: fmt.Sprintf("%s by %s, the id %s", kind, who, what),
					holds: "refused, tells nothing, and the session stays as it is", attack: w.refused(holder, c[0], c[1], c[2]),
				})
			}
		}
	}
	var inc struct{ Incarnation string }
	_ = json.Unmarshal([]byte(w.must(200, "acme/ann/all", "GET", "/v1/sessions/secret", "").body), &inc)
	for _, path := range []string{"/v1/sessions/" + inc.Incarnation, "/v1/sessions/" + inc.Incarnation + "/export", "/v1/sessions/secret%40" + inc.Incarnation} {
		rows = append(rows, row{
			class: "foreign sessions", by: byToken, tries: "the incarnation as an id: " + path[:24] + path[len(path)-8:],
			holds: "refused", attack: w.refused("evil/eve/all", "GET", path, ""),
		})
	}
	for what, after := range map[string]string{
		"colons": "acme:ann:", "percent": "acme%3Aann%3A", "a pattern": "%25", "an underscore": "_", "NUL": "%00", "up": "../../acme",
		"a cursor before its session": "zzzzzzzzzzz~" + inc.Incarnation, "a tag": "&tag=secret", "a title": "&q=secret", "a title of every text": "&q=%25", "an agent": "&agent=talker", "a prefix as a tag": "&tag=acme:ann:",
	} {
		rows = append(rows, row{
			class: "foreign sessions", by: byToken, tries: "list from a place that is another's: " + what, holds: "no session of another user in it",
			attack: func() error {
				a, err := w.ask("evil/trent/admin", "GET", "/v1/sessions?after="+after, "")
				if err != nil || strings.Contains(a.body, `"secret"`) || a.status >= 500 {
					return errf("%s, %v", a, err)
				}
				return w.leaks(a.body)
			},
		})
	}
	for what, id := range map[string]string{
		"a foreign SID": "acme:ann:mine", "the profile's": "stile.profile", "empty parts": "::", "up": "..", "here": ".", "slashes": "a/b", "NUL": "a\x00b", "a newline": "a\nb",
		"a space": "a b", "full width": "ａ", "too long": strings.Repeat("a", 129), "percent": "%61",
	} {
		rows = append(rows, row{
			class: "reserved ids", by: byToken, tries: "create " + what, holds: "refused",
			attack: w.refused("evil/eve/all", "POST", "/v1/sessions", pretty(map[string]string{"agent": "talker", "id": id})),
		}, row{
			class: "reserved ids", by: byToken, tries: "fork to " + what, holds: "refused",
			attack: w.refused("acme/ann/submit", "POST", "/v1/sessions/secret/fork", pretty(map[string]string{"id": id})),
		})
	}
	return append(rows,
		row{class: "foreign sessions", by: byToken, tries: "fork of another tenant's", holds: "refused", attack: w.refused("evil/eve/all", "POST", "/v1/sessions/secret/fork", `{"id": "mine"}`)},
		row{class: "foreign sessions", by: byToken, tries: "fork under a SID", holds: "refused", attack: w.refused("evil/eve/all", "POST", "/v1/sessions/acme:ann:secret/fork", `{"id": "mine"}`)},
		row{class: "foreign sessions", by: byToken, tries: "an idempotency key of another's run", holds: "refused", attack: w.refused("evil/eve/all", "POST", "/v1/sessions/secret/runs", `{"input": "x"}`, "Idempotency-Key", "k")},
		row{class: "foreign sessions", by: byToken, tries: "a run's number alone", holds: "refused", attack: w.refused("evil/eve/all", "GET", "/v1/sessions/secret/runs/1", "")},
		row{class: "foreign sessions", by: byToken, tries: "the runs of another's", holds: "refused", attack: w.refused("evil/eve/all", "GET", "/v1/sessions/secret/runs", "")},
		row{class: "foreign sessions", by: byToken, tries: "a title for another's", holds: "refused", attack: w.refused("evil/eve/all", "PATCH", "/v1/sessions/secret", `{"title": "mine", "add": ["x"]}`)},
		row{class: "foreign sessions", by: byToken, tries: "cancel of another's run", holds: "refused", attack: w.refused("evil/eve/all", "POST", "/v1/sessions/secret/runs/1/cancel", "")},
		row{class: "foreign sessions", by: byToken, tries: "approvals of another's", holds: "refused", attack: w.refused("evil/eve/all", "GET", "/v1/sessions/secret/approvals", "")},
		row{class: "foreign sessions", by: byToken, tries: "erase a user of another tenant", holds: "erases nothing", attack: func() error {
			a, err := w.ask("evil/eve/all", "DELETE", "/v1/users/ann", "")
			if err != nil || a.status == 200 && !strings.Contains(a.body, `"sessions":0`) || a.status >= 500 {
				return errf("%s, %v", a, err)
			}
			return w.whole()
		}},
		row{class: "foreign sessions", by: byToken, tries: "erase another user without the right", holds: "refused", attack: w.refused("acme/bob/admin", "DELETE", "/v1/users/ann", "")},
		row{class: "foreign sessions", by: byToken, tries: "erase a user named by a SID", holds: "erases nothing", attack: func() error {
			a, err := w.ask("evil/eve/all", "DELETE", "/v1/users/acme%3Aann", "")
			if err != nil || a.status == 200 && !strings.Contains(a.body, `"sessions":0`) || a.status >= 500 {
				return errf("%s, %v", a, err)
			}
			return w.whole()
		}},
	)
}

// userRows name another user or tenant in the header that says for whom a token acts.
func userRows(w *world) (rows []row) {
	for what, as := range map[string]string{
		"ann": "ann", "capitals": "ANN", "with tenant": "acme:ann", "in percent": "%61nn", "a list": "eve, ann", "a list without a space": "eve,ann", "a semicolon": "eve;ann", "quotes": `"ann"`,
		"a path": "../ann", "a star": "*", "a colon": "ann:", "two colons": "::ann", "a hash that looks made": "h-" + strings.Repeat("a", 32), "spaces": " ann ", "a tab": "ann\t", "full width": "ａｎｎ",
	} {
		rows = append(rows, row{
			class: "X-Stile-User", by: byToken, tries: "another tenant as " + what, holds: "the session of acme is not there",
			attack: w.refused("evil/eve/all", "GET", "/v1/sessions/secret", "", "X-Stile-User", as),
		})
		rows = append(rows, row{
			class: "X-Stile-User", by: byToken, tries: "without the scope users as " + what, holds: "refused",
			attack: w.refused("acme/bob/admin", "GET", "/v1/sessions/secret/export", "", "X-Stile-User", as),
		})
	}
	for what, h := range map[string][]string{
		"two headers":          {"X-Stile-User", "bob", "X-Stile-User", "ann"},
		"two headers, turned":  {"X-Stile-User", "ann", "X-Stile-User", "bob"},
		"with an underscore":   {"X_Stile_User", "ann"},
		"of a proxy":           {"X-Forwarded-User", "ann"},
		"of another proxy":     {"X-Remote-User", "ann"},
		"a tenant's":           {"X-Stile-Tenant", "acme"},
		"of a session":         {"X-Stile-Session", "acme:ann:secret"},
		"the original address": {"X-Original-URL", "/v1/sessions/secret"},
	} {
		rows = append(rows, row{
			class: "X-Stile-User", by: byToken, tries: "headers: " + what, holds: "refused", attack: w.refused("acme/bob/admin", "GET", "/v1/sessions/secret", "", h...),
		})
	}
	return rows
}

// rightRows ask for more than a token may.
func rightRows(w *world) (rows []row) {
	add := func(by attacker, what, holder, method, path, body string, headers ...string) {
		rows = append(rows, row{class: "rights", by: by, tries: what, holds: "refused", attack: w.refused(holder, method, path, body, headers...)})
	}
	for what, c := range map[string][3]string{
		"create a session": {"POST", "/v1/sessions", `{"agent": "talker"}`}, "submit": {"POST", "/v1/sessions/secret/runs", `{"input": "x"}`}, "cancel": {"POST", "/v1/sessions/secret/runs/1/cancel", ""},
		"describe": {"PATCH", "/v1/sessions/secret", `{"title": "x"}`},
		"fork":     {"POST", "/v1/sessions/secret/fork", `{}`}, "delete": {"DELETE", "/v1/sessions/secret", ""}, "erase": {"DELETE", "/v1/users/ann", ""},
		"make a token": {"POST", "/v1/tokens", `{"scopes": ["read"]}`}, "list tokens": {"GET", "/v1/tokens", ""}, "revoke": {"DELETE", "/v1/tokens/" + w.ids["acme/ann/all"], ""},
		"rotate keys": {"POST", "/v1/keys/rotate", ""}, "metrics": {"GET", "/metrics", ""}, "chat": {"POST", "/v1/chat/completions", `{"model": "talker", "messages": [{"role": "user", "content": "x"}]}`},
		"tools": {"POST", "/mcp", `{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}`}, "answer an approval": {"POST", "/v1/sessions/secret/approvals/x", `{"allow": true, "digest": "` + strings.Repeat("0", 64) + `"}`},
	} {
		add(byToken, "read alone: "+what, "acme/ann/read", c[0], c[1], c[2])
	}
	for what, c := range map[string][3]string{
		"export": {"GET", "/v1/sessions/secret/export", ""}, "list": {"GET", "/v1/sessions", ""}, "events": {"GET", "/v1/sessions/secret/events", ""}, "delete": {"DELETE", "/v1/sessions/secret", ""},
		"runs": {"GET", "/v1/sessions/secret/runs", ""}, "decisions": {"GET", "/v1/sessions/secret/decisions", ""}, "make a token": {"POST", "/v1/tokens", `{"scopes": ["submit"]}`}, "answer by a submit": {"POST", "/v1/sessions/secret/runs", `{"input": "yes", "policy": "answer"}`},
		"usage": {"GET", "/v1/usage", ""}, "feeds": {"GET", "/v1/sessions/secret/feeds", ""}, "rotate keys": {"POST", "/v1/keys/rotate", ""},
	} {
		add(byToken, "submit alone: "+what, "acme/ann/submit", c[0], c[1], c[2])
	}
	for what, body := range map[string]string{
		"a scope of the maker's lack": `{"scopes": ["metrics"]}`, "the right to act for all": `{"scopes": ["users"]}`, "another user": `{"scopes": ["read"], "user": "ann"}`,
		"a tenant": `{"scopes": ["read"], "tenant": "evil"}`, "no such scope": `{"scopes": ["root"]}`, "no scope": `{"scopes": []}`, "a scope in capitals": `{"scopes": ["METRICS"]}`,
		"a scope with a blank": `{"scopes": ["metrics "]}`, "an id": `{"scopes": ["read"], "id": "` + w.ids["acme/ann/all"] + `"}`, "a hash": `{"scopes": ["read"], "hash": "` + strings.Repeat("0", 64) + `"}`,
		"two members scopes": `{"scopes": ["read"], "scopes": ["metrics"]}`, "before now": `{"scopes": ["read"], "expires_in_s": -1}`,
	} {
		add(byToken, "make a token with "+what, "acme/bob/admin", "POST", "/v1/tokens", body)
	}
	for what, id := range map[string]string{"another tenant's": w.ids["acme/ann/all"], "all": "%25", "up": "..%2F" + w.ids["acme/ann/all"], "its beginning": w.ids["acme/ann/all"][:4]} {
		add(byToken, "revoke "+what, "evil/eve/all", "DELETE", "/v1/tokens/"+id, "")
	}
	add(byToken, "tokens after another tenant's", "evil/eve/all", "GET", "/v1/tokens?after="+w.ids["acme/ann/all"], "")
	rows = append(rows, row{class: "rights", by: byToken, tries: "tokens of all tenants in a list", holds: "those of the tenant alone", attack: func() error {
		a, err := w.ask("evil/eve/all", "GET", "/v1/tokens", "")
		if err != nil || a.status != 200 || strings.Contains(a.body, "acme") || strings.Contains(a.body, w.ids["acme/ann/all"]) || !strings.Contains(a.body, w.ids["evil/mallory/read"]) {
			return errf("%s, %v", a, err)
		}
		return w.leaks(a.body)
	}})
	good := w.secrets["acme/ann/all"]
	for what, h := range map[string]string{
		"none": "", "empty": "Bearer ", "basic": "Basic " + base64.StdEncoding.EncodeToString([]byte("ann:"+good)), "a part": "Bearer " + good[:len(good)-1], "one more": "Bearer " + good + "A",
		"another ending": "Bearer " + good[:len(good)-1] + "~", "capitals": "Bearer " + strings.ToUpper(good), "the hash": "Bearer " + w.hidden()[len(w.hidden())-1], "the id alone": "Bearer stile_" + w.ids["acme/ann/all"] + "_",
		"another's id": "Bearer stile_" + w.ids["acme/ann/all"] + good[strings.LastIndex(good[:20], "_"):] + "x", "two": "Bearer " + good[:20] + " " + good, "a comma": "Bearer x, Bearer " + good, "no scheme": good,
		"digest": "Digest " + good, "a JWT of no issuer": "Bearer a.b.c", "long": "Bearer " + strings.Repeat("x", 20000), "NUL escaped": "Bearer " + good + "%00", "quotes": `Bearer "` + good + `"`, "negotiate": "Negotiate " + good,
	} {
		var headers []string
		if h != "" {
			headers = []string{"Authorization", h}
		}
		add(byClient, "a header with "+what, "", "GET", "/v1/sessions/secret/export", "", headers...)
	}
	for what, path := range map[string]string{
		"in the query": "/v1/sessions/secret?token=" + good, "as access_token": "/v1/sessions/secret?access_token=" + good, "as Authorization": "/v1/sessions/secret?Authorization=Bearer+" + good, "in the path": "/v1/" + good + "/sessions/secret",
	} {
		add(byClient, "a good token "+what, "", "GET", path, "")
	}
	for what, h := range map[string][]string{
		"in a cookie": {"Cookie", "token=" + good}, "in X-Token": {"X-Token", good}, "in X-Api-Key": {"X-Api-Key", good}, "in Proxy-Authorization": {"Proxy-Authorization", "Bearer " + good},
		"as a socket's without one": {"Sec-WebSocket-Protocol", "stile.bearer." + good},
	} {
		add(byClient, "a good token "+what, "", "GET", "/v1/sessions/secret", "", h...)
	}
	for _, path := range []string{
		"/metrics", "/v1/agents", "/v1/usage", "/v1/sessions", "/v1/tokens", "/v1/models", "/v1/models/talker", "/debug/pprof/", "/debug/vars", "/debug/pprof/heap", "//v1/sessions", "/v1//sessions", "/V1/sessions", "/v1/sessions/", "/./v1/sessions", "/v1/../v1/sessions",
		"/v1/sessions/secret/../secret", "/assets/../../stile-data/keys.json", "/assets/..%2f..%2fstile-data/keys.json", "/assets/%2e%2e/%2e%2e/keys.json", "/assets/console.css/../../keys.json", "/stile-data/keys.json", "/.git/config", "/.env", "/assets/", "/assets/page.go", "/openapi.json/../v1/sessions",
		"/healthz/../v1/sessions", "/v1/keys/private", "/%2e%2e/%2e%2e/etc/passwd", "/v1/sessions%2fsecret", "/v1/sessions;x/secret", "/mcp/../v1/sessions", "/metrics/", "/metrics%00",
	} {
		path := path
		rows = append(rows, row{class: "rights", by: byClient, tries: "without a token " + path, holds: "nothing of anybody", attack: func() error {
			a, err := w.ask("", "GET", path, "")
			if err != nil || a.status < 300 || a.status >= 500 || strings.Contains(a.body, "root:") || strings.Contains(a.body, "stile_runs") {
				return errf("%s, %v", a, err)
			}
			return w.leaks(a.body)
		}})
	}
	return rows
}

// headRows come as a browser sends them for a page of another site, and under foreign names.
func headRows(w *world) (rows []row) {
	for _, name := range []string{"evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "evil.example:80", "localhost@evil.example", "[::1].evil.example", "localhost%00.evil.example", "evil", "_", "stile.local", "0x7f.1.evil"} {
		rows = append(rows, row{class: "Host", by: bySite, tries: "the name " + name, holds: "refused, also with a good token", attack: func() error {
			a, err := w.ask("acme/ann/all", "GET", "/v1/sessions/secret", "", "Host", name)
			if err != nil || a.status < 400 || a.status >= 500 {
				return errf("%s, %v", a, err)
			}
			return w.leaks(a.body)
		}})
	}
	host := strings.TrimPrefix(w.url, "http://")
	for what, h := range map[string][]string{
		"another site": {"Origin", "https://evil.example"}, "no site": {"Origin", "null"}, "a name that begins so": {"Origin", w.url + ".evil.example"}, "user and password": {"Origin", "http://" + host + "@evil.example"},
		"a file": {"Origin", "file://"}, "an extension": {"Origin", "chrome-extension://abcdefgh"}, "another port": {"Origin", "http://127.0.0.1:1"}, "another name of loopback": {"Origin", "http://localhost:1"},
		"the other scheme": {"Origin", "https://" + host}, "this site and another": {"Origin", w.url, "Origin", "https://evil.example"}, "another and this site": {"Origin", "https://evil.example", "Origin", w.url},
		"cross-site": {"Sec-Fetch-Site", "cross-site"}, "same-site": {"Sec-Fetch-Site", "same-site"}, "nonsense": {"Sec-Fetch-Site", "x"}, "empty parts": {"Origin", "http://"}, "rubbish": {"Origin", "::::"},
	} {
		for kind, c := range map[string][3]string{"read": {"GET", "/v1/sessions/secret", ""}, "submit": {"POST", "/v1/sessions/secret/runs", `{"input": "x"}`}} {
			rows = append(rows, row{
				class: "Origin", by: bySite, tries: kind + " from " + what, holds: "refused, also with a good token",
				attack: w.refused("acme/ann/all", c[0], c[1], c[2], h...),
			})
		}
	}
	for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"} {
		rows = append(rows, row{class: "Origin", by: bySite, tries: "a form of type " + kind, holds: "refused", attack: w.refused("", "POST", "/v1/sessions", `{"agent": "talker"}`, "Content-Type", kind, "Origin", "https://evil.example")})
	}
	return append(rows, row{class: "Origin", by: bySite, tries: "a preflight", holds: "no header that allows it", attack: func() error {
		a, err := w.ask("", "OPTIONS", "/v1/sessions", "", "Origin", "https://evil.example", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization")
		if err != nil || a.status < 400 || a.header.Get("Access-Control-Allow-Origin") != "" {
			return errf("%s, %v, %v", a, a.header, err)
		}
		return nil
	}})
}

// raw sends bytes and gives all that comes back until the host hangs up. The end of what is
// sent is the end of the connection's one half: what waits for more ends.
func (w *world) raw(text string) (string, error) {
	return w.send(text, func(c *net.TCPConn) (string, error) {
		var all bytes.Buffer
		_, err := io.Copy(&all, io.LimitReader(c, 1<<20))
		if all.Len() > 0 {
			err = nil // it hung up while it was still being sent to
		}
		return all.String(), err
	}, true)
}

// first sends bytes and gives the first answer; "" when the host hangs up instead.
func (w *world) first(text string) (string, error) {
	return w.send(text, func(c *net.TCPConn) (string, error) {
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			if strings.Contains(err.Error(), "timeout") {
				return "", err
			}
			return "", nil
		}
		b, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20))
		return "HTTP/1.1 " + res.Status + "\n" + string(b), nil
	}, false)
}

func (w *world) send(text string, read func(*net.TCPConn) (string, error), half bool) (string, error) {
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		return "", err
	}
	defer conn.Close()
	c := conn.(*net.TCPConn)
	if err := c.SetDeadline(time.Now().Add(60 * time.Second)); err != nil {
		return "", err
	}
	go func() { // what the host does not read blocks it
		_, _ = io.WriteString(c, text)
		if half {
			_ = c.CloseWrite()
		}
	}()
	return read(c)
}

// wireRows send what no client does.
func wireRows(w *world) (rows []row) {
	host := strings.TrimPrefix(w.url, "http://")
	token := "Authorization: Bearer " + w.secrets["evil/trent/admin"] + "\r\n"
	inner := "GET /v1/sessions/secret/export HTTP/1.1\r\nHost: " + host + "\r\n\r\n"
	add := func(class, what, holds, text string, ok func(string) bool) {
		rows = append(rows, row{class: class, by: byConn, tries: what, holds: holds, attack: func() error {
			send := w.raw
			if class == "bombs" {
				send = w.first
			}
			got, err := send(text)
			if err == nil && !ok(got) {
				err = errf("%q", got)
			}
			if err == nil {
				err = w.leaks(got)
			}
			if err == nil {
				err = w.whole()
			}
			return err
		}})
	}
	answers := func(n int) func(string) bool {
		return func(s string) bool {
			return strings.Count("\n"+s, "\nHTTP/1.") <= n && !strings.Contains(s, "HTTP/1.1 2")
		}
	}
	head := "POST /v1/sessions/secret/runs HTTP/1.1\r\nHost: " + host + "\r\n" + token
	for what, text := range map[string]string{
		"two lengths":                  head + "Content-Length: 0\r\nContent-Length: 90\r\n\r\n" + inner,
		"two lengths in one":           head + "Content-Length: 0, 90\r\n\r\n" + inner,
		"a length below zero":          head + "Content-Length: -1\r\n\r\n" + inner,
		"a length with a sign":         head + "Content-Length: +5\r\n\r\nhello" + inner,
		"a length in hex":              head + "Content-Length: 0x5\r\n\r\nhello" + inner,
		"chunked twice":                head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner,
		"chunked and identity":         head + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + inner,
		"chunked with a tab":           head + "Transfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n" + inner,
		"xchunked":                     head + "Transfer-Encoding: xchunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n" + inner,
		"a blank before the colon":     head + "Transfer-Encoding : chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + inner,
		"a folded header":              head + "X: a\r\n Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + inner,
		"a chunk of a huge size":       head + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nhello\r\n0\r\n\r\n" + inner,
		"a chunk of a wrong size":      head + "Transfer-Encoding: chunked\r\n\r\nZ\r\nhello\r\n0\r\n\r\n" + inner,
		"a bare LF in a chunk":         head + "Transfer-Encoding: chunked\r\n\r\n5\nhello\n0\n\n" + inner,
		"a length and chunks":          head + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner,
		"chunks and a length":          head + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + inner,
		"two hosts":                    "GET /v1/sessions/secret HTTP/1.1\r\nHost: " + host + "\r\nHost: evil.example\r\n" + token + "\r\n",
		"no host":                      "GET /v1/sessions/secret HTTP/1.1\r\n" + token + "\r\n",
		"an absolute address":          "GET http://evil.example/v1/sessions/secret HTTP/1.1\r\nHost: " + host + "\r\n" + token + "\r\n",
		"HTTP 1.0 with no host":        "GET /v1/sessions/secret HTTP/1.0\r\n" + token + "\r\n",
		"HTTP 0.9":                     "GET /v1/sessions/secret\r\n",
		"HTTP 2 without consent":       "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"an upgrade to h2c":            "GET /v1/sessions/secret HTTP/1.1\r\nHost: " + host + "\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
		"CONNECT":                      "CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: 127.0.0.1:22\r\n\r\n",
		"TRACE":                        "TRACE / HTTP/1.1\r\nHost: " + host + "\r\n" + token + "\r\n",
		"a method in small letters":    "get /v1/sessions/secret HTTP/1.1\r\nHost: " + host + "\r\n" + token + "\r\n",
		"a NUL in a header":            "GET /v1/sessions/secret HTTP/1.1\r\nHost: " + host + "\r\nX-Stile-User: a\x00nn\r\n" + token + "\r\n",
		"a CR alone in a header":       "GET /v1/sessions/secret HTTP/1.1\r\nHost: " + host + "\r\nX: a\rX-Stile-User: ann\r\n" + token + "\r\n",
		"a method of another":          "POST /v1/sessions/secret HTTP/1.1\r\nHost: " + host + "\r\nX-HTTP-Method-Override: DELETE\r\n" + token + "Content-Length: 0\r\n\r\n",
		"rubbish":                      "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("\x00", 64) + "\r\n\r\n",
		"a request after a bad one":    "GET /%zz HTTP/1.1\r\nHost: " + host + "\r\n\r\n" + inner,
		"a request in a refused body":  "POST /v1/nothing HTTP/1.1\r\nHost: " + host + "\r\n" + token + "Content-Length: 90\r\n\r\n" + inner,
		"a request in an expectation":  head + "Expect: 100-continue\r\nContent-Length: 90\r\n\r\n" + inner,
		"an expectation of another":    head + "Expect: 200-ok\r\nContent-Length: 0\r\n\r\n",
		"trailers that name a user":    head + "Trailer: X-Stile-User\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Stile-User: ann\r\n\r\n",
		"a range of an export":         "GET /v1/sessions/secret/export HTTP/1.1\r\nHost: " + host + "\r\nRange: bytes=0-99\r\n" + token + "\r\n",
		"a condition on an export":     "GET /v1/sessions/secret/export HTTP/1.1\r\nHost: " + host + "\r\nIf-None-Match: *\r\n" + token + "\r\n",
		"a second token in one header": "GET /v1/sessions/secret HTTP/1.1\r\nHost: " + host + "\r\n" + token + "Authorization: Bearer x\r\n\r\n",
	} {
		add("requests on the wire", what, "no answer of success, and none more than there are requests", text, answers(2))
	}
	big := "GET /v1/agents HTTP/1.1\r\nHost: " + host + "\r\n" + token
	cut := func(s string) bool { return s == "" || strings.HasPrefix(s, "HTTP/1.1 4") }
	add("bombs", "a header of 100 KB", "refused", big+"X-Long: "+strings.Repeat("x", 100<<10)+"\r\n\r\n", cut)
	add("bombs", "20,000 headers", "refused", big+strings.Repeat("X-Many: x\r\n", 20000)+"\r\n", cut)
	add("bombs", "an address of 100 KB", "refused", "GET /v1/agents?"+strings.Repeat("x", 100<<10)+" HTTP/1.1\r\nHost: "+host+"\r\n"+token+"\r\n", cut)
	add("bombs", "a body of 2 MB that says so", "refused before it is read", head+"Content-Type: application/json\r\nContent-Length: 2097152\r\n\r\n"+strings.Repeat(" ", 2<<20), cut)
	add("bombs", "a body of 2 MB in chunks", "refused", head+"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n200000\r\n"+strings.Repeat(" ", 2<<20)+"\r\n0\r\n\r\n", cut)
	var members strings.Builder
	for i := range 20000 {
		fmt.Fprintf(&members, `, "m%d": 1`, i)
	}
	deep := strings.Repeat(`{"a":`, 50000) + "1" + strings.Repeat("}", 50000)
	for what, c := range map[string][2]string{
		"a session": {"/v1/sessions", deep}, "an array": {"/v1/sessions", strings.Repeat("[", 100000)}, "a chat": {"/v1/chat/completions", deep}, "a token": {"/v1/tokens", deep}, "a call of a tool": {"/mcp", deep},
		"a chat's content": {"/v1/chat/completions", `{"model": "talker", "messages": [{"role": "user", "content": ` + strings.Repeat("[", 50000) + strings.Repeat("]", 50000) + `}]}`},
		"20,000 members":   {"/v1/sessions", `{"agent": "talker"` + members.String() + "}"}, "a number of 100 KB": {"/v1/tokens", `{"scopes": ["read"], "expires_in_s": ` + strings.Repeat("9", 100000) + "}"},
	} {
		rows = append(rows, row{class: "bombs", by: byToken, tries: "JSON nested, or long: " + what, holds: "refused", attack: w.refused("evil/eve/all", "POST", c[0], c[1], "Accept", "application/json, text/event-stream")})
	}
	rows = append(rows, row{class: "bombs", by: byToken, tries: "a gzip bomb", holds: "not unpacked, refused", attack: func() error {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := io.WriteString(z, `{"agent": "`+strings.Repeat("x", 8<<20)+`"}`); err != nil {
			return err
		}
		if err := z.Close(); err != nil {
			return err
		}
		return w.refused("evil/eve/all", "POST", "/v1/sessions", b.String(), "Content-Encoding", "gzip")()
	}})
	return rows
}

// socketRows attack the door of WebSockets.
func socketRows(w *world) (rows []row) {
	host := strings.TrimPrefix(w.url, "http://")
	w.must(201, "evil/trent/admin", "POST", "/v1/sessions", `{"agent": "talker", "id": "mine"}`)
	open := func(path string, headers ...string) string {
		return "GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" + strings.Join(headers, "\r\n") + "\r\n\r\n"
	}
	mine, good := "Sec-WebSocket-Protocol: stile.bearer."+w.secrets["evil/trent/admin"], w.secrets["acme/ann/all"]
	for what, text := range map[string]string{
		"no token":                       open("/v1/sessions/secret/events", "X: x"),
		"a foreign session":              open("/v1/sessions/secret/events", mine),
		"a foreign session's run":        open("/v1/sessions/secret/runs/1/events", mine),
		"a token in the query":           open("/v1/sessions/secret/events?token="+good, "X: x"),
		"a token as another protocol":    open("/v1/sessions/secret/events", "Sec-WebSocket-Protocol: "+good),
		"a token in a cookie":            open("/v1/sessions/secret/events", "Cookie: token="+good),
		"a page of another site":         open("/v1/sessions/mine/events", mine, "Origin: https://evil.example"),
		"a page without a site":          open("/v1/sessions/mine/events", mine, "Origin: null"),
		"a foreign name":                 strings.Replace(open("/v1/sessions/mine/events", mine), "Host: "+host, "Host: evil.example", 1),
		"a bad place to resume":          open("/v1/sessions/mine/events?after=%27", mine),
		"a place of rubbish":             open("/v1/sessions/mine/events?after=acme:ann:secret", mine),
		"a place of a huge number":       open("/v1/sessions/mine/events?after="+strings.Repeat("9", 100), mine),
		"a place below zero":             open("/v1/sessions/mine/events?after=-1", mine),
		"another version":                strings.Replace(open("/v1/sessions/mine/events", mine), "Version: 13", "Version: 8", 1),
		"no key":                         strings.Replace(open("/v1/sessions/mine/events", mine), "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", "", 1),
		"a route that has none":          open("/v1/sessions/mine/export", mine, "Origin: https://evil.example"),
		"a submit":                       strings.Replace(open("/v1/sessions/secret/runs", mine), "GET ", "POST ", 1),
		"two tokens, the good one later": open("/v1/sessions/secret/events", "Sec-WebSocket-Protocol: stile.bearer.x, stile.bearer."+good),
	} {
		rows = append(rows, row{class: "WebSocket", by: byClient, tries: what, holds: "no socket", attack: func() error {
			got, err := w.first(text)
			if err != nil || !strings.HasPrefix(got, "HTTP/1.1 4") {
				return errf("%q, %v", got, err)
			}
			return w.leaks(got)
		}})
	}
	frame := func(first byte, length uint64, masked bool, data string) string {
		var b bytes.Buffer
		b.WriteByte(first)
		mask := byte(0)
		if masked {
			mask = 0x80
		}
		switch {
		case length < 126:
			b.WriteByte(mask | byte(length))
		default:
			b.WriteByte(mask | 127)
			for i := 56; i >= 0; i -= 8 {
				b.WriteByte(byte(length >> i))
			}
		}
		if masked {
			b.WriteString("\x00\x00\x00\x00")
		}
		b.WriteString(data)
		return b.String()
	}
	for what, text := range map[string]string{
		"a frame of 2^62 bytes":     frame(0x82, 1<<62, true, "x"),
		"a frame of 2^63 bytes":     frame(0x82, 1<<63, true, "x"),
		"a frame without a mask":    frame(0x81, 5, false, "hello"),
		"a text":                    frame(0x81, 5, true, "hello"),
		"a text of 1 MB":            frame(0x81, 1<<20, true, strings.Repeat("x", 1<<20)),
		"a ping of 1 KB":            frame(0x89, 1024, true, strings.Repeat("x", 1024)),
		"a reserved bit":            frame(0xC1, 5, true, "hello"),
		"a reserved kind":           frame(0x83, 5, true, "hello"),
		"a piece without beginning": frame(0x80, 5, true, "hello"),
		"a ping in pieces":          frame(0x09, 1, true, "x"),
		"no UTF-8":                  frame(0x81, 2, true, "\xff\xfe"),
		"bytes instead of a frame":  "GET / HTTP/1.1\r\n\r\n",
	} {
		rows = append(rows, row{class: "WebSocket", by: byToken, tries: "frames: " + what, holds: "the socket is closed, and the host goes on", attack: func() error {
			c, err := net.Dial("tcp", host)
			if err != nil {
				return err
			}
			defer c.Close()
			if err := c.SetDeadline(time.Now().Add(60 * time.Second)); err != nil {
				return err
			}
			if _, err := io.WriteString(c, open("/v1/sessions/mine/events", mine)); err != nil {
				return err
			}
			in := bufio.NewReader(c)
			res, err := http.ReadResponse(in, nil)
			if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
				return errf("no socket: %v, %v", res, err)
			}
			go func() {
				_, _ = io.WriteString(c, text)
				// The host may wait for a long frame, without room for it, and for a client's
				// consent to close.
				if strings.Contains(what, "2^62") || strings.Contains(what, "text") || what == "no UTF-8" {
					_ = c.(*net.TCPConn).CloseWrite()
				}
			}()
			if n, err := io.Copy(io.Discard, in); n > 64<<10 || err != nil && strings.Contains(err.Error(), "timeout") {
				return errf("%d bytes came, %v", n, err)
			}
			return w.whole()
		}})
	}
	return rows
}

// doorRows attack the doors for clients of others: chat completions and tools.
func doorRows(w *world) (rows []row) {
	chat := func(content string) string {
		return pretty(map[string]any{"model": "talker", "user": "ann", "messages": []any{map[string]any{"role": "user", "content": content}}})
	}
	for what, h := range map[string][]string{
		"a foreign session": {"X-Stile-Session", "secret"}, "a SID": {"X-Stile-Session", "acme:ann:secret"}, "the profile": {"X-Stile-Session", "stile.profile"}, "a path": {"X-Stile-Session", "../ann/secret"},
		"the user in the body": {"X-None", "x"}, "another user": {"X-Stile-User", "ann"},
	} {
		rows = append(rows, row{class: "chat completions", by: byToken, tries: what, holds: "nothing of ann's, in no answer and no session", attack: func() error {
			a, err := w.ask("evil/mallory/admin", "POST", "/v1/chat/completions", chat("hello"), h...)
			if err != nil || a.status >= 500 {
				return errf("%s, %v", a, err)
			}
			if err := w.leaks(a.body); err != nil {
				return err
			}
			return w.whole()
		}})
	}
	for what, body := range map[string]string{
		"the response of another": `"input": "x", "previous_response_id": "resp_INC_1"`, "an item of another": `"input": [{"type": "item_reference", "id": "msg_INC_1"}, {"role": "user", "content": "x"}]`,
		"a foreign session": `"input": "x", "conversation": "secret"`, "a SID": `"input": "x", "conversation": "acme:ann:secret"`, "the profile": `"input": "x", "conversation": "stile.profile"`,
	} {
		rows = append(rows, row{class: "responses", by: byToken, tries: what, holds: "nothing of ann's, in no answer and no session", attack: func() error {
			var there struct{ Incarnation string }
			a, err := w.ask("acme/ann/read", "GET", "/v1/sessions/secret", "")
			if err == nil {
				err = json.Unmarshal([]byte(a.body), &there)
			}
			if err != nil {
				return errf("%s, %v", a, err)
			}
			body := strings.ReplaceAll(body, "INC", strings.ReplaceAll(there.Incarnation, "-", ""))
			a, err = w.ask("evil/mallory/admin", "POST", "/v1/responses", `{"model": "talker", `+body+`}`)
			if err != nil || a.status >= 500 || strings.Contains(body, there.Incarnation[:8]) && a.status != 404 {
				return errf("%s, %v", a, err)
			}
			if err := w.leaks(a.body); err != nil {
				return err
			}
			return w.whole()
		}})
	}
	for what, body := range map[string]string{
		"no model": `{"messages": []}`, "a model that is a path": `{"model": "../files", "messages": [{"role": "user", "content": "x"}]}`, "no messages": `{"model": "talker"}`, "a role of the host": `{"model": "talker", "messages": [{"role": "root", "content": "x"}]}`,
		"a picture by address": `{"model": "talker", "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://169.254.169.254/"}}]}]}`, "a message that is a number": `{"model": "talker", "messages": [7]}`,
	} {
		rows = append(rows, row{class: "chat completions", by: byToken, tries: "a body with " + what, holds: "refused", attack: w.refused("evil/eve/all", "POST", "/v1/chat/completions", body)})
	}
	rpc := func(method string, params any) string {
		return pretty(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	}
	both := []string{"Accept", "application/json, text/event-stream"}
	initialize := rpc("initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{}, "clientInfo": map[string]string{"name": "x", "version": "1"}})
	begin := func(holder string) (string, error) {
		a, err := w.ask(holder, "POST", "/mcp", initialize, both...)
		if err != nil || a.status != 200 || a.header.Get("Mcp-Session-Id") == "" {
			return "", errf("%s, %v", a, err)
		}
		return a.header.Get("Mcp-Session-Id"), nil
	}
	for _, c := range []struct{ holder, method string }{
		{"evil/eve/all", "POST"}, {"evil/eve/all", "GET"}, {"evil/eve/all", "DELETE"}, {"acme/bob/admin", "POST"}, {"acme/bob/admin", "GET"}, {"acme/bob/admin", "DELETE"},
	} {
		rows = append(rows, row{class: "tools over MCP", by: byToken, tries: c.method + " in the protocol's session of another, by " + c.holder, holds: "refused", attack: func() error {
			id, err := begin("acme/ann/all")
			if err != nil {
				return err
			}
			body := ""
			if c.method == "POST" {
				body = rpc("tools/list", map[string]any{})
			}
			a, err := w.ask(c.holder, c.method, "/mcp", body, append(both, "Mcp-Session-Id", id)...)
			if err != nil || a.status < 400 || a.status >= 500 {
				return errf("%s, %v", a, err)
			}
			return w.leaks(a.body)
		}})
	}
	for what, args := range map[string]map[string]any{
		"a foreign session": {"message": "x", "session": "secret"}, "a SID": {"message": "x", "session": "acme:ann:secret"}, "the profile": {"message": "x", "session": "stile.profile"}, "up": {"message": "x", "session": "../secret"},
		"NUL": {"message": "x", "session": "a\x00"}, "a list": {"message": "x", "session": []string{"secret"}}, "a user": {"message": "x", "user": "ann"}, "a long session": {"message": "x", "session": strings.Repeat("a", 500)},
	} {
		rows = append(rows, row{class: "tools over MCP", by: byToken, tries: "call with " + what, holds: "nothing of ann's, in no answer and no session", attack: func() error {
			id, err := begin("evil/mallory/admin")
			if err != nil {
				return err
			}
			a, err := w.ask("evil/mallory/admin", "POST", "/mcp", rpc("tools/call", map[string]any{"name": "talker", "arguments": args}), append(both, "Mcp-Session-Id", id)...)
			if err != nil || a.status >= 500 {
				return errf("%s, %v", a, err)
			}
			if err := w.leaks(a.body); err != nil {
				return err
			}
			return w.whole()
		}})
	}
	for what, h := range map[string][]string{
		"a session that was made up": {"Mcp-Session-Id", "0123456789abcdef"}, "a session of rubbish": {"Mcp-Session-Id", "../../x"}, "no session": {"X-None", "x"}, "an event of another": {"Last-Event-ID", "secret_1"},
	} {
		rows = append(rows, row{class: "tools over MCP", by: byToken, tries: "listen in " + what, holds: "refused", attack: w.refused("evil/eve/all", "GET", "/mcp", "", append([]string{"Accept", "text/event-stream"}, h...)...)})
	}
	approval := func(id string, body string) func() error {
		return w.refused("acme/bob/admin", "POST", "/v1/sessions/waits/approvals/"+url.PathEscape(id), body)
	}
	w.must(201, "acme/ann/all", "POST", "/v1/sessions", `{"agent": "careful", "id": "waits"}`)
	_, say := w.model.play(`<execute>[{"name":"write","args":{"file":"a.txt","content":"x"}}]</execute>`)
	w.must(202, "acme/ann/all", "POST", "/v1/sessions/waits/runs", `{"input": "`+say+`"}`)
	var list struct {
		Approvals []struct{ ID, Digest string }
	}
	for len(list.Approvals) == 0 { // the test's own limit ends a wait that has no end
		time.Sleep(10 * time.Millisecond)
		_ = json.Unmarshal([]byte(w.must(200, "acme/ann/all", "GET", "/v1/sessions/waits/approvals", "").body), &list)
	}
	id, digest := list.Approvals[0].ID, list.Approvals[0].Digest
	own := func(holder, id, body string) func() error {
		return w.refused(holder, "POST", "/v1/sessions/waits/approvals/"+url.PathEscape(id), body)
	}
	return append(rows,
		row{class: "approvals", by: byToken, tries: "by another user", holds: "refused", attack: approval(id, `{"allow": true, "digest": "`+digest+`"}`)},
		row{class: "approvals", by: byToken, tries: "by another tenant", holds: "refused", attack: own("evil/eve/all", id, `{"allow": true, "digest": "`+digest+`"}`)},
		row{class: "approvals", by: byToken, tries: "without the scope", holds: "refused", attack: own("acme/ann/submit", id, `{"allow": true, "digest": "`+digest+`"}`)},
		row{class: "approvals", by: byToken, tries: "with a digest of other arguments", holds: "refused", attack: own("acme/ann/approve", id, `{"allow": true, "digest": "`+strings.Repeat("0", 64)+`"}`)},
		row{class: "approvals", by: byToken, tries: "without a digest", holds: "refused", attack: own("acme/ann/approve", id, `{"allow": true}`)},
		row{class: "approvals", by: byToken, tries: "with the digest in capitals", holds: "refused", attack: own("acme/ann/approve", id, `{"allow": true, "digest": "`+strings.ToUpper(digest + "A")[1:]+`"}`)},
		row{class: "approvals", by: byToken, tries: "of a call that does not wait", holds: "refused", attack: own("acme/ann/approve", "no-such-call", `{"allow": true, "digest": "`+digest+`"}`)},
		row{class: "approvals", by: byToken, tries: "by a word of the user without the scope", holds: "refused", attack: w.refused("acme/ann/submit", "POST", "/v1/sessions/waits/runs", `{"input": "yes", "policy": "answer"}`)},
		row{class: "approvals", by: byToken, tries: "the call is not done by any of it", holds: "no file", attack: func() error {
			var still struct{ Approvals []any }
			a, err := w.ask("acme/ann/all", "GET", "/v1/sessions/waits/approvals", "")
			if err == nil {
				err = json.Unmarshal([]byte(a.body), &still)
			}
			if err != nil || len(still.Approvals) != 1 {
				return errf("%s, %v", a, err)
			}
			return nil
		}},
	)
}
