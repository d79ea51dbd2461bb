package test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/binary"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/test/leftout"
	"github.com/edictdev/edict/internal/test/output"
)

// README's blocks are run from the first to the last, in one directory that looks
// like a clone, as somebody does who meets Edict there. Addresses are the only
// thing that is replaced. What it leaves there, git ignores.
func TestReadmeRunsAsItIsWritten(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"curl", "openssl", "git"} {
		if _, err := exec.LookPath(tool); err != nil {
			leftout.Test(t, "README uses %s: %v", tool, err)
		}
	}
	root, err := gen.ModuleRoot()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	n := newNewcomer(t, root)
	ran := 0
	for _, b := range readBlocks(string(text)) {
		if b.leftOut != "" {
			t.Logf("README.md:%d is not run: %s", b.line, b.leftOut)
			continue
		}
		if b.afresh {
			n.stop()
		}
		for _, c := range b.commands {
			n.does(b, c)
			ran++
		}
	}
	n.stop()
	require.Greater(t, ran, 30, "README's commands are not found")
	require.Empty(t, n.git("ls-files", "--others", "--exclude-standard"), "what git status shows after README")
	require.FileExists(t, filepath.Join(n.dir, "tour", "nodes.ndjson"), "README wrote elsewhere")
}

func TestReadmeBlocksAreRead(t *testing.T) {
	t.Parallel()
	page := "text\n\n```\na\ncat > x <<'END'\nb\nEND\n\nc --d \\\n  e    # why\n```\n\n<!-- block: left out: it needs a root -->\n```\nf\n```\n" +
		"<!-- block: afresh -->\n```\ng\n```\n\n```text\n# shown\nAPPLIED   1\n```\n"
	got := readBlocks(page)
	require.Equal(t, []block{
		{line: 3, commands: []string{"a", "cat > x <<'END'\nb\nEND", "c --d \\\n  e    # why"}},
		{line: 14, commands: []string{"f"}, leftOut: "it needs a root"},
		{line: 18, commands: []string{"g"}, afresh: true, shown: []string{"# shown", "APPLIED   1"}},
	}, got)
	n := newcomer{own: map[string]string{"127.0.0.1:8080": "127.0.0.1:42220", "127.0.0.1:4222": "127.0.0.1:8080"}}
	require.Equal(t, "curl 127.0.0.1:42220 127.0.0.1:8080", n.here("curl 127.0.0.1:8080 127.0.0.1:4222"), "what was replaced is not replaced again")
	require.True(t, shapeOf("APPLIED   1").in("x\nAPPLIED 23\n"))
	require.False(t, shapeOf("APPLIED   1").in("APPLIED none\n"))
	require.True(t, shapeOf("id 37fd0a84-4622-8d48-b14d-8417524aaa4c of db-1 ...").in("id 00000000-0000-4000-8000-000000000000 of db-1 and more\n"))
	require.False(t, shapeOf("rule a[0]").in("rule b[0]\n"))
}

// block is one block of commands of a page.
type block struct {
	line     int // of its fence
	commands []string
	leftOut  string   // why it is not run; empty: it is
	afresh   bool     // what runs is stopped before
	shown    []string // what the page shows of the output of the last command that prints any
}

var marked = regexp.MustCompile(`^<!-- block: (?:(afresh)|left out: (.*)) -->$`)

// readBlocks reads the blocks of a page. A comment before a block, which readers do not
// see, says what is special about it; a block of language text is the output of
// the one before.
func readBlocks(page string) (blocks []block) {
	var next block
	lines := strings.Split(page, "\n")
	for i := 0; i < len(lines); i++ {
		if m := marked.FindStringSubmatch(lines[i]); m != nil {
			next.afresh, next.leftOut = m[1] != "", m[2]
		}
		if !strings.HasPrefix(lines[i], "```") {
			continue
		}
		end := i + 1 + slices.Index(lines[i+1:], "```")
		if lines[i] == "```text" {
			blocks[len(blocks)-1].shown = lines[i+1 : end]
		} else {
			next.line, next.commands = i+1, commandsIn(lines[i+1:end])
			blocks = append(blocks, next)
		}
		next, i = block{}, end
	}
	return blocks
}

var heredoc = regexp.MustCompile(`<<'?(\w+)'?$`)

// commandsIn joins the lines of one command.
func commandsIn(lines []string) (commands []string) {
	for i := 0; i < len(lines); i++ {
		command, until := lines[i], ""
		if m := heredoc.FindStringSubmatch(command); m != nil {
			until = m[1]
		}
		for i+1 < len(lines) && (until != "" || strings.HasSuffix(lines[i], `\`)) {
			i++
			command += "\n" + lines[i]
			if lines[i] == until {
				break
			}
		}
		if strings.TrimSpace(command) != "" {
			commands = append(commands, command)
		}
	}
	return commands
}

// newcomer types what a page says.
type newcomer struct {
	t       *testing.T
	dir     string
	ready   string // file of a plane's
	env     []string
	own     map[string]string // addresses here, by those on the page
	running []*terminal
}

// newNewcomer has a directory with what a clone has after make build.
func newNewcomer(t *testing.T, root string) *newcomer {
	n := &newcomer{t: t, dir: t.TempDir(), ready: filepath.Join(t.TempDir(), "ready.json"), own: map[string]string{}}
	n.env = append(os.Environ(), "EDICT_NATS_LISTEN="+anyPort, "EDICT_READY_FILE="+n.ready, "XDG_CONFIG_HOME="+t.TempDir())
	edict, err := edict()
	require.NoError(t, err)
	bin := filepath.Join(n.dir, "bin")
	require.NoError(t, os.Mkdir(bin, 0o700))
	require.NoError(t, os.Symlink(edict, filepath.Join(bin, "edict")))
	buildRetectl(t, bin)
	require.NoError(t, os.Symlink(filepath.Join(root, "cmd"), filepath.Join(n.dir, "cmd")))
	require.NoError(t, gen.Files("cmd/edict/demodata"))
	ignored, err := os.ReadFile(filepath.Join(root, ".gitignore"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(n.dir, ".gitignore"), ignored, 0o600))
	n.git("init", "-q")
	n.git("add", ".")
	t.Cleanup(n.stop)
	return n
}

// git is what git says in the directory.
func (n *newcomer) git(args ...string) string {
	n.t.Helper()
	cmd := exec.CommandContext(n.t.Context(), "git", args...)
	cmd.Dir = n.dir
	out, err := cmd.CombinedOutput()
	require.NoError(n.t, err, "%s", out)
	return string(out)
}

// stays is what one lets run in a terminal of its own, and what it prints once it does
// what the next command of the page needs; a plane writes its ready file.
var stays = map[string]string{
	"bin/edict serve":      "",
	"bin/edict node watch": "connected to",
	"bin/edict agent":      "version 1",
}

// killsLast ends what the command before left running in the background.
const killsLast = "kill $!"

// showing is the command whose output the page shows.
func (b block) showing() string {
	for _, c := range slices.Backward(b.commands) {
		if c != killsLast {
			return c
		}
	}
	return ""
}

func (n *newcomer) does(b block, command string) {
	n.t.Helper()
	if command == killsLast {
		last := len(n.running) - 1
		n.ends(n.running[last], syscall.SIGTERM)
		n.running = n.running[:last]
		return
	}
	if command == "make build" {
		return // done
	}
	for start, up := range stays {
		if strings.HasPrefix(command, start) {
			n.starts(b, command, up)
			return
		}
	}
	ctx, cancel := context.WithTimeout(n.t.Context(), 30*time.Second)
	defer cancel()
	cmd := n.shell(ctx, n.here(command))
	out, _ := cmd.CombinedOutput() // its exit code says how it went
	require.Zero(n.t, cmd.ProcessState.ExitCode(), "README.md:%d: %s\n%s", b.line, command, out)
	if b.shown != nil && command == b.showing() {
		for _, line := range b.shown {
			require.True(n.t, shapeOf(line).in(string(out)), "README.md:%d shows %q of %s, which prints\n%s", b.line, line, command, out)
		}
	}
}

func (n *newcomer) shell(ctx context.Context, command string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Dir, cmd.Env = n.dir, n.env
	return cmd
}

// here has the addresses of this test in the place of the page's. One of this test may begin
// as another of the page does.
func (n *newcomer) here(command string) string {
	var pairs []string
	for there, here := range n.own {
		pairs = append(pairs, there, here)
	}
	return strings.NewReplacer(pairs...).Replace(command)
}

var listens = regexp.MustCompile(`--http (\S+):(\d+)`)

// starts lets a command run on, and waits until it is up. Of a plane it keeps the addresses.
func (n *newcomer) starts(b block, command, up string) {
	n.t.Helper()
	command = strings.TrimSuffix(command, "&")
	address, flag := "127.0.0.1:8080", listens.FindStringSubmatch(command)
	if flag != nil {
		address = "127.0.0.1:" + flag[2]
		command = strings.Replace(command, flag[0], "--http "+flag[1]+":0", 1)
	}
	if flag == nil {
		n.env = append(n.env, "EDICT_HTTP="+anyPort)
	}
	os.Remove(n.ready)
	t := &terminal{cmd: n.shell(context.Background(), "exec "+n.here(command))}
	t.cmd.Stdout, t.cmd.Stderr = t, t
	require.NoError(n.t, t.cmd.Start())
	n.running = append(n.running, t)
	var at binary.Addresses
	require.True(n.t, waitFor(20*time.Second, func() (is bool) {
		if up != "" {
			return strings.Contains(t.String(), up)
		}
		at, is = binary.Ready(n.ready)
		return is
	}), "README.md:%d: %s\n%s", b.line, command, t.String())
	if up != "" {
		return
	}
	port := at.HTTP[strings.LastIndex(at.HTTP, ":"):] // the host may be all addresses
	n.own[address] = "127.0.0.1" + port
	if flag == nil {
		n.own["127.0.0.1:4222"] = trimScheme(at.NATS)
		n.env = append(n.env, "EDICT_SERVER=http://"+at.HTTP)
	}
}

// stop ends what runs, as ^C does, the last first.
func (n *newcomer) stop() {
	for _, t := range slices.Backward(n.running) {
		n.ends(t, syscall.SIGINT)
	}
	n.running = nil
	n.env = slices.DeleteFunc(n.env, func(v string) bool { return strings.HasPrefix(v, "EDICT_SERVER=") }) // of the plane that is gone
}

// ends ends one that runs.
func (n *newcomer) ends(t *terminal, by os.Signal) {
	_ = t.cmd.Process.Signal(by) // one that has ended already fails below
	err := t.cmd.Wait()
	code := t.cmd.ProcessState.ExitCode()
	if code != 0 && code != 130 {
		n.t.Errorf("%s: %v\n%s", t.cmd, err, t.String())
	}
}

// terminal is where a command prints that runs on.
type terminal struct {
	output.Buffer
	cmd *exec.Cmd
}
