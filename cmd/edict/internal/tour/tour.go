// Package tour shows what a plane does, on one that it starts for the purpose:
// a company of ten thousand machines is registered, policies are revised and
// deleted, a node is away, the process is killed, the log is replayed. It
// measures what it tells, and checks it: every number is compared with what
// the tour works out from labels and selectors on its own.
package tour

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/cmd/edict/demodata"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// Options say how large the tour is and where it tells its story.
type Options struct {
	Binary string // the edict to run
	Out    io.Writer
	Nodes  int  // LeastNodes to MostNodes
	Keep   bool // leave the plane serving until ctx ends
	// Project is where the policies and nodes live.
	Project uuid.UUID
}

// Bounds of Options.Nodes: below, some step would have nobody to show.
const (
	LeastNodes = 100
	MostNodes  = demodata.Nodes
)

// patience bounds the wait for anything the plane should do.
const patience = time.Minute

// tour is the state of a tour under way.
type tour struct {
	opt    Options
	dir    string
	began  time.Time
	step   int
	held   string // the beginning of a sentence that is not written yet
	serve  *serve
	client *client.Client
	world  *world
	conn   *streams.Conn
	log    *streams.Log
	tap    *tap
	crowd  *crowd
	group  *errgroup.Group
	left   policy.EventID // where the node that goes away was
	gone   uuid.UUID      // the policy that was deleted
	causes []cause        // the changes shown
}

// cause is a change that was shown: its log sequence, and the rows that it changed.
type cause struct {
	seq  uint64
	rows map[pair]bool
}

// Run gives the tour. An error says what differed from what was claimed.
func Run(ctx context.Context, opt Options) (err error) {
	dir, err := os.MkdirTemp("", "edict-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	t := &tour{opt: opt, dir: dir, began: time.Now()}
	opt.say("", fmt.Sprintf("A tour of edict: %s machines of a made up company, on temporary data.", thousands(opt.Nodes)))
	fmt.Fprintln(opt.Out)
	if err := t.start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.serve.stop()) }()

	g, gctx := errgroup.WithContext(ctx)
	all, cancel := context.WithCancel(gctx)
	defer cancel()
	if err := t.open(all, g); err != nil {
		cancel()
		return errors.Join(err, g.Wait())
	}
	g.Go(func() error {
		defer cancel()
		return t.steps(all)
	})
	return g.Wait()
}

// steps are the story.
func (t *tour) steps(ctx context.Context) error {
	for _, s := range []func(context.Context) error{
		t.publish, t.register, t.follow, t.revise, t.relabel, t.remove, t.comeBack, t.kill, t.goOn, t.compare, t.replay,
	} {
		if err := s(ctx); err != nil {
			return err
		}
	}
	fmt.Fprintf(t.opt.Out, "\nEverything was as claimed. The tour took %s.\n", ms(time.Since(t.began)))
	return t.opt.stay(ctx, t.client, "edict status", "edict policy list", "edict node watch "+string(t.world.nodes[0].ID))
}

// stay leaves the plane serving where that is wanted, and ends the story with the link of
// its console.
func (o Options) stay(ctx context.Context, c *client.Client, commands ...string) error {
	if !o.Keep {
		return nil
	}
	link, err := c.SessionLink(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "\nThe plane goes on serving until it is interrupted. Try:\n%s  export EDICT_SERVER=%s\n", o.findable(), c.Server())
	for _, command := range append(commands, "edict ui") {
		fmt.Fprintf(o.Out, "  %s\n", command)
	}
	fmt.Fprintf(o.Out, "\nIts console: %s\n", strings.TrimSuffix(c.Server(), "/")+link.Path)
	<-ctx.Done()
	return nil
}

// findable is the line after which a shell finds this edict; empty: it does.
func (o Options) findable() string {
	found, err := exec.LookPath("edict")
	there, err2 := os.Stat(found)
	own, err3 := os.Stat(o.Binary)
	if errors.Join(err, err2, err3) == nil && os.SameFile(there, own) {
		return ""
	}
	dir, err := filepath.Abs(filepath.Dir(o.Binary))
	if err != nil {
		return ""
	}
	return fmt.Sprintf("  export PATH=%q:$PATH\n", dir)
}

// tell narrates one step.
func (t *tour) tell(format string, args ...any) {
	t.step++
	t.line(fmt.Sprintf("%2d. ", t.step), fmt.Sprintf(format, args...))
}

// more adds a line to a step.
func (t *tour) more(format string, args ...any) {
	t.line("    ", fmt.Sprintf(format, args...))
}

// line writes a line. On a terminal a sentence that goes on in the next line is written with it, and broken
// where the terminal ends.
func (t *tour) line(before, text string) {
	if t.held != "" {
		before, t.held = t.held+" ", ""
	}
	text = before + text
	if cli.Width(t.opt.Out) > 0 && strings.HasSuffix(text, ",") {
		t.held = text
		return
	}
	t.opt.say(text[:indent], text[indent:])
}

// indent is how far in the lines of a step stand.
const indent = 4

// command adds a command of edict to a step. What a terminal breaks can be copied as it stands.
func (t *tour) command(line string) {
	const before = "    "
	if width := cli.Width(t.opt.Out); width > 0 {
		line = flagged.ReplaceAllString(line, "$1\u00a0") // a flag stays with its value
		line = strings.ReplaceAll(cli.BetweenWords(line, width-len(before+before+` \`)), "\n", ` \`+"\n"+before+before)
		line = strings.ReplaceAll(line, "\u00a0", " ")
	}
	fmt.Fprintln(t.opt.Out, before+line)
}

// flagged finds a flag in front of a value.
var flagged = regexp.MustCompile(`(--[a-z-]+) `)

// say writes a line behind what stands before it; to a terminal, broken between words.
func (o Options) say(before, text string) {
	fmt.Fprintln(o.Out, cli.Hung(o.Out, before, text))
}

// errDiffers: the plane did not do what the tour claims that it does.
var errDiffers = errors.New("the demo found a difference")

// check compares what was claimed with what is.
func check(what string, want, got int) error {
	if want != got {
		return fmt.Errorf("%w: %s: worked out %d, found %d", errDiffers, what, want, got)
	}
	return nil
}

// ms prints a duration to a person's precision.
func ms(d time.Duration) string {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(10 * time.Microsecond).String()
}

// thousands prints 10000 as 10,000.
func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
