package standard

import (
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/tools"
)

// mapTools is the group map: the language has no key listing of its own. Keys
// and values come in the order of iteration, ascending by the keys' bytes.
func mapTools() []tools.Tool {
	m, k := req("map", "map"), req("key", "string")
	return []tools.Tool{
		declare("map.keys", "The keys, in ascending order.", mapKeys, m),
		declare("map.values", "The values, in the order of their keys.", mapValues, m),
		declare("map.has", "Whether the map has the key.", mapHas, m, k),
		declare("map.get", "The value of the key, or the default, or nil.", mapGet, m, k, opt("default", "any")),
		declare("map.remove", "The map without the key.", mapRemove, m, k),
		declare("map.merge", "The members of both maps; where both have a key, b's.", mapMerge, req("a", "map"), req("b", "map")),
	}
}

func mapKeys(m budget, a []neuroscript.Value) (neuroscript.Value, error) {
	size := int64(neuroscript.ListBase)
	all := entries(a[0])
	for i := range all {
		size = sum(size, neuroscript.ListSlot+neuroscript.StringBase, int64(len(all[i].Key)))
	}
	if err := m.CheckValue(size); err != nil {
		return neuroscript.Value{}, err
	}
	keys := make([]neuroscript.Value, len(all))
	for i := range all {
		keys[i] = neuroscript.String(all[i].Key)
	}
	return neuroscript.List(keys), nil
}

func mapValues(m budget, a []neuroscript.Value) (neuroscript.Value, error) {
	size := int64(neuroscript.ListBase)
	all := entries(a[0])
	for i := range all {
		size = sum(size, neuroscript.ListSlot, all[i].Value.Size())
	}
	if err := m.CheckValue(size); err != nil {
		return neuroscript.Value{}, err
	}
	values := make([]neuroscript.Value, len(all))
	for i := range all {
		values[i] = all[i].Value
	}
	return neuroscript.List(values), nil
}

func mapHas(_ budget, a []neuroscript.Value) (neuroscript.Value, error) {
	_, ok := a[0].MapGet(str(a[1]))
	return neuroscript.Bool(ok), nil
}

// mapGet returns the default for a missing key alone: a key whose value is nil is
// there.
func mapGet(_ budget, a []neuroscript.Value) (neuroscript.Value, error) {
	if v, ok := a[0].MapGet(str(a[1])); ok {
		return v, nil
	}
	return a[2], nil
}

func mapRemove(m budget, a []neuroscript.Value) (neuroscript.Value, error) {
	key := str(a[1])
	gone, ok := a[0].MapGet(key)
	size := a[0].Size()
	if ok {
		size -= neuroscript.MapSlot + int64(len(key)) + gone.Size()
	}
	if err := m.CheckValue(size); err != nil {
		return neuroscript.Value{}, err
	}
	if !ok {
		return a[0], nil
	}
	all := entries(a[0])
	left := make([]neuroscript.Entry, 0, len(all)-1)
	for i := range all {
		if all[i].Key != key {
			left = append(left, all[i])
		}
	}
	return neuroscript.MapOf(left), nil
}

func mapMerge(m budget, a []neuroscript.Value) (neuroscript.Value, error) {
	size, n := int64(neuroscript.MapBase), 0
	zip(entries(a[0]), entries(a[1]), func(e neuroscript.Entry) {
		size = sum(size, neuroscript.MapSlot+int64(len(e.Key)), e.Value.Size())
		n++
	})
	if err := m.CheckValue(size); err != nil {
		return neuroscript.Value{}, err
	}
	merged := make([]neuroscript.Entry, 0, n)
	zip(entries(a[0]), entries(a[1]), func(e neuroscript.Entry) { merged = append(merged, e) })
	return neuroscript.MapOf(merged), nil
}

// zip visits the union of two ascending runs in ascending order; of entries with
// the same key it visits b's.
func zip(a, b []neuroscript.Entry, visit func(neuroscript.Entry)) {
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].Key < b[0].Key:
			visit(a[0])
			a = a[1:]
		default:
			if len(a) > 0 && a[0].Key == b[0].Key {
				a = a[1:]
			}
			visit(b[0])
			b = b[1:]
		}
	}
}
