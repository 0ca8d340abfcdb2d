package standard

import (
	"math/bits"
	"slices"
	"strings"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/tools"
)

// listTools is the group list. Every result is a new list; positions count from
// 0 and never raise.
func listTools() []tools.Tool {
	l, x := req("list", "list"), req("x", "any")
	return []tools.Tool{
		declare("list.Length", "Number of elements.", listLength, l),
		appending(declare("list.Append", "The list with x behind it.", listAppend, l, x)),
		declare("list.Prepend", "The list with x before it.", listPrepend, l, x),
		declare("list.Get", "The element at index, or the default, or nil.", listGet, l, req("index", "int"), opt("default", "any")),
		declare("list.Slice", "The elements from start up to, not including, end.", listSlice, l, req("start", "int"), req("end", "int")),
		declare("list.Contains", "Whether x is an element; types must match.", listContains, l, x),
		declare("list.Reverse", "The list from its end to its beginning.", listReverse, l),
		declare("list.Sort", "The list in ascending order: all numbers, or all strings.", listSort, l),
		declare("list.Head", "The first element, or nil.", listHead, l),
		declare("list.Rest", "The list without its first element.", listRest, l),
		declare("list.Tail", "The last n elements.", listTail, l, req("n", "int")),
		declare("list.IsEmpty", "Whether there are no elements.", listIsEmpty, l),
	}
}

func listLength(_ budget, a []neuroscript.Value) (neuroscript.Value, error) {
	return neuroscript.Number(float64(len(elems(a[0])))), nil
}

// appending lets the interpreter do the work where it charges for what is new alone.
func appending(t tools.Tool) tools.Tool {
	t.Form.Appends = true
	return t
}

func listAppend(m budget, a []neuroscript.Value) (neuroscript.Value, error) {
	return concat(m, elems(a[0]), a[1:2])
}

func listPrepend(m budget, a []neuroscript.Value) (neuroscript.Value, error) {
	return concat(m, a[1:2], elems(a[0]))
}

// concat makes a list of two runs of values.
func concat(m budget, front, back []neuroscript.Value) (neuroscript.Value, error) {
	if err := reserveList(m, front, back); err != nil {
		return neuroscript.Value{}, err
	}
	l := make([]neuroscript.Value, 0, len(front)+len(back))
	return neuroscript.List(append(append(l, front...), back...)), nil
}

func listGet(_ budget, a []neuroscript.Value) (neuroscript.Value, error) {
	l, i := elems(a[0]), position(a[1])
	if i < 0 || i >= int64(len(l)) {
		return a[2], nil
	}
	return l[i], nil
}

func listSlice(m budget, a []neuroscript.Value) (neuroscript.Value, error) {
	l := elems(a[0])
	from := clamp(position(a[1]), int64(len(l)))
	to := max(from, clamp(position(a[2]), int64(len(l))))
	return concat(m, l[from:to], nil)
}

// listContains compares as members of lists are compared: 5 is not "5". The
// language's == would find them equal at top level; the reference set compares
// strictly, and so does this.
func listContains(m budget, a []neuroscript.Value) (neuroscript.Value, error) {
	for _, e := range elems(a[0]) {
		if e.Kind() != a[1].Kind() {
			continue
		}
		if eq, err := m.Equal(e, a[1]); eq || err != nil {
			return neuroscript.Bool(eq), err
		}
	}
	return neuroscript.Bool(false), nil
}

func listReverse(m budget, a []neuroscript.Value) (neuroscript.Value, error) {
	l := elems(a[0])
	if err := reserveList(m, l); err != nil {
		return neuroscript.Value{}, err
	}
	r := slices.Clone(l)
	slices.Reverse(r)
	return neuroscript.List(r), nil
}

// listSort pays n·⌈log2(n+1)⌉ before it looks at the elements.
func listSort(m budget, a []neuroscript.Value) (neuroscript.Value, error) {
	l := elems(a[0])
	if err := m.ChargeGas(product(int64(len(l)), int64(bits.Len(uint(len(l)))))); err != nil {
		return neuroscript.Value{}, err
	}
	if err := reserveList(m, l); err != nil {
		return neuroscript.Value{}, err
	}
	for i := range l {
		if k := l[i].Kind(); k != l[0].Kind() || k != neuroscript.KindNumber && k != neuroscript.KindString {
			return neuroscript.Value{}, neuroscript.Errorf(neuroscript.CodeType,
				"list.Sort wants all numbers or all strings; element %d is a %s", i, k)
		}
	}
	sorted := slices.Clone(l)
	if len(l) > 0 && l[0].Kind() == neuroscript.KindNumber {
		slices.SortFunc(sorted, func(a, b neuroscript.Value) int {
			// Numbers of the language are finite, so the comparison is total.
			switch x, y := number(a), number(b); {
			case x < y:
				return -1
			case x > y:
				return 1
			}
			return 0
		})
	} else {
		slices.SortFunc(sorted, func(a, b neuroscript.Value) int { return strings.Compare(str(a), str(b)) })
	}
	return neuroscript.List(sorted), nil
}

func listHead(_ budget, a []neuroscript.Value) (neuroscript.Value, error) {
	if l := elems(a[0]); len(l) > 0 {
		return l[0], nil
	}
	return neuroscript.Value{}, nil
}

func listRest(m budget, a []neuroscript.Value) (neuroscript.Value, error) {
	l := elems(a[0])
	return concat(m, l[min(1, len(l)):], nil)
}

func listTail(m budget, a []neuroscript.Value) (neuroscript.Value, error) {
	l := elems(a[0])
	n := clamp(position(a[1]), int64(len(l)))
	return concat(m, l[int64(len(l))-n:], nil)
}

func listIsEmpty(_ budget, a []neuroscript.Value) (neuroscript.Value, error) {
	return neuroscript.Bool(len(elems(a[0])) == 0), nil
}
