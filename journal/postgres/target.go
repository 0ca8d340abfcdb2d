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
	secrets []string // what no text may hold
}

// parseURL takes a URL apart. Its errors say nothing that the URL says but the
// names of parameters.
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
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, misconfigured("url", nil, "the parameters of the journal's URL cannot be parsed")
	}
	t.secrets = append(t.secrets, q["password"]...)
	t.secrets = append(t.secrets, q["sslpassword"]...)
	t.schema = q.Get("schema")
	q.Del("schema")
	u.RawQuery = q.Encode()
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

// HasPassword tells that a URL holds a password, which should not be an argument of
// a command. A URL that cannot be parsed is said to hold one.
func HasPassword(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil {
		return true
	}
	_, has := u.User.Password()
	q, err := url.ParseQuery(u.RawQuery)
	return has || err != nil || q.Has("password") || q.Has("sslpassword")
}

// quiet makes an error's text one line that holds no secret.
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

// plain tells that PostgreSQL can hold s as text.
func plain(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }
