package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/edict/internal/author"
	"github.com/edictdev/edict/cmd/edict/internal/document"
	"github.com/edictdev/edict/cmd/internal/cli"
)

func (a policyCommands) policyEditCommand() *cobra.Command {
	var dry bool
	unformatted := func(*cobra.Command) {}
	cmd := a.onePolicyAs(unformatted, "edit", "Edit a policy in an editor", func(cmd *cobra.Command, c *client.Client, p resource.Policy) error {
		return a.policyEdit(cmd.Context(), c, p, dry)
	})
	cmd.Long = `Edit a policy as YAML in the editor of $EDICT_EDITOR, else $EDITOR, else vi, and revise
it when the editor ends. What is wrong with it is written on top as comments, and the
editor is opened again; a text that was not changed ends it. If somebody else revised
the policy meanwhile, nothing is sent, and the text is kept.`
	dryRunFlag(cmd, &dry)
	return cmd
}

// policyEdit has a person edit a policy until it is revised, or they give up.
func (a policyCommands) policyEdit(ctx context.Context, c *client.Client, p resource.Policy, dry bool) error {
	text, err := yamlOf(resource.Draft{Slug: p.Slug, DisplayName: p.DisplayName, Selector: p.Head.Selector, Order: p.Head.Order, Rules: p.Head.Rules})
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "edict-edit-")
	if err != nil {
		return err
	}
	e := edited{file: filepath.Join(dir, p.Slug+".yaml"), text: text}
	for opened := 1; ; opened++ {
		before := e.text
		if err := e.open(ctx, a.console); err != nil {
			return fmt.Errorf("%w; the text is in %s", err, e.file)
		}
		if bytes.Equal(e.text, before) || len(bytes.TrimSpace(e.text)) == 0 {
			if opened == 1 {
				os.RemoveAll(dir)
				fmt.Fprintf(a.stdout, "policy/%s unchanged\n", p.Slug)
				return nil
			}
			return cli.Failed(cli.Differs, "policy/%s is not revised; the text is in %s: correct it, then edict policy apply -f %[2]s", p.Slug, e.file)
		}
		after, err := a.revise(ctx, c, p, &e, dryCalls(dry)...)
		if err == nil && len(e.faults) == 0 {
			os.RemoveAll(dir)
			return a.tellEdited(p, after, dry)
		}
		if err != nil {
			return fmt.Errorf("%w; the text is in %s", err, e.file)
		}
		for _, message := range e.messages() {
			fmt.Fprintf(a.stderr, "%s: %s\n", e.file, cli.Escaped(message, "\n"))
		}
		if opened == unattendedEdits && !asksPeople(a.stdin) {
			return cli.Failed(cli.Differs, "policy/%s is not revised: nobody sits at a terminal, and the editor was opened %d times; the text is in %s", p.Slug, opened, e.file)
		}
	}
}

// unattendedEdits is how often an editor is opened that a script is.
const unattendedEdits = 3

// revise sends what was edited. What is wrong with it are e's faults afterwards; an error
// is what editing cannot mend.
func (a policyCommands) revise(ctx context.Context, c *client.Client, p resource.Policy, e *edited, calls ...client.Call) (resource.Policy, error) {
	drafts, faults := e.read()
	switch {
	case len(faults) == 0 && len(drafts) != 1:
		faults = append(faults, document.Fault{Message: fmt.Sprintf("want one policy, got %d", len(drafts))})
	case len(faults) == 0 && drafts[0].Slug != p.Slug:
		faults = append(faults, document.Fault{Message: fmt.Sprintf("the slug names the policy: it stays %q", p.Slug)})
	}
	if e.faults = faults; len(faults) > 0 {
		return p, nil
	}
	_, _ = a.warn(ctx, c, p.ProjectID, drafts, true) // the plane says what it cannot do
	after, err := c.Policies.Revise(ctx, p.ProjectID, p.ID, drafts[0].Patch(), append(calls, client.IfMatch(client.HeadTag(p.HeadRevisionID)))...)
	var refused *client.Problem
	if errors.As(err, &refused) && codeOf(err) == cli.Differs {
		e.faults = []document.Fault{{Message: err.Error()}}
		return p, nil
	}
	return after, err
}

func (a policyCommands) tellEdited(before, after resource.Policy, dry bool) error {
	outcome := author.Configured
	if after.HeadRevisionID == before.HeadRevisionID && after.DisplayName == before.DisplayName {
		outcome = author.Unchanged
	}
	a.tellAdmission(before.Slug, after.Admission)
	_, err := fmt.Fprintf(a.stdout, "policy/%s %s%s\n", before.Slug, outcome, dryNote(dry))
	return err
}

// edited is a text in a file that an editor opens.
type edited struct {
	file   string
	text   []byte           // without the comments on top
	faults []document.Fault // of it
}

// read reads the policies of the text.
func (e *edited) read() ([]author.Draft, []document.Fault) {
	docs, faults := document.Parse(filepath.Base(e.file), e.text)
	drafts, broken := author.Drafts(docs)
	return drafts, append(faults, broken...)
}

// messages are the faults. Places in them are those of the file with the comments on top.
func (e *edited) messages() []string {
	lines := 1 // the comment that is always there
	for _, f := range e.faults {
		lines += 1 + strings.Count(f.Message, "\n")
	}
	list := make([]string, len(e.faults))
	for i, f := range e.faults {
		if list[i] = f.Message; f.Line > 0 {
			list[i] = fmt.Sprintf("line %d: %s", lines+f.Line, f.Message)
		}
	}
	return list
}

// head are the comments on top.
func (e *edited) head() []string {
	head := []string{"# Edit the policy; lines that begin with # are not part of it. An unchanged text ends this."}
	for _, message := range e.messages() {
		for line := range strings.SplitSeq(message, "\n") {
			head = append(head, "# "+cli.Escaped(line, ""))
		}
	}
	return head
}

// open has an editor edit the text.
func (e *edited) open(ctx context.Context, c console) error {
	if err := os.WriteFile(e.file, append([]byte(strings.Join(e.head(), "\n")+"\n"), e.text...), 0o600); err != nil {
		return err
	}
	editor := cmp.Or(os.Getenv("EDICT_EDITOR"), os.Getenv("EDITOR"), "vi")
	cmd := exec.CommandContext(ctx, "sh", "-c", editor+` "$1"`, "sh", e.file)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.stdin, c.stdout, cli.Whole(c.stderr)
	if k, ok := c.stdin.(awaited); ok {
		cmd.Stdin = k.File // the terminal itself
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("editor %s: %w", editor, err)
	}
	text, err := os.ReadFile(e.file)
	for bytes.HasPrefix(text, []byte("#")) {
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	e.text = text
	return err
}
