package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/cmd/internal/cli"
)

// watchFlag gives a command that shows something -w, with which it shows it again
// whenever it has changed.
func (a *console) watchFlag(cmd *cobra.Command) {
	var watch bool
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "look every second, and show it again when it has changed")
	once := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !watch {
			return once(cmd, args)
		}
		return a.watch(cmd.Context(), func() error { return once(cmd, args) })
	}
}

// shownFlags gives a command that shows one thing -o and -w.
func (a *console) shownFlags(cmd *cobra.Command) {
	a.formatFlag(cmd, formatTable, formatJSON, formatYAML, formatJSONPath)
	a.watchFlag(cmd)
}

// look is what a command writes at one look, for a terminal of so many columns.
type look struct {
	bytes.Buffer
	columns int
}

func (l *look) Width() int { return l.columns }

// watch shows what show writes whenever it has changed, until ctx ends: on a terminal
// in place, on a screen of its own, else below what it was. While the plane is away
// it says so and asks again.
func (a *console) watch(ctx context.Context, show func() error) error {
	out := a.stdout
	defer func() { a.stdout = out }()
	screen := isTerminal(out) && a.forPeople()
	if screen {
		fmt.Fprint(out, enterScreen)
	}
	last, err := a.watchLooks(ctx, show, out, screen)
	if screen {
		fmt.Fprint(out, leaveScreen)
		_, written := out.Write(last)
		err = errors.Join(err, written)
	}
	return err
}

// isAway reports whether there was no answer: who watches or waits asks again, since a plane
// that is restarted comes back.
func isAway(err error) bool { return errors.As(err, new(*client.UnavailableError)) }

// watchLooks is watch on a screen or none; it returns what the last look showed.
func (a *console) watchLooks(ctx context.Context, show func() error, out io.Writer, screen bool) (last []byte, err error) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for first := true; ; first = false {
		l := &look{columns: cli.Width(out)}
		a.stdout = l
		err := show()
		switch {
		case ctx.Err() != nil:
			return last, nil
		case err != nil && (first || !isAway(err)):
			return last, err
		case err != nil:
			fmt.Fprintln(a.stderr, "edict: "+printable(err))
		case first || !bytes.Equal(l.Bytes(), last):
			switch {
			case screen:
				fmt.Fprint(out, home)
			case !first && a.forPeople():
				fmt.Fprintln(out)
			}
			last = l.Bytes()
			if _, err := out.Write(last); err != nil {
				return last, err
			}
		}
		select {
		case <-ctx.Done():
			return last, nil
		case <-tick.C:
		}
	}
}
