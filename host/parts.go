package host

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

// part is a picture or a file of a message.
type part struct {
	Name string `json:"name,omitempty" maxLength:"128" doc:"of the file"`
	Type string `json:"type,omitempty" maxLength:"64" doc:"media type: image/png, image/jpeg, image/gif, image/webp, application/pdf or text/plain; what the bytes are when it is left out"`
	Data string `json:"data" contentEncoding:"base64" doc:"the bytes in base64"`
}

// attached is the option that sends parts; none for none.
func attached(parts []part) (opts []stile.SubmitOption, err error) {
	if len(parts) == 0 {
		return nil, nil
	}
	files := make([]stile.File, len(parts))
	for i, p := range parts {
		data, err := decode64(p.Data, "parts["+strconv.Itoa(i)+"].data")
		if err != nil {
			return nil, err
		}
		files[i] = stile.File{Name: p.Name, Type: p.Type, Data: data}
	}
	return []stile.SubmitOption{stile.Attach(files...)}, nil
}

// decode64 decodes base64 as RFC 4648 has it, with padding and without line ends.
func decode64(text, field string) ([]byte, error) {
	data, err := base64.StdEncoding.Strict().DecodeString(text)
	at := int64(strings.IndexAny(text, "\r\n"))
	if bad := base64.CorruptInputError(0); errors.As(err, &bad) {
		at = int64(bad)
	}
	if at < 0 {
		return data, nil
	}
	return nil, &messages.Error{Code: messages.ErrInvalid, Field: field, Detail: "it is no base64 at byte " + strconv.FormatInt(at, 10), Offset: at, HasOffset: true}
}

// dataURI reads the address of a part that is its own bytes. Nothing is fetched from elsewhere.
func dataURI(uri, name, field string) (part, error) {
	head, data, ok := strings.Cut(uri, ",")
	mediaType, plain := strings.CutPrefix(head, "data:")
	mediaType, coded := strings.CutSuffix(mediaType, ";base64")
	if !ok || !plain || !coded || mediaType == "" {
		return part{}, &messages.Error{Code: messages.ErrInvalid, Field: field, Detail: "want a data: address with a media type and base64; this host fetches nothing"}
	}
	return part{Name: name, Type: mediaType, Data: data}, nil
}

// dataScheme begins the addresses that have a part's bytes in them.
const dataScheme = "data:"

// readMessage reads the body of a request to a route whose messages bring parts along. Without the
// bytes of its parts, which begin with a scheme, it may be no longer than the body of any other
// request: what is read from it takes a multiple of its size.
func readMessage(r *http.Request, pattern, scheme string) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	if over := (*http.MaxBytesError)(nil); errors.As(err, &over) {
		return nil, tooLarge(pattern)
	}
	if err != nil {
		return nil, unserved("body", "the body did not arrive whole")
	}
	if len(body) > maxBody && besideParts(body, scheme) > maxBody {
		return nil, refusal(http.StatusRequestEntityTooLarge, messages.ErrInvalid, "body", "a body has at most "+strconv.Itoa(maxBody>>20)+" MiB beside its pictures and files")
	}
	return body, nil
}

// minPart is the least that a string has which counts as the bytes of a part.
const minPart = 1 << 10

// besideParts returns how many bytes a JSON text has beside the strings that are the bytes of parts.
// It does not check the text, which may be none.
func besideParts(text []byte, scheme string) int {
	n := len(text)
	for i := 0; i < len(text); i++ {
		if text[i] != '"' {
			continue
		}
		from := i + 1
		for i = from; i < len(text) && text[i] != '"'; i++ {
			if text[i] == '\\' {
				i++
			}
		}
		if s := text[from:min(i, len(text))]; len(s) >= minPart && isPart(s, scheme) {
			n -= len(s)
		}
	}
	return n
}

// isPart reports whether a string is base64, behind a scheme and what follows it up to a comma. Some
// encoders of JSON write a slash with a backslash.
func isPart(s []byte, scheme string) bool {
	if scheme != "" {
		comma := bytes.IndexByte(s[:min(len(s), 256)], ',')
		if comma < 0 || !bytes.HasPrefix(s, []byte(scheme)) {
			return false
		}
		s = s[comma+1:]
	}
	for _, c := range s {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '+', c == '/', c == '=', c == '\\':
		default:
			return false
		}
	}
	return true
}

// servedAs is the type of a part as it is served: one that a browser makes no page of.
func servedAs(kind string) string {
	switch kind {
	case "image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf":
		return kind
	case "text/plain":
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}

// partRoute serves the bytes of a part that an input of a session has brought along.
func (s *Server) partRoute() {
	type in struct {
		ID     string `path:"id" maxLength:"128"`
		Digest string `path:"digest" maxLength:"64" doc:"SHA-256 of the bytes, as the record input has it"`
	}
	op := get("get-part", "/v1/sessions/{id}/parts/{digest}", "A picture or a file that came with a message", "sessions")
	op.Responses = map[string]*huma.Response{"200": {Description: "The bytes, as a file", Content: content("application/octet-stream", &huma.Schema{Type: huma.TypeString, Format: "binary"})}}
	route(s, op, func(ctx context.Context, in *in) (*huma.StreamResponse, error) {
		ses, err := s.find(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		p, err := s.partOf(ctx, ses, in.Digest)
		if err != nil {
			return nil, err
		}
		data, err := s.rt.Archive().Blob(ctx, ses.Incarnation(), p.Digest)
		if err != nil {
			return nil, err
		}
		return &huma.StreamResponse{Body: func(c huma.Context) {
			c.SetHeader("Content-Type", servedAs(p.Type))
			c.SetHeader("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": cmp.Or(p.Name, p.Digest.String()[:12])}))
			c.SetHeader("Content-Security-Policy", "default-src 'none'; sandbox")
			_, _ = c.BodyWriter().Write(data) // a client that is gone wants nothing more
		}}, nil
	})
}

func (s *Server) partOf(ctx context.Context, ses *stile.Session, digest string) (*messages.Part, error) {
	q := stile.RecordQuery{Kinds: []messages.Kind{messages.KindInput}}
	for r, err := range s.rt.Archive().Query(ctx, ses.Incarnation(), q) {
		if err != nil {
			return nil, err
		}
		if b, ok := r.Body.(*messages.Input); ok { // an erased one has none
			for i := range b.Parts {
				if b.Parts[i].Digest.String() == digest {
					return &b.Parts[i], nil
				}
			}
		}
	}
	return nil, &messages.Error{Code: messages.ErrNotFound, Field: "digest", Detail: "no message of the session has brought that along"}
}
