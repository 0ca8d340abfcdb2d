package page_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/host/internal/page"
)

// maxSize bounds what a browser loads, compressed.
const maxSize = 150_000

func TestSize(t *testing.T) {
	if n := page.Size(); n > maxSize || n < 20_000 {
		t.Errorf("the console has %d bytes, at most %d are allowed", n, maxSize)
	}
}

// sources are the modules of the console and its style, without the libraries of others.
func sources(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	names, err := filepath.Glob("app/*")
	if err != nil || len(names) < 10 {
		t.Fatalf("%d modules, %v", len(names), err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(name)] = string(b)
	}
	return all
}

// Modules stay small, say what they are, and make no markup of text.
func TestModules(t *testing.T) {
	for name, text := range sources(t) {
		if !strings.HasSuffix(name, ".js") {
			continue
		}
		if n := strings.Count(text, "\n"); n >= 400 {
			t.Errorf("%s has %d lines", name, n)
		}
		if !strings.HasPrefix(text, "// ") {
			t.Errorf("%s does not say what it is", name)
		}
		for _, bad := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "dangerouslySetInnerHTML", "document.write", "eval(", "new Function", "DOMParser", "srcdoc"} {
			if strings.Contains(text, bad) {
				t.Errorf("%s has %s: what comes from the host is text", name, bad)
			}
		}
	}
}

// Each module that another one imports is there.
func TestImports(t *testing.T) {
	names := page.Names()
	imports := regexp.MustCompile(`(?m)(?:^import |^export |\} )[^;]*from "\./([^"]+)"`)
	found := 0
	for name, text := range sources(t) {
		for _, m := range imports.FindAllStringSubmatch(text, -1) {
			found++
			if !slices.Contains(names, m[1]) {
				t.Errorf("%s imports %s, which is not there", name, m[1])
			}
		}
	}
	if found < 20 {
		t.Errorf("%d imports: the search finds too few", found)
	}
}

// The libraries of others are as vendor/fetch.sh brought them, and their licences are in NOTICE.
func TestVendor(t *testing.T) {
	b, err := os.ReadFile("vendor/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{}
	for line := range strings.Lines(string(b)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		sums[name] = sum
	}
	entries, err := fs.Glob(os.DirFS("vendor"), "*[.]*s")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range entries {
		b, err := os.ReadFile(filepath.Join("vendor", name))
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != sums[name] {
			t.Errorf("%s is not what vendor/fetch.sh wrote", name)
		}
	}
	if len(entries) != len(sums) || len(sums) < 5 {
		t.Errorf("%d libraries, %d sums", len(entries), len(sums))
	}
	notice, err := os.ReadFile(filepath.Join("..", "..", "..", "NOTICE"))
	if err != nil {
		t.Fatal(err)
	}
	licences, err := os.ReadFile("vendor/LICENSES")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^== (\S+) (\S+)$`).FindAllStringSubmatch(string(licences), -1) {
		if !strings.Contains(string(notice), "npm:"+m[1]+" "+m[2]+": ") {
			t.Errorf("NOTICE lacks %s %s: make notice", m[1], m[2])
		}
	}
}

// A browser that has a part asks whether it changed; others get it compressed.
func TestServe(t *testing.T) {
	mux := http.NewServeMux()
	page.Register(mux, http.NotFound)
	get := func(path string, header ...string) *http.Response {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		return w.Result()
	}
	first := get("/assets/app.js", "Accept-Encoding", "gzip")
	if first.StatusCode != 200 || first.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("%s %v", first.Status, first.Header)
	}
	if again := get("/assets/app.js", "If-None-Match", first.Header.Get("ETag")); again.StatusCode != http.StatusNotModified {
		t.Errorf("asked again: %s", again.Status)
	}
	if plain := get("/assets/app.js"); plain.Header.Get("Content-Encoding") != "" {
		t.Errorf("without gzip: %v", plain.Header)
	}
	for _, path := range []string{"/assets/", "/assets/index.html", "/assets/nothing.js", "/assets/fetch.sh", "/assets/LICENSES", "/assets/SHA256SUMS"} {
		if res := get(path); res.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", path, res.Status)
		}
	}
	res := get("/")
	body := make([]byte, 1<<16)
	n, _ := res.Body.Read(body)
	for _, name := range page.Names() {
		if strings.HasSuffix(name, ".js") && !strings.Contains(string(body[:n]), `"assets/`+name+`"`) {
			t.Errorf("the document does not name %s for loading ahead", name)
		}
	}
}

// Each code of the reference has a sentence of why it stopped.
func TestEveryCodeHasWords(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "reference", "codes.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := sources(t)["why.js"]
	codes := regexp.MustCompile("(?m)^\\| `(ERR_[A-Z_]+)` \\| `").FindAllStringSubmatch(string(b), -1)
	if len(codes) < 30 {
		t.Fatalf("%d codes", len(codes))
	}
	for _, c := range codes {
		if !strings.Contains(text, "\n  "+c[1]+": \"") {
			t.Errorf("why.js has no words for %s", c[1])
		}
	}
}

// What is pure in the console is tested in Node.
func TestInNode(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		if os.Getenv("STILE_REQUIRE_NODE") != "" {
			t.Fatalf("node is required: %v", err)
		}
		t.Log("ran without node")
		return
	}
	// Modules of the page name each other by path; node takes them for modules where a package says so.
	dir := t.TempDir()
	for name, text := range sources(t) {
		write(t, filepath.Join(dir, name), text)
	}
	for _, name := range []string{"preact.js", "hooks.js", "htm.js", "uplot.js"} {
		b, err := os.ReadFile(filepath.Join("vendor", name))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), string(b))
	}
	kind, err := json.Marshal(map[string]string{"type": "module"})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "package.json"), string(kind))
	b, err := os.ReadFile("page.test.mjs")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "page.test.mjs"), string(b))
	cmd := exec.CommandContext(t.Context(), node, "--test", "--test-reporter=spec", "page.test.mjs")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
