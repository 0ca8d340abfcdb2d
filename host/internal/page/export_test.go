package page

import "slices"

// Size is how many bytes all parts are, compressed as they are served.
func Size() (n int) {
	for _, a := range assets() {
		n += len(a.zip)
	}
	return n
}

// Names are those of the parts below /assets/.
func Names() (all []string) {
	for name := range assets() {
		if name != index {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}
