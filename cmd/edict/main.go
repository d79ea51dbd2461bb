// Command edict is the plane and its operator's command line: flags and wiring
// only. `edict demo` shows what it does, `edict serve` does it.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/edictdev/edict/cmd/internal/cli"
)

func main() {
	staysWithinGroup()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() { signal.Reset(os.Interrupt) }) // a second one ends it where it stands
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// grace is how long a command may go on after a signal. One that waits for a file, such as
// a pipe that nobody writes to, would go on for ever. Whatever is written is whole or continued by
// the next run, as after a kill.
const grace = 10 * time.Second

// grace is how long this command may; 0: what serves ends in order, however long that takes.
func (a *app) grace() time.Duration {
	if a.serves.Load() {
		return 0
	}
	return grace
}

// run is main without the process around it. It returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	stderr = cli.Messages(stderr)
	stdout, output := cli.Remembering(stdout)
	a := &app{console: console{stdin: until(ctx, stdin), stdout: stdout, stderr: stderr}}
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cli.Completion(root)
	end := a.traceCommands(root)
	code := cli.Within(ctx, a.grace, func() int { return a.exit(cli.Execute(ctx, root, cli.Width(stdout))) })
	if code == cli.Fine {
		code = a.exit(output.Failed())
	}
	end(code)
	return code
}
