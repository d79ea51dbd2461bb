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

// instead is what does what people look for in a group, where that is no one command of it.
var instead = map[string]map[string]string{
	"edict": {
		"whoami": "edict access self",
		"apply":  "edict policy apply -f FILE, edict node import -f FILE or edict admission apply -f FILE",
	},
	"policy": {
		"wait":     "edict wait policy/NAME",
		"explain":  "edict explain policy",
		"events":   "edict events --policy NAME",
		"lint":     "edict policy dry-run -f FILE",
		"validate": "edict policy dry-run -f FILE",
		"check":    "edict policy dry-run -f FILE",
		"rollback": "edict policy get NAME --at SEQ -o yaml | edict policy apply -f -",
	},
	"access": {
		"whoami": "edict access self",
	},
	"node": {
		"edit":    "edict node label ID KEY=VALUE, or edict node apply ID with all its facts",
		"wait":    "edict wait node/NAME",
		"explain": "edict explain node",
		"events":  "edict events --node NAME",
	},
	"project": {
		"create": "the first policy or node of it: --project UUID names one that is new",
	},
}

// suggestWords has commands suggested for those words.
func suggestWords(cmd *cobra.Command) {
	cmd.SuggestFor = otherWords[cmd.Name()]
	for _, below := range cmd.Commands() {
		suggestWords(below)
	}
	for word, does := range instead[cmd.Name()] {
		cli.Instead(cmd, word, does)
	}
}
