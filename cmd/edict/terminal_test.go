package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/edictdev/edict/internal/test/s3store"
)

// By these names the test's binary is what the command line calls, and a terminal.
const asEdict, asTerminal = "edict", "edict-terminal"

func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case asEdict:
		os.Unsetenv("GOGC") // Setup's is for a short command; a plane tunes it as it does elsewhere
		main()
	case asTerminal:
		os.Exit(beTerminal(os.Stdin, os.Stdout))
	}
	dir, err := os.MkdirTemp("", "edict-stories-")
	if err == nil {
		err = edictIn(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// edictIn puts this binary into a folder, as edict. A symbolic link would not do: what edict
// starts, it starts by the path of its own binary.
func edictIn(dir string) error {
	this, err := os.Executable()
	if err != nil {
		return err
	}
	as := filepath.Join(dir, asEdict)
	if os.Link(this, as) == nil {
		return nil
	}
	text, err := os.ReadFile(this)
	if err != nil {
		return err
	}
	return os.WriteFile(as, text, 0o700) //nolint:gosec // it is run
}

// terminal is where a story types its commands: one process runs them in turn, since to start one
// for each would cost more than what they do. What is left running, is killed or is piped to is
// not typed there: "exec edict" is a process of its own.
type terminal struct {
	requests  *json.Encoder // nil: nothing was typed yet
	answers   *json.Decoder
	variables []string // the names of what the environment may hold
}

// terminalOf is the key of a story's terminal.
type terminalOf struct{}

// assigned finds the variables that a story sets.
var assigned = regexp.MustCompile(` ([A-Z_]+)=`)

// open starts the terminal's process, which ends with the story.
func (t *terminal) open(ts *testscript.TestScript) {
	text, err := os.ReadFile(filepath.Join("testdata", ts.Name()+".txtar"))
	ts.Check(err)
	t.variables = slices.AppendSeq([]string{"PATH", "HOME", "TMPDIR", "EDICT_SERVER"}, maps.Keys(s3store.Env("")))
	for _, found := range assigned.FindAllSubmatch(text, -1) {
		t.variables = append(t.variables, string(found[1]))
	}
	this, err := os.Executable()
	ts.Check(err)
	cmd := &exec.Cmd{Path: this, Args: []string{asTerminal}, Env: append(os.Environ(), "GOGC="+ts.Getenv("GOGC"), "GOMAXPROCS=1"), Stderr: os.Stderr}
	in, err := cmd.StdinPipe()
	ts.Check(err)
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	ts.Defer(func() {
		ts.Check(in.Close())
		ts.Check(cmd.Wait())
	})
	t.requests, t.answers = json.NewEncoder(in), json.NewDecoder(out)
}

// run types a command, and is the code with which it ended.
func (t *terminal) run(ts *testscript.TestScript, args []string) int {
	if t.requests == nil {
		t.open(ts)
	}
	env := make(map[string]string)
	for _, name := range t.variables {
		env[name] = ts.Getenv(name)
	}
	ts.Check(t.requests.Encode(typed{Dir: ts.MkAbs("."), Env: env, Args: args}))
	var s shown
	ts.Check(t.answers.Decode(&s))
	fmt.Fprint(ts.Stdout(), s.Stdout)
	fmt.Fprint(ts.Stderr(), s.Stderr)
	return s.Code
}

// typedEdict is "edict ARGS...": typed at the story's terminal, it must not fail; with "!" it must.
func typedEdict(ts *testscript.TestScript, neg bool, args []string) {
	code := ts.Value(terminalOf{}).(*terminal).run(ts, args)
	if neg == (code == 0) {
		ts.Fatalf("exit code %d", code)
	}
}

// typed is a command as a terminal takes it, and shown what it answers.
type (
	typed struct {
		Dir  string
		Env  map[string]string
		Args []string
	}
	shown struct {
		Stdout, Stderr string
		Code           int
	}
)

// beTerminal runs what is typed until there is no more.
func beTerminal(in io.Reader, out io.Writer) int {
	requests, answers := make(chan typed), json.NewEncoder(out)
	go func() {
		for requests, in := requests, json.NewDecoder(in); ; {
			var t typed
			if in.Decode(&t) != nil {
				os.Exit(0) // whatever runs
			}
			requests <- t
		}
	}()
	for t := range requests {
		if err := answers.Encode(t.run()); err != nil {
			return 1
		}
	}
	return 0
}

// run is the command in this process, which holds nothing else.
func (t typed) run() shown {
	os.Clearenv()
	for name, value := range t.Env {
		os.Setenv(name, value)
	}
	if err := os.Chdir(t.Dir); err != nil {
		return shown{Stderr: err.Error(), Code: -1}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer http.DefaultClient.CloseIdleConnections() // as the end of a process does
	var stdout, stderr bytes.Buffer
	code := run(ctx, t.Args, strings.NewReader(""), &stdout, &stderr)
	return shown{Stdout: stdout.String(), Stderr: stderr.String(), Code: code}
}
