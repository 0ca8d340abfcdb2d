package sqlite

import (
	"context"
	"database/sql/driver"
	"strings"
	"unsafe"

	"github.com/seed14be6753/stile/messages"
)

// insertion collects rows of one table and writes several with one statement, because a
// statement costs about as much as a row. The rows keep the order of add.
type insertion struct {
	one, many prepared // of one row, of rowsAtOnce
	width     int      // columns
	args      []driver.NamedValue
}

// rowsAtOnce is how many rows one statement writes. Rows that remain are written one by one.
const rowsAtOnce = 8

func (n *insertion) prepare(c driver.ConnPrepareContext, into string, width int) error {
	n.width = width
	row := "(" + strings.Repeat("?, ", width-1) + "?)"
	for _, p := range []struct {
		to   *prepared
		rows int
	}{{&n.one, 1}, {&n.many, rowsAtOnce}} {
		s, err := c.PrepareContext(context.Background(), into+" VALUES "+strings.Repeat(row+", ", p.rows-1)+row)
		if err != nil {
			return err
		}
		*p.to = prepared{s}
	}
	n.args = make([]driver.NamedValue, 0, rowsAtOnce*width)
	return nil
}

// add adds a row. Its values must not change before rest or drop.
func (n *insertion) add(values ...driver.Value) error {
	for _, v := range values {
		n.args = append(n.args, driver.NamedValue{Ordinal: len(n.args) + 1, Value: v})
	}
	if len(n.args) < rowsAtOnce*n.width {
		return nil
	}
	defer n.drop()
	return n.many.exec(n.args)
}

// rest writes the rows that remain.
func (n *insertion) rest() error {
	defer n.drop()
	for i := 0; i < len(n.args); i += n.width {
		row := n.args[i : i+n.width]
		for k := range row {
			row[k].Ordinal = k + 1
		}
		if err := n.one.exec(row); err != nil {
			return err
		}
	}
	return nil
}

// drop discards the rows that remain.
func (n *insertion) drop() {
	clear(n.args)
	n.args = n.args[:0]
}

// rest writes the rows that remain of all tables.
func (w *writer) rest() error {
	if err := w.records.rest(); err != nil {
		return err
	}
	return w.blobs.rest()
}

// maxKinds bounds the names kept: an imported record may be of a kind unknown here.
const maxKinds = 64

// kind returns the name of a record's kind as a value of the driver, made once.
func (w *writer) kind(k messages.Kind) driver.Value {
	v, ok := w.kinds[k]
	if !ok {
		v = string(k)
		if len(w.kinds) < maxKinds {
			w.kinds[k] = v
		}
	}
	return v
}

// text returns bytes that never change as a string, without a copy; the driver copies it.
func text(b []byte) driver.Value { return unsafe.String(unsafe.SliceData(b), len(b)) }
