package prompt

import (
	"crypto/sha256"
	"encoding/binary"
	"unsafe"

	"github.com/seed14be6753/stile/messages"
)

// Domains keep the digests apart from every other SHA-256 of the product.
const (
	listDomain = "stile-prompt/1\n" // rendering 1
	pageDomain = "stile-prompt/2\n" // rendering 2 and later
)

// nativeRole ends the role of a message that has two forms: no role has it.
const nativeRole = "+native"

// partsRole ends the role of a message with parts, behind nativeRole.
const partsRole = "+parts"

// pageMessages is how many messages a page has.
const pageMessages = 16

// fewMessages are hashed sooner than their pages are kept.
const fewMessages = 4 * pageMessages

// Digest is the SHA-256 of what is sent. A message is its role and the SHA-256 of its text;
// one that has the provider's own form, too, has that behind its text, and says so in its
// role. Parts follow, as their number and, of each, type, name and digest; the role says so, too. Every string is led by its length in bytes, and every number is 8 bytes, big end
// first.
//
//	rendering 1   the domain line, the number of messages, and the messages
//	rendering 2   the domain line, the number of messages, and for each 16 of them, and for
//	              the rest, the SHA-256 of these messages
//
// Two lists have the same digest only if they are the same list. A list that grows at its end
// has the pages that it had. Lints are the host's remarks, are not sent, and do not count.
func Digest(ms []messages.Message, rendering int64) messages.Digest {
	return NewDigester("", rendering).Digest(ms, nil)
}

// Digester gives the same digests as Digest and spares hashing one text that
// every prompt of an agent has: its primer. It is immutable.
type Digester struct {
	known string
	sum   [sha256.Size]byte
	paged bool
}

// NewDigester knows one text.
func NewDigester(known string, rendering int64) *Digester {
	return &Digester{known: known, sum: sumText(known), paged: rendering >= 2}
}

// Digest digests a prompt. The texts that it has from v are not hashed again; v may be nil.
func (d *Digester) Digest(ms []messages.Message, v *View) messages.Digest {
	find := search{view: v}
	if d.paged {
		return d.pages(ms, &find)
	}
	h := sha256.New()
	var room [4096]byte // a write for each message costs as much as its hash
	w := append(room[:0], listDomain...)
	w = binary.BigEndian.AppendUint64(w, uint64(len(ms)))
	for i := range ms {
		if w = d.append(w, &ms[i], &find); len(w) > cap(w)-256 {
			h.Write(w)
			w = w[:0]
		}
	}
	h.Write(w)
	var out messages.Digest
	h.Sum(out[:0])
	return out
}

// pages is the digest of rendering 2. Whole pages of texts that a view has are kept with it.
func (d *Digester) pages(ms []messages.Message, find *search) messages.Digest {
	var known, kept []page
	keeps := find.view != nil && len(ms) > fewMessages
	if keeps {
		known = find.view.pages.load()
		kept = make([]page, 0, len(ms)/pageMessages+1)
	}
	w := make([]byte, 0, len(pageDomain)+8+(len(ms)/pageMessages+1)*sha256.Size)
	w = append(w, pageDomain...)
	w = binary.BigEndian.AppendUint64(w, uint64(len(ms)))
	var room [pageMessages * 128]byte
	fresh := false
	for from := 0; from < len(ms); from += pageMessages {
		of := ms[from:min(from+pageMessages, len(ms))]
		var p page
		if i := from / pageMessages; i < len(known) && known[i].is(of) {
			p = known[i]
		} else {
			own := find.missed
			text := room[:0]
			for k := range of {
				text = d.append(text, &of[k], find)
			}
			p.sum = sha256.Sum256(text)
			if fresh = true; keeps && find.missed == own && len(of) == pageMessages {
				p.hold(of)
			}
		}
		w = append(w, p.sum[:]...)
		if keeps {
			kept = append(kept, p)
		}
	}
	if fresh && keeps {
		find.view.pages.store(kept)
	}
	return sha256.Sum256(w)
}

// append appends a message as both digests have it.
func (d *Digester) append(w []byte, m *messages.Message, find *search) []byte {
	role := m.Role
	if m.Native != "" {
		role += nativeRole
	}
	if len(m.Parts) > 0 {
		role += partsRole
	}
	w = binary.BigEndian.AppendUint64(w, uint64(len(role)))
	w = append(w, role...)
	w = binary.BigEndian.AppendUint64(w, uint64(len(m.Text)))
	if m.Text == d.known { // the same string: no byte is compared
		w = append(w, d.sum[:]...)
	} else if sum := find.sum(m.Text); sum != nil {
		w = append(w, sum[:]...)
	} else {
		sum := sumText(m.Text)
		w = append(w, sum[:]...)
	}
	if m.Native != "" {
		sum := sumText(m.Native)
		w = binary.BigEndian.AppendUint64(w, uint64(len(m.Native)))
		w = append(w, sum[:]...)
	}
	if len(m.Parts) > 0 {
		w = binary.BigEndian.AppendUint64(w, uint64(len(m.Parts)))
		for i := range m.Parts {
			p := &m.Parts[i]
			w = append(binary.BigEndian.AppendUint64(w, uint64(len(p.Type))), p.Type...)
			w = append(binary.BigEndian.AppendUint64(w, uint64(len(p.Name))), p.Name...)
			w = append(w, p.Digest[:]...)
		}
	}
	return w
}

// marksDomain keeps rolling digests apart from the digests of prompts.
const marksDomain = "stile-prompt-marks/1\n"

// Marks returns the rolling digest of a prompt: item n is the SHA-256 of item n−1 and message n−1,
// as Digest has messages, and stands for the first n messages. So two prompts begin with the same
// n messages if and only if their items n are equal. v is that of Digest.
func (d *Digester) Marks(ms []messages.Message, v *View) []messages.Digest {
	find := search{view: v}
	marks := make([]messages.Digest, 1, len(ms)+1)
	marks[0] = sha256.Sum256([]byte(marksDomain))
	var room [256]byte
	for i := range ms {
		marks = append(marks, sha256.Sum256(d.append(append(room[:0], marks[i][:]...), &ms[i], &find)))
	}
	return marks
}

// System is what the system messages in front of a prompt say, joined by an empty line, with
// its SHA-256; the zero digest when there is none.
func (d *Digester) System(ms []messages.Message) (messages.Digest, string) {
	n := 0
	for n < len(ms) && ms[n].Role == messages.RoleSystem {
		n++
	}
	switch {
	case n == 0:
		return messages.Digest{}, ""
	case n == 1 && ms[0].Text == d.known:
		return d.sum, d.known
	}
	text := ms[0].Text
	for i := range ms[1:n] {
		text += "\n\n" + ms[1+i].Text
	}
	return sumText(text), text
}

// sumText hashes a string without copying it: a hash reads and does not keep.
func sumText(s string) [sha256.Size]byte {
	return sha256.Sum256(unsafe.Slice(unsafe.StringData(s), len(s)))
}

// texts are messages with the SHA-256 of their texts beside them.
type texts struct {
	messages []messages.Message
	sums     [][sha256.Size]byte
}

func sumsOf(ms []messages.Message) texts {
	t := texts{messages: ms, sums: make([][sha256.Size]byte, len(ms))}
	for i := range ms {
		t.sums[i] = sumText(ms[i].Text)
	}
	return t
}

// with is t and o behind it. It may write behind t's end.
func (t texts) with(o texts) texts {
	return texts{append(t.messages, o.messages...), append(t.sums, o.sums...)}
}

// from is the messages from one on.
func (t *texts) from(n int) texts { return texts{t.messages[n:], t.sums[n:]} }

// cut is the messages from one to another; nothing is written behind them.
func (t *texts) cut(from, to int) texts {
	return texts{t.messages[from:to:to], t.sums[from:to:to]}
}

// bytes is what the texts have.
func (t *texts) bytes() (n int) {
	for i := range t.messages {
		n += len(t.messages[i].Text) + len(t.messages[i].Native)
	}
	return n
}

// search finds the sums of a view's texts, asked for in the order of a prompt. A text is
// known by where it lies, so that whatever was done to a prompt in between, a sum is never
// taken for another text.
type search struct {
	view   *View
	i, k   int // where the next text is expected: of which texts, and in them
	missed int
}

// maxMissed bounds the searches through all of a view: a prompt has few texts of its own, unless
// a Transform has rewritten it.
const maxMissed = 16

func (s *search) sum(text string) *[sha256.Size]byte {
	if s.view == nil || text == "" || s.missed > maxMissed {
		return nil
	}
	for i, k := s.i, s.k; ; i, k = i+1, 0 {
		t := s.view.texts(i)
		if t == nil {
			s.missed++
			return nil
		}
		for ; k < len(t.messages); k++ {
			if known := t.messages[k].Text; len(known) == len(text) && unsafe.StringData(known) == unsafe.StringData(text) {
				s.i, s.k = i, k+1
				return &t.sums[k]
			}
		}
	}
}
