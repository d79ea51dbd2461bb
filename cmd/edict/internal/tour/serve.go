package tour

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// serve is `edict serve` in a process of its own, so that it can be killed.
type serve struct {
	binary, dir string
	http, nats  string // addresses; taken at the first start and kept
	cmd         *exec.Cmd
	exited      chan struct{}
	killed      bool
}

func newServe(binary, dir string) *serve {
	return &serve{binary: binary, dir: dir, http: "127.0.0.1:0", nats: "127.0.0.1:0"}
}

// natsDir is where the embedded NATS server keeps its files.
func (s *serve) natsDir() string { return filepath.Join(s.dir, "data", "nats") }

// ready is what a ready file says.
type ready struct {
	HTTP string `json:"http"`
	NATS string `json:"nats"`
	PID  int    `json:"pid"`
}

// start runs the process and returns once it answers.
func (s *serve) start(ctx context.Context) (took time.Duration, err error) {
	file, logFile := filepath.Join(s.dir, "ready.json"), filepath.Join(s.dir, "serve.log")
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	s.cmd = exec.Command(s.binary, "serve", "--data", filepath.Join(s.dir, "data"), "--http", s.http,
		"--nats-listen", s.nats, "--ready-file", file)
	s.cmd.Env = environment()
	s.cmd.Stdout, s.cmd.Stderr = log, log
	began := time.Now()
	if err := s.cmd.Start(); err != nil {
		return 0, err
	}
	s.exited, s.killed = make(chan struct{}), false
	go func(cmd *exec.Cmd, exited chan struct{}) {
		_ = cmd.Wait() // how it ended shows in what it did
		close(exited)
	}(s.cmd, s.exited)
	r, err := s.awaitReady(ctx, file)
	if err != nil {
		text, _ := os.ReadFile(logFile) // the error is reported either way
		return 0, fmt.Errorf("%w; it said:\n%s", err, bytes.TrimSpace(text))
	}
	s.http, s.nats = r.HTTP, strings.TrimPrefix(r.NATS, "nats://")
	return time.Since(began), nil
}

// environment is ours without what would change the plane that is shown.
func environment() (env []string) {
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "EDICT_") {
			env = append(env, e)
		}
	}
	return env
}

func (s *serve) awaitReady(ctx context.Context, file string) (r ready, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	const pause = 5 * time.Millisecond
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		text, err := os.ReadFile(file)
		if err == nil {
			return r, json.Unmarshal(text, &r)
		}
		select {
		case <-tick.C:
		case <-s.exited:
			return r, errors.New("edict serve ended before it was ready")
		case <-ctx.Done():
			return r, fmt.Errorf("edict serve was not ready: %w", ctx.Err())
		}
	}
}

// kill ends the process as a power failure would, without a word.
func (s *serve) kill() error {
	s.killed = true
	if err := s.cmd.Process.Kill(); err != nil {
		return err
	}
	<-s.exited
	return nil
}

// stop ends the process in order. It may have got the signal already, from the
// terminal that sent it to us.
func (s *serve) stop() error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-s.exited:
	case <-time.After(patience):
		return errors.Join(errors.New("edict serve did not stop after SIGTERM"), s.kill())
	}
	if !s.killed && s.cmd.ProcessState.ExitCode() != 0 {
		return fmt.Errorf("edict serve did not stop in order: %s", s.cmd.ProcessState)
	}
	return nil
}
