// Command edict-controller keeps a project of a plane at what a Kubernetes cluster
// says: flags and wiring only. It is a program of its own because the libraries of
// Kubernetes would make edict a third larger.
package main

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/edictdev/edict/cmd/internal/cli"
)

// grace is how long it may go on after a signal: to give the Lease away.
const grace = 10 * time.Second

// patience is with one answer of the plane. One that keeps connections and says nothing is
// asked again, over a new one, which may lead to another worker.
const patience = time.Minute

func main() {
	staysWithinGroup(memlimit.FromCgroup)
	os.Exit(cli.Main(grace, func(ctx context.Context) int {
		return run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}))
}

// run is main without the process around it. It returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	stderr = cli.Messages(stderr)
	a := &app{stdout: stdout, stderr: stderr, patience: patience}
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return cli.Report(stderr, "edict-controller", cli.Execute(ctx, root, cli.Width(stdout)), error.Error, func(error) int { return cli.Unavailable })
}
