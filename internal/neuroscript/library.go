package neuroscript

import (
	"errors"

	"github.com/seed14be6753/stile/internal/neuroscript/syntax"
	"github.com/seed14be6753/stile/messages"
)

// Source is one source of functions.
type Source struct {
	Name string // for error messages
	Text []byte
}

// Library holds the functions a host lends to programs (§12). It is immutable
// and safe for concurrent runs.
type Library struct {
	funcs map[string]*function
}

// function is one function of a library.
type function struct {
	unit
	name   string
	params []int32 // slots
	needs  int
}

// CompileLibrary loads trusted functions, which may call each other across
// sources. An error is a *messages.Error with ERR_CONFIG and the source's name.
func CompileLibrary(sources ...Source) (*Library, error) {
	lib := &Library{funcs: map[string]*function{}}
	for _, src := range sources {
		tree, err := syntax.ParseLibrary(src.Text)
		if err != nil {
			if e := (*messages.Error)(nil); errors.As(err, &e) {
				e.File = src.Name
			}
			return nil, err
		}
		for i := range tree.Funcs {
			f := &tree.Funcs[i]
			why := ""
			if _, ok := builtinByName(f.Name); ok {
				why = "is a built-in function"
			} else if lib.funcs[f.Name] != nil {
				why = "is already defined"
			}
			if why != "" {
				line, col := tree.Position(f.Pos)
				return nil, &messages.Error{
					Code: messages.ErrConfig, Reason: "DUPLICATE", Detail: "the function " + f.Name + " " + why,
					File: src.Name, Line: line, Col: col, Offset: int64(f.Pos), HasOffset: true,
				}
			}
			lib.funcs[f.Name] = compileFunc(tree, f)
		}
	}
	return lib, nil
}

func compileFunc(tree *syntax.Tree, f *syntax.Func) *function {
	c := newCompiler(tree)
	c.local = make(map[syntax.Ref]int32, 8)
	c.slotCount = fixedSlots
	fn := &function{name: f.Name, params: make([]int32, len(f.Params))}
	for i, p := range f.Params {
		fn.params[i] = c.symbol(p.Symbol)
		if !p.Optional {
			fn.needs++
		}
	}
	fn.body = c.block(f.Body)
	fn.slots = c.slotCount
	fn.lines = tree.Lines()
	if c.evals {
		fn.names = make(map[string]int32, fn.slots)
		for i := range fixedSlots {
			fn.names[tree.Symbols[i]] = int32(i)
		}
		for sym, slot := range c.local {
			fn.names[tree.Symbols[sym]] = slot
		}
	}
	return fn
}
