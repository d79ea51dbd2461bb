package main

import (
	"github.com/spf13/cobra"

	"github.com/edictdev/edict/cmd/internal/cli"
)

// otherWords are what other programs call what a command does.
var otherWords = map[string][]string{
	"policy":    {"policies"},
	"list":      {"ls"},
	"apply":     {"create", "register", "add", "set"},
	"delete":    {"remove", "rm"},
	"describe":  {"show", "get"},
	"get":       {"show", "describe"},
	"context":   {"config", "login"},
	"revisions": {"history"},
}

// suggestWords has commands suggested for those words.
func suggestWords(cmd *cobra.Command) {
	cmd.SuggestFor = otherWords[cmd.Name()]
	for _, below := range cmd.Commands() {
		suggestWords(below)
	}
	if cmd.Name() == "policy" || cmd.Name() == "node" {
		cli.Instead(cmd, "wait", "edict wait "+cmd.Name()+"/NAME")
		cli.Instead(cmd, "explain", "edict explain "+cmd.Name())
		cli.Instead(cmd, "events", "edict events --"+cmd.Name()+" NAME")
	}
	if !cmd.HasParent() {
		cli.Instead(cmd, "apply", "edict policy apply -f FILE, edict node import -f FILE or edict admission apply -f FILE")
	}
	if cmd.Name() == "project" {
		cli.Instead(cmd, "create", "the first policy or node of it: --project UUID names one that is new")
	}
	if cmd.Name() == "policy" {
		for _, word := range []string{"lint", "validate", "check"} {
			cli.Instead(cmd, word, "edict policy dry-run -f FILE")
		}
		cli.Instead(cmd, "rollback", "edict policy get NAME --at SEQ -o yaml | edict policy apply -f -")
	}
}
