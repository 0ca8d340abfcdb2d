package plan

import "slices"

// Order sorts the nodes 0…n−1 so that each comes after those it depends on, lower numbers
// first where the dependencies allow it. If that is impossible it returns a cycle instead:
// each member depends on the next, the last on the first. Dependencies outside 0…n−1 are
// ignored. It is for checks before a run, such as of the steps of a workflow or the references
// between feeds.
func Order(n int, dependencies func(i int) []int) (order, cycle []int) {
	users := make([][]int, n)
	unmet := make([]int, n)
	var ready []int // sorted
	for i := range n {
		for _, d := range dependencies(i) {
			if d >= 0 && d < n {
				users[d] = append(users[d], i)
				unmet[i]++
			}
		}
		if unmet[i] == 0 {
			ready = append(ready, i)
		}
	}
	for len(ready) > 0 {
		i := ready[0]
		ready = ready[1:]
		order = append(order, i)
		for _, u := range users[i] {
			if unmet[u]--; unmet[u] == 0 {
				at, _ := slices.BinarySearch(ready, u)
				ready = slices.Insert(ready, at, u)
			}
		}
	}
	if len(order) == n {
		return order, nil
	}
	// Each node that is left depends on another one that is left, so following the
	// dependencies leads back to a node that was visited.
	at := slices.IndexFunc(unmet, func(u int) bool { return u > 0 })
	seen := make(map[int]int)
	for {
		if from, again := seen[at]; again {
			return nil, cycle[from:]
		}
		seen[at] = len(cycle)
		cycle = append(cycle, at)
		for _, d := range dependencies(at) {
			if d >= 0 && d < n && unmet[d] > 0 {
				at = d
				break
			}
		}
	}
}
