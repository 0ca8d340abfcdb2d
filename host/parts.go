package host

import (
	"encoding/base64"
	"errors"
	"strconv"
	"strings"

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
