package postgres

import (
	"errors"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// target is a parsed URL.
type target struct {
	conf    *pgx.ConnConfig
	schema  string
	durable string
	secrets []string // must not be in any text
}

// parseURL parses a URL. Its errors show nothing of the URL but the names of parameters.
func parseURL(raw string) (*target, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, misconfigured("url", nil, "the URL of the journal cannot be parsed; a password needs percent-encoding")
	}
	if u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, misconfigured("url", nil, "the URL of the journal begins with postgres://")
	}
	t := new(target)
	if pass, ok := u.User.Password(); ok {
		t.secrets = append(t.secrets, pass)
	}
	var rest []string
	for _, p := range parameters(u.RawQuery) {
		switch {
		case !p.ok:
			return nil, misconfigured("url", nil, "the parameters of the journal's URL cannot be parsed")
		case p.secret():
			t.secrets = append(t.secrets, p.value)
		case p.name == "schema":
			t.schema = p.value
			continue
		case p.name == "durability":
			t.durable = p.value
			continue
		}
		rest = append(rest, p.raw)
	}
	u.RawQuery = strings.Join(rest, "&")
	if t.conf, err = pgx.ParseConfig(u.String()); err != nil {
		// The outer error repeats the URL.
		if inner := errors.Unwrap(err); inner != nil {
			err = inner
		}
		return nil, misconfigured("url", t.quiet(err), "the URL of the journal, or what the environment adds to it, is not understood")
	}
	t.secrets = append(t.secrets, t.conf.Password)
	return t, nil
}

// HasPassword reports whether a URL holds a password, which should not be an argument of
// a command. It is true for a URL that cannot be parsed.
func HasPassword(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil {
		return true
	}
	_, has := u.User.Password()
	for _, p := range parameters(u.RawQuery) {
		has = has || !p.ok || p.secret()
	}
	return has
}

// parameter is a part of a URL's query. To PostgreSQL a plus sign is no space.
type parameter struct {
	raw, name, value string
	ok               bool
}

func (p parameter) secret() bool { return p.name == "password" || p.name == "sslpassword" }

func parameters(query string) (all []parameter) {
	for raw := range strings.SplitSeq(query, "&") {
		if raw == "" {
			continue
		}
		name, value, _ := strings.Cut(raw, "=")
		p := parameter{raw: raw}
		var err, err2 error
		p.name, err = url.PathUnescape(name)
		p.value, err2 = url.PathUnescape(value)
		p.ok = err == nil && err2 == nil
		all = append(all, p)
	}
	return all
}

// quiet returns an error with the text of err on one line and without secrets.
func (t *target) quiet(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	clean := strings.NewReplacer("\n\t", " ", "\n", " ", "\t", " ").Replace(text)
	for _, s := range t.secrets {
		if s == "" {
			continue
		}
		for _, form := range []string{s, url.QueryEscape(s), url.PathEscape(s)} {
			clean = strings.ReplaceAll(clean, form, "***")
		}
	}
	if clean == text {
		return err
	}
	return errors.New(clean)
}

// plain reports whether PostgreSQL can hold s as text.
func plain(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }
