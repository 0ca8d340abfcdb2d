package cogency

import "github.com/seed14be6753/stile/parse/scan"

// beginValue reads what may be the JSON of a call, from seen[n] on.
func (d *decoder) beginValue(n int, end bool) (finding, int) {
	s := &d.prose
	s.value = &scan.JSON{Keep: 1, Commas: true, Controls: true}
	if s.seen[n] == '[' {
		s.value.Keep = 2
	}
	s.start, s.fed = n, n
	return d.judgeValue(end)
}

// judgeValue reads on in the value. A member that calls do not have makes it text. A call at the
// beginning of a reply counts at once; after other text it counts only if nothing follows it,
// because it may be an example.
func (d *decoder) judgeValue(end bool) (finding, int) {
	s := &d.prose
	if len(s.seen) > maxCallBytes {
		return foundText, 0
	}
	for ; s.fed < len(s.seen); s.fed++ {
		c := s.seen[s.fed]
		if s.whole {
			if !isBlank(c) && c != '`' {
				return foundText, 0
			}
			continue
		}
		text := s.value.InString()
		if s.value.Write(s.seen[s.fed:s.fed+1]) == 0 {
			return foundText, 0
		}
		switch {
		case text:
		case c == '{' || c == '[':
			s.depth++
		case c == '}' || c == ']':
			s.depth--
		case c == ':' && s.depth == s.value.Keep && !s.callKey():
			return foundText, 0
		}
		if s.depth > 0 {
			continue
		}
		s.whole = s.value.End()
		if !s.whole || !callLike(string(s.value.Bytes())) {
			return foundText, 0
		}
		if !s.from.anyText {
			return foundCall, s.start
		}
	}
	switch {
	case end && s.whole, end && s.cutCall():
		return foundCall, s.start
	}
	return foundNothing, 0
}

// callKey reports whether calls have the member that begins.
func (s *search) callKey() bool {
	m := s.value.Members()
	p := m[len(m)-1]
	key := stringOf(string(s.value.Bytes()[p.Key:p.KeyEnd]))
	return has(nameWords, key) || has(argsWords, key) || has(restWords, key) || has(callLists, key)
}

// cutCall reports whether seen is a call that was cut after its arguments began.
func (s *search) cutCall() bool {
	if s.value == nil || s.whole {
		return false
	}
	name, args := false, false
	for _, p := range s.value.Members() {
		if p.KeyEnd == 0 {
			continue
		}
		key := stringOf(string(s.value.Bytes()[p.Key:p.KeyEnd]))
		name, args = name || has(nameWords, key), args || has(argsWords, key)
	}
	return name && args
}

// callLike reports whether text is a call, or an array of calls: each has a name and arguments.
func callLike(text string) bool {
	if text[0] == '[' {
		all := elementsOf(text)
		for _, e := range all {
			if e[0] != '{' || !callLike(e) {
				return false
			}
		}
		return len(all) > 0
	}
	name, args := false, false
	for _, m := range membersOf(text) {
		switch {
		case has(callLists, m.key) && (m.value[0] == '{' || m.value[0] == '['):
			return callLike(m.value)
		case m.key == "function" && m.value[0] == '{':
			return callLike(m.value)
		case has(nameWords, m.key):
			name = name || m.value[0] == '"'
		case has(argsWords, m.key):
			args = args || m.value[0] == '{' || m.value[0] == '"'
		case !has(restWords, m.key):
			return false
		}
	}
	return name && args
}
