package audit

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// Expect has hashes of a log that were kept elsewhere.
type Expect struct {
	Head string // the hash of an earlier last line; "" for none
	From string // the hash in the first line, if older files are kept elsewhere
}

// Report is the result of Verify. Without problems the log is as it was written.
type Report struct {
	Files     int       `json:"files"`
	Lines     int       `json:"lines"`
	Unchained int       `json:"unchained"` // lines of versions that wrote no hashes: they prove nothing
	Torn      int       `json:"torn"`      // lines that a crash left a part of
	Head      string    `json:"head"`      // the hash of the last line
	Problems  []Problem `json:"problems"`
	More      int       `json:"more"` // problems that are not listed
}

// Problem is a place where a log is not as it was written.
type Problem struct {
	File string `json:"file"`
	Line int    `json:"line"` // from 1; 0 is the file
	What string `json:"what"`
}

// maxProblems bounds those that a report lists.
const maxProblems = 100

func (r *Report) wrong(file string, line int, what string) {
	if len(r.Problems) >= maxProblems {
		r.More++
		return
	}
	r.Problems = append(r.Problems, Problem{file, line, what})
}

type part struct {
	name        string
	first, last string // what its first chained line carries; the hash of its last line
	chained     int
	plain       int // lines before the first chained one
}

// Verify reads a log and the files that were put aside. Errors are those of the file system,
// and the cause of ctx; changes of a log are not errors but problems of the report.
func Verify(ctx context.Context, path string, known Expect) (*Report, error) {
	l := File{Path: path}
	paths, err := l.old()
	if err != nil {
		return nil, err
	}
	r := &Report{Problems: []Problem{}, Head: Zero}
	last, _ := readHead(path + HeadSuffix)
	found := map[string]bool{known.Head: known.Head == "", last: last == Zero}
	var parts []*part
	read := map[string]bool{}
	for {
		for _, name := range append(paths, path) {
			if read[name] {
				continue
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			p, err := r.read(name, found)
			if errors.Is(err, fs.ErrNotExist) && len(parts) > 0 {
				continue // it was put aside a moment ago
			}
			if err != nil {
				return nil, err
			}
			if read[name] = true; p.chained+p.plain > 0 {
				parts = append(parts, p)
			}
			r.Files++
		}
		// A host may have put a file aside meanwhile.
		if paths, err = l.old(); err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(paths, func(name string) bool { return !read[name] }) {
			break
		}
	}
	r.order(parts, known.From)
	if !found[last] {
		r.wrong(filepath.Base(path), 0, "the line that was written last ("+last+") is not here: the end was cut off or changed")
	}
	if !found[known.Head] {
		r.wrong(filepath.Base(path), 0, "no line has the hash "+known.Head+": it, or a line in front of it, was changed or cut off")
	}
	return r, nil
}

// read follows the chain of one file.
func (r *Report) read(path string, found map[string]bool) (*part, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p := &part{name: filepath.Base(path), last: Zero}
	in := bufio.NewReaderSize(f, 64<<10)
	for n := 1; ; n++ {
		line, whole, err := readLine(in)
		if errors.Is(err, io.EOF) {
			return p, nil
		}
		if errors.Is(err, bufio.ErrTooLong) {
			r.wrong(p.name, n, "has more than "+strconv.Itoa(maxLine)+" bytes")
			return p, nil
		}
		if err != nil {
			return nil, err
		}
		r.Lines++
		var entry struct {
			Prev *string `json:"prev"`
		}
		torn := json.Unmarshal(line, &entry) != nil || !whole
		switch {
		case torn: // the next line says whether it stood there
			r.Torn++
			if p.chained == 0 {
				p.plain++
			}
		case entry.Prev == nil && p.chained == 0:
			p.plain++
			r.Unchained++
		case entry.Prev == nil:
			r.wrong(p.name, n, "carries no hash: it was put in or changed")
		case p.chained == 0:
			p.first = *entry.Prev
			p.chained++
			if p.plain > 0 && p.first != p.last {
				r.wrong(p.name, n, "does not follow the line before it: that one was changed, or lines were removed or put in")
			}
		default:
			p.chained++
			if *entry.Prev != p.last {
				r.wrong(p.name, n, "does not follow the line before it: that one was changed, or lines were removed or put in")
			}
		}
		p.last = Hash(line)
		if _, ok := found[p.last]; ok {
			found[p.last] = true
		}
	}
}

// readLine reads a line without its end; whole says that it has one.
func readLine(in *bufio.Reader) (line []byte, whole bool, err error) {
	for {
		piece, err := in.ReadSlice('\n')
		line = append(line, piece...)
		switch {
		case err == nil:
			return line[:len(line)-1], true, nil
		case len(line) > maxLine:
			return nil, false, bufio.ErrTooLong
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(line) > 0:
			return line, false, nil
		}
		return nil, false, err
	}
}

// order puts files one behind the other by their hashes.
func (r *Report) order(parts []*part, from string) {
	ends := map[string]*part{}
	for _, p := range parts {
		ends[p.last] = p
	}
	chained, begins := 0, 0
	for _, p := range parts {
		switch {
		case p.chained == 0:
			continue // of an earlier version
		case p.plain > 0, p.first == Zero, from != "" && p.first == from:
			begins++
		case ends[p.first] == nil || ends[p.first] == p:
			r.wrong(p.name, 1, "follows a line that is not here ("+p.first+"): lines or files in front of it were removed. Where they are kept elsewhere, --from names that hash")
		}
		chained++
	}
	if begins > 1 {
		r.wrong("", 0, "the log begins more than once: a file was put in, or one was begun anew")
	}
	if chained == 0 && len(parts) > 0 {
		r.wrong(parts[len(parts)-1].name, 0, "no line carries a hash")
	}
	// The last file is the one that no other follows.
	followed := map[string]bool{}
	for _, p := range parts {
		followed[p.first] = true
	}
	var last []*part
	for _, p := range parts {
		if p.chained > 0 && !followed[p.last] {
			last = append(last, p)
		}
	}
	if len(last) == 1 {
		r.Head = last[0].last
	}
	if len(last) > 1 {
		names := make([]string, len(last))
		for i, p := range last {
			names[i] = p.name
		}
		slices.Sort(names)
		r.wrong(names[0], 0, "no file follows it, nor "+names[1]+": one of them was changed at its end, or what followed was removed")
	}
}
