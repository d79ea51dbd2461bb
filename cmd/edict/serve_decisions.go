package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/admission"
	"github.com/edictdev/edict/internal/streams"
)

// decisionFlags say which admission decisions are kept, and for how long.
type decisionFlags struct {
	mask  []string
	bytes string
}

func (f *serveFlags) addDecisionFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.opt.Decisions.On, "decision-log", false, "keep what admission policies decide in stream "+streams.DecisionsStream)
	flags.StringSliceVar(&f.decisions.mask, "decision-mask", nil, "JSON pointers to what is never kept of a decision, such as /request_payload/password")
	flags.DurationVar(&f.opt.Decisions.Age, "decision-age", streams.DefaultDecisionsAge, "how long decisions are kept, of a stream that is made now")
	flags.StringVar(&f.decisions.bytes, "decision-bytes", "1GiB", "how much of them, likewise; the oldest go first")
}

func (f *serveFlags) completeDecisions(cmd *cobra.Command) (err error) {
	if f.opt.Decisions.Mask, err = admission.ParseMask(f.decisions.mask); err != nil {
		return cli.Usage(cmd, "--decision-mask: %v", err)
	}
	const least = 1 << 20
	n, err := parseSize(f.decisions.bytes)
	if err != nil || n < least || n > 1<<62 {
		return cli.Usage(cmd, "--decision-bytes %q: want a size such as 1GiB, 1MiB or more", f.decisions.bytes)
	}
	f.opt.Decisions.Bytes = int64(n)
	if f.opt.Decisions.Age < time.Minute {
		return cli.Usage(cmd, "--decision-age %v: want a minute or more", f.opt.Decisions.Age)
	}
	if len(f.opt.Decisions.Mask) > 0 && !f.opt.Decisions.On {
		return cli.Usage(cmd, "--decision-mask does nothing without --decision-log")
	}
	return nil
}
