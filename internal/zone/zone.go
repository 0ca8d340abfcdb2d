// Package zone reads the names of time zones that manifests and submits give.
//
// The zones of the IANA database are in the program, so that a name means the same on every
// machine. It keeps no state, and knows no default.
package zone

import (
	"errors"
	"strings"
	"time"
	_ "time/tzdata" // for machines without a database of their own
)

// Bounds of an offset, in hours (docs/spec/kitsu.md §5).
const (
	leastHours = -12
	mostHours  = 14
)

// ErrUnknown is a name that is no zone.
var ErrUnknown = errors.New("no time zone of that name: write one such as Europe/Oslo, or an offset from -12:00 to +14:00 such as UTC+2 or -03:30")

// Parse returns the place of a name: one of the IANA database, such as Europe/Oslo; or an
// offset, +H, +HH, +H:MM, +HH:MM or +HHMM, behind UTC, GMT or nothing, in any case; or UTC,
// GMT or Z. It is safe for concurrent use.
func Parse(name string) (*time.Location, error) {
	word := strings.ToUpper(name)
	offset := strings.TrimPrefix(strings.TrimPrefix(word, "UTC"), "GMT")
	switch {
	case word == "Z" || offset == "" && word != "":
		return time.UTC, nil
	case offset != "" && (offset[0] == '+' || offset[0] == '-' || strings.HasPrefix(offset, "\u2212")):
		seconds, ok := seconds(offset)
		if !ok {
			return nil, ErrUnknown
		}
		return time.FixedZone("", seconds), nil
	case word == "" || word == "LOCAL": // what the host's is, is not the user's business
		return nil, ErrUnknown
	}
	place, err := time.LoadLocation(name)
	if err != nil {
		return nil, ErrUnknown
	}
	return place, nil
}

// seconds reads an offset with its sign.
func seconds(offset string) (int, bool) {
	rest, minus := strings.CutPrefix(offset, "-")
	if !minus {
		if rest, minus = strings.CutPrefix(offset, "\u2212"); !minus {
			rest = offset[1:]
		}
	}
	hours, minutes, colon := strings.Cut(rest, ":")
	if !colon && len(rest) == 4 {
		hours, minutes, colon = rest[:2], rest[2:], true
	}
	h, ok := number(hours)
	m := 0
	if colon {
		var two bool
		m, two = number(minutes)
		ok = ok && two && len(minutes) == 2 && m < 60
	}
	all := (h*60 + m) * 60
	if minus {
		all = -all
	}
	return all, ok && all >= leastHours*3600 && all <= mostHours*3600
}

// number reads one or two digits.
func number(s string) (n int, ok bool) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int(s[i]-'0')
	}
	return n, len(s) == 1 || len(s) == 2
}
