package standard

import (
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/tools"
)

// errorTools is the group error.
func errorTools() []tools.Tool {
	return []tools.Tool{
		declare("error.New", "An error value, which is false and which must raises.", errorNew, req("code", "int"), req("message", "string")),
	}
}

func errorNew(m budget, a []neuroscript.Value) (neuroscript.Value, error) {
	code, ok := a[0].AsInt()
	if !ok {
		return neuroscript.Value{}, neuroscript.Errorf(neuroscript.CodeArgument, "argument code: beyond 2^53")
	}
	message := str(a[1])
	if err := m.CheckValue(neuroscript.ErrorBase + int64(len(message))); err != nil {
		return neuroscript.Value{}, err
	}
	return neuroscript.NewErrorValue(int(code), message, neuroscript.Value{}), nil
}
