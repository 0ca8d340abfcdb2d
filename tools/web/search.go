package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"sort"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
	"github.com/seed14be6753/stile/tools/internal/address"
)

// Limits of the tool search (docs/spec/cogency.md §15).
const (
	MaxQueryRunes    = 500
	MaxSearchResults = 5
	SearchTimeout    = 15 * time.Second
	maxSearchBytes   = 2 << 20
	searchBodyRunes  = 300
	searchTitleRunes = 200
)

// Search returns the tool search over a backend. Models see the backend's errors, which must
// have no addresses and no keys.
func Search(backend tools.Searcher) tools.Tool {
	return catalog.Reporting("search", "Searches, and gives up to five results with title, text and address.", messages.ReadOnly, catalog.Parameters{
		{Name: "query", Type: "string", Required: true, Min: 1, Max: MaxQueryRunes, Description: "What to search for."},
	}, func(ctx context.Context, c *tools.Call) (outcome, content string, err error) {
		own, cancel := context.WithTimeout(ctx, SearchTimeout)
		defer cancel()
		hits, err := backend.Search(own, tools.SearchRequest{SID: c.SID, Query: c.Text(0), Max: MaxSearchResults})
		switch {
		case ctx.Err() != nil:
			return "", "", context.Cause(ctx)
		case own.Err() != nil:
			return "", "", catalog.Failed("no answer within %s", SearchTimeout)
		case err != nil:
			return "", "", catalog.Failed("%s", clip.Excerpt(err.Error()))
		}
		var b strings.Builder
		hits = hits[:min(len(hits), MaxSearchResults)]
		for i, h := range hits {
			if i > 0 {
				b.WriteString("\n\n")
			}
			fmt.Fprintf(&b, "%d. %s\n%s\n%s", i+1, flat(h.Title, searchTitleRunes), flat(h.Snippet, searchBodyRunes), flat(h.URL, maxURLBytes))
		}
		return fmt.Sprintf("Found %d results", len(hits)), b.String(), nil
	})
}

func flat(s string, most int) string { return clip.Runes(strings.Join(strings.Fields(s), " "), most) }

// SearXNG searches with a SearXNG server, which must allow JSON (search.formats in its
// settings). The operator chooses the server, so it may be on this machine; it is asked
// without a proxy, and redirects are not followed. It is safe for concurrent use.
type SearXNG struct {
	base   *url.URL
	client *http.Client
}

// NewSearXNG takes the server's address, http or https; any other is ERR_CONFIG with Field
// search.base_url.
func NewSearXNG(base string) (*SearXNG, error) {
	u, err := url.Parse(base)
	if err != nil || fetchable(u) != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, &messages.Error{Code: messages.ErrConfig, Field: "search.base_url", Detail: "is no http or https address without user, query and fragment"}
	}
	dialer := &net.Dialer{Timeout: connectTime}
	return &SearXNG{base: u, client: &http.Client{
		Transport:     &http.Transport{DialContext: dialer.DialContext, TLSHandshakeTimeout: connectTime, MaxResponseHeaderBytes: maxHeaderBytes, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Search implements Searcher.
func (s *SearXNG) Search(ctx context.Context, q tools.SearchRequest) ([]tools.SearchResult, error) {
	to := s.base.JoinPath("search")
	to.RawQuery = url.Values{"q": {q.Query}, "format": {"json"}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return nil, errors.New("the search backend cannot be asked")
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "stile")
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, errors.New("the search backend does not answer: " + address.Hidden(err))
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusForbidden {
		return nil, errors.New("the search backend answers with status 403: does it allow JSON?")
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the search backend answers with status %d", resp.StatusCode)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxSearchBytes+1))
	if err != nil {
		return nil, errors.New("the search backend broke off: " + address.Hidden(err))
	}
	var answer struct {
		Results []struct {
			Title   string `json:"title"`
			Content string `json:"content"`
			URL     string `json:"url"`
		} `json:"results"`
	}
	if len(data) > maxSearchBytes || json.Unmarshal(data, &answer) != nil {
		return nil, errors.New("the search backend's answer is not what was asked for")
	}
	var hits []tools.SearchResult
	for _, r := range answer.Results[:min(len(answer.Results), q.Max)] {
		hits = append(hits, tools.SearchResult{Title: r.Title, Snippet: r.Content, URL: r.URL})
	}
	return hits, nil
}

// Document is a text to search in.
type Document struct{ Title, Text, URL string }

// Bounds of an Index.
const (
	MaxDocuments     = 10_000
	MaxDocumentBytes = 1 << 20
	MaxIndexBytes    = 64 << 20
)

// Index searches documents without a network, by the words of the query; rare words count
// more (BM25). The same query has the same results in the same order. An Index never changes
// and is safe for concurrent use.
type Index struct {
	docs  []Document
	words map[string][]posting // by word
	vocab []string             // the words, ascending
	size  []int                // words of each document
	mean  float64
}

type posting struct{ doc, times int }

// NewIndex returns an index of documents. Too many or too long documents are ERR_CONFIG.
func NewIndex(docs []Document) (*Index, error) {
	x := &Index{docs: slices.Clone(docs), words: map[string][]posting{}}
	bad := func(format string, args ...any) (*Index, error) {
		return nil, &messages.Error{Code: messages.ErrConfig, Field: "search.documents", Detail: fmt.Sprintf(format, args...)}
	}
	if len(docs) > MaxDocuments {
		return bad("more than %d documents", MaxDocuments)
	}
	total, bytes := 0, 0
	for i, d := range docs {
		if bytes += len(d.Text); len(d.Text) > MaxDocumentBytes || bytes > MaxIndexBytes {
			return bad("a document over %d bytes, or all over %d", MaxDocumentBytes, MaxIndexBytes)
		}
		counts := map[string]int{}
		n := 0
		for _, text := range []string{d.Title, d.Text} {
			for w := range wordsOf(text) {
				counts[w]++
				n++
			}
		}
		for w, times := range counts {
			x.words[w] = append(x.words[w], posting{i, times})
		}
		x.size = append(x.size, n)
		total += n
	}
	x.mean = max(float64(total)/float64(max(len(docs), 1)), 1)
	x.vocab = slices.Sorted(maps.Keys(x.words))
	return x, nil
}

// ReadDocuments returns the text files below a folder as documents, with the first line as
// title and the path as URL.
func ReadDocuments(dir fs.FS) ([]Document, error) {
	var docs []Document
	err := fs.WalkDir(dir, ".", func(p string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case p != "." && strings.HasPrefix(e.Name(), ".") && e.IsDir():
			return fs.SkipDir
		case !e.Type().IsRegular() || !slices.Contains([]string{".md", ".txt", ".html", ".htm"}, strings.ToLower(path.Ext(p))):
			return nil
		case len(docs) == MaxDocuments:
			return fmt.Errorf("more than %d documents", MaxDocuments)
		}
		f, err := dir.Open(p)
		if err != nil {
			return err
		}
		b, err := io.ReadAll(io.LimitReader(f, MaxDocumentBytes+1))
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
		text := strings.ToValidUTF8(string(bytes.ReplaceAll(b, []byte{0}, []byte("\ufffd"))), "\ufffd")
		if strings.HasPrefix(strings.ToLower(path.Ext(p)), ".htm") {
			text = readable(text)
		}
		title, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
		docs = append(docs, Document{Title: strings.TrimLeft(flat(title, searchTitleRunes), "# "), Text: text, URL: p})
		return nil
	})
	if err != nil {
		var where *fs.PathError
		if errors.As(err, &where) {
			err = where.Err // without the host's path
		}
		return nil, &messages.Error{Code: messages.ErrConfig, Field: "search.documents", Detail: "the documents cannot be read", Cause: err}
	}
	return docs, nil
}

// wordsOf iterates over the words of a text in lower case.
func wordsOf(s string) func(yield func(string) bool) {
	return strings.FieldsFuncSeq(strings.ToLower(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// Words that begin alike: kestrel and kestrels, sail and sailing.
const (
	minStemRunes = 3   // of the shorter word
	maxTailRunes = 4   // that the longer word has more
	maxAlike     = 64  // words of the index for one of the query
	alikeWeight  = 0.5 // relative to the word itself
)

// alike returns the words of the index that match a word: itself, and words of which one is
// the beginning of the other and at most maxTailRunes shorter.
func (x *Index) alike(w string) []string {
	all := []string{w}
	if utf8.RuneCountInString(w) < minStemRunes {
		return all
	}
	at, _ := slices.BinarySearch(x.vocab, w)
	for ; at < len(x.vocab) && len(all) < maxAlike && strings.HasPrefix(x.vocab[at], w); at++ {
		if tail := utf8.RuneCountInString(x.vocab[at][len(w):]); tail > 0 && tail <= maxTailRunes {
			all = append(all, x.vocab[at])
		}
	}
	stem := []rune(w)
	for n := len(stem) - 1; n >= max(minStemRunes, len(stem)-maxTailRunes); n-- {
		if s := string(stem[:n]); x.words[s] != nil {
			all = append(all, s)
		}
	}
	return all
}

// Search implements Searcher.
func (x *Index) Search(_ context.Context, q tools.SearchRequest) ([]tools.SearchResult, error) {
	const k1, b = 1.2, 0.75 // the usual constants of BM25
	scores := map[int]float64{}
	var asked []string
	for w := range wordsOf(q.Query) {
		if slices.Contains(asked, w) {
			continue
		}
		for i, word := range x.alike(w) {
			asked = append(asked, word)
			weight := 1.0
			if i > 0 {
				weight = alikeWeight
			}
			in := x.words[word]
			rare := math.Log(1 + (float64(len(x.docs)-len(in))+0.5)/(float64(len(in))+0.5))
			for _, p := range in {
				t := float64(p.times)
				scores[p.doc] += weight * rare * t * (k1 + 1) / (t + k1*(1-b+b*float64(x.size[p.doc])/x.mean))
			}
		}
	}
	found := make([]int, 0, len(scores))
	for d := range scores {
		found = append(found, d)
	}
	sort.Slice(found, func(i, j int) bool {
		if scores[found[i]] != scores[found[j]] {
			return scores[found[i]] > scores[found[j]]
		}
		return found[i] < found[j]
	})
	var hits []tools.SearchResult
	for _, d := range found[:min(len(found), q.Max)] {
		doc := &x.docs[d]
		hits = append(hits, tools.SearchResult{Title: doc.Title, Snippet: around(doc.Text, asked), URL: doc.URL})
	}
	return hits, nil
}

// around returns the part of a text around the first of the words.
func around(text string, words []string) string {
	lower := strings.ToLower(text)
	at := len(lower)
	for _, w := range words {
		if i := strings.Index(lower, w); i >= 0 {
			at = min(at, i)
		}
	}
	if at == len(lower) || len(lower) != len(text) { // lower case may change lengths
		at = 0
	}
	from := max(at-searchBodyRunes/4, 0)
	if from > 0 {
		if i := strings.IndexAny(text[from:at], " \n"); i >= 0 {
			from += i + 1
		}
	}
	for from > 0 && !utf8.RuneStart(text[from]) {
		from--
	}
	return flat(text[from:min(len(text), from+8*searchBodyRunes)], searchBodyRunes)
}
