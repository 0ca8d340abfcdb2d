package tests

import (
	stdsql "database/sql"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools/sql/postgres"
)

// ordersYAML is an agent with a database in its folder.
const ordersYAML = `dialect: cortex
loop: {strict: [unseen]}
import: {relics: [orders, ledger]}
model: {script: main.jsonl}
define:
  relics:
    - name: orders
      summary: What was ordered.
      service_type: sql
      connection: {driver: sqlite, path: data/orders.db, max_rows: 2}
      interface:
        endpoints:
          - {name: of, query: "SELECT id, what FROM orders WHERE who = :who ORDER BY id", parameters: [{name: who, type: string, required: true}]}
          - {name: all, query: SELECT id FROM orders ORDER BY id}
    - name: ledger
      service_type: sql
      connection: {driver: sqlite, path: data/orders.db}
      interface:
        endpoints:
          - name: order
            exec: "INSERT INTO orders (who, what) VALUES (:who, :what) RETURNING id"
            class: keyed
            parameters: [{name: who, type: string, required: true}, {name: what, type: string, default: "$1"}]
`

// ordering makes the folder of the agent, with its database.
func ordering(t *testing.T, script string) (dir string, db *stdsql.DB) {
	t.Helper()
	dir = write(t, "agent.yaml", ordersYAML, "main.jsonl", script, "data/.keep", "")
	db, err := stdsql.Open("sqlite", filepath.Join(dir, "data", "orders.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE orders (id INTEGER PRIMARY KEY, who TEXT, what TEXT)"); err != nil {
		t.Fatal(err)
	}
	return dir, db
}

// line is a reply in a script.
func line(text string) string {
	b, _ := json.Marshal(map[string]any{"chunks": []map[string]string{{"text": text}}, "finish": "stop"})
	return string(b) + "\n"
}

func orders(t *testing.T, db *stdsql.DB) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM orders").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestSQLRelic(t *testing.T) {
	dir, db := ordering(t,
		line(put("a", "sync", "ledger", `{"operation":"order","who":"Ann; DROP TABLE orders","what":"tea"}`)+
			put("b", "sync", "ledger", `{"operation":"order","who":"Bo"}`)+
			put("c", "sync", "orders", `{"operation":"of","who":"Bo"}`)+
			put("d", "sync", "ledger", `{"operation":"order","who":"Cy"}`)+
			put("e", "sync", "orders", `{"operation":"all"}`)+
			`<response>${a.rows.0.id} ${c.rows.0.what} $e</response>`))
	a := load(t, dir)
	rt := start(t, stile.Config{Dir: t.TempDir()})
	s := open(t, rt, "stream", a)
	if o := ask(t, s, "go"); o.Decision != stile.Done {
		t.Fatalf("%+v", o)
	}
	if got := said(t, s); got != `1 $1 {"more":true,"rows":[{"id":1},{"id":2}]}` {
		t.Errorf("said %s", got)
	}
	if n := orders(t, db); n != 3 {
		t.Errorf("%d orders", n)
	}
	declared := bodies[*messages.ActionDeclared](records(t, s))
	if declared[0].Class != messages.Keyed || declared[2].Class != messages.ReadOnly {
		t.Errorf("classes %s and %s", declared[0].Class, declared[2].Class)
	}
	if err := os.Remove(filepath.Join(dir, "data", "orders.db")); err != nil {
		t.Fatal(err)
	}
	replays(t, rt, a) // asks no database
	replays(t, rt, nil)
}

// A keyed statement that a crash cut off from its record is done once: the action runs
// again under its key, and finds that it was done.
func TestSQLRelicOnce(t *testing.T) {
	dir, db := ordering(t, line(put("a", "sync", "ledger", `{"operation":"order","who":"Ann"}`)+put("b", "sync", "ledger", `{"operation":"order","who":"Bo"}`)+
		`<response>${a.rows.0.id} ${b.rows.0.id}</response>`))
	a := load(t, dir)
	keys, err := stile.GenerateKeys(stile.Config{})
	if err != nil {
		t.Fatal(err)
	}
	whole := memory.New()
	rt := start(t, stile.Config{Store: whole, Keys: keys})
	s := open(t, rt, "stream", a)
	ask(t, s, "go")
	all := stored(t, s)
	var blobs []messages.Blob
	replied := 0
	for i, r := range all {
		if _, ok := r.Body.(*messages.ModelReply); ok {
			replied = i + 1
		}
		for _, d := range journal.Blobs(r.Body) {
			b, err := whole.Blob(t.Context(), r.Inc, d)
			if err != nil {
				t.Fatal(err)
			}
			blobs = append(blobs, messages.Blob{Digest: d, Data: b})
		}
	}
	again := 0
	for n := replied; n < len(all)-1; n++ {
		cut := memory.New()
		if err := errors.Join(cut.Commit([]journal.Batch{{SID: all[0].SID, Inc: all[0].Inc, Epoch: 1, Records: all[:n], Blobs: blobs}})...); err != nil {
			t.Fatal(err)
		}
		rt := start(t, stile.Config{Store: cut, Keys: keys})
		s := open(t, rt, "stream", a)
		decision(t, s.Run(1))
		if got := said(t, s); got != "1 2" {
			t.Errorf("cut behind record %d: said %s", n, got)
		}
		for _, b := range bodies[*messages.ActionStarted](records(t, s)) {
			if b.Attempt > 1 {
				again++
			}
		}
	}
	if n := orders(t, db); n != 2 || again == 0 {
		t.Errorf("%d orders, and %d attempts were made again", n, again)
	}
}

// Every refusal is typed; nothing outside of the agent's folder is opened; no secret is
// in a record.
func TestSQLRelicRefusals(t *testing.T) {
	dir, db := ordering(t, "")
	outside := filepath.Join(t.TempDir(), "other.db")
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "data", "link.db")); err != nil {
		t.Fatal(err)
	}
	db.Close()
	const secret = "hunter2-secret"
	t.Setenv("DB_URL", "postgres://someone:"+secret+"@127.0.0.1:1/private?connect_timeout=2")
	relics := ""
	for name, connection := range map[string]string{
		"link": "driver: sqlite, path: data/link.db", "none": "driver: sqlite, path: data/none.db", "folder": "driver: sqlite, path: data",
		"server": "driver: postgres, secret: DB_URL", "unset": "driver: postgres, secret: NO_SUCH_URL",
	} {
		relics += "    - {name: " + name + ", service_type: sql, connection: {" + connection + "}, interface: {endpoints: [{name: q, query: SELECT 1 AS a}]}}\n"
	}
	yaml := "dialect: cortex\nloop: {strict: [unseen]}\nimport: {relics: [link, none, folder, server, unset]}\nmodel: {script: main.jsonl}\ndefine:\n  relics:\n" + relics
	if err := os.WriteFile(filepath.Join(dir, "agent.yaml"), []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	var text string
	want := map[string]string{
		"link": "not in the agent's folder", "none": "there is no file data/none.db", "folder": "data is no file",
		"server": "the database cannot be reached", "unset": "NO_SUCH_URL is not set",
	}
	for name := range want {
		text += put(name, "async", name, `{"operation":"q"}`)
	}
	if err := os.WriteFile(filepath.Join(dir, "main.jsonl"), []byte(line(text+"<response>so</response>")), 0o600); err != nil {
		t.Fatal(err)
	}
	a := load(t, dir)
	cfg := stile.Config{Databases: map[string]stile.Database{"postgres": postgres.Open}}
	if err := stile.Check(a, stile.Config{}); err == nil || !strings.Contains(err.Error(), "connection.driver: ERR_CONFIG: there is no client of postgres here") {
		t.Errorf("without a client: %v", err)
	}
	if err := stile.Check(a, cfg); err != nil {
		t.Fatal(err)
	}
	rt := start(t, cfg)
	s := open(t, rt, "stream", a)
	ask(t, s, "go")
	got := ends(t, s)
	for name, part := range want {
		if !strings.HasPrefix(got[name], "failed unavailable ") || !strings.Contains(got[name], part) {
			t.Errorf("%s: %s, want %s", name, got[name], part)
		}
	}
	for _, r := range records(t, s) {
		for _, part := range []string{secret, "someone", "127.0.0.1:1", outside, dir} {
			if strings.Contains(string(r.Raw), part) {
				t.Errorf("record %d has %s", r.Seq, part)
			}
		}
	}
	replays(t, rt, a)
	for part, endpoint := range map[string]string{
		"define.relics[0].interface.endpoints[0].query: ERR_CONFIG: it begins with PRAGMA": "query: PRAGMA x",
		"define.relics[0].interface.endpoints[0].query: ERR_CONFIG: there is a second":     "query: SELECT 1; SELECT 2",
		"define.relics[0].interface.endpoints[0].exec: ERR_CONFIG: it begins with ATTACH":  "exec: 'ATTACH ''x'' AS y'",
	} {
		at := filepath.Join(write(t, "agent.yaml", "dialect: cortex\nloop: {strict: [unseen]}\nimport: {relics: [r]}\ndefine: {relics: [{name: r, service_type: sql, connection: {driver: sqlite, path: x.db}, interface: {endpoints: [{name: q, "+endpoint+"}]}}]}\n"), "agent.yaml")
		a, err := stile.LoadAgent(at)
		if err == nil {
			a.Model = scripted.New()
			err = stile.Check(a, stile.Config{})
		}
		if messages.CodeOf(err) != messages.ErrConfig || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v, want %s", endpoint, err, part)
		}
	}
}
