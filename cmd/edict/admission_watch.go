package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/cmd/edict/internal/author"
	"github.com/edictdev/edict/cmd/internal/cli"
)

// lookEvery is how often files are looked at for a change. They are looked at, not
// waited for: that works on every file system, and needs no library.
const lookEvery = 300 * time.Millisecond

// admissionTestWatch runs the tests, and again each time that a file changes, until ctx
// ends. What fails or cannot be read is said, and ends nothing.
func (a admissionCommands) admissionTestWatch(cmd *cobra.Command, f admissionTestFlags) error {
	if slices.Contains(f.files, "-") {
		return cli.Usage(cmd, "--watch needs files: what comes from stdin does not change")
	}
	ctx := cmd.Context()
	for {
		seen := author.AdmissionFiles(f.files)
		was := fingerprint(seen)
		if err := a.admissionTest(cmd, f); err != nil && ctx.Err() == nil {
			var said *cli.Error
			if !errors.As(err, &said) || said.Error() != "" {
				fmt.Fprintln(a.stderr, err)
			}
		}
		if !filesChanged(ctx, f.files, was) {
			return nil
		}
		fmt.Fprintln(a.stderr, "a file has changed")
	}
}

// filesChanged waits until files are not as they were; false when ctx ends before.
func filesChanged(ctx context.Context, paths []string, was string) bool {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return false
		}
		if fingerprint(author.AdmissionFiles(paths)) != was {
			return true
		}
	}
}

// fingerprint tells a set of files from what they are after a change.
func fingerprint(files []string) string {
	var b strings.Builder
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			continue
		}
		fmt.Fprintf(&b, "%q %d %d\n", file, info.Size(), info.ModTime().UnixNano())
	}
	return b.String()
}
