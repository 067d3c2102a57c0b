package main

import (
	"strings"

	"github.com/spf13/cobra"

	"etl/stream"
)

// group makes cmd a command that only holds others: alone it prints its help, and a word
// that is none of them is an error, as a script needs it.
func group(cmd *cobra.Command) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		err := stream.Errorf(stream.BadConfig, "cli.command", "", "", "%s has no command %q", cmd.CommandPath(), args[0])
		cmd.SuggestionsMinimumDistance = 2
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			return err.WithFix("did you mean %s?", strings.Join(near, " or "))
		}
		return err.WithFix("%s --help lists them", cmd.CommandPath())
	}
	return cmd
}
