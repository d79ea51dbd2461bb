package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/cmd/edict/internal/doctor"
	"github.com/edictdev/edict/cmd/internal/cli"
)

func (a *app) doctorCommand() *cobra.Command {
	var typed []doctor.Flag
	cmd := &cobra.Command{
		Use: "doctor", Short: "Look for what is wrong with a plane, or with the way to it", Args: cli.Args(0, 0),
		Long: `Look for what is wrong with a running plane, or with the way to it from here: its address,
TLS and the end of the certificate, the token's file, both clocks, whom the plane takes
you for, what the worker that answers says of itself, versions, workers that are behind,
the room for the log, projects over their share, and nodes that refuse or lag. Each
finding comes with what to type next. Nothing is changed.

Exit codes: 0 nothing failed, warnings there may be; 1 something failed.`,
		Example: `  edict doctor
  edict doctor --context prod -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			patient, err := a.patient(cmd)
			if err != nil {
				return err
			}
			patient.Typed = typed
			all := doctor.Examine(cmd.Context(), patient)
			if err := a.print(all, func(w io.Writer) { writeFindings(w, all) }); err != nil {
				return err
			}
			if doctor.Worst(all) == doctor.Failed {
				return cli.Exit(cli.Differs)
			}
			return nil
		},
	}
	a.clientFlags(cmd)
	a.outputFlag(cmd)
	before := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		typed = typedOf(cmd)
		return before(cmd, args) // which sets flags from the environment and from the context
	}
	return cmd
}

// typedOf are the flags that say how the plane is reached, as they were typed.
func typedOf(cmd *cobra.Command) (typed []doctor.Flag) {
	for _, name := range []string{"context", "server", "admin-server", "token-file", "ca", "cert", "key", "spiffe-socket", "server-id"} {
		if f := cmd.Flags().Lookup(name); f.Changed {
			value := f.Value.String()
			if strings.HasSuffix(name, "server") {
				value = shownAddress(value)
			}
			typed = append(typed, doctor.Flag{Name: name, Value: value})
		}
	}
	return typed
}

// patient is the plane of --server, for a doctor.
func (a *connection) patient(cmd *cobra.Command) (p doctor.Patient, err error) {
	if p.Client, err = a.client(cmd); err != nil {
		return p, err
	}
	server := withScheme(a.server)
	if p.Server, err = url.Parse(server); err != nil {
		return p, cli.Usage(cmd, "--server %.200q: want http://host:port", shownAddress(server)) // err may have a password
	}
	if p.HTTP, err = a.creds.http(cmd, server); err != nil {
		return p, err
	}
	if p.HTTP == nil {
		p.HTTP = http.DefaultClient
	}
	p.TokenFile, p.Version = a.creds.tokenFile, version()
	_, err = os.Stat("/run/systemd/system") // as sd_booted(3) finds out
	p.Systemd = err == nil
	return p, nil
}

func writeFindings(w io.Writer, all []doctor.Finding) {
	rows := make([][]string, len(all))
	for i, f := range all {
		rows[i] = []string{f.Check, f.State, f.Detail}
	}
	columns(w, []string{"check", "state", "detail"}, rows)
	for _, f := range all {
		if f.Next != "" {
			fmt.Fprintf(w, "\n%s: %s\n    %s\n", f.Check, cli.Escaped(f.Detail, "\n"), f.Next)
		}
	}
}
