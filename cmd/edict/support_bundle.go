package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/cmd/edict/internal/bundle"
	"github.com/edictdev/edict/cmd/edict/internal/doctor"
	"github.com/edictdev/edict/cmd/internal/cli"
)

func (a *app) supportBundleCommand() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use: "support-bundle", Short: "Collect what a plane says of itself, without secrets", Args: cli.Args(0, 0),
		Long: `Collect what a plane says of itself in one file, for somebody who helps and cannot reach
it: what doctor finds, status, rejected events, the last hour of the fleet, metrics and
profiles. Ids of nodes and projects are in it, and no policies, labels or addresses of
nodes; tokens, passwords and private keys are replaced. README.txt in it says what each
file is, and why one is missing: profiles are for who has plane#admin. Read it before you
give it away.`,
		Example: `  edict support-bundle --to plane.tar.gz`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			patient, err := a.patient(cmd)
			if err != nil {
				return err
			}
			token, err := a.creds.token()
			if err != nil {
				return err
			}
			now := time.Now()
			name := "edict-" + now.UTC().Format("20060102T150405Z")
			if to == "" {
				to = name + ".tar.gz"
			}
			// What a plane is asked for is asked once here: a bundle is for when it does badly.
			patient.Client, err = client.New(withScheme(a.server), client.Options{UserAgent: "edict/" + version(), HTTP: patient.HTTP, Patience: -1})
			if err != nil {
				return err
			}
			parts := append([]bundle.Part{
				bundle.JSON("version.json", "the program that made this", func(context.Context) (any, error) { return cli.ReadBuild(), nil }),
				bundle.JSON("doctor.json", "what edict doctor found", func(ctx context.Context) (any, error) { return doctor.Examine(ctx, patient), nil }),
			}, bundle.OfPlane(patient.Client)...)
			return a.writeBundle(cmd.Context(), to, name, now, parts, bundle.Redactor{Known: []string{token.Now()}})
		},
	}
	a.clientFlags(cmd)
	cmd.Flags().StringVar(&to, "to", "", "`file` to write, .tar.gz; it must not be there (default edict-TIME.tar.gz)")
	return cmd
}

// writeBundle writes a bundle to a new file, which only its owner may read.
func (a *app) writeBundle(ctx context.Context, to, name string, at time.Time, parts []bundle.Part, hide bundle.Redactor) error {
	file, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return cli.Failed(cli.Conflict, "--to: %s is there already", to)
	}
	if err != nil {
		return cli.Failed(cli.Unreadable, "--to: %v", err)
	}
	missing, err := bundle.Write(ctx, file, name, at, parts, hide)
	if err = errors.Join(err, file.Close()); err != nil {
		os.Remove(to)
		return err
	}
	files := len(parts) + 1 // README.txt, too, which is never missing
	text := fmt.Sprintf("%s: %d of %d files", to, files-missing, files)
	if missing > 0 {
		text += "; README.txt in it says why others are missing"
	}
	_, err = fmt.Fprintln(a.stdout, strings.TrimSpace(text))
	return err
}
