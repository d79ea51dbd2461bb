package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/policy"
)

// tokenFlags are the flags of `access token create`.
type tokenFlags struct {
	kind      string
	kindGiven bool
	expires   time.Duration
	file      string
	relations []string
	dry       bool
}

func (a accessCommands) tokenCreateCommand() *cobra.Command {
	var f tokenFlags
	cmd := &cobra.Command{
		Use: "create PRINCIPAL", Short: "Make a token for a principal, which is made when there is none", Args: cli.Args(1, 1),
		Long: `Make a bearer token for a principal and print it. It is printed only now: the
plane gets its hash and nothing else. A principal that does not exist is made.

With --file the principal is written to a file for "edict serve --access". No plane
is needed: this is how the first administrator is made. A plane reads its file when it
starts: one that runs knows the token after its next start.`,
		Example: `  edict access token create root --file access.json --relation plane#admin > root.token
  edict access token create ana --expires 720h > ana.token
  edict access token create web-1 --kind node --relation node:web-1#agent > web-1.token`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.createToken(cmd, args[0], f) },
	}
	a.clientFlags(cmd)
	a.projectFlag(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.kind, "kind", "person", "person, service or node, of a principal that is made")
	fl.DurationVar(&f.expires, "expires", 0, "how long the token is good; 0: until it is revoked")
	fl.StringVar(&f.file, "file", "", "file of principals to write to, in place of a plane's log")
	fl.StringArrayVar(&f.relations, "relation", nil, "relation to give the principal, too; may be given several times")
	dryRunFlag(cmd, &f.dry)
	return cmd
}

func (a accessCommands) createToken(cmd *cobra.Command, name string, f tokenFlags) error {
	id, err := policy.ParsePrincipalID(name)
	if err != nil {
		return cli.Usage(cmd, "%v", err)
	}
	if !slices.Contains([]policy.PrincipalKind{policy.Person, policy.Service, policy.Agent}, policy.PrincipalKind(f.kind)) {
		return cli.Usage(cmd, "--kind %q: want person, service or node", f.kind)
	}
	relations, err := a.parseRelations(cmd, f.relations)
	if err != nil {
		return err
	}
	if f.expires < 0 {
		return cli.Usage(cmd, "--expires %v: want a time that is not over", f.expires)
	}
	tokenID, err := uuid.NewV7()
	if err != nil {
		return err
	}
	var expires time.Time
	if f.expires > 0 {
		expires = time.Now().Add(f.expires).UTC().Truncate(time.Second)
	}
	f.kindGiven = cmd.Flags().Changed("kind")
	text, kept := access.NewToken(tokenID, expires)
	if f.file != "" {
		err = tokenToFile(cmd.Context(), f.file, id, f, kept, relations)
	} else {
		err = a.tokenToPlane(cmd, id, f, kept, relations)
	}
	if err != nil {
		return err
	}
	if f.dry {
		return a.tellDry("principal/"+string(id), "given a token")
	}
	fmt.Fprintf(a.stderr, "edict: token %s of %s; it is not shown again\n", tokenID, id)
	if f.file != "" {
		fmt.Fprintf(a.stderr, "edict: a plane knows it from its next start on: edict serve --access %s\n", f.file)
	}
	_, err = fmt.Fprintln(a.stdout, text)
	return err
}

// checkKind refuses a kind that was asked for and is not what the principal is already.
func (f tokenFlags) checkKind(id policy.PrincipalID, is string) error {
	if f.kindGiven && f.kind != is {
		return cli.Failed(cli.Conflict, "%s is a %s already, and no token makes it a %s: leave out --kind, or take another name", id, is, f.kind)
	}
	return nil
}

// over reports whether a token has expired: it proves nothing any more, and makes room where a
// principal lists as many as it may. nil and zero: never.
func over(expires *time.Time) bool {
	return expires != nil && !expires.IsZero() && time.Now().After(*expires)
}

// parseRelations reads what --relation was given.
func (a *connection) parseRelations(cmd *cobra.Command, texts []string) ([]policy.Relation, error) {
	all := make([]policy.Relation, len(texts))
	for i, text := range texts {
		r, err := policy.ParseRelation(text)
		if err != nil {
			return nil, cli.Usage(cmd, "--relation: %v", err)
		}
		if all[i], err = a.whole(cmd, r); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// whole is a relation whose node, if it has one, is of the project of --project
// where it names none.
func (a *connection) whole(cmd *cobra.Command, r policy.Relation) (policy.Relation, error) {
	if r.Whole() || cmd.Flag("project") == nil {
		return r, nil
	}
	var err error
	r.ID, err = a.projectID(cmd)
	return r, err
}

func tokenToFile(ctx context.Context, path string, id policy.PrincipalID, flags tokenFlags, t policy.Token, relations []policy.Relation) error {
	if !flags.dry {
		release, err := access.Alone(ctx, path)
		if err != nil {
			return fmt.Errorf("--file: %w", err)
		}
		defer release()
	}
	f, err := access.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = access.File{}, nil
	}
	if err != nil {
		return cli.Failed(cli.Unreadable, "--file: %v", err)
	}
	e := f[id]
	if e == nil {
		e = &access.Entry{Principal: policy.Principal{Kind: policy.PrincipalKind(flags.kind)}}
		f[id] = e
	}
	if err := flags.checkKind(id, string(e.Principal.Kind)); err != nil {
		return err
	}
	if len(e.Principal.Tokens) >= policy.MaxTokens {
		e.Principal.Tokens = slices.DeleteFunc(e.Principal.Tokens, func(t policy.Token) bool { return over(&t.Expires) })
	}
	if len(e.Principal.Tokens) >= policy.MaxTokens { // with one more no plane could read the file
		return cli.Failed(cli.Conflict, "%s lists %d tokens that have not expired, as many as it may: take one out of %s", id, policy.MaxTokens, path)
	}
	e.Principal.Tokens = append(e.Principal.Tokens, t)
	for _, r := range relations {
		if !slices.Contains(e.Relations, r) {
			e.Relations = append(e.Relations, r)
		}
	}
	if flags.dry {
		return nil
	}
	return f.Write(path)
}

func (a accessCommands) tokenToPlane(cmd *cobra.Command, id policy.PrincipalID, flags tokenFlags, t policy.Token, relations []policy.Relation) error {
	calls := dryCalls(flags.dry)
	c, err := a.client(cmd)
	if err != nil {
		return err
	}
	shown := resource.Token{ID: t.ID.String(), SHA256: hex.EncodeToString(t.Hash[:])}
	if !t.Expires.IsZero() {
		shown.Expires = &t.Expires
	}
	_, err = changePrincipal(cmd, c, string(id), flags.kind, func(d *resource.PrincipalDocument) error {
		if len(d.Tokens) >= policy.MaxTokens {
			d.Tokens = slices.DeleteFunc(d.Tokens, func(t resource.Token) bool { return over(t.Expires) })
		}
		d.Tokens = append(d.Tokens, shown)
		return flags.checkKind(id, d.Kind)
	}, calls...)
	for _, r := range relations {
		if err == nil {
			_, err = c.Principals.WriteRelation(cmd.Context(), string(id), r.String(), calls...)
		}
	}
	return err
}

func (a accessCommands) tokenListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list PRINCIPAL", Short: "List a principal's tokens, which nobody can read back", Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client(cmd)
			if err != nil {
				return err
			}
			p, err := c.Principals.Get(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return printList(&a.console, tokenListing, listedTokens(p))
		},
	}
	a.clientFlags(cmd)
	a.listFlags(cmd, tokenListing.headers)
	return cmd
}

var tokenListing = listing[listedToken]{
	kind: "token", name: func(t listedToken) string { return t.ID },
	columns: []column[listedToken]{
		{"id", func(t listedToken) string { return t.ID }, false},
		{"use", func(t listedToken) string { return t.Use }, false},
		{"expires", func(t listedToken) string {
			if t.Expires == nil {
				return "never"
			}
			return stamp(*t.Expires)
		}, false},
		{"state", func(t listedToken) string { return t.State }, false},
	},
}

func (a accessCommands) tokenRevokeCommand() *cobra.Command {
	var dry bool
	cmd := a.accessClient(&cobra.Command{
		Use: "revoke PRINCIPAL TOKEN...", Short: "Revoke tokens by their ids", Args: cli.Args(2, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client(cmd)
			if err != nil {
				return err
			}
			if _, err := c.Principals.Get(cmd.Context(), args[0]); err != nil {
				return err
			}
			_, err = changePrincipal(cmd, c, args[0], "", func(d *resource.PrincipalDocument) error {
				for _, id := range args[1:] {
					i := slices.IndexFunc(d.Tokens, func(t resource.Token) bool { return t.ID == id })
					if i < 0 && revokeBootstrap(d, id) {
						continue
					}
					if i < 0 {
						return cli.Failed(cli.NotFound, "%s has no token %s", args[0], id)
					}
					d.Tokens = slices.Delete(d.Tokens, i, i+1)
				}
				return nil
			}, dryCalls(dry)...)
			if err != nil || !dry {
				return err
			}
			return a.tellDry("principal/"+args[0], "loses "+cli.Counted(len(args)-1, "token"))
		},
	})
	dryRunFlag(cmd, &dry)
	return cmd
}

// listedToken is a token as `access token list` shows it.
type listedToken struct {
	ID      string     `json:"id"`
	Use     string     `json:"use"` // bearer, or bootstrap: to register once
	Expires *time.Time `json:"expires_at,omitempty"`
	State   string     `json:"state,omitempty"`
}

func listedTokens(p resource.Principal) []listedToken {
	out := []listedToken{}
	for _, t := range p.Tokens {
		out = append(out, listedToken{ID: t.ID, Use: "bearer", Expires: t.Expires})
	}
	for _, t := range p.Bootstrap {
		out = append(out, listedToken{ID: t.ID, Use: "bootstrap", Expires: &t.Expires, State: t.State})
	}
	return out
}

// revokeBootstrap revokes a bootstrap token; false when there is none.
func revokeBootstrap(d *resource.PrincipalDocument, id string) bool {
	i := slices.IndexFunc(d.Bootstrap, func(t resource.Bootstrap) bool { return t.ID == id })
	if i >= 0 {
		d.Bootstrap[i].State = string(policy.BootstrapRevoked)
	}
	return i >= 0
}
