package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/internal/cli"
)

// watchEvery is how often a status that is watched is asked for.
const watchEvery = time.Second

// home puts the cursor of a terminal to its beginning and clears what is there.
const home = "\x1b[H\x1b[2J"

// A watch on a terminal has a screen of its own, so that no look is left in what one
// scrolls back to; the last one is printed when it ends.
const (
	enterScreen = "\x1b[?1049h"
	leaveScreen = "\x1b[?1049l"
)

// statusWatch shows the status again and again, until ctx ends. When
// the plane is away, it shows that, and asks again.
func (a statusCommands) statusWatch(ctx context.Context, c *client.Client, digest bool) error {
	if isTerminal(a.stdout) && a.format == formatTable {
		return a.statusOnScreen(ctx, c, digest)
	}
	_, err := a.statusLooks(ctx, c, digest, false)
	return err
}

// statusOnScreen is statusWatch on a terminal.
func (a statusCommands) statusOnScreen(ctx context.Context, c *client.Client, digest bool) error {
	fmt.Fprint(a.stdout, enterScreen)
	last, err := a.statusLooks(ctx, c, digest, true)
	fmt.Fprint(a.stdout, leaveScreen)
	if last != nil {
		err = errors.Join(err, a.showStatus(*last, false, true))
	}
	return err
}

// statusLooks shows one look after the other, each in place or below the one before,
// and returns the last.
func (a statusCommands) statusLooks(ctx context.Context, c *client.Client, digest, place bool) (last *resource.Status, err error) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for first := true; ; first = false {
		s, err := c.Status(ctx, digest)
		switch {
		case ctx.Err() != nil:
			return last, nil
		case err != nil && first && !errors.As(err, new(*client.UnavailableError)):
			return last, err
		case err != nil:
			fmt.Fprintln(a.stderr, "edict: "+printable(err))
		default:
			last = &s
			if err := a.showStatus(s, place, first); err != nil {
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

// showStatus writes one look whole, so that a terminal does not flicker.
func (a statusCommands) showStatus(s resource.Status, place, first bool) error {
	out := look{columns: cli.Width(a.stdout)}
	switch {
	case a.format == formatJSON:
		if err := json.NewEncoder(&out).Encode(s); err != nil {
			return err
		}
	case a.format == formatYAML:
		if _, err := fmt.Fprintln(a.stdout, "---"); err != nil {
			return err
		}
		return a.printYAML(s)
	default:
		if place {
			out.WriteString(home)
		} else if !first {
			out.WriteByte('\n')
		}
		fmt.Fprintf(&out, "%s\n\n", stamp(time.Now()))
		writeStatus(cli.Broken(&out), s)
	}
	_, err := out.WriteTo(a.stdout)
	return err
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" //nolint:gosec // a file descriptor
}
