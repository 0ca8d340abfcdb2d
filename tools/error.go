package tools

import (
	"github.com/seed14be6753/stile/internal/neuroscript"
)

// errorTools is the group error.
func errorTools() []Tool {
	return []Tool{
		standard("error.New", "An error value, which is false and which must raises.", errorNew, req("code", "int"), req("message", "string")),
	}
}

func errorNew(m budget, a []neuroscript.Value) (neuroscript.Value, error) {
	code, ok := a[0].AsInt()
	if !ok {
		return neuroscript.Value{}, neuroscript.Errorf(neuroscript.CodeArgument, "argument code: beyond 2^53")
	}
	message := str(a[1])
	if err := m.CheckValue(errorBase + int64(len(message))); err != nil {
		return neuroscript.Value{}, err
	}
	return neuroscript.NewErrorValue(int(code), message, neuroscript.Value{}), nil
}
