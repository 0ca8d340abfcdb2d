package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/internal/files"
)

// toStandardError names standard error in place of a file.
const toStandardError = "stderr"

// decisionFlag gives a command the decision log.
func decisionFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "decision-log", "", "append a JSON line for each decided turn to this file, or to stderr")
}

// decisionLog opens the decision log of a path; nil for none. standard is standard error.
// The file is opened for each line, so that it can be moved away, and once now: a log
// that cannot be written is an error of the settings.
func decisionLog(path string, standard io.Writer) (io.Writer, error) {
	switch path {
	case "":
		return nil, nil
	case toStandardError:
		return standard, nil
	}
	log := host.AuditFile(path)
	if _, err := log.Write(nil); err != nil {
		return nil, configError("decision_log", path+" cannot be written: "+files.Cause(err).Error())
	}
	return log, nil
}
