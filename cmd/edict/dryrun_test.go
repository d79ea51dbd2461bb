package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// readers are commands that change nothing anywhere.
const readers = `
access can-i, access list, access self, access token list, admission decisions, admission evaluate, admission explain, admission get, admission list, admission replay,
admission test, agent status, audit, completion bash, completion fish, completion powershell, completion zsh, context list, datapath explain, datapath lookup, datapath show, doctor,
errors, events, explain, help, key list, log cat, log verify, node count, node describe, node diff, node get, node list, node policies, node state, node watch, policy describe,
policy diff, policy dry-run, policy get, policy list, policy plan, policy revisions, policy rollout, probe, project describe, project list, release get, release list, replay,
snapshot list, status, top nodes, top workers, version, wait, worker describe, worker list`

// undryable are commands that write and have no --dry-run, each with why.
var undryable = map[string]string{
	"agent":               "it is what a node is, and runs until it is stopped",
	"agent remove":        "agent status shows what it takes away",
	"backup":              "it writes a new directory of its own, and nothing of the plane",
	"context add":         "a file of the person who types",
	"context remove":      "a file of the person who types",
	"context use":         "a file of the person who types",
	"demo":                "a plane of its own, on temporary data",
	"log accept":          "it does nothing without --yes, and says what it found",
	"log export":          "it writes an archive, and nothing of the plane",
	"man":                 "files of the person who types",
	"nats bootstrap":      "files of the person who types: a plane notices when a server has them",
	"nats creds node":     "a file of the person who types",
	"nats creds producer": "a file of the person who types",
	"nats creds worker":   "a file of the person who types",
	"nats revoke":         "files of the person who types: a plane notices when a server has them",
	"serve":               "it is the plane, and runs until it is stopped",
	"support-bundle":      "a file of the person who types",
	"ui":                  "a link that opens a browser, and changes nothing",
}

// TestEveryWriteHasADryRun walks the commands. One that is not known to read has --dry-run,
// which a story shows, or is named above with a reason.
func TestEveryWriteHasADryRun(t *testing.T) {
	reads := map[string]bool{}
	for name := range strings.SplitSeq(readers, ",") {
		reads[strings.Join(strings.Fields(name), " ")] = true
	}
	stories := ""
	files, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		stories += string(text)
	}
	root := new(app).rootCommand()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd("bash")
	for _, c := range leaves(root) {
		name := strings.TrimPrefix(c.CommandPath(), "edict ")
		why, excused := undryable[name]
		dry := c.Flag("dry-run") != nil
		n := 0
		for _, is := range []bool{reads[name], excused, dry} {
			if is {
				n++
			}
		}
		require.Equal(t, 1, n, "edict %s reads, or has --dry-run, or is excused with a reason: %v %q %v", name, reads[name], why, dry)
		if dry {
			require.True(t, shownDry(name, c).MatchString(stories), "a story shows edict %s --dry-run", name)
		}
		delete(reads, name)
	}
	require.Empty(t, reads, "these are no commands")
}

// shownDry is a line of a story that runs a command with --dry-run. A command below it is
// another one.
func shownDry(name string, c *cobra.Command) *regexp.Regexp {
	between := `(?: [^#\n]*)?`
	if c.HasSubCommands() {
		between = `(?: -[^#\n]*)?`
	}
	return regexp.MustCompile(`(?m)^(?:! |ends \d+ )?(?:exec )?(?:sh -c ' ?)?edict ` + name + between + ` --dry-run(?:[ ']|$)`)
}

// leaves are the commands that do something.
func leaves(c *cobra.Command) (all []*cobra.Command) {
	for _, sub := range c.Commands() {
		all = append(all, leaves(sub)...)
	}
	if !c.HasSubCommands() || c.Name() == "agent" || c.Name() == "release" { // others only hold commands
		all = append(all, c)
	}
	return all
}
