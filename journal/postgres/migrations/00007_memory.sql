-- +goose Up

-- A server that crashes, and one that takes its place, has the tables of hosts and leases empty.
-- Then hosts that still believe in their leases are not in them. This row is there as long as the
-- others are what hosts made them; a host that finds none enters itself only when every lease
-- from before has ended: at "ready".
CREATE UNLOGGED TABLE lease_memory (ready timestamptz NOT NULL);
INSERT INTO lease_memory VALUES ('2000-01-01');

INSERT INTO formats (format, oldest) VALUES (7, 5);
