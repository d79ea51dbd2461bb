package main

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/node"
)

// What a node is sent once more is marked, for people and for programs, unless something else
// came between.
func TestAWatchMarksWhatIsSentOnceMore(t *testing.T) {
	t.Parallel()
	row := func(revision byte, rules string) node.Event {
		return node.Event{Type: "policy_updated", Policy: &artifact.PolicyPayload{
			PolicyID: uuid.UUID{1}, RevisionID: uuid.UUID{revision}, Fingerprint: [32]byte{byte(len(rules))}, Rules: []byte(rules),
		}}
	}
	for format, again := range map[string]string{formatTable: "  again ", formatJSON: `"again":true`} {
		var out bytes.Buffer
		a := nodeCommands{&app{console: console{stdout: &out, format: format}}}
		var marked []bool
		shown := shownRows{}
		for _, e := range []node.Event{row(1, "[{}]"), row(1, "[{}]"), row(2, "[{}]"), row(2, "[]"), row(2, "[{}]"), row(2, "[{}]")} {
			out.Reset()
			require.NoError(t, a.tellEvent(e, shown, func(uuid.UUID) string { return "web" }))
			marked = append(marked, strings.Contains(out.String(), again))
		}
		require.Equal(t, []bool{false, true, false, false, false, true}, marked, format)
	}
}

// A policy whose rules name peers by selector alone has no plain rule, and is no less the node's.
func TestAPolicyWithoutPlainRulesIsNotDropped(t *testing.T) {
	t.Parallel()
	for omitted, want := range map[int]string{0: "dropped", 3: "policy_updated"} {
		var out bytes.Buffer
		a := nodeCommands{&app{console: console{stdout: &out, format: formatTable}}}
		e := node.Event{ID: 1, Type: node.TypePolicyUpdated, Policy: &artifact.PolicyPayload{Rules: json.RawMessage("[]"), RulesOmitted: omitted}}
		require.NoError(t, a.tellEvent(e, shownRows{}, func(uuid.UUID) string { return "web" }))
		require.Regexp(t, fmt.Sprintf(`%s +web +%d `, want, omitted), out.String())
		out.Reset()
		a.format = formatJSON
		require.NoError(t, a.tellEvent(e, shownRows{}, nil))
		require.Equal(t, omitted > 0, strings.Contains(out.String(), `"rules_omitted":3`), out.String())
	}
}

// A line of a watch fits a terminal of eighty columns.
func TestAWatchFitsItsTerminal(t *testing.T) {
	t.Parallel()
	out := &look{columns: 80}
	a := nodeCommands{&app{console: console{stdout: out, format: formatTable}}}
	at := time.Date(2026, 11, 26, 19, 37, 20, 0, time.UTC)
	require.NoError(t, a.tellLine(time.Time{}, "ID", "EVENT", "POLICY", "RULES", "FINGERPRINT"))
	require.NoError(t, a.tellLine(at, "1223903316509982810", "policy_updated", "shop-app-to-db", "2", "ESmz"))
	require.Equal(t, `TIME       ID                   EVENT           POLICY                     RULES
19:37:20Z  1223903316509982810  policy_updated  shop-app-to-db                 2
`, out.String())
	out = &look{}
	a.stdout = out
	require.NoError(t, a.tellLine(at, "1", "dropped", "web", "0", "-"))
	require.Equal(t, "2026-11-26T19:37:20Z  1                    dropped             web                             0  -\n", out.String())
}

// A person reads what a replay came to as a sentence.
func TestAReplayIsASentence(t *testing.T) {
	t.Parallel()
	require.Equal(t, "The log up to event 7 folds to 1 row, with this digest:\n  ab", replayedText(snapshot.Result{Seq: 7, Rows: 1, Digest: "ab"}))
	require.Equal(t, "The log up to event 7 folds to 2 rows, with this digest:\n  ab", replayedText(snapshot.Result{Seq: 7, Rows: 2, Digest: "ab"}))
}

// A plane that is not trusted is no trouble that ends by itself: what helps is said at once.
func TestAWatchSaysWhatHelpsWhereThePlaneIsNotTrusted(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	a := nodeCommands{&app{console: console{stderr: &said}}}
	a.tellTrouble(fmt.Errorf("fetch the plane's keys: %w", x509.UnknownAuthorityError{}), time.Second)
	require.Contains(t, said.String(), "give its certificate's authority with --ca FILE; resuming in 1s\n")
}

// What a plane, or what took its place, writes is shown, and not obeyed by the terminal.
func TestAWatchShowsNoControlCharactersOfThePlane(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	a := nodeCommands{&app{console: console{stderr: &said}}}
	a.tellTrouble(&node.StatusError{Status: 503, Detail: "\x1b[2Jbehind\nedict: all is well"}, time.Second)
	require.Contains(t, said.String(), `503 Service Unavailable: \x1b[2Jbehind\nedict: all is well; resuming in 1s`)
	require.Equal(t, 1, strings.Count(said.String(), "\n"))
}
