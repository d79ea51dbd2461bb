package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/spf13/cobra"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/cmd/retectl/internal/report"
	"github.com/edictdev/edict/cmd/tree"
	"github.com/edictdev/edict/internal/compiler/rete"
)

// repository is the repository of --repo, whose links lead nowhere outside it.
type repository struct {
	dir    string
	root   *os.Root
	unlock func() // nil: it is only read
}

func (a *app) open() (*repository, error) {
	root, err := os.OpenRoot(a.repo)
	if err != nil {
		return nil, cli.Failed(cli.Unreadable, "repository %s: %v", a.repo, bare(err))
	}
	return &repository{dir: a.repo, root: root}, nil
}

// lock is for a command that writes to the enrollment log: of two at once, which read it as
// it was, one would write over what the other wrote. It lasts until close.
func (r *repository) lock(stderr io.Writer) (err error) {
	r.unlock, err = lock(stderr, r.dir)
	return err
}

// lock waits until no other retectl writes in a directory, and says so.
func lock(stderr io.Writer, dir string) (unlock func(), err error) {
	return tree.Lock(dir, func() { fmt.Fprintf(stderr, "waiting for another retectl that writes in %s\n", dir) })
}

// inside is where something of the repository is written. A link must not lead out of it.
func (r *repository) inside(path string) (string, error) {
	path = filepath.Join(r.dir, path)
	if inside, err := below(r.dir, path); err != nil || !inside {
		return "", cmp.Or(err, cli.Failed(cli.Differs, "%s leads out of the repository by a link, and nothing is written there unasked; remove the link, or name another place with --out", path))
	}
	return path, nil
}

func (r *repository) close() {
	_ = r.root.Close() // what is written has its own files
	if r.unlock != nil {
		r.unlock()
	}
}

// unlisted is a file system that does not list some names, by their path from its root.
type unlisted struct {
	fs.FS
	names []string
}

func (u unlisted) ReadDir(dir string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(u.FS, dir)
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return slices.Contains(u.names, path.Join(dir, e.Name())) }), err
}

// Stat opens nothing: who reads a file asks first, lest it waits for the writer of a pipe.
func (u unlisted) Stat(name string) (fs.FileInfo, error) { return fs.Stat(u.FS, name) }

// bare is an error without the path that was said already.
func bare(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// anywhere opens files as the command line names them.
type anywhere struct{}

func (anywhere) Open(name string) (fs.File, error)     { return os.Open(name) }
func (anywhere) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

// maxGiven is the most bytes of a certificate, a request or a pin that the command
// line names.
const maxGiven = 64 << 10

// readGiven reads a file that the command line names.
func readGiven(name string) ([]byte, error) {
	text, err := rete.ReadFile(anywhere{}, name, maxGiven)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, bare(err))
	}
	return text, nil
}

// load reads and judges the repository, or the files of -f. The model is for
// compiling only when no fault is a violation; it is nil when the rules could
// not be asked. Directories of the repository that are apart are not looked into by
// the rule about private keys.
func (a *app) load(r *repository, apart ...string) (*rete.Model, []rete.Fault) {
	view, faults := a.view(r)
	if len(rete.Violations(faults)) > 0 {
		return nil, faults
	}
	m, more := rete.Validate(view, unlisted{r.root.FS(), apart})
	return m, append(faults, more...)
}

// view reads and merges without judging.
func (a *app) view(r *repository) (*rete.View, []rete.Fault) {
	if len(a.files) > 0 {
		return rete.Load(anywhere{}, a.selected())
	}
	names, faults := rete.Discover(r.root.FS())
	view, more := rete.Load(r.root.FS(), names)
	if len(rete.Violations(faults)) > 0 { // then what is missing is said already
		return nil, faults
	}
	return view, append(faults, more...)
}

// selected are the files of -f. A pattern that matches nothing is taken
// literally, so that it fails as a file that is not there.
func (a *app) selected() []string {
	var all []string
	for _, pattern := range a.files {
		found, err := doublestar.FilepathGlob(pattern, doublestar.WithFilesOnly())
		if _, missing := os.Stat(pattern); missing == nil || err != nil || len(found) == 0 {
			found = []string{pattern}
		}
		for _, name := range found {
			all = append(all, filepath.Clean(name)) // one file has one name, however it is written
		}
	}
	return all
}

// tell prints faults, and returns the error they end the command with: nil when
// none is a violation.
func (a *app) tell(r *repository, format string, faults []rete.Fault) error {
	shown := make([]rete.Fault, len(faults))
	code := cli.Fine
	for i, f := range faults {
		switch {
		case f.Unreadable():
			code = cli.Unreadable
		case code == cli.Fine && !f.Warning:
			code = cli.Differs
		}
		// Machines that read JSON know the repository; a person, or a page beside
		// a change, wants a path that can be opened.
		if format != report.JSON && len(a.files) == 0 {
			f.Path = filepath.Join(r.dir, f.Path)
		}
		shown[i] = f
	}
	if err := report.Write(format, shown, a.stdout, a.stderr); err != nil {
		return err
	}
	if code != cli.Fine {
		return cli.Exit(code)
	}
	return nil
}

// judged is load for commands that go on with a sound repository alone.
func (a *app) judged(r *repository, apart ...string) (*rete.Model, error) {
	m, faults := a.load(r, apart...)
	if len(rete.Violations(faults)) > 0 {
		return nil, a.tell(r, report.Text, faults)
	}
	return m, nil
}

// named is the rete block, for commands that need no sound repository: those
// that issue what it lacks.
func (a *app) named(r *repository) (*rete.View, error) {
	view, faults := a.view(r)
	if len(rete.Violations(faults)) > 0 {
		return nil, a.tell(r, report.Text, faults)
	}
	return view, nil
}

// trust is the set of the repository's signers.
func trust(m *rete.Model) (*artifact.TrustSet, error) { return pin(m, "").Trust() }

// pin is the first trust of a node.
func pin(m *rete.Model, node string) artifact.Pin {
	p := artifact.Pin{Rete: string(m.Rete.Value.Name), Node: node}
	for _, s := range m.Signers {
		p.Signers = append(p.Signers, artifact.PinSigner{SPIFFE: s.SPIFFE, Key: s.Key})
	}
	return p
}

func (a *app) validateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "validate", Short: "Hold the repository against every rule", Args: cli.Args(0, 0),
		Long: `Check the repository against every rule and report each fault with rule, file, line
and column. It finds all faults, also those that compile would refuse.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !known(a.format) {
				return cli.Usage(cmd, "-o %q: want one of %v", a.format, report.Formats)
			}
			r, err := a.open()
			if err != nil {
				return err
			}
			defer r.close()
			m, faults := a.load(r)
			if m != nil && len(rete.Violations(faults)) == 0 {
				_, more := rete.Compile(m) // what only shows there
				faults = append(faults, more...)
			}
			return a.tell(r, a.format, faults)
		},
	}
	a.repoFlag(cmd)
	a.filesFlag(cmd)
	cmd.Flags().StringVarP(&a.format, "output", "o", report.Text, fmt.Sprintf("one of %v", report.Formats))
	return cmd
}

func known(format string) bool {
	for _, f := range report.Formats {
		if f == format {
			return true
		}
	}
	return false
}
