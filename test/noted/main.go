// Noted runs go test -json, and prints what go test prints without -v. What tests say of
// themselves that they leave out, or do with less, it adds to a file: of results that
// come from go test's cache, too, which repeats what was printed.
//
//	go run ./test/noted -o FILE go test -json ./...
//
// It ends as the command does.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
)

func main() {
	name := flag.String("o", "", "the file that notes are added to; without it they are printed")
	flag.Parse()
	code, err := run(*name, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "noted:", err)
	}
	os.Exit(code)
}

// run gives the command's exit status.
func run(name string, command []string) (status int, err error) {
	if len(command) == 0 {
		return 2, errors.New("say what to run: noted [-o FILE] go test -json PACKAGE…")
	}
	notes := os.Stdout
	if name != "" {
		// Several commands add to it at once.
		if notes, err = os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644); err != nil {
			return 1, err
		}
		defer func() {
			if bad := notes.Close(); bad != nil {
				status, err = 1, errors.Join(err, bad)
			}
		}()
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return 1, err
	}
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	bad := retell(os.Stdout, notes, events)
	if bad != nil {
		_, _ = io.Copy(io.Discard, events) // or the command would wait for a reader
	}
	err = cmd.Wait()
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		return max(ended.ExitCode(), 1), bad // -1: by a signal
	}
	if err = errors.Join(err, bad); err != nil {
		return 1, err
	}
	return 0, nil
}
