package aeiou

import (
	"bytes"
	"encoding/base64"
)

// shown is OUTPUT as the author sees it again: from version 2 on a line for each token in
// the place of 400 bytes that a model would only copy. What the token asked for is read
// without judging it: it is stale, whatever it says.
func (d Dialect) shown(out []byte) []byte {
	if d.Rendering < 2 || !bytes.Contains(out, []byte(candidatePrefix)) {
		return out
	}
	b := make([]byte, 0, len(out))
	for line := range bytes.Lines(out) {
		if !IsCandidate(line) {
			b = append(b, line...)
			continue
		}
		b = append(append(append(b, "[control"...), actionOf(line)...), ']')
		if bytes.HasSuffix(line, []byte{'\n'}) {
			b = append(b, '\n')
		}
	}
	return b
}

// actionOf is ": " and the action of a token, "" for a line without one. The payload is the
// host's canonical JSON, and nothing is allocated to look into it: a prompt has a token in
// most turns.
func actionOf(line []byte) string {
	_, rest, _ := bytes.Cut(line[len(candidatePrefix):], []byte(":"))
	payload, _, _ := bytes.Cut(rest, []byte("."))
	var room [maxPayload]byte
	if base64.RawURLEncoding.DecodedLen(len(payload)) > len(room) {
		return ""
	}
	n, err := base64.RawURLEncoding.Decode(room[:], payload)
	if err != nil {
		return ""
	}
	_, object, _ := bytes.Cut(room[:n], []byte(`"payload":{`))
	_, value, _ := bytes.Cut(object, []byte(`"action":"`))
	for _, action := range shownActions {
		if word := action[len(": "):]; len(value) > len(word) && string(value[:len(word)]) == word && value[len(word)] == '"' {
			return action
		}
	}
	return ""
}

// maxPayload bounds a token's payload that is looked into: a host's own has some 300 bytes.
const maxPayload = 2048

var shownActions = [...]string{": abort", ": continue", ": done"}
