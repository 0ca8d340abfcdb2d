package forward

import "testing"

// A host that speaks after another one says the text from its beginning, in pieces of its own: what
// lies behind the text that was sent is passed on, and a text that is another one is found.
func TestText(t *testing.T) {
	for _, c := range []struct {
		name   string
		pieces []string // of the host that goes on, after "The quick " and "brown"
		rest   string
		same   bool
		whole  bool
	}{
		{"in one piece", []string{"The quick brown fox"}, " fox", true, true},
		{"in pieces cut elsewhere", []string{"The", " quick br", "own f", "ox"}, " fox", true, true},
		{"not yet all of it", []string{"The quick"}, "", true, false},
		{"exactly that", []string{"The quick brown"}, "", true, true},
		{"another text from the start", []string{"A quick brown fox"}, "", false, false},
		{"another text at the end", []string{"The quick ", "brawn"}, "", false, false},
		{"another text that is shorter", []string{"The quack"}, "", false, false},
	} {
		var text Text
		text.Add("The quick ")
		text.Add("brown")
		text.Again()
		got, same := "", true
		for _, piece := range c.pieces {
			var rest string
			if rest, same = text.Behind(piece); !same {
				break
			}
			got += rest
		}
		if got != c.rest || same != c.same || same && text.Whole() != c.whole {
			t.Errorf("%s: passes on %q, the same text: %v, all said: %v", c.name, got, same, text.Whole())
		}
	}
}
