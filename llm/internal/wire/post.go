package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
)

// Post sends body as JSON to url, for an adapter without an SDK. It returns when
// the head of the answer has come; the Transport keeps the body. body is what
// encoding/json takes.
func Post(ctx context.Context, client *http.Client, url string, body any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // a model reads tags, and pays for each of their tokens
	if err := enc.Encode(body); err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(bytes.TrimSuffix(b.Bytes(), []byte("\n"))))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "stile")
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	return res.Body.Close()
}
