package history

import (
	"context"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// Files returns the bytes of the parts that a prompt has, each once; nil for none. Text in them has
// no marker of a dialect, as what users write has none.
func (r *Reader) Files(ctx context.Context, msgs []messages.Message) (files map[messages.Digest][]byte, err error) {
	r.ctx = ctx
	for i := range msgs {
		for k := range msgs[i].Parts {
			p := &msgs[i].Parts[k]
			if _, known := files[p.Digest]; known {
				continue
			}
			data, err := r.blob(p.Digest)
			if err != nil {
				return nil, err
			}
			if p.Type == "text/plain" {
				data = []byte(parse.Defuse(string(data)))
			}
			if files == nil {
				files = map[messages.Digest][]byte{}
			}
			files[p.Digest] = data
		}
	}
	return files, nil
}
