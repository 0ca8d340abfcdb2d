package sql

import (
	stdsql "database/sql"
	"encoding/base64"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
)

// maxExact is the largest integer that every reader of JSON keeps exactly.
const maxExact = 1<<53 - 1

// argument returns the value to bind: text, number, boolean or NULL; lists and objects are
// bound as their JSON.
func argument(p *catalog.Parameter, v jsontext.Value) (any, error) {
	switch v.Kind() {
	case 0, 'n':
		return nil, nil
	case '"':
		s, err := jsontext.AppendUnquote(nil, v)
		if strings.IndexByte(string(s), 0) >= 0 {
			return nil, neuroscript.Errorf(neuroscript.CodeArgument, "argument %s: a text for a database has no NUL", p.Name)
		}
		return string(s), err
	case 't', 'f':
		return v.Kind() == 't', nil
	case '0':
		own := v.Clone()
		if err := own.Canonicalize(); err != nil {
			return nil, err
		}
		if n, err := strconv.ParseInt(string(own), 10, 64); err == nil && p.Type != "number" {
			return n, nil
		}
		f, err := strconv.ParseFloat(string(own), 64)
		if err != nil {
			return nil, neuroscript.Errorf(neuroscript.CodeArgument, "argument %s: it is out of range", p.Name)
		}
		return f, nil
	}
	return string(v), nil
}

// table returns rows as a JSON array of objects: whole rows up to the limits, and whether
// there are more.
func table(rows *stdsql.Rows, maxRows int64, maxBytes int64) (out []byte, more bool, err error) {
	types, err := rows.ColumnTypes()
	if err != nil {
		return nil, false, err
	}
	names := make([][]byte, len(types))
	seen := map[string]bool{}
	for i, t := range types {
		if seen[t.Name()] {
			return nil, false, tools.Refuse(ReasonColumns, "two columns are named "+clip.Quoted(t.Name())+"; give one another name with AS")
		}
		seen[t.Name()] = true
		names[i], _ = jsontext.AppendQuote(nil, strings.ToValidUTF8(t.Name(), "\ufffd"))
	}
	cells := make([]any, len(types))
	for i := range cells {
		cells[i] = new(any)
	}
	out = append(out, '[')
	for n := int64(0); rows.Next(); n++ {
		if n == maxRows {
			more = true
			break
		}
		if err := rows.Scan(cells...); err != nil {
			return nil, false, err
		}
		row := []byte{'{'}
		for i, c := range cells {
			if i > 0 {
				row = append(row, ',')
			}
			row = append(append(row, names[i]...), ':')
			row = appendCell(row, *c.(*any), types[i].DatabaseTypeName())
			if int64(len(row)) > maxBytes {
				break
			}
		}
		row = append(row, '}')
		if int64(len(row)+len(out)) > maxBytes {
			if n == 0 {
				return nil, false, tools.Refuse(ReasonResultLimit, fmt.Sprintf("one row is over the limit of %d bytes", maxBytes))
			}
			more = true
			break
		}
		if n > 0 {
			out = append(out, ',')
		}
		out = append(out, row...)
	}
	if !more {
		if err := rows.Err(); err != nil {
			return nil, false, err
		}
	}
	return append(out, ']'), more, rows.Close()
}

// appendCell appends a value as JSON. A value that JSON cannot represent exactly is text:
// integers beyond 2^53, decimals, bytes (base64), times (RFC 3339).
func appendCell(b []byte, v any, typ string) []byte {
	text := func(s string) []byte {
		out, err := jsontext.AppendQuote(b, strings.ToValidUTF8(s, "\ufffd"))
		if err != nil {
			return append(b, `""`...)
		}
		return out
	}
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case bool:
		return strconv.AppendBool(b, v)
	case int64:
		if (v == 0 || v == 1) && strings.HasPrefix(strings.ToUpper(typ), "BOOL") {
			return strconv.AppendBool(b, v == 1) // SQLite keeps them so
		}
		if v > maxExact || v < -maxExact {
			return text(strconv.FormatInt(v, 10))
		}
		return strconv.AppendInt(b, v, 10)
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return text(strconv.FormatFloat(v, 'g', -1, 64))
		}
		out, err := jsontext.AppendFormat(b, []byte(strconv.FormatFloat(v, 'g', -1, 64)), jsontext.CanonicalizeRawFloats(true))
		if err != nil {
			return text(strconv.FormatFloat(v, 'g', -1, 64))
		}
		return out
	case time.Time:
		return text(v.Format(time.RFC3339Nano))
	case []byte:
		return text(base64.StdEncoding.EncodeToString(v))
	case string:
		if typ = strings.ToUpper(typ); typ == "JSON" || typ == "JSONB" {
			if own := jsontext.Value(v); own.IsValid() {
				return append(b, own...)
			}
		}
		return text(v)
	}
	return text(fmt.Sprint(v))
}
