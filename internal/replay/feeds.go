package replay

import (
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
)

// feeds answers the fetch of a prompt with what the records say came of it. When other
// records follow, nothing did, or the turn was stopped before.
func (p *player) feeds(r *messages.Record) error {
	in := &turn.FeedsReady{Ident: p.fetch.Ident}
	if d := p.fetch.Instructions; !d.IsZero() {
		text, err := p.blob(d)
		if err != nil {
			return err
		}
		in.Feeds = append(in.Feeds, messages.Feed{ID: messages.InstructionsFeed, Value: string(text)})
	}
	for i := p.at; i < len(p.src.Records); i++ {
		rec := p.src.Records[i]
		b, ok := rec.Body.(*messages.FeedInjected)
		if !ok || rec.Turn != in.Turn || rec.Epoch != p.epoch {
			break
		}
		fd, err := p.feed(b)
		if err != nil {
			return err
		}
		in.Feeds = append(in.Feeds, fd)
	}
	p.fetch = nil
	return p.step(r.TS, in)
}

// feed reads the value of a feed.
func (p *player) feed(b *messages.FeedInjected) (messages.Feed, error) {
	if b.Error != "" {
		return b.Feed(""), nil
	}
	value, err := p.blob(b.Digest)
	return b.Feed(string(value)), err
}
