package kitsu

import (
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// MostResults is the greatest number of results of a search (docs/spec/kitsu.md §5).
const MostResults = 50

// SearchStub returns the result of a search without an index, for offline use and tests: canonical
// JSON that depends on the query alone. It has min(n, MostResults) results, none for n < 1.
func SearchStub(query string, n int) string {
	q := strings.ToLower(strings.TrimSpace(strings.ToValidUTF8(query, "\ufffd")))
	b := append([]byte(nil), `{"query":`...)
	b, _ = jsontext.AppendQuote(b, q)
	b = append(b, `,"results":[`...)
	link := escapeQuery(q)
	for i := 1; i <= min(n, MostResults); i++ {
		if i > 1 {
			b = append(b, ',')
		}
		no := strconv.Itoa(i)
		for _, m := range [...]struct{ name, text string }{
			{`{"snippet":`, "Snippet " + no + " (deterministic) for query: " + q},
			{`,"title":`, "Result " + no + " for " + q},
			{`,"url":`, "https://example.local/search/" + no + "?q=" + link},
		} {
			b = append(b, m.name...)
			b, _ = jsontext.AppendQuote(b, m.text)
		}
		b = append(b, '}')
	}
	return string(append(b, "]}"...))
}

// escapeQuery writes a text as a query parameter: spaces as "+", what is not
// unreserved (RFC 3986) percent-encoded.
func escapeQuery(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case nameByte(c, false) || strings.IndexByte("-.~", c) >= 0:
			b.WriteByte(c)
		case c == ' ':
			b.WriteByte('+')
		default:
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}

// Time returns the result of get_time as canonical JSON: a time of whole seconds in RFC 3339. For
// a zone UTC±H, UTC±HH or UTC±HH:MM from −12 to +14 it is local time with that offset, also
// +00:00; for any other zone it is UTC with Z.
func Time(zone string, now time.Time) string {
	if offset, ok := zoneOffset(zone); ok {
		return now.In(time.FixedZone("", offset)).Format(`"2006-01-02T15:04:05-07:00"`)
	}
	return now.UTC().Format(`"2006-01-02T15:04:05Z"`)
}

// zoneOffset returns the seconds east of UTC.
func zoneOffset(zone string) (int, bool) {
	if len(zone) < 5 || !strings.EqualFold(zone[:3], "UTC") || zone[3] != '+' && zone[3] != '-' {
		return 0, false
	}
	hours, minutes, colon := strings.Cut(zone[4:], ":")
	h, ok := digits(hours)
	m := 0
	if colon {
		var two bool
		m, two = digits(minutes)
		ok = ok && two && len(hours) == 2 && len(minutes) == 2 && m < 60
	}
	offset := (h*60 + m) * 60
	if zone[3] == '-' {
		offset = -offset
	}
	return offset, ok && offset >= -12*3600 && offset <= 14*3600
}

// digits reads one or two digits.
func digits(s string) (n int, ok bool) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int(s[i]-'0')
	}
	return n, len(s) == 1 || len(s) == 2
}

// Counted returns the result of continue as canonical JSON.
func (c Continuation) Counted() string {
	allowed, count := c.Next()
	return `{"allowed":` + strconv.FormatBool(allowed) + `,"new_count":` + strconv.Itoa(count) + `}`
}
