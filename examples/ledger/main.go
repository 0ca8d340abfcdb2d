// Command ledger writes stores.csv, the store-keeper's book of the brig Petrel:
// sixty days, six stores a day, what came in, what was issued, and what the book
// says is left. Three entries are wrong, and the agent of this example finds them.
//
//	go run ./examples/ledger > examples/ledger/stores.csv
//
// The book is arithmetic: the same bytes on every machine.
package main

import (
	"fmt"
	"os"
	"strings"
)

const days = 60

// store is one line of stock.
type store struct {
	item, unit string
	laden      int // on the first day
	issue      int // a day, on average
}

var stores = []store{
	{"biscuit", "lb", 4200, 62},
	{"beef", "lb", 2600, 38},
	{"pease", "pint", 1900, 27},
	{"rum", "gill", 7200, 112},
	{"water", "gallon", 3300, 71},
	{"candles", "piece", 900, 11},
}

// keepers take the book by turns, a day each.
var keepers = []string{"Pratt", "Oakes", "Lind"}

// slips are the wrong entries: what the book says is left is off by so much, and
// the next day goes on from there.
var slips = map[string]int{"17 rum": -96, "31 biscuit": +40, "44 water": -25}

// landfalls are the days on which something came on board.
var landfalls = map[string]int{"23 water": 1200, "23 beef": 300, "39 pease": 240, "39 biscuit": 500, "39 water": 900}

// book returns the whole file.
func book() string {
	var b strings.Builder
	b.WriteString("day,item,unit,in,out,left,keeper\n")
	left := map[string]int{}
	for day := 1; day <= days; day++ {
		for i, s := range stores {
			key := fmt.Sprintf("%d %s", day, s.item)
			in := landfalls[key]
			if day == 1 {
				in = s.laden
			}
			out := s.issue + (day*day*7+i*13)%11 - 5
			left[s.item] += in - out + slips[key]
			fmt.Fprintf(&b, "%d,%s,%s,%d,%d,%d,%s\n", day, s.item, s.unit, in, out, left[s.item], keepers[day%len(keepers)])
		}
	}
	return b.String()
}

func main() {
	if _, err := os.Stdout.WriteString(book()); err != nil {
		fmt.Fprintln(os.Stderr, "ledger:", err)
		os.Exit(1)
	}
}
