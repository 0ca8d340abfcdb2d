package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/net/html/charset"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/publicnet"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
	"github.com/seed14be6753/stile/tools/internal/address"
)

// Limits of the tool scrape (docs/spec/cogency.md §§14, 15).
const (
	ScrapeTimeout   = 15 * time.Second
	MaxScrapeBytes  = 5 << 20 // of a page, uncompressed
	MaxScrapeRunes  = 3000    // of its text
	maxURLBytes     = 2048
	scrapeRedirects = 5
)

// Scrape returns the tool scrape: the readable text of a public page. Every address is checked
// when it is dialled, after its name was resolved, also on redirects. The address that is
// checked is the one that is dialled, so a name that resolves to another address the next
// time gains nothing. No setting of the environment is used, so no proxy either.
func Scrape() tools.Tool { return scrape(newFetcher(publicnet.Judge, nil)) }

func scrape(f *fetcher) tools.Tool {
	return catalog.Reporting("scrape", "Gives the readable text of a public web page.", messages.ReadOnly, catalog.Parameters{
		{Name: "url", Type: "string", Required: true, Min: 1, Max: maxURLBytes, Description: "Address, http or https."},
	}, f.scrape)
}

// fetcher reads pages of the open network.
type fetcher struct{ client *http.Client }

// newFetcher returns a fetcher. judge checks an address, host and port, before it is dialled;
// names resolves names, and nil is the system's resolver.
func newFetcher(judge func(address string) error, names *net.Resolver) *fetcher {
	dialer := &net.Dialer{
		Timeout: connectTime, Resolver: names,
		Control: func(network, address string, _ syscall.RawConn) error {
			if !strings.HasPrefix(network, "tcp") {
				return errPrivate
			}
			return judge(address)
		},
	}
	return &fetcher{client: &http.Client{
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSHandshakeTimeout: connectTime, MaxResponseHeaderBytes: maxHeaderBytes,
			DisableKeepAlives: true, // a session must not find what another left on a connection
		},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if len(via) > scrapeRedirects {
				return fmt.Errorf("more than %d redirects", scrapeRedirects)
			}
			req.Header.Del("Referer") // it would tell one host of another
			return fetchable(req.URL)
		},
	}}
}

// fetchable returns an error for a URL that scrape does not fetch.
func fetchable(u *url.URL) error {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("only http and https")
	case u.Hostname() == "":
		return errors.New("no host")
	case u.User != nil:
		return errors.New("no user and password in an address")
	}
	return nil
}

func (f *fetcher) scrape(ctx context.Context, c *tools.Call) (outcome, content string, err error) {
	u, err := url.Parse(strings.TrimSpace(c.Text(0)))
	if err != nil {
		return "", "", neuroscript.Errorf(neuroscript.CodeArgument, "argument url: no address")
	}
	if err := fetchable(u); err != nil {
		return "", "", neuroscript.Errorf(neuroscript.CodeArgument, "argument url: %s", err)
	}
	own, cancel := context.WithTimeout(ctx, ScrapeTimeout)
	defer cancel()
	text, err := f.page(own, u)
	if ctx.Err() != nil {
		return "", "", context.Cause(ctx)
	}
	host := clip.Excerpt(u.Hostname())
	switch {
	case errors.Is(err, errPrivate):
		return "", "", neuroscript.Errorf(neuroscript.CodeDenied, "%s: %s", host, errPrivate)
	case own.Err() != nil:
		return "", "", catalog.Failed("%s: no page within %s", host, ScrapeTimeout)
	case err != nil:
		return "", "", catalog.Failed("%s: %s", host, clip.Excerpt(address.Hidden(err)))
	}
	text = cutText(text, MaxScrapeRunes)
	return fmt.Sprintf("Scraped %s (%.1fKB)", host, float64(len(text))/1024), text, nil
}

// page fetches a page and returns its text.
func (f *fetcher) page(ctx context.Context, u *url.URL) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return "", errors.New("no address")
	}
	req.Header.Set("Accept", "text/html, application/xhtml+xml, text/plain, text/markdown, application/json;q=0.8, text/*;q=0.5")
	req.Header.Set("User-Agent", "stile")
	resp, err := f.client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return "", fmt.Errorf("status %d", resp.StatusCode)
	}
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		kind = "text/html" // the most frequent type of a page without one
	}
	page := slices.Contains([]string{"text/html", "application/xhtml+xml"}, kind)
	if !page && !strings.HasPrefix(kind, "text/") && !slices.Contains([]string{"application/json", "application/xml"}, kind) && !strings.HasSuffix(kind, "+json") && !strings.HasSuffix(kind, "+xml") {
		return "", errors.New("no text but " + kind)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, MaxScrapeBytes+1))
	if err != nil {
		return "", err
	}
	if len(data) > MaxScrapeBytes {
		return "", fmt.Errorf("more than %d bytes", MaxScrapeBytes)
	}
	text, err := decoded(data, resp.Header.Get("Content-Type"))
	if err != nil {
		return "", err
	}
	if page {
		return readable(text), nil
	}
	if strings.IndexByte(text, 0) >= 0 {
		return "", errors.New("no text")
	}
	return text, nil
}

// decoded returns text as UTF-8, from the character set that the answer or the page names.
func decoded(data []byte, contentType string) (string, error) {
	r, err := charset.NewReader(bytes.NewReader(data), contentType)
	if errors.Is(err, io.EOF) {
		return "", nil
	}
	if err != nil {
		return "", errors.New("an unknown character set")
	}
	// A decoder makes three bytes of one at most.
	out, err := io.ReadAll(r)
	if err != nil {
		return "", errors.New("not in the character set that it says")
	}
	return strings.ToValidUTF8(string(out), "\ufffd"), nil
}

// cutText cuts a text to at most most characters, after the last paragraph, line, sentence or
// word in the last fifth, and adds a note.
func cutText(s string, most int) string {
	all := utf8.RuneCountInString(s)
	if all <= most {
		return s
	}
	at, n, fifth := 0, 0, 0
	for i := range s {
		if n == most-most/5 {
			fifth = i
		}
		if n == most {
			at = i
			break
		}
		n++
	}
	end := at
	for _, stop := range []string{"\n\n", "\n", ". ", "! ", "? ", " "} {
		if i := strings.LastIndex(s[fifth:at], stop); i >= 0 {
			end = fifth + i + len(strings.TrimRight(stop, " \n"))
			break
		}
	}
	return strings.TrimRight(s[:end], " \n") + fmt.Sprintf("\n\n[cut: %d characters in all]", all)
}
