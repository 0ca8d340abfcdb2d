package catalog

import (
	"context"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/internal/neuroscript"
)

// BenchmarkPureToolCall measures one call of str.ToUpper("abc") in a program of
// 100 of them: against the same program with the language's own len in its place,
// and against the bare look-up.
func BenchmarkPureToolCall(b *testing.B) {
	const calls = 100
	set := standardSet(b)
	program := func(line string) *neuroscript.Program {
		p, err := neuroscript.Compile([]byte("command\n" + strings.Repeat(line+"\n", calls) + "endcommand\n"))
		if err != nil {
			b.Fatal(err)
		}
		return p
	}
	perCall := func(b *testing.B, p *neuroscript.Program) {
		b.ReportAllocs()
		env := &neuroscript.Env{Tools: set.Bind(Binding{})}
		for range b.N / calls {
			if res := p.Run(context.Background(), env); res.Err != nil || res.Breach != nil {
				b.Fatal(res.Err, res.Breach)
			}
		}
	}
	b.Run("tool", func(b *testing.B) { perCall(b, program(`call tool.str.ToUpper("abc")`)) })
	b.Run("floor_builtin", func(b *testing.B) { perCall(b, program(`call len("abc")`)) })
	b.Run("lookup", func(b *testing.B) {
		b.ReportAllocs()
		tools := set.Bind(Binding{})
		for range b.N {
			if t, err := tools.Lookup("str.toupper"); t == nil || err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("bind", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			set.Bind(Binding{})
		}
	})
}
