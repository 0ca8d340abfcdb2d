package postgres

import (
	"context"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/seed14be6753/stile/internal/share"
)

// hosts is a share.Table as well.
var _ share.Table = (*hosts)(nil)

const (
	// A part grows only if the limit's version is the one that this statement has seen, so that
	// what it has seen of other hosts is what holds; and it waits for no other host: a row that
	// another one has locked is passed over. What a host gives up, and what it has used, needs no
	// version. The snapshot in which sessions are counted is that in which parts are seen, so one that
	// begins is among these or those. The greatest and least are share.Grant.
	sqlShare = `WITH ask AS (
			SELECT * FROM unnest($3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[])
				AS a (tenant, kind, day, lim, used, held, want)),
		seen AS (
			SELECT a.*, coalesce(m.held, 0) AS mine, l.version, o.elsewhere + e.n AS elsewhere, o.others_used + e.n AS others_used, o.others, o.short
			FROM ask a
			LEFT JOIN shares m ON m.tenant = a.tenant AND m.kind = a.kind AND m.day = a.day AND m.host = $1
			LEFT JOIN limits l ON l.tenant = a.tenant AND l.kind = a.kind AND l.day = a.day
			CROSS JOIN LATERAL (
				SELECT coalesce(sum(CASE WHEN h.id IS NOT NULL THEN s.held WHEN s.day <> '' THEN s.used END), 0)::bigint AS elsewhere,
					coalesce(sum(s.used) FILTER (WHERE h.id IS NOT NULL OR s.day <> ''), 0)::bigint AS others_used,
					count(*) FILTER (WHERE h.id IS NOT NULL AND (s.held > 0 OR s.want > 0)) AS others,
					coalesce(bool_or(h.id IS NOT NULL AND s.want > s.held), false) AS short
				FROM shares s LEFT JOIN hosts h ON h.id = s.host AND h.until > clock_timestamp()
				WHERE s.tenant = a.tenant AND s.kind = a.kind AND s.day = a.day AND s.host <> $1) o
			CROSS JOIN LATERAL (SELECT CASE WHEN a.kind = 'sessions' THEN
				(SELECT count(*) FROM (SELECT FROM heads c WHERE c.live AND NOT c.closed
					AND c.sid >= a.tenant || ':' AND c.sid < a.tenant || ';' AND c.sid !~ $10 LIMIT a.lim) f) ELSE 0 END AS n) e),
		fresh AS (
			INSERT INTO limits (tenant, kind, day, version)
			SELECT tenant, kind, day, 0 FROM seen WHERE version IS NULL AND lim > 0 ORDER BY tenant, kind, day
			ON CONFLICT DO NOTHING),
		sole AS (
			UPDATE limits l SET version = l.version + 1 FROM (
				SELECT f.tenant, f.kind, f.day FROM limits f JOIN seen s ON f.tenant = s.tenant AND f.kind = s.kind AND f.day = s.day
				WHERE s.lim > 0 AND s.want > least(s.mine, s.held) AND f.version = s.version
				FOR UPDATE OF f SKIP LOCKED) g
			WHERE l.tenant = g.tenant AND l.kind = g.kind AND l.day = g.day
			RETURNING l.tenant, l.kind, l.day),
		given AS (
			INSERT INTO shares AS t (tenant, kind, day, host, turn, used, held, want)
			SELECT s.tenant, s.kind, s.day, $1, $2, s.used,
				CASE WHEN s.lim <= 0 THEN s.used
					ELSE greatest(s.used, least(s.want, greatest(least(s.mine, s.held), CASE WHEN w.kind IS NOT NULL THEN s.lim - s.elsewhere ELSE 0 END))) END,
				s.want
			FROM seen s LEFT JOIN sole w ON w.tenant = s.tenant AND w.kind = s.kind AND w.day = s.day
			WHERE EXISTS (SELECT FROM hosts WHERE id = $1 AND until > clock_timestamp())
			ORDER BY s.tenant, s.kind, s.day
			ON CONFLICT (tenant, kind, day, host) DO UPDATE SET turn = excluded.turn, used = excluded.used, held = excluded.held, want = excluded.want
			WHERE t.turn < excluded.turn
			RETURNING tenant, kind, day, held)
		SELECT g.tenant, g.kind, g.day, g.held, s.others_used, s.elsewhere, s.others, s.short
		FROM given g JOIN seen s ON s.tenant = g.tenant AND s.kind = g.kind AND s.day = g.day`
	sqlUsed = `SELECT s.kind, sum(s.used)::bigint FROM shares s LEFT JOIN hosts h ON h.id = s.host AND h.until > clock_timestamp()
		WHERE s.tenant = $2 AND s.host <> $1 AND (s.day = '' AND h.id IS NOT NULL OR s.day <> '' AND s.day = $3) GROUP BY s.kind`
	sqlForgetShares = `DELETE FROM shares WHERE day <> '' AND day < $1 OR day = '' AND host NOT IN (SELECT id FROM hosts)`
	sqlForgetLimits = `DELETE FROM limits WHERE day <> '' AND day < $1`
)

// Share implements share.Table.
func (h *hosts) Share(ctx context.Context, host uuid.UUID, turn int64, asks []share.Ask) ([]share.Share, error) {
	n := len(asks)
	tenants, kinds, days := make([]string, 0, n), make([]string, 0, n), make([]string, 0, n)
	limits, used, held, want := make([]int64, 0, n), make([]int64, 0, n), make([]int64, 0, n), make([]int64, 0, n)
	sorted := slices.Clone(asks) // in the order of all hosts, so that none waits for one that waits for it
	slices.SortFunc(sorted, func(a, b share.Ask) int {
		if c := strings.Compare(a.Tenant, b.Tenant); c != 0 {
			return c
		}
		if c := strings.Compare(string(a.Kind), string(b.Kind)); c != 0 {
			return c
		}
		return strings.Compare(a.Day, b.Day)
	})
	for i := range sorted {
		a := &sorted[i]
		tenants, kinds, days = append(tenants, a.Tenant), append(kinds, string(a.Kind)), append(days, a.Day)
		limits, used, held, want = append(limits, a.Limit), append(used, a.Used), append(held, a.Held), append(want, a.Want)
	}
	rows, err := h.pool.Query(ctx, sqlShare, host, turn, tenants, kinds, days, limits, used, held, want, share.Unnamed)
	if err != nil {
		return nil, h.failure(err, "sharing limits")
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s share.Share, err error) {
		err = row.Scan(&s.Tenant, &s.Kind, &s.Day, &s.Held, &s.Used, &s.Elsewhere, &s.Others, &s.Short)
		return s, err
	})
	return all, h.failure(err, "sharing limits")
}

// Used implements share.Table.
func (h *hosts) Used(ctx context.Context, host uuid.UUID, tenant, day string) (map[share.Kind]int64, error) {
	used := map[share.Kind]int64{}
	rows, err := h.pool.Query(ctx, sqlUsed, host, tenant, day)
	if err == nil {
		var kind share.Kind
		var n int64
		_, err = pgx.ForEachRow(rows, []any{&kind, &n}, func() error {
			used[kind] += n
			return nil
		})
	}
	return used, h.failure(err, "reading what is used")
}

// Forget implements share.Table.
func (h *hosts) Forget(ctx context.Context, day string) error {
	_, err := h.pool.Exec(ctx, sqlForgetShares, day)
	if err == nil {
		_, err = h.pool.Exec(ctx, sqlForgetLimits, day)
	}
	return h.failure(err, "forgetting what was used")
}
