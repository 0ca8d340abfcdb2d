package jsonstring

// KindName names a kind of JSON value in an error, by the first byte of the value or the
// jsontext.Kind: "a string"; "" for a byte that begins no value.
func KindName(kind byte) string {
	switch kind {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '{':
		return "an object"
	case '[':
		return "an array"
	}
	return ""
}
