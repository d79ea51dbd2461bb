package main

import (
	"bytes"
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
)

// watchEvery is how often a status that is watched is asked for.
const watchEvery = time.Second

// home puts the cursor of a terminal to its beginning and clears what is there.
const home = "\x1b[H\x1b[2J"

// statusWatch shows the status again and again, until ctx ends. When
// the plane is away, it shows that, and asks again.
func (a statusCommands) statusWatch(ctx context.Context, c *client.Client, digest bool) error {
	place := isTerminal(a.stdout) && a.format == formatTable
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for first := true; ; first = false {
		s, err := c.Status(ctx, digest)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && first && !errors.As(err, new(*client.UnavailableError)):
			return err
		case err != nil:
			fmt.Fprintln(a.stderr, "edict: "+explain(err))
		default:
			if err := a.showStatus(s, place, first); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// showStatus writes one look whole, so that a terminal does not flicker.
func (a statusCommands) showStatus(s resource.Status, place, first bool) error {
	var out bytes.Buffer
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
		writeStatus(&out, s)
	}
	_, err := out.WriteTo(a.stdout)
	return err
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" //nolint:gosec // a file descriptor
}
