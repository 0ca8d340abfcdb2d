// Package postgres lets relics be databases of PostgreSQL (tools/sql). It is a package of its
// own so that programs without such relics need not link the client.
//
// The URL comes from the caller, for each connection anew. It is in no error: errors have
// the server's message and code, and nothing of the network's errors.
package postgres

import (
	"context"
	stdsql "database/sql"
	"database/sql/driver"
	"errors"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/sql"
)

// connectWait bounds one attempt to connect, unless the URL does.
const connectWait = 10 * time.Second

// Open returns the backend of a database. where returns its URL, postgres://…, and is called
// for each connection.
func Open(where func() (url string, err error)) *sql.Backend {
	return &sql.Backend{
		Mark: "$", Driver: stdlib.GetDefaultDriver(),
		Connect: func(ctx context.Context, write bool) (driver.Conn, error) {
			url, err := where()
			if err != nil {
				return nil, err
			}
			if !strings.HasPrefix(url, "postgres://") && !strings.HasPrefix(url, "postgresql://") {
				return nil, tools.Refuse(sql.ReasonUnavailable, "the address of the database does not begin with postgres://")
			}
			conf, err := pgx.ParseConfig(url)
			if err != nil { // its text repeats the URL
				return nil, tools.Refuse(sql.ReasonUnavailable, "the address of the database is not understood")
			}
			if conf.ConnectTimeout == 0 {
				conf.ConnectTimeout = connectWait
			}
			if conf.RuntimeParams["application_name"] == "" {
				conf.RuntimeParams["application_name"] = "stile"
			}
			conf.RuntimeParams["client_encoding"] = "UTF8"
			conf.RuntimeParams["default_transaction_read_only"] = strconv.FormatBool(!write)
			c, err := stdlib.GetConnector(*conf).Connect(ctx)
			if err != nil {
				return nil, err
			}
			return c, nil
		},
		Begin: func(ctx context.Context, tx *stdsql.Tx, timeout time.Duration) error {
			// The end of a client does not end its statement.
			_, err := tx.ExecContext(ctx, "SELECT set_config('statement_timeout', $1, true)", strconv.FormatInt(max(1, timeout.Milliseconds()), 10))
			return err
		},
		Describe: describe,
	}
}

// describe returns the text of an error for a model; ok reports whether the server refused.
func describe(err error) (text string, ok bool) {
	var server *pgconn.PgError
	if errors.As(err, &server) {
		// Class 08 is a failure of the connection, 57P a server that shuts down.
		lost := strings.HasPrefix(server.Code, "08") || strings.HasPrefix(server.Code, "57P")
		var connect *pgconn.ConnectError
		if errors.As(err, &connect) {
			return "the database refuses the login: SQLSTATE " + server.Code, false // its message names the user
		}
		return server.Message + " (SQLSTATE " + server.Code + ")", !lost
	}
	var dial net.Error
	if errors.As(err, &dial) && dial.Timeout() {
		return "the database does not answer", false
	}
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) {
		return "the database cannot be reached", false
	}
	if pgconn.SafeToRetry(err) {
		return "the connection to the database was lost", true
	}
	// For example an argument that the client cannot encode as the type that the server wants.
	if strings.Contains(err.Error(), "failed to encode args") {
		return "an argument does not fit the type that the statement has for it", true
	}
	return "", false
}
