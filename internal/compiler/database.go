package compiler

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
	"github.com/seed14be6753/stile/tools/sql"
	"github.com/seed14be6753/stile/tools/workspace"
)

// database returns the target of a relic that is a database. It is opened for the first action.
func (e *Env) database(a *Definition, d *manifest.Relic, at string) (*catalog.Executor, error) {
	r := sql.Relic{
		Name: d.Name, Summary: d.Summary, Timeout: d.Timeout, MaxRows: d.Connection.MaxRows, MaxBytes: d.Connection.MaxBytes,
	}
	for i, e := range d.Interface.Endpoints {
		ps, err := parameters(e.Parameters, fmt.Sprintf("%s.interface.endpoints[%d].parameters", at, i))
		if err != nil {
			return nil, err
		}
		r.Endpoints = append(r.Endpoints, sql.Endpoint{
			Name: e.Name, Summary: e.Summary, Query: e.Query, Exec: e.Exec, Class: messages.Class(e.Class), Params: ps,
		})
	}
	client, known := e.Databases[d.Connection.Driver]
	switch {
	case e.replays(): // no database is asked
		r.Backend = &sql.Backend{Mark: "$"}
	case d.Connection.Driver == "sqlite":
		if a.Dir == "" {
			return nil, &messages.Error{Code: messages.ErrConfig, Field: at + ".connection.path", Detail: "a database in a file needs Agent.Dir, the folder it lies in"}
		}
		r.Backend = sql.SQLite(func() (string, error) { return e.databaseFile(a, d.Connection.Path) })
	case known:
		r.Backend = client(func() (string, error) {
			if url := strings.TrimSpace(os.Getenv(d.Connection.Secret)); url != "" {
				return url, nil
			}
			return "", tools.Refuse(sql.ReasonUnavailable, d.Connection.Secret+" is not set")
		})
	default:
		return nil, &messages.Error{Code: messages.ErrConfig, Field: at + ".connection.driver", Detail: "there is no client of " + d.Connection.Driver + " here; see Config.Databases"}
	}
	x, pool, err := sql.New(r)
	if err != nil {
		return nil, messages.At(err, at)
	}
	return x, e.Keep(pool)
}

// databaseFile returns the absolute path of a relic's file, which must be in the agent's folder
// and no file of the host, such as its journal.
func (e *Env) databaseFile(a *Definition, name string) (string, error) {
	path, err := a.inside(name)
	if err != nil {
		return "", err
	}
	var hosts workspace.Workspace
	hosts.Deny(slices.Concat(e.Own, a.Files)...)
	if hosts.Denies(path) {
		return "", tools.Refuse(sql.ReasonUnavailable, "the file "+name+" belongs to the host")
	}
	return path, nil
}

// inside returns the absolute path of a file of the agent's folder. It may be a link, but not
// one that leads out.
func (a *Definition) inside(name string) (string, error) {
	unavailable := func(why string) (string, error) { return "", tools.Refuse(sql.ReasonUnavailable, why) }
	dir, err := os.OpenRoot(a.Dir)
	if err != nil {
		return unavailable("the agent's folder cannot be opened")
	}
	defer dir.Close()
	info, err := dir.Stat(filepath.FromSlash(name))
	switch {
	case os.IsNotExist(err):
		return unavailable("there is no file " + name)
	case err != nil:
		return unavailable("the file " + name + " is not in the agent's folder, or cannot be opened")
	case info.Mode().Type()&^fs.ModeSymlink != 0:
		return unavailable("the file " + name + " is no file")
	}
	path, err := filepath.EvalSymlinks(filepath.Join(a.Dir, filepath.FromSlash(name)))
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return unavailable("the file " + name + " cannot be opened")
	}
	return path, nil
}
