package aeiou

import (
	"bytes"
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/messages"
)

// fourKiB is an envelope of 4,096 bytes with 256 bytes of USERDATA.
func fourKiB() []byte {
	ud := `{"subject":"invoice-7","brief":"total the lines","fields":{"goal":"total","currency":"EUR","rows":[{"qty":3,"price":12.5,"name":"bolts"},{"qty":1,"price":80,"name":"saw"}],"note":"`
	ud += strings.Repeat("n", 256-len(ud)-len(`"}}`)) + `"}}`
	text := env("@START", "@USERDATA", ud, "@SCRATCHPAD", strings.Repeat("a private note of the last turn\n", 20), "@OUTPUT", strings.Repeat("one line of what the last turn emitted\n", 40), "@ACTIONS", "command\n", "endcommand", "@END")
	fill := strings.Repeat("  emit \"one more line of the program\"\n", 100)[:4096-len(text)]
	return []byte(strings.Replace(text, "command\n\n", "command\n#"+fill[1:]+"\n", 1))
}

// The floor is one SHA-256 over the same bytes.
func BenchmarkParse4KiBEnvelope256BUserdata(b *testing.B) {
	in := fourKiB()
	if len(in) != 4096 {
		b.Fatalf("%d bytes", len(in))
	}
	b.Run("Parse", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(in)))
		for b.Loop() {
			if _, _, err := Parse(in, Options{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("SHA256", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(in)))
		for b.Loop() {
			sha256.Sum256(in)
		}
	})
}

// ns/op of 512KiB must be about twice that of 256KiB, also for the lines that
// cost the search most.
func BenchmarkParseSection(b *testing.B) {
	for _, load := range []struct{ name, line string }{
		{"TextLines", strings.Repeat("x", 79) + "\n"},
		{"EmptyLines", "\n"},
		{"OpeningBrackets", "<<<<<<<<<<<<<<<\n"},
		{"NearMarkers", "<<<NSENV:V3:ACTIONS>>>x\n"},
		{"NearMarkersInOneLine", markerPrefix},
		{"BlanksBehindMarkers", strings.Repeat(markEnd+strings.Repeat(" ", 100)+".", 1) + "\n"},
	} {
		for _, size := range []struct {
			name string
			n    int
		}{{"256KiB", 256 << 10}, {"512KiB", 512 << 10}} {
			body := strings.Repeat(load.line, size.n/len(load.line))
			in := []byte(env("@START", "@USERDATA", goodUserdata, "@SCRATCHPAD", body, "@ACTIONS", "x", "@END"))
			b.Run(load.name+size.name, func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(in)))
				for b.Loop() {
					if _, _, err := Parse(in, Options{}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkCheckUserdata(b *testing.B) {
	var wide bytes.Buffer
	wide.WriteString(`{"subject":"s","fields":{"first":0`)
	for i := 0; wide.Len() < 500<<10; i++ {
		wide.WriteString(`,"a name that differs late `)
		wide.WriteString(strings.Repeat("0", i%7))
		wide.WriteString(string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676%26)))
		wide.WriteString(`":1`)
	}
	wide.WriteString("}}")
	small := fourKiB()
	e, _, _ := Parse(small, Options{})
	for _, c := range []struct {
		name string
		in   []byte
	}{{"256B", e.Userdata}, {"500KiBOneWideObject", wide.Bytes()}, {"500KiBOneString", []byte(`{"fields":{},"subject":"` + strings.Repeat("x", 500<<10) + `"}`)}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(c.in)))
			for b.Loop() {
				if err := CheckUserdata(c.in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecode4KiBReply(b *testing.B) {
	in := fourKiB()
	for _, c := range []struct {
		name string
		step int
	}{{"Whole", len(in)}, {"In16ByteChunks", 16}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(in)))
			for b.Loop() {
				d := Dialect{}.NewDecoder(messages.TurnInfo{})
				for i := 0; i < len(in); i += c.step {
					d.Push(in[i:min(i+c.step, len(in))], nil)
				}
				d.End(messages.FinishComplete, func(messages.Event) {})
			}
		})
	}
}

func BenchmarkNormal(b *testing.B) {
	for _, load := range []struct{ name, line string }{{"TextLines", strings.Repeat("x", 79) + "\n"}, {"EmptyLines", "\n"}} {
		for _, n := range []int{256 << 10, 512 << 10} {
			out := []byte(strings.Repeat(load.line, n/len(load.line)))
			b.Run(load.name+map[int]string{256 << 10: "256KiB", 512 << 10: "512KiB"}[n], func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(n))
				var dst []byte
				for b.Loop() {
					dst = Normal(dst[:0], out)
				}
			})
		}
	}
}

func BenchmarkComposeCarried(b *testing.B) {
	for _, load := range []struct{ name, line string }{{"TextLines", strings.Repeat("x", 79) + "\n"}, {"MarkerLines", markEnd + "\n"}} {
		e := Envelope{Userdata: []byte(goodUserdata), Output: []byte(strings.Repeat(load.line, (256<<10)/len(load.line))), Actions: []byte(emptyProgram)}
		b.Run(load.name+"256KiB", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(e.Output)))
			for b.Loop() {
				if _, _, err := Compose(e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
