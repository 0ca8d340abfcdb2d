package manifest

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var durationType = reflect.TypeFor[time.Duration]()

// field is what the tags of a struct field say.
type field struct {
	key      string
	doc      string
	enum     []string
	later    []string
	min, max *int64 // in the field's own unit: nanoseconds, bytes, micro-dollars
	unit     string
	shape    string
	required bool
	raw      bool // ${NAME} is not the environment's
	optional bool // 0 stands for absent, so the file may not write it
	// unsupported are values that the protocols name and this host never honours.
	unsupported []string
	// undefined: a variable that may be used but is not set is empty here.
	undefined bool
	// text is the key that a plain text stands for, of a struct; "" if none.
	text string
	// none: the file may write "none", which is NoHistory.
	none bool
	// sized is the key beside it that a size, such as 32KiB, is meant for; "" if none.
	sized string
	// mapped is the key beside it that may be written below it, which then is true; "" if none.
	mapped string
	index  int
}

// fieldsOf reads the tags of a struct, in order.
func fieldsOf(t reflect.Type) []field {
	fs := make([]field, t.NumField())
	for i := range fs {
		sf := t.Field(i)
		f := field{
			key: sf.Tag.Get("yaml"), doc: sf.Tag.Get("doc"), unit: sf.Tag.Get("unit"),
			shape: sf.Tag.Get("shape"), required: sf.Tag.Get("required") == "true", optional: sf.Tag.Get("optional") == "true", raw: sf.Tag.Get("raw") == "true", text: sf.Tag.Get("text"), index: i,
		}
		f.enum = list(sf.Tag.Get("enum"))
		f.later = list(sf.Tag.Get("later"))
		f.unsupported = list(sf.Tag.Get("unsupported"))
		f.none, f.sized = sf.Tag.Get("none") == "true", sf.Tag.Get("sized")
		f.mapped = sf.Tag.Get("mapped")
		f.undefined = sf.Tag.Get("undefined") == "empty"
		f.min = bound(sf, "min")
		f.max = bound(sf, "max")
		fs[i] = f
	}
	return fs
}

func list(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, "|")
}

// bound reads a bound of a field. A tag that cannot be read is a broken invariant
// of this package, which every test of it would meet.
func bound(sf reflect.StructField, tag string) *int64 {
	s, ok := sf.Tag.Lookup(tag)
	if !ok {
		return nil
	}
	var n int64
	var err error
	if sf.Type == durationType || sf.Type == reflect.PointerTo(durationType) {
		var d time.Duration
		d, err = time.ParseDuration(s)
		n = int64(d)
	} else {
		n, err = strconv.ParseInt(s, 10, 64)
	}
	if err != nil {
		panic(fmt.Sprintf("manifest: tag %s of %s: %v", tag, sf.Name, err))
	}
	return &n
}

// shape is a form of names: the pattern, which the schema publishes, and the same
// in words.
type shape struct {
	re    *regexp.Regexp
	words string
}

var shapes = map[string]shape{
	"name":   {regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`), "1 to 128 letters, digits, '.', '_' or '-'"},
	"tool":   {regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,63}(\.[A-Za-z_][A-Za-z0-9_-]{0,63}){0,3}$`), "a name such as read or str.ToUpper"},
	"tools":  {regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,63}(\.[A-Za-z_][A-Za-z0-9_-]{0,63}){0,3}(\.\*)?$`), "a name such as read or str.ToUpper, or a group such as str.*"},
	"agent":  {regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_-]{0,63}(\.[A-Za-z_][A-Za-z0-9_-]{0,63}){0,3}|([A-Za-z0-9._-]+/)*[A-Za-z0-9._-]+\.ya?ml)$`), "a name such as writer, or the path of a manifest such as agents/writer.yaml"},
	"feed":   {regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,63}|builtin\.[a-z]{1,32})$`), "a letter or '_', then up to 63 letters, digits or '_', or builtin. and a part of the prompt"},
	"id":     {regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`), "a letter or '_', then up to 63 letters, digits or '_'"},
	"path":   {regexp.MustCompile(`^/([A-Za-z0-9._~!&'()*+,;=:@/-]|%[0-9A-Fa-f]{2}|\{[A-Za-z_][A-Za-z0-9_]{0,63}\})*$`), "a path such as /issues/{id}"},
	"action": {regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,63}$`), "a letter or '_', then up to 63 letters, digits, '_', '.' or '-'"},
	"env":    {regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`), "the name of an environment variable"},
	"url":    {regexp.MustCompile(`^https?://[A-Za-z0-9._:\[\]-]+(/[A-Za-z0-9._~/%-]*)?$`), "an address such as http://localhost:11434/v1, without name, query or fragment"},
	"file":   {regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*){0,15}$`), "a path such as data/orders.db, below the agent's folder"},
	// Capitals only, because a key that is written here by mistake has others.
	"secret": {regexp.MustCompile(`^[A-Z_][A-Z0-9_]{0,127}$`), "the name of an environment variable, in capitals; the key itself does not belong into a manifest"},
	"grant":  {regexp.MustCompile(`^([A-Za-z0-9._-]+|[A-Za-z0-9._-]+:[A-Za-z0-9._-]+:([A-Za-z0-9._-]+|\*))$`), "tenant:user:id, a bare id, or tenant:user:*"},
}

// anyText is the shape of strings that may be written as any scalar.
const anyText = "scalar"

// ParseSize reads a number of bytes: digits, and the unit B, KiB, MiB or GiB or
// none. Decimal units are refused: 64MB is read differently by different people.
func ParseSize(s string) (int64, error) {
	unit := int64(1)
	digits := s
	for _, u := range []struct {
		name string
		size int64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"B", 1}} {
		if rest, ok := strings.CutSuffix(s, u.name); ok {
			digits, unit = strings.TrimRight(rest, " "), u.size
			break
		}
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || n > uint64(maxInteger/unit) {
		return 0, fmt.Errorf("%q is no size; write it as 65536, 512KiB, 64MiB or 1GiB", s)
	}
	return int64(n) * unit, nil
}

// ParseUSD reads dollars with at most six decimals as micro-dollars.
func ParseUSD(s string) (int64, error) {
	whole, frac, _ := strings.Cut(s, ".")
	ok := whole != "" && len(whole) <= 9 && len(frac) <= 6 && digitsOnly(whole) && digitsOnly(frac) && !strings.HasSuffix(s, ".")
	if !ok {
		return 0, fmt.Errorf("%q is no amount of dollars; write it as \"1.00\", with at most nine digits and six decimals", s)
	}
	n, err := strconv.ParseInt(whole+frac+strings.Repeat("0", 6-len(frac)), 10, 64)
	return n, err
}

// FormatUSD is the inverse of ParseUSD, with at least two decimals.
func FormatUSD(micro int64) string {
	s := fmt.Sprintf("%d.%06d", micro/1_000_000, micro%1_000_000)
	for strings.HasSuffix(s, "0") && len(s)-strings.IndexByte(s, '.') > 3 {
		s = s[:len(s)-1]
	}
	return s
}

func digitsOnly(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// maxInteger is 2^53−1: numbers of a manifest are exact in every JSON reader.
const maxInteger = 1<<53 - 1
