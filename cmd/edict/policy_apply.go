package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/edict/internal/author"
	"github.com/edictdev/edict/cmd/edict/internal/document"
	"github.com/edictdev/edict/cmd/edict/internal/progress"
	"github.com/edictdev/edict/cmd/internal/cli"
)

func (a policyCommands) policyApplyCommand() *cobra.Command {
	var files []string
	var strict, warnings, dry bool
	var prune string
	cmd := &cobra.Command{
		Use:   "apply -f FILE...",
		Short: "Create or revise policies by slug",
		Long: `Create or revise policies by slug, from YAML, JSON or NDJSON, one or many a file.
Every document is checked before any is sent; if one has a fault, none is sent.
What is likely not meant is a warning; with --strict it is a fault.

With --prune PREFIX the files are all policies of an owner whose slugs begin so, and
those that the project has beside them are deleted, once all files are applied.`,
		Example: `  edict policy apply -f web.yaml
  edict policy apply -f policies/ -f extra.ndjson
  edict policy apply -f team-a/ --prune team-a-
  generate | edict policy apply -f -`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, project, drafts, err := a.planeAndDrafts(cmd, files)
			if err != nil {
				return err
			}
			work := applying{a, c, project, drafts, prune}
			if err := work.check(cmd); err != nil {
				return err
			}
			tell := func() {}
			switch {
			case dry && !strict: // a dry run has warnings of its own
			case !strict && len(drafts) > maxCompared:
				tell = work.warnMeanwhile(cmd.Context(), warnings)
			default:
				if err := work.warned(cmd.Context(), strict, warnings); err != nil {
					return err
				}
			}
			if dry {
				return work.dry(cmd.Context())
			}
			return work.do(cmd.Context(), tell)
		},
	}
	a.policyClient(cmd)
	filesFlag(cmd, &files)
	cmd.Flags().BoolVar(&dry, "dry-run", false, "say what would change, as edict policy dry-run does, and write nothing; edict policy plan shows which flows")
	cmd.Flags().StringVar(&prune, "prune", "", "delete the policies whose slugs begin with this `prefix` and that the files do not have")
	cmd.Flags().BoolVar(&strict, "strict", false, "send nothing if there is a warning")
	cmd.Flags().BoolVar(&warnings, "warnings", false, fmt.Sprintf("print every warning, if there are more than %d", maxWarnings))
	return cmd
}

// filesFlag gives a command -f, which it needs.
func filesFlag(cmd *cobra.Command, files *[]string) {
	filesFlagMaybe(cmd, files)
	before := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if len(*files) == 0 {
			return cli.Usage(cmd, "nothing to read; say -f FILE, or -f - for stdin")
		}
		return before(cmd, args)
	}
}

// filesFlagMaybe gives a command -f, which it can do without.
func filesFlagMaybe(cmd *cobra.Command, files *[]string) {
	cmd.Flags().StringArrayVarP(files, "file", "f", nil, "file or directory to read, - for stdin; may be repeated")
}

// drafts reads and checks files, and tells every fault.
func (a policyCommands) drafts(files []string) ([]author.Draft, error) {
	cli.CollectSeldom(seldom)
	docs, faults := document.Load(files, a.stdin)
	drafts, broken := author.Drafts(docs)
	if err := a.reportFaults(append(faults, broken...)); err != nil {
		return nil, err
	}
	if len(drafts) == 0 {
		return nil, cli.Failed(cli.Unreadable, "no policy in %s", inputNames(files))
	}
	return drafts, nil
}

// inputNames are what was read, as people call it.
func inputNames(files []string) string {
	names := slices.Clone(files)
	for i, name := range names {
		if name == "-" {
			names[i] = document.Stdin
		}
	}
	return strings.Join(names, ", ")
}

// planeAndDrafts are what a command needs that compares files with a plane.
func (a policyCommands) planeAndDrafts(cmd *cobra.Command, files []string) (c *client.Client, project uuid.UUID, drafts []author.Draft, err error) {
	if c, project, err = a.plane(cmd); err == nil {
		drafts, err = a.drafts(files)
	}
	return c, project, drafts, err
}

// reportFaults prints what is wrong with files; nothing was sent then.
func (a *console) reportFaults(faults []document.Fault) error {
	code := cli.Fine
	var read []fileFault
	for _, f := range faults {
		if read = append(read, fileFault{f.File, f.Line, f.Column, f.Pointer, f.Code, f.Message}); !a.forPrograms() {
			fmt.Fprintln(a.stderr, f)
		}
		if code = max(code, cli.Differs); f.Unreadable {
			code = cli.Unreadable
		}
	}
	if code == cli.Fine {
		return nil
	}
	text := cli.Counted(len(faults), "fault") + "; nothing was sent"
	if a.forPrograms() {
		a.tellFailure(failure{Message: text, Exit: code, Faults: read})
	} else {
		fmt.Fprintln(a.stderr, "edict: "+text)
	}
	return cli.Exit(code)
}

// applied is one line of apply's output.
type applied struct {
	Slug       string     `json:"slug"`
	Outcome    string     `json:"outcome"`
	ID         *uuid.UUID `json:"id"`
	RevisionID *uuid.UUID `json:"revision_id"`
	Error      string     `json:"error,omitempty"`
}

// applying is an apply of policies that were read.
type applying struct {
	policyCommands
	c       *client.Client
	project uuid.UUID
	drafts  []author.Draft
	prune   string // prefix of the owner whose other policies go; "": none do
}

// warned tells the warnings, all or a few. Strictly, there may be none.
func (a applying) warned(ctx context.Context, strict, all bool) error {
	n, err := a.warn(ctx, a.c, a.project, a.drafts, strict || all)
	if !strict {
		return nil // apply says what is wrong with one of many
	}
	if err == nil && n > 0 {
		fmt.Fprintf(a.stderr, "edict: %s; nothing was sent\n", cli.Counted(n, "warning"))
		err = cli.Exit(cli.Differs)
	}
	return err
}

// warnMeanwhile looks for the warnings of many drafts while they are sent, and returns what
// tells them: they are found without the plane, and stop nothing.
func (a applying) warnMeanwhile(ctx context.Context, all bool) (tell func()) {
	found := make(chan []draftWarning, 1)
	go func() {
		warnings, _ := warningsOf(ctx, a.c, a.project, a.drafts)
		found <- warnings
	}()
	return func() { a.tellWarnings(<-found, all) }
}

// do sends the drafts, and tells what became of them after the warnings that tell tells.
func (a applying) do(ctx context.Context, tell func()) error {
	began := time.Now()
	bar := progress.Start(a.stderr, "applying", "policies", int64(len(a.drafts)))
	results, err := author.Apply(ctx, a.c.Policies, a.project, a.drafts, func() { bar.Add(1) })
	took := time.Since(began)
	bar.Stop()
	tell()
	if results == nil {
		return err
	}
	lines, worst := a.outcomes(results)
	if err == nil && worst == nil {
		var gone []applied
		gone, err = a.deleteOthers(ctx, false)
		lines = append(lines, gone...)
	}
	return errors.Join(a.tellApplied(lines, took), worst, err)
}

// outcomes are what became of every draft, in the order they were given. What failed is
// reported, and worst is the first of it.
func (a applying) outcomes(results []author.Result) (lines []applied, worst error) {
	lines = make([]applied, len(results))
	for i, r := range results {
		lines[i] = applied{Slug: a.drafts[i].Slug, Outcome: r.Outcome}
		if r.Err == nil {
			lines[i].ID, lines[i].RevisionID = &r.Policy.ID, &r.Policy.HeadRevisionID
			a.tellAdmission(a.drafts[i].Slug, r.Policy.Admission)
			continue
		}
		lines[i].Outcome, lines[i].Error = "failed", r.Err.Error()
		a.tellRefused(a.drafts[i], r.Err)
		if worst == nil && !errors.Is(r.Err, author.ErrNotTried) && !errors.Is(r.Err, context.Canceled) {
			worst = cli.Exit(codeOf(r.Err))
		}
	}
	return lines, worst
}

// tellRefused says what is wrong with a policy that was not taken, and where it is written.
func (a *console) tellRefused(d author.Draft, err error) {
	fmt.Fprintf(a.stderr, "%s:%d: policy/%s: %v\n", d.At.File, d.At.Line, d.Slug, printable(err))
}

// tellApplied prints what became of every policy.
func (a applying) tellApplied(lines []applied, took time.Duration) error {
	count := map[string]int{}
	for _, l := range lines {
		count[l.Outcome]++
	}
	err := a.print(lines, func(w io.Writer) {
		for _, l := range lines {
			if l.Error == "" {
				fmt.Fprintf(w, "policy/%s %s\n", l.Slug, l.Outcome)
			}
		}
	})
	if n := len(a.drafts); n > 1 && err == nil {
		fmt.Fprintf(a.stderr, "%d policies in %s: %d created, %d configured, %d unchanged, %d failed\n", n,
			took.Round(time.Millisecond), count[author.Created], count[author.Configured], count[author.Unchanged], count["failed"])
	}
	return err
}

// tellAdmission says what admission policies made of a policy that was sent.
func (a *console) tellAdmission(slug string, note *resource.AdmissionNote) {
	if note != nil {
		a.tellPatches(slug, note.Patches)
	}
}

func (a *console) tellPatches(slug string, patches []resource.AdmissionPatch) {
	for _, p := range patches {
		if len(p.Changes) > 0 {
			paths := make([]string, len(p.Changes))
			for i, c := range p.Changes {
				paths[i] = c.Path
			}
			fmt.Fprintf(a.stderr, "policy/%s: admission policy %q changed %s\n", slug, p.Policy.Name, strings.Join(paths, ", "))
		}
		if len(p.Dropped) > 0 {
			fmt.Fprintf(a.stderr, "policy/%s: admission policy %q sets what a network policy does not have, which was left out: %s\n", slug, p.Policy.Name, strings.Join(p.Dropped, ", "))
		}
	}
}
