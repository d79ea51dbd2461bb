package main

import (
	"cmp"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/edictdev/edict/cmd/internal/cli"
)

// contextCommands name planes, and choose one.
type contextCommands struct{ *app }

func (a contextCommands) contextCommand() *cobra.Command {
	cmd := group("context", "Name planes, and choose the one that commands speak to",
		a.contextAddCommand(), a.contextUseCommand(), a.contextListCommand(), a.contextRemoveCommand())
	cmd.Long = `Name planes, each with its address and with who you are there, and choose the one that
commands speak to. Flags and the environment count before the context. Who names
another --server gets nothing of the context but its project: its token is for its
server alone. The file is edict/contexts.json in $XDG_CONFIG_HOME.

What runs as a service, such as 'edict agent', takes flags and the environment alone.`
	return cmd
}

func (a contextCommands) contextAddCommand() *cobra.Command {
	var c planeContext
	var use bool
	cmd := &cobra.Command{
		Use: "add NAME --server URL", Short: "Name a plane, or change what is known under its name", Args: cli.Args(1, 1),
		Long: `Name a plane, or change what is known under its name: what no flag names stays, and
what is named with an empty value ('') is taken away.`,
		Example: `  edict context add prod --server https://plane.example:8443 --ca ca.pem --token-file ana.token --use
  edict context add prod --token-file ben.token    # the rest stays`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if c.Name = args[0]; !c.sound() {
				return cli.Usage(cmd, "context %.80q: want a word of letters, digits, '-', '_' and '.'", c.Name)
			}
			if err := c.complete(cmd); err != nil {
				return err
			}
			return a.addContext(cmd, c, use)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&c.Server, "server", "", "address of the plane")
	flags.StringVar(&c.Admin, "admin-server", "", "address of its operators' routes, where these are not at --server")
	flags.StringVar(&c.CA, "ca", "", "authorities that its certificate is checked against, PEM (default the system's)")
	flags.StringVar(&c.TokenFile, "token-file", "", "`file` with your bearer token there")
	flags.StringVar(&c.Project, "project", "", "project, a UUID (default the default project)")
	flags.StringVar(&c.NATS, "nats-context", "", "context of the nats command line, for commands that read the log there")
	flags.BoolVar(&use, "use", false, "choose it, too")
	return cmd
}

// sound reports whether the name is one that can be typed.
func (c planeContext) sound() bool {
	return c.Name != "" && !strings.HasPrefix(c.Name, "-") && strings.Trim(c.Name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == ""
}

// complete checks a context, and has its paths mean the same in every directory.
func (c *planeContext) complete(cmd *cobra.Command) (err error) {
	for name, address := range map[string]string{"server": c.Server, "admin-server": c.Admin} {
		if u, err := url.Parse(withScheme(address)); address != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
			return cli.Usage(cmd, "--%s %.200q: want http://host:port", name, shownAddress(address))
		}
	}
	if _, err := uuid.Parse(c.Project); c.Project != "" && err != nil {
		return cli.Usage(cmd, "--project %.80q is not a UUID", c.Project)
	}
	for _, path := range []*string{&c.CA, &c.TokenFile} {
		if *path != "" && err == nil {
			*path, err = filepath.Abs(*path)
		}
	}
	return err
}

func (a contextCommands) addContext(cmd *cobra.Command, c planeContext, use bool) error {
	outcome := "added"
	err := changeContexts(cmd.Context(), func(f *contextFile) error {
		if at, err := f.find(c.Name); err == nil {
			a.keepOf(cmd, f.Contexts[at], &c)
			f.Contexts[at], outcome = c, "configured"
		} else {
			f.Contexts = append(f.Contexts, c)
		}
		if c.Server == "" {
			return cli.Required(cmd, "server")
		}
		slices.SortFunc(f.Contexts, func(x, y planeContext) int { return cmp.Compare(x.Name, y.Name) })
		if use {
			f.Current = c.Name
		}
		return nil
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "context/%s %s\n", c.Name, outcome)
	return err
}

// keepOf has a context keep what it had and no flag names. The address of the plane may be
// another now, but that may be another plane, too: then it says what goes there.
func (a contextCommands) keepOf(cmd *cobra.Command, had planeContext, c *planeContext) {
	var kept []string
	for _, m := range []struct {
		flag string
		had  string
		now  *string
	}{
		{"server", had.Server, &c.Server},
		{"admin-server", had.Admin, &c.Admin},
		{"ca", had.CA, &c.CA},
		{"token-file", had.TokenFile, &c.TokenFile},
		{"project", had.Project, &c.Project},
		{"nats-context", had.NATS, &c.NATS},
	} {
		if m.had != "" && !cmd.Flags().Changed(m.flag) {
			*m.now, kept = m.had, append(kept, m.flag)
		}
	}
	if len(kept) > 0 && withScheme(c.Server) != withScheme(had.Server) {
		fmt.Fprintf(a.stderr, "edict: context %s keeps what it has of %s: %s; name one empty to take it away\n", c.Name, shownAddress(had.Server), strings.Join(kept, ", "))
	}
}

func (a contextCommands) contextUseCommand() *cobra.Command {
	return a.onContext("use", "Choose the plane that commands speak to", func(f *contextFile, at int) string {
		f.Current = f.Contexts[at].Name
		return "is used: " + shownAddress(f.Contexts[at].Server)
	})
}

// onContext is a command that changes the file of contexts about one of them; change says
// what became of it.
func (a contextCommands) onContext(use, short string, change func(f *contextFile, at int) string) *cobra.Command {
	return &cobra.Command{
		Use: use + " NAME", Short: short, Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var outcome string
			err := changeContexts(cmd.Context(), func(f *contextFile) error {
				at, err := f.find(args[0])
				if err == nil {
					outcome = change(f, at)
				}
				return err
			})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.stdout, "context/%s %s\n", args[0], outcome)
			return err
		},
	}
}

func (a contextCommands) contextListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List the planes that have names", Args: cli.Args(0, 0),
		RunE: func(*cobra.Command, []string) error {
			f, err := readContexts()
			if err != nil {
				return err
			}
			all := append([]planeContext{}, f.Contexts...)
			for i := range all {
				all[i].Server, all[i].Admin = shownAddress(all[i].Server), shownAddress(all[i].Admin)
			}
			return printList(&a.console, contextListing(f.Current), all)
		},
	}
	a.listFlags(cmd, contextListing("").headers)
	return cmd
}

func contextListing(current string) listing[planeContext] {
	return listing[planeContext]{
		kind: "context", name: func(c planeContext) string { return c.Name },
		columns: []column[planeContext]{
			{"used", func(c planeContext) string {
				if c.Name == current {
					return "*"
				}
				return ""
			}, false},
			{"name", func(c planeContext) string { return c.Name }, false},
			{"server", func(c planeContext) string { return c.Server }, false},
			{"admin server", func(c planeContext) string { return dash(c.Admin) }, false},
			{"project", func(c planeContext) string { return dash(c.Project) }, false},
			{"token file", func(c planeContext) string { return dash(c.TokenFile) }, true},
			{"ca", func(c planeContext) string { return dash(c.CA) }, true},
			{"nats context", func(c planeContext) string { return dash(c.NATS) }, true},
		},
	}
}

func (a contextCommands) contextRemoveCommand() *cobra.Command {
	return a.onContext("remove", "Forget a plane's name", func(f *contextFile, at int) string {
		if f.Current == f.Contexts[at].Name {
			f.Current = ""
		}
		f.Contexts = slices.Delete(f.Contexts, at, at+1)
		return "removed"
	})
}

// contextFlag gives a command --context. What neither the command line nor the
// environment says is the context's.
func (a *connection) contextFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.context, "context", "", "plane to speak to, by a name of 'edict context' (default the one that is used) (EDICT_CONTEXT)")
	before := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if err := a.applyContext(cmd); err != nil {
			return err
		}
		if before != nil {
			return before(cmd, args)
		}
		return nil
	}
	fromEnvironment(cmd, "context")
	_ = cmd.RegisterFlagCompletionFunc("context", func(*cobra.Command, []string, string) (names []string, _ cobra.ShellCompDirective) { // the flag was just made
		f, _ := readContexts() // without them there is nothing to complete
		for _, c := range f.Contexts {
			names = append(names, c.Name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	})
}

// applyContext sets the flags that were not given.
func (a *connection) applyContext(cmd *cobra.Command) error {
	f, err := readContexts()
	if err != nil {
		return err
	}
	name := cmp.Or(a.context, f.Current)
	if name == "" {
		return nil
	}
	at, err := f.find(name)
	if err != nil {
		return err
	}
	c := f.Contexts[at]
	values := [][2]string{{"project", c.Project}}
	if !cmd.Flags().Changed("server") {
		values = append(values, [2]string{"server", c.Server}, [2]string{"admin-server", c.Admin}, [2]string{"ca", c.CA}, [2]string{"token-file", c.TokenFile}, [2]string{"nats-context", c.NATS})
	}
	for _, v := range values {
		flag := cmd.Flags().Lookup(v[0])
		if flag == nil || flag.Changed || v[1] == "" || v[0] == "nats-context" && flag.Annotations[fromEdictContext] == nil {
			continue
		}
		if err := cmd.Flags().Set(v[0], v[1]); err != nil {
			return cli.Failed(cli.Unreadable, "context %s: %s: %v", name, v[0], err)
		}
	}
	return a.applyNATSContext(cmd)
}
