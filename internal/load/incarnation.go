package load

import (
	"io"
	"time"

	"github.com/google/uuid"

	"github.com/seed14be6753/stile/messages"
)

// NewIncarnation makes a UUIDv7 from the host's clock and randomness.
func NewIncarnation(rand io.Reader, now time.Time) (messages.Incarnation, error) {
	id, err := uuid.NewRandomFromReader(rand)
	if err != nil {
		return id, &messages.Error{Code: messages.ErrCrash, Detail: "no randomness for an incarnation", Cause: err}
	}
	ms := now.UnixMilli()
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	id[6] = id[6]&0x0f | 0x70
	return id, nil
}
