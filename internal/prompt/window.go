package prompt

import "github.com/seed14be6753/stile/messages"

// Window bounds what a prompt holds beside the system messages, as memory.history_window
// and memory.history_bytes have it. The zero value bounds nothing.
type Window struct {
	// Messages is how many messages there are at most, those of the run in flight among
	// them (parse.Window); 0 for all.
	Messages int
	// Bytes is how much text of finished runs there is at most: of the latest ones, each
	// whole or not at all; 0 for all. The run in flight is not counted.
	Bytes int64
	// None leaves out all finished runs. A run that was withdrawn behind the last of them
	// keeps its note: the run in flight goes on where it stopped.
	None bool
}

// Bounded reports whether w leaves out anything of a long session.
func (w Window) Bounded() bool { return w != Window{} }

// past is a run before the one in flight, as a window looks at it.
type past struct {
	size      int64 // bytes of its text; asked for with Bytes alone
	withdrawn bool
}

// since returns the first of n runs, the oldest of which is 0, that is in a prompt. settled
// reports whether earlier runs would change nothing.
func (w Window) since(n int, at func(i int) past) (first int, settled bool) {
	if !w.None && w.Bytes == 0 {
		return 0, false
	}
	var sum int64
	for i := n - 1; i >= 0; i-- {
		run := at(i)
		switch {
		case w.None && !run.withdrawn:
			return i + 1, true
		case w.None:
		case sum+run.size > w.Bytes:
			return i + 1, true
		default:
			sum += run.size
		}
	}
	return 0, false
}

// textBytes is the text that messages have.
func textBytes(ms []messages.Message) (n int64) {
	for i := range ms {
		n += int64(len(ms[i].Text))
	}
	return n
}

// size is the text that items of a finished run have in a prompt: as Past renders them, or,
// of a dialect that is no Historian, what the records say.
func (s *Spec) size(items []messages.Item) (n int64) {
	for i := range items {
		it := &items[i]
		if s.Past != nil {
			n += textBytes(s.Past(it))
			continue
		}
		n += int64(len(it.Text))
		for _, r := range it.Replies {
			n += int64(len(r.Text) + len(r.Joined))
		}
	}
	return n
}
