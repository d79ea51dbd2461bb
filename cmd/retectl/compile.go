package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/cmd/retectl/internal/report"
	"github.com/edictdev/edict/cmd/tree"
	"github.com/edictdev/edict/internal/compiler/rete"
)

// compiledDir is where the tree lies in a repository.
var compiledDir = filepath.Join(".flor", "compiled")

// garbage is what may gather before it is collected, in percent of what is in use. The tree
// that is read is in use to the end.
const garbage = 200

// compileOptions are the flags of compile.
type compileOptions struct {
	out, key, signer, generatedAt string
	versioning                    tree.Versioning
}

func (a *app) compileCommand() *cobra.Command {
	var o compileOptions
	cmd := &cobra.Command{
		Use: "compile", Short: "Turn the repository into signed artifacts for each node", Args: cli.Args(0, 0),
		Long: `Validate the repository, derive what each node must hold, sign what changed, and
replace the old tree by the new one, as a whole. A node whose artifacts have the same
content keeps its files, byte for byte; the others get one new version. A
compile that fails leaves the old tree as it was.

Listeners that the repository does not declare stay where the tree has them. Who signs
must be a signer whom the artifacts of the tree authorize: nobody introduces himself.

The same sources make the same bytes: generated_at is the time of --generated-at,
else of SOURCE_DATE_EPOCH, else that of the newest event of the enrollment log.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.Required(cmd, "signing-key"); err != nil {
				return err
			}
			if cmd.Flags().Changed("version") && o.versioning.Asked == 0 {
				return cli.Usage(cmd, "--version 0: versions begin at 1")
			}
			at, err := parseTime(cmd, o.generatedAt)
			if err != nil {
				return err
			}
			r, err := a.open()
			if err != nil {
				return err
			}
			defer r.close()
			return a.compile(cmd.Context(), r, o, at)
		},
	}
	a.repoFlag(cmd)
	a.filesFlag(cmd)
	f := cmd.Flags()
	f.StringVar(&o.out, "out", "", "`directory` of the tree (default .flor/compiled in the repository)")
	f.StringVar(&o.key, "signing-key", "", "`file` of the signer's private key, PKCS#8 PEM")
	f.StringVar(&o.signer, "signer", "", "`name` of the signer in rete.signers.mgmt.keys (default the first)")
	f.BoolVar(&o.versioning.Renew, "renew", false, "give the new version to every node, also to those whose artifacts say what they said: after a rollback, which the tree does not know of")
	f.Uint64Var(&o.versioning.Asked, "version", 0, "version of what changes (default 1 + the highest of the tree; required when there is no tree)")
	f.StringVar(&o.generatedAt, "generated-at", "", "RFC 3339 `time` that the artifacts carry")
	return cmd
}

func parseTime(cmd *cobra.Command, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := rete.ParseTime(text)
	if err != nil {
		return at, cli.Usage(cmd, "--generated-at %v", err)
	}
	return at, nil
}

func (a *app) compile(ctx context.Context, r *repository, o compileOptions, at time.Time) error {
	cli.CollectSeldom(garbage)
	out, err := r.output(o.out)
	if err != nil {
		return err
	}
	unlock, err := r.lockTree(a.stderr, out)
	if err != nil {
		return err
	}
	defer unlock()
	reading, err := readingTree(out)
	if err != nil {
		return err
	}
	m, err := a.judged(r, o.replaced()...)
	held, unread := reading()
	if err = cmp.Or(err, unread); err != nil {
		return err
	}
	signer, err := openSigner(m, o)
	if err != nil {
		return err
	}
	if at, err = generatedAt(r, at); err != nil {
		return err
	}
	trusted, err := trust(m)
	if err != nil {
		return err
	}
	trusted.Hold(artifact.PlaneMgmt, signer)
	sets, err := a.derived(r, m, held, trusted)
	if err != nil {
		return err
	}
	plan, err := tree.NewPlan(sets, held, trusted, o.versioning)
	if err != nil {
		return err
	}
	if !plan.Empty() {
		if err := introduced(held, signer); err != nil {
			return err
		}
		if err := plan.Write(ctx, tree.Disk{}, out, signer, at); err != nil {
			return err
		}
	}
	return a.summary(plan, cmp.Or(o.out, filepath.Join(r.dir, compiledDir)))
}

// replaced are the directories of a repository that compile replaces as a whole. What
// is no artifact, as no private key is, it refuses in the tree, and removes from the
// place of the next.
func (o compileOptions) replaced() []string {
	if o.out != "" {
		return nil
	}
	name := filepath.ToSlash(compiledDir)
	return []string{name, tree.Next(name)}
}

// output is the directory of the tree, without links, since it is replaced as a whole: the
// one that is named, or the repository's, which must not lead out of it.
func (r *repository) output(named string) (string, error) {
	if named != "" {
		return resolved(named)
	}
	out, err := r.inside(compiledDir)
	if err != nil {
		return "", err
	}
	return resolved(out)
}

// lockTree waits until no other compile writes the tree at out: of two at once, each would
// write to, and clear away, what the other makes beside it. A tree of the repository
// may have no directory above it yet, and locks the repository. Elsewhere that directory is
// made, so that who comes next finds it locked; a compile that fails leaves it.
func (r *repository) lockTree(stderr io.Writer, out string) (unlock func(), err error) {
	dir := filepath.Dir(out)
	if inside, err := below(r.dir, out); err != nil {
		return nil, err
	} else if inside {
		dir = r.dir
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return lock(stderr, dir)
}

// derived is what every node must hold. Its users keep the listeners that they have
// in the tree; where there is no tree yet, in that of the repository.
func (a *app) derived(r *repository, m *rete.Model, held *tree.Tree, trusted *artifact.TrustSet) ([]rete.NodeSet, error) {
	if len(held.Nodes) == 0 {
		var err error
		if held, err = readTree(filepath.Join(r.dir, compiledDir)); err != nil {
			return nil, err
		}
	}
	sets, faults := rete.CompileAfter(m, held.Listeners(trusted))
	if len(faults) > 0 {
		if err := a.tell(r, report.Text, faults); err != nil {
			return nil, err
		}
	}
	return sets, nil
}

// introduced refuses a signer whom the nodes would meet in what he signs himself.
func introduced(held *tree.Tree, signer *artifact.Signer) error {
	trusted, introduces := held.Introduces(signer)
	if !introduces {
		return nil
	}
	names := make([]string, len(trusted))
	for i, s := range trusted {
		names[i] = s.SPIFFE
	}
	return cli.Failed(cli.Differs, "%s is introduced by this change, and nobody introduces himself: nodes believe only %s; compile with the key of one of them first, and with this one from then on",
		signer.KeyID(), strings.Join(names, ", "))
}

// summary says what a compile did.
func (a *app) summary(p *tree.Plan, out string) error {
	version := ""
	if len(p.Changed) > 0 {
		version = fmt.Sprintf(" to version %d", p.Version)
	}
	_, err := fmt.Fprintf(a.stdout, "%s: %d nodes changed%s, %d unchanged, %d removed\n", out, len(p.Changed), version, len(p.Unchanged), len(p.Removed))
	return err
}

// readTree reads the tree at out, after what a crash may have left is put
// right. There need not be one.
func readTree(out string) (*tree.Tree, error) {
	reading, err := readingTree(out)
	if err != nil {
		return nil, err
	}
	return reading()
}

// readingTree is readTree beside what a caller does before it asks for the tree, as it
// has to: judging a repository leaves a core idle.
func readingTree(out string) (wait func() (*tree.Tree, error), err error) {
	if err := tree.Recover(tree.Disk{}, out); err != nil {
		return nil, err
	}
	switch info, err := os.Stat(out); {
	case errors.Is(err, fs.ErrNotExist):
		return func() (*tree.Tree, error) { return &tree.Tree{}, nil }, nil
	case err == nil && !info.IsDir():
		return nil, cli.Failed(cli.Unreadable, "%s is a file, and a tree is a directory; name another place with --out, or remove the file", out)
	}
	wait = sync.OnceValues(func() (*tree.Tree, error) { return tree.Read(os.DirFS(out)) })
	go func() { _, _ = wait() }()
	return wait, nil
}

// openSigner loads the signing key, and refuses one that is not that of the
// certificate nodes know the signer by.
func openSigner(m *rete.Model, o compileOptions) (*artifact.Signer, error) {
	keys := m.Rete.Value.Signers.Mgmt.Keys
	i := 0
	if o.signer != "" {
		i = slices.IndexFunc(keys, func(k rete.SignerKey) bool { return k.Name == o.signer })
	}
	if i < 0 {
		names := make([]string, len(keys))
		for j, k := range keys {
			names[j] = k.Name
		}
		return nil, cli.Failed(cli.BadUsage, "--signer %s is not in rete.signers.mgmt.keys, which has %s", o.signer, strings.Join(names, ", "))
	}
	s, err := artifact.LoadSigner(o.key)
	if err != nil {
		return nil, cli.Failed(cli.Unreadable, "%v", err)
	}
	if !m.Signers[i].Key.Equal(s.Crypto().Public()) {
		return nil, cli.Failed(cli.Differs, "%s is not the key of signer %q: its public half differs from that of %s; give the key that belongs to the certificate, or name its signer with --signer",
			o.key, keys[i].Name, keys[i].Cert)
	}
	return s.As(m.Signers[i].SPIFFE), nil
}

// epochVariable names the environment variable that gives
// reproducible builds the time, in seconds since 1970.
const epochVariable = "SOURCE_DATE_EPOCH"

// generatedAt is the time that artifacts carry: that of the flag, else of the
// environment, else of the newest event of the enrollment log. It is never now, nor
// that of a file or a commit: a copy and a shallow clone have others, and equal
// sources make equal bytes.
func generatedAt(r *repository, flag time.Time) (time.Time, error) {
	if !flag.IsZero() {
		return flag, nil
	}
	text := os.Getenv(epochVariable)
	if text == "" {
		log, _ := rete.ReadEnrollments(r.root.FS()) // judged by rule 4
		return log.Newest(), nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	at := time.Unix(seconds, 0).UTC()
	if err != nil || seconds < 0 || at.Year() > 9999 {
		return at, cli.Failed(cli.BadUsage, "%s is %q; want seconds since 1970, of a year up to 9999", epochVariable, text)
	}
	return at, nil
}
