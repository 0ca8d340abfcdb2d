package stile

import (
	"context"
	"encoding/json"
	"os"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/internal/compiler"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/tools/mcp"
)

// Digests of the tools that MCP servers offer, kept over restarts to detect changes.

// Pins reads the tool lists of an agent's MCP servers and returns the digests that a manifest
// can pin, by server and tool, such as "sha256:9f86d0…"; the digest of a server's whole list
// is under the tool "". It starts programs and opens connections, and ends them before it
// returns. cfg says which files are the host's and what the kernel supports. Errors are
// ERR_CONFIG and name the server.
func Pins(ctx context.Context, a *Agent, cfg Config) (map[string]map[string]string, error) {
	pool := mcp.NewPool(mcp.Options{Secret: os.LookupEnv})
	defer func() { _ = pool.Close() }() // it returns nothing but nil
	cfg = cfg.withDefaults()
	return compiler.Pins(ctx, cfg.compiler(compiler.Check), pool, a.definition(lineage{}))
}

// maxLoggedChanges bounds the log lines of one change of a server's list.
const maxLoggedChanges = 20

// toolsChanged logs the tools whose description a server has changed.
func (rt *Runtime) toolsChanged(server string, changes []mcp.Change) {
	rt.metrics.ToolsChanged(server, len(changes))
	for i, c := range changes {
		if i == maxLoggedChanges {
			rt.log.Warn("an MCP server changed the descriptions of further tools", zap.String("server", server), zap.Int("tools", len(changes)-i))
			return
		}
		rt.log.Warn("an MCP server changed the description of a tool; pin the tool to refuse changes (stile doctor --pins)",
			zap.String("server", server), zap.String("tool", clip.Excerpt(c.Tool)), zap.String("before", c.Before), zap.String("now", c.Now))
	}
}

// metaTools is where the digests of a server's tools are, beside the records.
const metaTools = "mcp-tools-"

func (rt *Runtime) knownTools(ctx context.Context, server string) map[string]string {
	raw, err := rt.store.Meta(ctx, metaTools+server)
	var known map[string]string
	if err == nil {
		err = json.Unmarshal(raw, &known)
	}
	if err != nil && !journal.IsNotFound(err) {
		rt.log.Warn("the earlier tool digests of an MCP server cannot be read", zap.Error(err))
	}
	return known
}

func (rt *Runtime) rememberTools(ctx context.Context, server string, digests map[string]string) {
	raw, err := json.Marshal(digests)
	if err == nil {
		err = rt.store.PutMeta(ctx, metaTools+server, raw)
	}
	if err != nil {
		rt.log.Warn("the tool digests of an MCP server cannot be stored", zap.Error(err))
	}
}
