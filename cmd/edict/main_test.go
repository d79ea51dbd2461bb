package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/nats-io/nats.go"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/test/leftout"
)

// TestStories runs the stories of testdata. They tell what a person at a
// terminal meets.
func TestStories(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"edict":  typedEdict,
			"ends":   endsWith,
			"plane":  awaitPlane,
			"lines":  awaitLines,
			"nats":   natsServer,
			"bucket": bucketStore,

			"stored": awaitStored,
			"report": reportState,

			"authored": authoredPart,
			"keys":     keepKeys,
			"damage":   damageStore,
			"compiled": compileTree,
			"holds":    holdsTree,
		},
		Condition: func(cond string) (bool, error) {
			if cond != "fixtures" {
				return false, fmt.Errorf("unknown condition %q", cond)
			}
			_, err := gen.AWSFile()
			return err == nil, nil
		},
		Setup: func(env *testscript.Env) error {
			env.Values[terminalOf{}] = new(terminal)
			if aws, err := gen.AWSFile(); err == nil {
				env.Setenv("AWS", aws)
			} else {
				leftout.Less(t, err)
			}
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("TMPDIR", env.WorkDir)
			// A program under the race detector otherwise sleeps a second before it ends.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			// A short command starts in half the time so.
			env.Setenv("GOGC", "400")
			env.Setenv("GOMAXPROCS", "1")
			return nil
		},
	})
}

// endsWith is "ends CODE edict ARGS...": typed at the story's terminal, it must end with that exit
// code. "ends CODE exec COMMAND..." is so of a process.
func endsWith(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || args[1] != asEdict && (args[1] != "exec" || len(args) < 3) {
		ts.Fatalf("usage: ends CODE edict ARGS... or ends CODE exec COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if args[1] == asEdict {
		got = ts.Value(terminalOf{}).(*terminal).run(ts, args[2:])
	} else if err := ts.Exec(args[2], args[3:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// awaitPlane is "plane FILE": it waits for the ready file of a plane that was started in the
// background, and points EDICT_SERVER, HTTP and NATS at it.
func awaitPlane(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: plane READYFILE")
	}
	await(ts, "the plane was not ready in time", func() bool {
		text, err := os.ReadFile(ts.MkAbs(args[0]))
		if err != nil {
			return false
		}
		var r ready
		ts.Check(json.Unmarshal(text, &r))
		ts.Setenv("EDICT_SERVER", "http://"+r.HTTP)
		ts.Setenv("HTTP", r.HTTP)
		ts.Setenv("ADMIN", r.Admin)
		if r.NATS != nil {
			ts.Setenv("NATS", *r.NATS)
			ts.Setenv("NATSLISTEN", strings.TrimPrefix(*r.NATS, "nats://"))
		}
		return true
	})
}

// damageStore is "damage DIR": in the read model of a stopped plane it renames the policy web.
func damageStore(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: damage DIR")
	}
	db, err := pebble.Open(filepath.Join(ts.MkAbs(args[0]), "store"), &pebble.Options{FormatMajorVersion: pebble.FormatValueSeparation})
	ts.Check(err)
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte("p"), UpperBound: []byte("q")})
	ts.Check(err)
	for ok := it.First(); ok; ok = it.Next() {
		ts.Check(db.Set(it.Key(), bytes.Replace(it.Value(), []byte("web"), []byte("wub"), 1), pebble.Sync))
	}
	ts.Check(errors.Join(it.Close(), db.Close()))
}

// reportState is "report NODE OUTCOME [REASON]": the node reports what it should have now.
func reportState(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: report NODE OUTCOME [REASON]")
	}
	c, err := client.New(ts.Getenv("EDICT_SERVER"), client.Options{})
	ts.Check(err)
	state, err := c.Nodes.State(context.Background(), args[0], client.StateQuery{})
	ts.Check(err)
	var has resource.NodeState
	ts.Check(json.Unmarshal(state.Body, &has))
	said := resource.Applied{Version: state.LogSeq, Fingerprint: has.Policy.Fingerprint, Outcome: args[1], Reason: strings.Join(args[2:], " ")}
	await(ts, "the report was not taken in time", func() bool {
		return c.Nodes.ReportApplied(context.Background(), args[0], said) == nil
	})
}

// awaitLines is "lines N FILE": it waits until the file has so many lines.
func awaitLines(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: lines N FILE")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	await(ts, args[1]+" has too few lines", func() bool {
		text, err := os.ReadFile(ts.MkAbs(args[1]))
		return err == nil && bytes.Count(text, []byte{'\n'}) >= want
	})
}

// awaitStored is "stored STREAM N": it waits until the plane's server holds so many messages in a
// stream, the only ones that it ever stored there.
func awaitStored(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: stored STREAM N")
	}
	want, err := strconv.ParseUint(args[1], 10, 64)
	ts.Check(err)
	nc, err := nats.Connect(ts.Getenv("NATS"))
	ts.Check(err)
	defer nc.Close()
	js, err := nc.JetStream()
	ts.Check(err)
	await(ts, args[0]+" does not hold "+args[1]+" messages", func() bool {
		info, err := js.StreamInfo(args[0])
		return err == nil && info.State.Msgs == want && info.State.LastSeq == want
	})
}

// authoredPart is "authored LIST OUT": of listed policies, what an author wrote, by slug.
func authoredPart(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: authored LIST OUT")
	}
	var all []resource.Policy
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &all))
	drafts := make([]resource.Draft, len(all))
	for i, p := range all {
		drafts[i] = resource.Draft{Slug: p.Slug, DisplayName: p.DisplayName, Selector: p.Head.Selector, Rules: p.Head.Rules}
	}
	slices.SortFunc(drafts, func(a, b resource.Draft) int { return strings.Compare(a.Slug, b.Slug) })
	out, err := json.MarshalIndent(drafts, "", " ")
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), out, 0o600))
}

// keepKeys is "keys FILE": it writes the keys that the plane shows.
func keepKeys(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: keys FILE")
	}
	resp, err := http.Get(ts.Getenv("EDICT_SERVER") + "/v1/keys")
	ts.Check(err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), text, 0o600))
}

// await asks until cond holds.
func await(ts *testscript.TestScript, otherwise string, cond func() bool) {
	// Under the race detector, beside the rest of the campaign, the demo takes more than a minute.
	const patience, pause = 3 * time.Minute, 5 * time.Millisecond
	for deadline := time.Now().Add(patience); !cond(); time.Sleep(pause) {
		if time.Now().After(deadline) {
			ts.Fatalf("%s", otherwise)
		}
	}
}
