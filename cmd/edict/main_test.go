package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"edict": main})
}

// TestStories runs the stories of testdata. They tell what a person at a
// terminal meets.
func TestStories(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"ends":  endsWith,
			"plane": awaitPlane,
			"lines": awaitLines,

			"damage": damageStore,
		},
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("TMPDIR", env.WorkDir)
			// A program under the race detector otherwise sleeps a second before it
			// ends, and a story runs a dozen of them.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			return nil
		},
	})
}

// endsWith is "ends CODE COMMAND...": it runs a command that must end with that exit code.
func endsWith(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: ends CODE COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
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
		if r.NATS != nil {
			ts.Setenv("NATS", *r.NATS)
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

// await asks until cond holds.
func await(ts *testscript.TestScript, otherwise string, cond func() bool) {
	const patience, pause = time.Minute, 5 * time.Millisecond
	for deadline := time.Now().Add(patience); !cond(); time.Sleep(pause) {
		if time.Now().After(deadline) {
			ts.Fatalf("%s", otherwise)
		}
	}
}
