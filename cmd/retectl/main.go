// Command retectl is the command line of a repository's author: it judges a
// repository, compiles it into signed artifacts, and issues the certificates
// that it names. Flags and wiring only.
package main

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/edictdev/edict/cmd/internal/cli"
)

// grace is how long a command may go on after a signal. Whatever it writes is whole
// or not there when it is cut off.
const grace = time.Second

func main() {
	os.Exit(cli.Main(grace, func(ctx context.Context) int {
		return run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}))
}

// run is main without the process around it. It returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	stderr = cli.Messages(stderr)
	stdout, output := cli.Remembering(stdout)
	a := &app{stdout: stdout, stderr: stderr}
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cli.Completion(root)
	code := a.exit(cli.Execute(ctx, root, cli.Width(stdout)))
	if code == cli.Fine {
		code = a.exit(output.Failed())
	}
	return code
}
