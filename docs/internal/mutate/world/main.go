// Command world simulates from seed 1 and says in JSON what failed: stile sim without
// the rest of the command, so that a mutation is built in a moment.
//
//	go run ./docs/internal/mutate/world TURNS
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/seed14be6753/stile/internal/sim"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "world:", err)
		os.Exit(1)
	}
}

// verdict is what is said, the fields of stile sim --json that matter here.
type verdict struct {
	OK      bool         `json:"ok"`
	Turns   int64        `json:"turns"`
	Failure *sim.Failure `json:"failure,omitempty"`
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("how many turns?")
	}
	turns, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil {
		return err
	}
	rep, err := sim.Run(context.Background(), sim.Options{Seed: 1, Turns: turns, Hosts: 4})
	v := verdict{OK: err == nil, Turns: rep.Turns}
	if err != nil && !errors.As(err, &v.Failure) {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(v)
}
