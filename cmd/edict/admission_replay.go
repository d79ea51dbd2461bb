package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/edict/internal/author"
	"github.com/edictdev/edict/cmd/edict/internal/progress"
	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/admission"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// admissionReplayFlags are the flags of `admission replay`.
type admissionReplayFlags struct {
	logFlags
	files          []string
	from           string
	against, after uint64
}

func (a admissionCommands) admissionReplayCommand() *cobra.Command {
	var f admissionReplayFlags
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Evaluate logged requests under another set of admission policies",
		Long: `Evaluate the requests of the decision log (edict serve --decision-log) under
another set of admission policies, and print which decisions would differ. Nothing
is written. Exit code 1 when one differs.

The set is that of the plane as it is now; with --against that of a log sequence,
for which the log is folded again up to there; and with -f either of them, with
the policies of files in place of those of the same name, level and owner.

A request that was masked in part cannot be evaluated again, and one without a
decision cannot be compared: both are counted. Whether an evaluation times out
depends on the machine.`,
		Example: `  edict admission replay -f new-policies/
  edict admission replay --against 4711
  edict admission replay --log ./data --against 4711 -o json`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.admissionReplay(cmd, f) },
	}
	a.clientFlags(cmd)
	a.outputFlag(cmd)
	a.logSourceFlags(cmd, &f.logFlags)
	filesFlagMaybe(cmd, &f.files)
	flags := cmd.Flags()
	flags.Uint64Var(&f.against, "against", 0, "log sequence whose admission policies judge (default the present ones)")
	flags.StringVar(&f.from, "from", "", "checkpoint to begin folding with: newest, a sequence or a name (default the first event)")
	flags.Uint64Var(&f.after, "after", 0, "sequence in the decision log after which to begin (default its first decision)")
	return cmd
}

// redecided is one decision that would be another one.
type redecided struct {
	Seq        uint64             `json:"seq"` // in the decision log
	DecisionID string             `json:"decision_id"`
	Time       time.Time          `json:"time"`
	Was        verdict            `json:"was"`
	Now        verdict            `json:"now"`
	Diff       []admission.Change `json:"diff,omitempty"`
	service    string
}

// verdict is what became of a request under one set of policies.
type verdict struct {
	Outcome  string                    `json:"outcome"`
	Version  uint64                    `json:"snapshot_version,omitempty"` // of a set that was registered
	Provider string                    `json:"service_provider,omitempty"`
	Policy   *admission.RecordedPolicy `json:"policy,omitempty"`
	Reason   string                    `json:"reason,omitempty"`
}

func verdictOf(r *admission.Record) verdict {
	return verdict{r.Outcome, r.SnapshotVersion, r.Provider(), r.Policy, r.Reason}
}

// redecision is everything a replay found.
type redecision struct {
	changed                          []redecided
	judged, masked, unjudged, unread int
}

func (a admissionCommands) admissionReplay(cmd *cobra.Command, f admissionReplayFlags) error {
	if err := f.override(cmd); err != nil {
		return err
	}
	ctx := cmd.Context()
	var drafts []author.AdmissionDraft
	var err error
	if len(f.files) > 0 {
		if drafts, err = a.admissionDrafts(ctx, f.files); err != nil {
			return err
		}
	}
	c, err := a.client(cmd)
	if err != nil {
		return err
	}
	src, err := a.openLog(ctx, f.logFlags, c)
	if err != nil {
		return err
	}
	defer src.close()
	decisions, err := streams.FindDecisions(ctx, src.conn)
	if errors.Is(err, streams.ErrNotFound) {
		return cli.Failed(cli.NotFound, "there is no decision log: start the plane with --decision-log")
	}
	if err != nil {
		return err
	}
	policies, err := a.policiesAgainst(cmd, f, c, src)
	if err != nil {
		return err
	}
	snapshot, err := judging(ctx, policies, drafts)
	if err != nil {
		return err
	}
	return a.redecide(ctx, f, decisions, snapshot)
}

// policiesAgainst are the admission policies of the sequence that f names, or
// the present ones.
func (a admissionCommands) policiesAgainst(cmd *cobra.Command, f admissionReplayFlags, c *client.Client, src *logSource) (map[author.AdmissionName]admission.Policy, error) {
	ctx := cmd.Context()
	set := map[author.AdmissionName]admission.Policy{}
	given := cmd.Flags().Changed("against")
	if !given && f.log == "" {
		for p, err := range c.Admission.All(ctx, nil) {
			if err != nil {
				return nil, err
			}
			d := documentOf(p)
			set[author.NameOf(d)] = admission.PolicyOf(policy.AdmissionPolicyID(p.ID), d)
		}
		return set, nil
	}
	state, err := src.log.State(ctx)
	if err != nil {
		return nil, err
	}
	until := state.Last
	if given {
		if until = f.against; until > state.Last {
			return nil, cli.Failed(cli.NotFound, "--against %d: the log ends at %d", until, state.Last)
		}
	}
	dir, cleanup, err := scratch("")
	if err != nil {
		return nil, err
	}
	defer cleanup()
	r, err := a.begin(ctx, src, dir, f.from, until)
	if err != nil {
		return nil, err
	}
	if err := a.foldTo(ctx, r, until); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	r.Store().Read(func(v *projector.View) {
		for _, p := range v.Admission().Policies(func(projector.AdmissionPolicy) bool { return true }) {
			set[author.NameOf(*p.Document)] = admission.PolicyOf(p.ID, *p.Document)
		}
	})
	return set, r.Close()
}

// documentOf is a listed policy as its author wrote it.
func documentOf(p resource.AdmissionPolicy) policy.AdmissionPolicy {
	return policy.AdmissionPolicy{
		Name: p.Name, Level: policy.Level(p.PolicyType), Tenant: p.TenantID, User: p.UserID, ServiceType: p.ServiceType, Labels: p.LabelSelector,
		Priority: int32(p.Priority), Disabled: !p.Enabled, Mode: policy.Mode(p.Mode), Rego: p.RegoCode,
	}
}

// judging compiles the policies, and drafts in their places. One that does not
// compile fails what it matches, as it does in a plane.
func judging(ctx context.Context, set map[author.AdmissionName]admission.Policy, drafts []author.AdmissionDraft) (*admission.Snapshot, error) {
	for i, d := range drafts {
		name := author.NameOf(d.AdmissionPolicy)
		id := cmp.Or(set[name].ID, "file-"+strconv.Itoa(i+1))
		set[name] = admission.PolicyOf(policy.AdmissionPolicyID(id), d.AdmissionPolicy)
	}
	s := admission.NewSnapshot(0)
	for _, p := range set {
		compiled, err := admission.Compile(ctx, p)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var faults *admission.CompileError
		if errors.As(err, &faults) {
			compiled = admission.Broken(p, faults)
		} else if err != nil {
			return nil, err
		}
		s = s.With(0, compiled)
	}
	return s, nil
}

// redecide evaluates what the decision log holds.
func (a admissionCommands) redecide(ctx context.Context, f admissionReplayFlags, decisions *streams.Decisions, s *admission.Snapshot) error {
	state, err := decisions.State(ctx)
	if err != nil {
		return err
	}
	engine := admission.NewEngine(admission.EngineOptions{})
	found := redecision{changed: []redecided{}}
	bar := progress.Start(a.stderr, "replaying", "decisions", int64(state.Messages))
	for batch, err := range decisions.Read(ctx, max(state.First, f.after+1), state.Last) {
		if err != nil {
			bar.Stop()
			return err
		}
		for _, m := range batch {
			if err := found.judge(ctx, engine, s, m); err != nil {
				bar.Stop()
				return err
			}
			bar.Add(1)
		}
	}
	bar.Stop()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return a.tellRedecision(found)
}

func (f *redecision) judge(ctx context.Context, e *admission.Engine, s *admission.Snapshot, m streams.Message) error {
	was, err := admission.ReadRecord(m.Body)
	if err != nil {
		f.unread++
		return nil
	}
	r, err := e.Replay(ctx, s, was)
	if err != nil {
		return err
	}
	_, whole := was.Request()
	switch {
	case !whole:
		f.masked++
	case r.Unjudged != "":
		f.unjudged++
	default:
		f.judged++
	}
	if r.Changed() {
		f.changed = append(f.changed, redecided{m.Seq, was.DecisionID, was.Time, verdictOf(&r.Was), verdictOf(&r.Now), r.Diff, was.ServiceType})
	}
	return nil
}

func (a admissionCommands) tellRedecision(f redecision) error {
	err := a.print(f.changed, func(w io.Writer) {
		rows := make([][]string, len(f.changed))
		for i, x := range f.changed {
			rows[i] = []string{strconv.FormatUint(x.Seq, 10), stamp(x.Time), x.service, inWords(x.Was), inWords(x.Now), diffText(x.Diff)}
		}
		if len(rows) > 0 {
			columns(w, []string{"seq", "time", "service type", "was", "now", "payload"}, rows)
		}
	})
	if err != nil {
		return err
	}
	summary := fmt.Sprintf("%d decisions evaluated again, %d would be other ones", f.judged, len(f.changed))
	for _, left := range []struct {
		n   int
		why string
	}{
		{f.masked, "not evaluated: something of the request is masked"},
		{f.unjudged, "not compared: nobody judged them then"},
		{f.unread, "not read: no decisions of this edict"},
	} {
		if left.n > 0 {
			summary += fmt.Sprintf("; %d %s", left.n, left.why)
		}
	}
	fmt.Fprintln(a.stderr, summary)
	if len(f.changed) > 0 {
		return cli.Exit(cli.Differs)
	}
	return nil
}

func inWords(v verdict) string {
	text := v.Outcome
	if v.Policy != nil {
		text += " by " + v.Policy.Name
	}
	if v.Provider != "" {
		text += ", " + v.Provider
	}
	return text
}
