package feeds

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seed14be6753/stile/messages"
)

// Bounds of what is ingested.
const (
	MaxIngestPaths    = 64              // of one source, and of its include and exclude each
	MaxIngestFiles    = 10_000          // found in one fetch
	MaxIngestEntries  = 100_000         // looked at in one fetch, directories included
	MaxIngestFile     = 1 << 20         // bytes of a file; a longer one is cut
	MaxIngestBytes    = 4 << 20         // bytes of texts together
	MaxIngestDepth    = 64              // of directories
	maxLocationBytes  = 2048            // of git and url
	racyFor           = 2 * time.Second // a file changed this shortly before it was read may change again unseen
	formatTree        = "tree"
	formatText        = "text"
	formatMarkdown    = "markdown"
	ReasonNoFiles     = "no_files"    // the host gave no directory, or none to fetch from
	ReasonUnreachable = "unreachable" // a path or location cannot be opened
	ReasonTooMany     = "too_many"    // more than MaxIngestEntries
)

// Sources opens what git and url sources name, as a file system: a checked out tree,
// a directory of one document. It guards against what must not be reached. Files that
// did not change keep their time and size; the file system is closed after use if it
// is an io.Closer.
type Sources interface {
	Open(ctx context.Context, how, location string) (fs.FS, error)
}

// How Sources are asked.
const (
	RemoteGit = "git"
	RemoteURL = "url"
)

// An Ingester reads documents for ingest sources. Files is where paths lead; give it
// the FS of an os.Root, which no link leaves. Remote serves git and url. Either may be
// nil, which fails the sources that need it. Texts that did not change are taken from
// Cache, if there is one. It is safe for many goroutines.
type Ingester struct {
	Files  fs.FS
	Remote Sources
	Cache  *Cache
	// Scope tells apart ingesters that share a cache.
	Scope string
}

type ingest struct {
	paths            []string
	how, location    string
	include, exclude []string
	maxTokens        int64
	format           string
}

// readIngest reads the parameters of an ingest source before their references are
// resolved.
func readIngest(params string) (ingest, []*messages.Error) {
	o, bad := readObject(params, MaxParamsBytes)
	if bad != nil {
		return ingest{}, []*messages.Error{bad}
	}
	o.open = true
	return o.ingest(), o.end()
}

// Elsewhere returns how the documents of an ingest source are named that are not files of
// the agent's folder: RemoteGit or RemoteURL, which need Sources; "" for those that are,
// and for other sources.
func (s *Source) Elsewhere() string {
	if s.Kind != Ingest {
		return ""
	}
	q, _ := readIngest(s.Params)
	return q.how
}

// Paths are the files and folders that an ingest source names below the agent's folder,
// without those that hold a reference.
func (s *Source) Paths() []string {
	if s.Kind != Ingest {
		return nil
	}
	q, _ := readIngest(s.Params)
	return q.paths
}

func (o *object) ingest() ingest {
	q := ingest{format: formatText}
	given := 0
	for _, key := range []string{"paths", RemoteGit, RemoteURL} {
		if v, ok := o.members[key]; ok && v.Kind() != 'n' {
			given++
		}
	}
	if given != 1 {
		o.add("paths", ReasonMissing, "want exactly one of paths, git, url")
	}
	paths, ok := o.texts("paths", MaxIngestPaths)
	if ok && len(paths) == 0 {
		o.add("paths", ReasonBadValue, "names nothing")
	}
	for i, p := range paths {
		if o.open && strings.Contains(p, "$") {
			continue
		}
		// docs/ and ./docs are what people write.
		clean := path.Clean(p)
		if p == "" || strings.Contains(p, "\\") || !fs.ValidPath(clean) {
			o.add("paths["+strconv.Itoa(i)+"]", ReasonBadValue, "%q is no relative path inside the directory", shortened(p))
			continue
		}
		q.paths = append(q.paths, clean)
	}
	for _, how := range []string{RemoteGit, RemoteURL} {
		if s, ok := o.text(how); ok {
			q.how, q.location = how, s
			u, err := url.Parse(s)
			switch {
			case s == "" || len(s) > maxLocationBytes || strings.HasPrefix(s, "-"):
				o.add(how, ReasonBadValue, "want a location of 1 to %d bytes", maxLocationBytes)
			case how == RemoteURL && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == ""):
				o.add(how, ReasonBadValue, "want an http or https address")
			}
		}
	}
	q.include, q.exclude = o.globs("include"), o.globs("exclude")
	if n := o.integer("max_tokens"); n != nil {
		if *n < 1 || *n > MaxLimit {
			o.add("max_tokens", ReasonBadValue, "%d is outside 1 to %d", *n, int64(MaxLimit))
		}
		q.maxTokens = *n
	}
	if format, ok := o.text("format"); ok {
		switch format {
		case formatTree, formatText, formatMarkdown:
			q.format = format
		default:
			o.add("format", ReasonBadValue, "%q is none of tree, text, markdown", shortened(format))
		}
	}
	return q
}

func (o *object) globs(key string) []string {
	list, _ := o.texts(key, MaxIngestPaths)
	for i, p := range list {
		if !globOK(p) && !(o.open && strings.Contains(p, "$")) {
			o.add(key+"["+strconv.Itoa(i)+"]", ReasonBadValue, "%q is no pattern", shortened(p))
		}
	}
	return list
}

// A document is a file that is shown.
type document struct {
	name string
	size int64
	time time.Time
}

// Fetch returns the documents of a source as a JSON string, its references resolved. A
// file is read again only if its size or time is another one, or so recent that it
// may have changed since without either.
func (in *Ingester) Fetch(ctx context.Context, src Source) (string, error) {
	o, bad := readObject(src.Params, MaxParamsBytes)
	if bad == nil {
		q := o.ingest()
		if found := o.end(); len(found) > 0 {
			bad = found[0]
		} else {
			return in.fetch(ctx, &q)
		}
	}
	bad.Field = "source.params" + bad.Field
	return "", bad
}

func (in *Ingester) fetch(ctx context.Context, q *ingest) (string, error) {
	files, scope := in.Files, in.Scope
	if q.how != "" {
		if in.Remote == nil {
			return "", fail(messages.ErrConfig, ReasonNoFiles, "this host fetches no %s sources", q.how)
		}
		opened, err := in.Remote.Open(ctx, q.how, q.location)
		if err != nil {
			e := fail(messages.ErrConfig, ReasonUnreachable, "the %s source cannot be opened", q.how)
			e.Cause = err
			return "", e
		}
		if c, ok := opened.(io.Closer); ok {
			defer c.Close()
		}
		files, scope = opened, scope+"\x00"+q.how+"\x00"+q.location
		q.paths = []string{"."}
	}
	if files == nil {
		return "", fail(messages.ErrConfig, ReasonNoFiles, "this host gave no directory to ingest from")
	}
	docs, more, err := find(ctx, files, q)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	if q.format == formatTree {
		writeTree(&out, docs)
	} else {
		for i := range docs {
			if err := ctx.Err(); err != nil {
				return "", err
			}
			if out.Len() > MaxIngestBytes {
				more += len(docs) - i
				docs = docs[:i]
				break
			}
			text, err := in.text(files, scope, &docs[i])
			if err != nil {
				return "", err
			}
			writeDocument(&out, q.format, docs[i].name, text)
		}
	}
	if more > 0 {
		fmt.Fprintf(&out, "[truncated: %d of %d files]\n", len(docs), len(docs)+more)
	}
	return string(quoted(strings.TrimSuffix(out.String(), "\n"))), nil
}

// find lists the files of a source, sorted by name, each once, and how many there were
// beyond the limit. Links, devices and the like are passed over.
func find(ctx context.Context, files fs.FS, q *ingest) (docs []document, more int, err error) {
	seen := map[string]bool{}
	looked := 0
	for _, start := range q.paths {
		err := fs.WalkDir(files, start, func(name string, d fs.DirEntry, err error) error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if looked++; looked > MaxIngestEntries {
				return fail(messages.ErrQuota, ReasonTooMany, "more than %d files and directories", MaxIngestEntries)
			}
			if err != nil {
				if name == start {
					e := fail(messages.ErrConfig, ReasonUnreachable, "%q cannot be opened", shortened(start))
					e.Cause = reasonOf(err)
					return e
				}
				return nil // removed meanwhile, or not for us to read
			}
			if name != "." && globAny(q.exclude, name) {
				if d.IsDir() {
					return fs.SkipDir
				}
				return nil
			}
			if d.IsDir() {
				if strings.Count(name, "/") >= MaxIngestDepth {
					return fs.SkipDir
				}
				return nil
			}
			// A name of two lines could pass for the head of another document.
			if strings.ContainsFunc(name, unicode.IsControl) {
				return nil
			}
			if !d.Type().IsRegular() || seen[name] || len(q.include) > 0 && !globAny(q.include, name) || !utf8.ValidString(name) {
				return nil
			}
			seen[name] = true
			if len(docs) == MaxIngestFiles {
				more++
				return nil
			}
			info, err := d.Info()
			if err != nil {
				return nil
			}
			docs = append(docs, document{name, info.Size(), info.ModTime()})
			return nil
		})
		if err != nil {
			return nil, 0, err
		}
	}
	slices.SortFunc(docs, func(a, b document) int { return cmp.Compare(a.name, b.name) })
	return docs, more, nil
}

// reasonOf is an error without the path of the host that a file system puts in it.
func reasonOf(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// text returns what a file holds: "" for what is no text.
func (in *Ingester) text(files fs.FS, scope string, d *document) (string, error) {
	key := fmt.Sprintf("f\x00%s\x00%s\x00%d\x00%d", scope, d.name, d.size, d.time.UnixNano())
	if in.Cache != nil {
		if text, ok := in.Cache.getText(key); ok {
			return text, nil
		}
	}
	began := time.Now()
	f, err := files.Open(d.name)
	if err != nil {
		return "", nil // removed meanwhile, or not for us to read
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", nil
	}
	b, err := io.ReadAll(io.LimitReader(f, MaxIngestFile+1))
	if err != nil {
		e := fail(messages.ErrConfig, ReasonUnreachable, "%q cannot be read", shortened(d.name))
		e.Cause = reasonOf(err)
		return "", e
	}
	cut := len(b) > MaxIngestFile
	if cut {
		b = b[:MaxIngestFile]
		for n := 1; n < utf8.UTFMax; n++ { // a code point that the cut went through
			if tail := b[len(b)-n:]; utf8.RuneStart(tail[0]) {
				if !utf8.FullRune(tail) {
					b = b[:len(b)-n]
				}
				break
			}
		}
	}
	text := ""
	if bytes.IndexByte(b, 0) < 0 && utf8.Valid(b) {
		text = string(b)
		if cut {
			text += fmt.Sprintf("\n[truncated: %d of %d bytes]", len(b), d.size)
		}
	} else {
		text = fmt.Sprintf("[not text: %d bytes]", d.size)
	}
	if in.Cache != nil && began.Sub(d.time) > racyFor {
		in.Cache.putText(key, text)
	}
	return text, nil
}

// writeTree writes names as an indented tree.
func writeTree(out *strings.Builder, docs []document) {
	var open []string
	for i := range docs {
		dirs := strings.Split(docs[i].name, "/")
		base := dirs[len(dirs)-1]
		dirs = dirs[:len(dirs)-1]
		same := 0
		for same < len(dirs) && same < len(open) && dirs[same] == open[same] {
			same++
		}
		for n := same; n < len(dirs); n++ {
			fmt.Fprintf(out, "%s%s/\n", strings.Repeat("  ", n), dirs[n])
		}
		fmt.Fprintf(out, "%s%s\n", strings.Repeat("  ", len(dirs)), base)
		open = dirs
	}
}

func writeDocument(out *strings.Builder, format, name, text string) {
	text = strings.TrimRight(text, "\n")
	if format == formatText {
		fmt.Fprintf(out, "==> %s <==\n%s\n\n", name, text)
		return
	}
	// A fence that nothing in the text closes.
	fence := 3
	row := 0
	for i := range len(text) {
		if text[i] != '`' {
			row = 0
			continue
		}
		row++
		fence = max(fence, row+1)
	}
	ticks := strings.Repeat("`", fence)
	fmt.Fprintf(out, "## %s\n\n%s%s\n%s\n%s\n\n", name, ticks, strings.TrimPrefix(path.Ext(name), "."), text, ticks)
}
