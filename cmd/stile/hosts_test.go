package main

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/messages"
)

// What settings of a cluster make of a host.
func TestClusterOf(t *testing.T) {
	dir := t.TempDir()
	secret := write(t, dir, "secret", " a secret of a cluster, for tests \n\n\tthe one before it, for tests as well\n")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for name, c := range map[string]struct {
		clusterSettings
		field string // of the refusal
	}{
		"none":      {clusterSettings{SecretFile: "there is none"}, ""},
		"good":      {clusterSettings{Address: "127.0.0.1:0", SecretFile: secret, Lease: 3}, ""},
		"no secret": {clusterSettings{Address: "127.0.0.1:0", SecretFile: secret + "s"}, "cluster.secret_file"},
		"too large": {clusterSettings{Address: "127.0.0.1:0", SecretFile: write(t, dir, "large", strings.Repeat("x", maxSecretBytes+1))}, "cluster.secret_file"},
		"taken":     {clusterSettings{Address: taken.Addr().String(), SecretFile: secret}, "cluster.address"},
	} {
		t.Run(name, func(t *testing.T) {
			door, cfg := host.Config{Version: "v1"}, stile.Config{}
			err := clusterOf(t.Context(), &settings{Cluster: c.clusterSettings}, &door, &cfg)
			if door.ClusterListener != nil {
				defer door.ClusterListener.Close()
			}
			var e *messages.Error
			switch {
			case c.field != "":
				if !errors.As(err, &e) || e.Code != messages.ErrConfig || e.Field != c.field {
					t.Errorf("%v", err)
				}
			case err != nil:
				t.Error(err)
			case c.Address == "":
				if door.ClusterListener != nil || door.ClusterSecret != nil || cfg.Cluster.Address != "" {
					t.Errorf("%+v, %+v", door, cfg.Cluster)
				}
			default:
				want := "a secret of a cluster, for tests"
				if door.ClusterListener == nil || string(door.ClusterSecret) != want || string(cfg.Cluster.Secret) != want || len(door.OldClusterSecrets) != 1 || string(door.OldClusterSecrets[0]) != "the one before it, for tests as well" || len(cfg.Cluster.OldSecrets) != 1 || cfg.Cluster.Address != c.Address || cfg.Cluster.Version != "v1" || cfg.Cluster.Lease != 3 {
					t.Errorf("%+v, %+v", door, cfg.Cluster)
				}
			}
		})
	}
}
