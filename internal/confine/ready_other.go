//go:build !linux

package confine

// Ready has no jails here.
type Ready struct{}

// Place refuses nothing: no program runs in a jail here.
func (*Ready) Place(*Jail) (temp string, clean func(), err error) { return Temp() }

// Close implements io.Closer.
func (*Ready) Close() error { return nil }

// What a jail of Linux has.
type (
	seat      struct{}
	opened    struct{}
	keptRules struct{}
)
