package neuroscript

import (
	"context"
	"testing"

	"go.starlark.net/starlark"
	starsyntax "go.starlark.net/syntax"

	"github.com/seed14be6753/stile/internal/neuroscript/syntax"
)

// program20 and starlark20 are the same 20 lines in both languages.
const program20 = `command
  set total = 0
  set names = []
  set n = 0
  for each row in userdata["fields"]["rows"]
    if row["qty"] > 0 and row["price"] > 0
      set total = total + row["qty"] * row["price"]
      set names[n] = row["name"]
      set n = n + 1
    else
      emit "skipped " + row["name"]
    endif
  endfor
  set i = 0
  while i < n
    emit "item " + i + ": " + names[i]
    set i = i + 1
  endwhile
  emit "total: " + total
endcommand
`

const starlark20 = `def main(userdata):
  total = 0
  names = []
  n = 0
  for row in userdata["fields"]["rows"]:
    if row["qty"] > 0 and row["price"] > 0:
      total = total + row["qty"] * row["price"]
      names.append(row["name"])
      n = n + 1
    else:
      print("skipped " + row["name"])
  i = 0
  while i < n:
    print("item " + str(i) + ": " + names[i])
    i = i + 1
  print("total: " + str(total))
  if total > 100:
    print("large")
  return total
main(userdata)
`

var starOptions = &starsyntax.FileOptions{While: true, TopLevelControl: true, GlobalReassign: true}

// BenchmarkParse20Lines reads a program of 20 lines into a checked tree.
func BenchmarkParse20Lines(b *testing.B) {
	b.Run("neuroscript", func(b *testing.B) {
		src := []byte(program20)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := syntax.Parse(src); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("starlark", func(b *testing.B) {
		src := []byte(starlark20)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := starOptions.Parse("bench.star", src, 0); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkCompile20Lines takes the same program to something that can be run.
func BenchmarkCompile20Lines(b *testing.B) {
	b.Run("neuroscript", func(b *testing.B) {
		src := []byte(program20)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Compile(src); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("starlark", func(b *testing.B) {
		src := []byte(starlark20)
		has := func(name string) bool { return name == "userdata" }
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := starlark.SourceProgramOptions(starOptions, "bench.star", src, has); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// loopPrograms are loops of about a million units of gas, with the same loop in
// Starlark, inside a function, where its variables are fastest.
var loopPrograms = []struct{ name, script, star string }{
	{"while-sum", `command
  set i = 0
  set s = 0
  while i < 80000
    set s = s + i
    set i = i + 1
  endwhile
endcommand
`, `def main():
  i = 0
  s = 0
  while i < 80000:
    s = s + i
    i = i + 1
main()
`},
	{"arithmetic", `command
  set i = 0
  set x = 1
  set y = 2
  while i < 32000
    set x = (x * 3 + i) % 1000
    set y = y - x / 2 + i * 0.5
    set i = i + 1
  endwhile
endcommand
`, `def main():
  i = 0
  x = 1
  y = 2
  while i < 32000:
    x = (x * 3 + i) % 1000
    y = y - x / 2 + i * 0.5
    i = i + 1
main()
`},
	{"for-each-if", `command
  set l = []
  set i = 0
  while i < 100
    set l[i] = i
    set i = i + 1
  endwhile
  set s = 0
  set k = 0
  while k < 800
    for each x in l
      if x % 2 == 0
        set s = s + x
      endif
    endfor
    set k = k + 1
  endwhile
endcommand
`, `def main():
  l = []
  i = 0
  while i < 100:
    l.append(i)
    i = i + 1
  s = 0
  k = 0
  while k < 800:
    for x in l:
      if x % 2 == 0:
        s = s + x
    k = k + 1
main()
`},
	{"list-index", `command
  set l = [1, 2, 3, 4, 5, 6, 7, 8]
  set i = 0
  set s = 0
  while i < 50000
    set s = s + l[i % 8]
    set i = i + 1
  endwhile
endcommand
`, `def main():
  l = [1, 2, 3, 4, 5, 6, 7, 8]
  i = 0
  s = 0
  while i < 50000:
    s = s + l[i % 8]
    i = i + 1
main()
`},
}

// BenchmarkRunMillionGas runs loops of about 10^6 units of gas.
func BenchmarkRunMillionGas(b *testing.B) {
	for _, load := range loopPrograms {
		b.Run(load.name+"/neuroscript", func(b *testing.B) {
			p, err := Compile([]byte(load.script))
			if err != nil {
				b.Fatal(err)
			}
			env := &Env{Limits: Limits{Gas: 10_000_000}}
			b.ReportAllocs()
			var r Result
			for b.Loop() {
				if r = p.Run(context.Background(), env); r.Err != nil || r.Breach != nil {
					b.Fatal(r)
				}
			}
			b.ReportMetric(float64(r.Gas), "gas/op")
		})
		b.Run(load.name+"/starlark", func(b *testing.B) {
			_, prog, err := starlark.SourceProgramOptions(starOptions, "bench.star", load.star, func(string) bool { return false })
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := prog.Init(&starlark.Thread{}, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkTurn20Lines compiles and runs a program never seen before, as a turn
// does, with ten rows of user data.
func BenchmarkTurn20Lines(b *testing.B) {
	rows := make([]Value, 10)
	for i := range rows {
		rows[i] = Map(map[string]Value{"qty": Number(float64(i)), "price": Number(2.5), "name": String("part")})
	}
	data := Map(map[string]Value{"fields": Map(map[string]Value{"rows": List(rows)})})
	src := []byte(program20)
	b.ReportAllocs()
	for b.Loop() {
		p, err := Compile(src)
		if err != nil {
			b.Fatal(err)
		}
		if r := p.Run(context.Background(), &Env{Userdata: data}); r.Err != nil || r.Breach != nil {
			b.Fatal(r)
		}
	}
}
