package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/seed14be6753/stile/internal/files"
)

// toStandardError names standard error in place of a file.
const toStandardError = "stderr"

func decisionFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "decision-log", "", "append a JSON line for each decided turn to this file, or to stderr")
}

// Bounds of the decision log, unless the settings say others.
const (
	decisionLogBytes = 64 << 20
	decisionLogKeep  = 5
)

// decisionLog opens the decision log of a path; nil for none. standard is standard error.
// Once now something is written: a log that cannot be written is an error of the settings.
func decisionLog(path string, maxBytes int64, keep int, standard io.Writer) (io.Writer, error) {
	switch path {
	case "":
		return nil, nil
	case toStandardError:
		return standard, nil
	}
	log := files.Rotating{Path: path, Max: maxBytes, Keep: keep}
	if _, err := log.Write(nil); err != nil {
		return nil, configError("decision_log", path+" cannot be written: "+files.Cause(err).Error())
	}
	return log, nil
}

// decisionLogFiles are those that a decision log of a path consists of, for what keeps the
// files of the host from tools.
func decisionLogFiles(path string, keep int) []string {
	if path == "" || path == toStandardError {
		return nil
	}
	all := []string{path, path + files.LockSuffix}
	for i := range keep {
		all = append(all, fmt.Sprintf("%s.%d", path, i+1))
	}
	return all
}
