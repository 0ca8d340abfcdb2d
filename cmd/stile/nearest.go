package main

// Names shorter than this, prefix and all, are near one another at one slip, longer ones
// at two: STILE_PATH is not STILE_AUTH.
const longName = len("STILE_LISTEN")

// nearest returns the name that a person meant who wrote name, "" when none is near.
func nearest(name string, known []string) (meant string) {
	least := 3
	for _, k := range known {
		slips := 1
		if len(k) >= longName {
			slips = 2
		}
		if d := slipsBetween(name, k); d <= slips && d < least {
			meant, least = k, d
		}
	}
	return meant
}

// slipsBetween counts the letters that are missing, too many, wrong, or swapped with the
// next one between two names.
func slipsBetween(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			wrong := 1
			if a[i] == b[j] {
				wrong = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+wrong)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
