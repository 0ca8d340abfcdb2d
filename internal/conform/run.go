package conform

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/seed14be6753/stile/messages"
)

// DefaultFileBytes is the largest vector file that is read.
const DefaultFileBytes = 64 << 20

// Options set what a run may use. The zero value is ready.
type Options struct {
	// FileBytes bounds one file; 0 means DefaultFileBytes.
	FileBytes int64
	// Quiet leaves files out of the report in which nothing failed.
	Quiet bool
	// Progress is called after each file with the cases judged so far; it may be nil.
	Progress func(cases int)
}

func (o Options) validate() (Options, error) {
	if o.FileBytes < 0 {
		return o, &messages.Error{Code: messages.ErrConfig, Field: "FileBytes", Detail: "a limit is not negative"}
	}
	o.FileBytes = cmp.Or(o.FileBytes, DefaultFileBytes)
	return o, nil
}

// Summary is what a run came to.
type Summary struct {
	Passed  int
	Failed  int // judged wrong, or not to be judged because the case is malformed
	LeftOut int // cases that do not apply, such as ns_a: differs; neither passed nor failed

	Unsupported int // files in a format this release does not know or does not run
	Ignored     int // notes beside the vectors; each is named in the report

	// Formats holds the counts of each format that had a file, in the order of
	// the formats' table.
	Formats []Count
	// Problems are the *messages.Error of files that could not be run at all,
	// unsupported ones included, in the order they were met: ERR_CONFIG with the
	// file, and the byte offset or member where there is one.
	Problems []error
}

// Count is what the files of one format came to.
type Count struct {
	Format  string
	Files   int
	Passed  int
	Failed  int
	LeftOut int
}

// OK reports whether the exit status of a command may be 0: at least one case passed,
// none failed, and every file that was found was run or is a note.
func (s Summary) OK() bool {
	return s.Passed > 0 && s.Failed == 0 && len(s.Problems) == 0
}

// Run judges the vectors in the files and folders of paths, in the order given,
// and writes a report to w: every failed case with what was expected and what
// came, one line per file, and as the last line "N passed, N failed". Folders
// are read with all their subfolders in lexical order. Files that are not JSON and
// are called like notes (Markdown, text, README, NOTICE, a licence) and hidden ones
// are named and ignored; any other file is a vector file or a problem.
//
// What is wrong with the vectors or the code under test is in the Summary and
// the report. The error is about the run itself: a setting that makes no sense,
// no path at all (both ERR_CONFIG), w's own, or that ctx ended: between two cases,
// with what was judged until then in the Summary. Run may be used from several
// goroutines, with different writers.
func Run(ctx context.Context, w io.Writer, paths []string, o Options) (Summary, error) {
	o, err := o.validate()
	if err != nil {
		return Summary{}, err
	}
	if len(paths) == 0 {
		return Summary{}, messages.Errorf(messages.ErrConfig, "name at least one file or folder of vectors")
	}
	r := &run{out: bufio.NewWriter(w), limit: o.FileBytes, quiet: o.Quiet, progress: o.Progress, counts: make([]Count, len(formats))}
	for _, p := range paths {
		r.path(ctx, p)
	}
	if err := ctx.Err(); err != nil {
		return r.sum, errors.Join(err, r.out.Flush())
	}
	if r.sum.Passed+r.sum.Failed+r.sum.LeftOut == 0 {
		r.problem(messages.Errorf(messages.ErrConfig, "no case was found"))
	}
	for _, c := range r.counts {
		if c.Files > 0 {
			r.sum.Formats = append(r.sum.Formats, c)
		}
	}
	fmt.Fprintf(r.out, "%d passed, %d failed\n", r.sum.Passed, r.sum.Failed)
	return r.sum, r.out.Flush()
}

// run is one run. The writer keeps its first error.
type run struct {
	out    *bufio.Writer
	limit  int64
	sum    Summary
	counts []Count // by index of formats
	panics int

	quiet    bool
	progress func(cases int)
}

func (r *run) problem(err *messages.Error) {
	r.sum.Problems = append(r.sum.Problems, err)
	fmt.Fprintf(r.out, "error %s\n", visible(err.Error()))
}

func (r *run) ignored(path, why string) {
	r.sum.Ignored++
	if r.quiet {
		return
	}
	fmt.Fprintf(r.out, "note  %s: ignored, %s\n", visible(path), why)
}
