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

// What MCP servers say of their tools, over restarts and changes.

// Pins asks the MCP servers of an agent what they offer now, and gives the digests that a
// manifest can pin, by server and tool, such as "sha256:9f86d0…"; that of the whole list
// is under "". It starts programs and makes connections, and ends them. Errors are
// ERR_CONFIG, naming the server.
func Pins(ctx context.Context, a *Agent) (map[string]map[string]string, error) {
	pool := mcp.NewPool(mcp.Options{Secret: os.LookupEnv})
	defer func() { _ = pool.Close() }() // it returns nothing but nil
	return compiler.Pins(ctx, pool, a.definition(lineage{}))
}

// maxToldChanges bounds the lines that one change of a list makes in the log.
const maxToldChanges = 20

// toolsChanged tells the operator of tools that are not what they were.
func (rt *Runtime) toolsChanged(server string, changes []mcp.Change) {
	rt.metrics.ToolsChanged(server, len(changes))
	for i, c := range changes {
		if i == maxToldChanges {
			rt.log.Warn("an MCP server offers further tools in other words than before", zap.String("server", server), zap.Int("tools", len(changes)-i))
			return
		}
		rt.log.Warn("an MCP server offers a tool in other words than before: pin it where that must not be (stile doctor --pins)",
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
		rt.log.Warn("what an MCP server offered before cannot be read", zap.Error(err))
	}
	return known
}

func (rt *Runtime) rememberTools(ctx context.Context, server string, digests map[string]string) {
	raw, err := json.Marshal(digests)
	if err == nil {
		err = rt.store.PutMeta(ctx, metaTools+server, raw)
	}
	if err != nil {
		rt.log.Warn("what an MCP server offers cannot be kept", zap.Error(err))
	}
}
