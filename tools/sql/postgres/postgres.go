// Package postgres lets relics be databases of PostgreSQL (tools/sql). It is a package
// of its own so that who does not want the client need not have it.
//
// The URL comes from whoever holds the secret, for each connection anew. It is in no
// error: of what the server says its message and its code are given on, of what the
// network says nothing.
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

// Open makes the backend of a database. where gives its URL, postgres://….
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
			// A client that goes away does not end its statement.
			_, err := tx.ExecContext(ctx, "SELECT set_config('statement_timeout', $1, true)", strconv.FormatInt(max(1, timeout.Milliseconds()), 10))
			return err
		},
		Said: said,
	}
}

// said gives what may be told of an error; ok tells that the server refused.
func said(err error) (text string, ok bool) {
	var server *pgconn.PgError
	if errors.As(err, &server) {
		// Class 08 is of the connection, 57P of a server that goes away.
		lost := strings.HasPrefix(server.Code, "08") || strings.HasPrefix(server.Code, "57P")
		var connect *pgconn.ConnectError
		if errors.As(err, &connect) {
			return "the database lets nobody in: SQLSTATE " + server.Code, false // its message names the user
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
	// An argument that the client cannot write as the type that the server wants, among others.
	if strings.Contains(err.Error(), "failed to encode args") {
		return "an argument does not fit the type that the statement has for it", true
	}
	return "", false
}
