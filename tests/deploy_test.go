package tests_test

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/VictoriaMetrics/metricsql"
	"go.yaml.in/yaml/v3"
)

// ofOthers are metrics that stile does not export under its own name, but Go, the process and
// Prometheus do.
var ofOthers = []string{"up", "process_resident_memory_bytes", "process_cpu_seconds_total", "process_open_fds", "process_start_time_seconds", "go_memstats_heap_inuse_bytes", "go_goroutines"}

// checkExpression holds an expression of PromQL to its grammar, and its metrics to those that are
// documented, which TestDocsMetrics holds to those that are exported.
func checkExpression(t *testing.T, where, expr string) {
	t.Helper()
	expr = strings.NewReplacer("$__rate_interval", "5m", "$__interval", "1m").Replace(expr)
	if _, err := metricsql.Parse(expr); err != nil {
		t.Errorf("%s: %s: %v", where, expr, err)
		return
	}
	table := rows(strings.Split(section(t, "docs/reference/metrics.md", "## Metrics"), "### Limits")[0])
	bare := regexp.MustCompile(`"[^"]*"`).ReplaceAllString(expr, `""`)
	for _, m := range regexp.MustCompile(`\b(stile|process|go)_[a-z_]+|\bup\b`).FindAllString(bare, -1) {
		if slices.Contains(ofOthers, m) {
			continue
		}
		name, bucket := strings.CutSuffix(m, "_bucket")
		row := table[name]
		if row == nil || bucket != (row[1] == "histogram") {
			t.Errorf("%s: there is no metric %s", where, m)
			continue
		}
		for _, l := range regexp.MustCompile(regexp.QuoteMeta(m)+`\{([^}]*)\}`).FindAllStringSubmatch(expr, -1) {
			for _, label := range regexp.MustCompile(`([a-z_]+)\s*(?:=|!)`).FindAllStringSubmatch(regexp.MustCompile(`"[^"]*"`).ReplaceAllString(l[1], `""`), -1) {
				if label[1] != "job" && !strings.Contains(row[2], "`"+label[1]+"`") {
					t.Errorf("%s: %s has no label %s", where, m, label[1])
				}
			}
		}
	}
}

// Each alert has an expression that can be evaluated, and a row that says what to do.
func TestAlerts(t *testing.T) {
	var doc struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	decoder := yaml.NewDecoder(strings.NewReader(read(t, "deploy/alerts.yaml")))
	decoder.KnownFields(true)
	if err := decoder.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	told := rows(section(t, "docs/operating.md", "## Alerts"))
	var there []string
	for _, g := range doc.Groups {
		for _, r := range g.Rules {
			there = append(there, r.Alert)
			checkExpression(t, r.Alert, r.Expr)
			if s := r.Labels["severity"]; s != "page" && s != "ticket" || r.Annotations["summary"] == "" {
				t.Errorf("%s: %v %v", r.Alert, r.Labels, r.Annotations)
			}
		}
	}
	same(t, "alert", keys(told), there)
}

// promtool has nothing to say against the rules, each alert fires and stays quiet when alerts_test.yaml says so,
// and these cases notice an alert that never fires and one that always does.
func TestAlertRules(t *testing.T) {
	t.Parallel()
	var doc struct {
		Tests []struct {
			AlertRuleTest []struct {
				Alertname string
				ExpAlerts []any `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	rules, cases := read(t, "deploy/alerts.yaml"), read(t, "deploy/alerts_test.yaml")
	if err := yaml.Unmarshal([]byte(cases), &doc); err != nil {
		t.Fatal(err)
	}
	fires, quiet := map[string]int{}, map[string]int{}
	for _, c := range doc.Tests {
		for _, at := range c.AlertRuleTest {
			if len(at.ExpAlerts) > 0 {
				fires[at.Alertname]++
			} else {
				quiet[at.Alertname]++
			}
		}
	}
	var there []string
	for _, m := range regexp.MustCompile(`(?m)^ *- alert: (\w+)$`).FindAllStringSubmatch(rules, -1) {
		there = append(there, m[1])
	}
	same(t, "alert that fires in a test", keys(fires), there)
	same(t, "alert that is quiet in a test", keys(quiet), there)

	const tool = "promtool"
	if _, err := exec.LookPath(tool); err != nil {
		if os.Getenv("STILE_REQUIRE_PROMTOOL") != "" {
			t.Fatal(err)
		}
		t.Log("there is no promtool here, so the rules are not run")
		return
	}
	run := func(t *testing.T, rules string, args ...string) (string, error) {
		dir := t.TempDir()
		for name, text := range map[string]string{"alerts.yaml": rules, "alerts_test.yaml": cases} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.CommandContext(t.Context(), tool, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, args := range [][]string{{"check", "rules", "--lint=all", "--lint-fatal", "alerts.yaml"}, {"test", "rules", "alerts_test.yaml"}} {
		if out, err := run(t, rules, args...); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
	for broken, n := range map[string]map[string]int{"vector(0) > 1": fires, "vector(1)": quiet} {
		changed := regexp.MustCompile(`(?m)^( *expr:) .*$`).ReplaceAllString(rules, "$1 "+broken)
		out, err := run(t, changed, "test", "rules", "alerts_test.yaml")
		found := map[string]int{}
		for _, m := range regexp.MustCompile(`alertname: ?(\w+)`).FindAllStringSubmatch(out, -1) {
			found[m[1]]++
		}
		for name, want := range n {
			if err == nil || found[name] < want {
				t.Errorf("with %s for each expression %d cases of %s fail, want %d", broken, found[name], name, want)
			}
		}
	}
}

func TestDashboard(t *testing.T) {
	var doc struct {
		Panels []struct {
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
		Annotations struct{ List []struct{ Expr string } }
	}
	if err := json.Unmarshal([]byte(read(t, "deploy/grafana.json")), &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Panels) < 20 {
		t.Errorf("%d panels", len(doc.Panels))
	}
	at := map[[2]int]string{}
	for _, p := range doc.Panels {
		if before := at[[2]int{p.GridPos.X, p.GridPos.Y}]; before != "" || len(p.Targets) == 0 {
			t.Errorf("%s stands on %s, or is empty", p.Title, before)
		}
		at[[2]int{p.GridPos.X, p.GridPos.Y}] = p.Title
		for _, target := range p.Targets {
			checkExpression(t, p.Title, target.Expr)
		}
	}
	for _, a := range doc.Annotations.List {
		checkExpression(t, "an annotation", a.Expr)
	}
}

// The expressions above are found wrong when they are.
func TestExpressionsAreChecked(t *testing.T) {
	for name, expr := range map[string]string{
		"grammar": "sum(rate(stile_runs_total[5m])", "metric": "stile_runs_totals", "no bucket": "stile_turn_seconds", "bucket": "rate(stile_runs_total_bucket[5m])", "label": `stile_runs_total{tool="x"}`,
	} {
		inner := &testing.T{}
		done := make(chan struct{})
		go func() {
			defer close(done)
			checkExpression(inner, name, expr)
		}()
		<-done
		if !inner.Failed() {
			t.Errorf("%s: nothing is wrong with %s", name, expr)
		}
	}
}

// What the files to deploy with say is YAML, names settings that there are, and runs without rights.
func TestDeployFiles(t *testing.T) {
	settings := read(t, "docs/settings.md")
	for _, file := range []string{"deploy/compose.yaml", "deploy/cluster.yaml", "deploy/kubernetes.yaml", "deploy/Dockerfile", "deploy/stile.service"} {
		text := read(t, file)
		for _, name := range regexp.MustCompile(`\bSTILE_[A-Z0-9_]+`).FindAllString(text, -1) {
			if name != "STILE_TOKEN" && !strings.Contains(settings, "`"+name+"`") {
				t.Errorf("%s: there is no setting %s", file, name)
			}
		}
		if strings.HasSuffix(file, ".yaml") {
			for decoder := yaml.NewDecoder(strings.NewReader(text)); ; {
				var doc map[string]any
				err := decoder.Decode(&doc)
				if err != nil && err.Error() == "EOF" {
					break
				}
				if err != nil || len(doc) == 0 {
					t.Errorf("%s: %v", file, err)
					break
				}
			}
		}
	}
	for file, wants := range map[string][]string{
		"deploy/Dockerfile":      {"FROM scratch", "USER 65532:65532", `HEALTHCHECK`, `"/bin/stile", "health"`, "deploy/image.sh"},
		"deploy/kubernetes.yaml": {"runAsNonRoot: true", "readOnlyRootFilesystem: true", "path: /readyz", "path: /healthz", "drop: [ALL]"},
		"deploy/cluster.yaml":    {"read_only: true", "cap_drop: [ALL]", "service_healthy"},
		"deploy/compose.yaml":    {"read_only: true", "cap_drop: [ALL]", "service_healthy"},
	} {
		for _, want := range wants {
			if !strings.Contains(read(t, file), want) {
				t.Errorf("%s has no %s", file, want)
			}
		}
	}
}

// The hosts of the cluster have an address and a data directory each, and share the database, the
// secret and all other settings; the balancer knows each of them, and asks whether it is ready.
func TestDeployCluster(t *testing.T) {
	var doc struct {
		Services map[string]struct {
			Environment map[string]string
			Volumes     []string
			Secrets     []string
			ReadOnly    bool `yaml:"read_only"`
		}
		Secrets map[string]struct{ File, Environment, Content string }
		Volumes map[string]any
	}
	if err := yaml.Unmarshal([]byte(read(t, "deploy/cluster.yaml")), &doc); err != nil {
		t.Fatal(err)
	}
	balancer := read(t, "deploy/haproxy.cfg")
	var hosts []string
	var settings map[string]string
	for name, s := range doc.Services {
		if s.Environment["STILE_JOURNAL"] == "" {
			continue
		}
		hosts = append(hosts, name)
		if s.Environment["STILE_CLUSTER_ADDRESS"] != name+":8472" || !slices.Equal(s.Secrets, []string{"cluster"}) || s.Environment["STILE_CLUSTER_SECRET_FILE"] != "/run/secrets/cluster" {
			t.Errorf("%s: %+v", name, s)
		}
		// Compose refuses other secrets than files where the file system is read-only.
		for _, secret := range s.Secrets {
			if of := doc.Secrets[secret]; s.ReadOnly && (of.File == "" || of.Environment != "" || of.Content != "") {
				t.Errorf("%s is read-only, and its secret %s is no file: %+v", name, secret, of)
			}
		}
		if _, own := doc.Volumes[name]; !own || !slices.Contains(s.Volumes, name+":/data") {
			t.Errorf("%s has no data directory of its own", name)
		}
		if !regexp.MustCompile(`(?m)^\tserver ` + name + ` ` + name + `:8471 `).MatchString(balancer) {
			t.Errorf("the balancer does not know %s", name)
		}
		delete(s.Environment, "STILE_CLUSTER_ADDRESS")
		if settings == nil {
			settings = s.Environment
		}
		if !maps.Equal(settings, s.Environment) {
			t.Errorf("%s has other settings: %v", name, s.Environment)
		}
	}
	if len(hosts) != 3 || strings.Count(balancer, "\tserver ") != 3 || !strings.Contains(balancer, "GET uri /readyz") || !strings.Contains(read(t, "deploy/Dockerfile.dockerignore"), "**/*.secret") {
		t.Errorf("%v, %+v\n%s", hosts, doc.Secrets, balancer)
	}
	const tool = "haproxy"
	if _, err := exec.LookPath(tool); err != nil {
		t.Log("there is no haproxy here, so its settings are not held to it")
		return
	}
	if out, err := exec.CommandContext(t.Context(), tool, "-c", "-f", "../deploy/haproxy.cfg").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// systemd has nothing to say against the unit.
func TestUnit(t *testing.T) {
	const tool = "systemd-analyze"
	if _, err := exec.LookPath(tool); err != nil {
		t.Log("there is no systemd-analyze here, so the unit is not held to it")
		return
	}
	self, err := os.Executable() // stands for the command, which must be there
	if err != nil {
		t.Fatal(err)
	}
	unit := filepath.Join(t.TempDir(), "stile.service")
	if err := os.WriteFile(unit, []byte(strings.ReplaceAll(read(t, "deploy/stile.service"), "/usr/local/bin/stile", self)), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), tool, "verify", "--man=no", unit).CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "stile.service") {
			t.Errorf("%v: %s", err, line)
		}
	}
}
