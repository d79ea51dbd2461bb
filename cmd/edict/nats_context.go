package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/cmd/internal/cli"
)

// natsContext is what we use of a context of the nats command line: where servers are,
// and who one is there.
type natsContext struct {
	URL   string `json:"url"`
	Creds string `json:"creds"`
	CA    string `json:"ca"`
}

// notUsed are members of such a context with which one shows who one is otherwise. A
// context that has one is refused: without it one would be somebody else.
var notUsed = []string{"user", "password", "token", "nkey", "nsc", "user_jwt", "cert", "key", "socks_proxy"}

// natsContextFlag gives a command --nats-context. With fromContext it has a value where
// the context of 'edict context' says one.
func (a *connection) natsContextFlag(cmd *cobra.Command, fromContext bool) {
	cmd.Flags().StringVar(&a.natsContext, "nats-context", "", "context of the nats command line that --nats and --nats-creds are read from (EDICT_NATS_CONTEXT)")
	if fromContext {
		_ = cmd.Flags().SetAnnotation("nats-context", fromEdictContext, []string{"true"}) // the flag was just made
	}
	before := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if err := a.applyNATSContext(cmd); err != nil || before == nil {
			return err
		}
		return before(cmd, args)
	}
	fromEnvironment(cmd, "nats-context")
}

// fromEdictContext marks a flag that the context of 'edict context' may set.
const fromEdictContext = "edict_context"

// applyNATSContext sets the flags that were not given.
func (a *connection) applyNATSContext(cmd *cobra.Command) error {
	if a.natsContext == "" || cmd.Flags().Changed("nats") {
		return nil
	}
	c, err := readNATSContext(a.natsContext)
	if err != nil {
		return err
	}
	for flag, value := range map[string]string{"nats": c.URL, "nats-creds": c.Creds, "ca": c.CA} {
		f := cmd.Flags().Lookup(flag)
		if f == nil || f.Changed || value == "" {
			continue
		}
		if err := cmd.Flags().Set(flag, value); err != nil {
			return cli.Failed(cli.Unreadable, "context %s of nats: %v", a.natsContext, err)
		}
	}
	return nil
}

// natsHome is where the nats command line sees the home of whoever runs this: in their
// account, and not in HOME.
func natsHome() (string, error) {
	if account, err := user.Current(); err == nil && account.HomeDir != "" {
		return account.HomeDir, nil
	}
	return os.UserHomeDir()
}

// readNATSContext reads a context where the nats command line keeps its own.
func readNATSContext(name string) (c natsContext, err error) {
	if strings.ContainsAny(name, `/\`) || strings.HasPrefix(name, ".") {
		return c, cli.Failed(cli.BadUsage, "--nats-context %.80q: want the name of a context; 'nats context ls' lists them", name)
	}
	dir := os.Getenv("XDG_CONFIG_HOME")
	if dir == "" {
		home, err := natsHome()
		if err != nil {
			return c, cli.Failed(cli.Unreadable, "--nats-context: %v", err)
		}
		dir = filepath.Join(home, ".config")
	}
	path := filepath.Join(dir, "nats", "context", name+".json")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, cli.Failed(cli.NotFound, "--nats-context: no context %.80q (looked at %s); 'nats context ls' lists them where XDG_CONFIG_HOME is the same", name, path)
	}
	if err != nil {
		return c, cli.Failed(cli.Unreadable, "--nats-context: %v", err)
	}
	var all map[string]any
	if err := errors.Join(json.Unmarshal(text, &all), json.Unmarshal(text, &c)); err != nil {
		return c, cli.Failed(cli.Unreadable, "--nats-context: %s: %v", path, err)
	}
	for _, member := range notUsed {
		if text, _ := all[member].(string); text != "" {
			return c, cli.Failed(cli.Unreadable, "--nats-context: %s says %s, which edict does not use; want url and creds, or say --nats and --nats-creds", path, member)
		}
	}
	if c.URL == "" {
		return c, cli.Failed(cli.Unreadable, "--nats-context: %s has no url", path)
	}
	if rest, ok := strings.CutPrefix(c.Creds, "~/"); ok {
		if home, err := natsHome(); err == nil {
			c.Creds = filepath.Join(home, rest)
		}
	}
	return c, nil
}
