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
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/internal/test/gen"
)

const (
	applyPolicies = 617 // what a cloud provider's published ranges come to
	applyTimes    = 5   // of each figure within one taking
	applyAtOnce   = 24  // requests in flight, as the command has
)

// applyAgain measures edict policy apply of policies that the plane has already, the
// whole command. The floor sends the same requests over connections that are open, with
// bodies that are ready: it reads no file, looks for no warning and starts no process.
func applyAgain(ctx context.Context, e *env) (lines []line, err error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	s, err := serveEdict(ctx, e)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	policies := gen.New(1).AWSLike(e.scale(applyPolicies))
	var text bytes.Buffer
	for _, p := range policies {
		text.Write(append(p.JSON(), '\n'))
	}
	file := filepath.Join(e.dir, "policies.ndjson")
	if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
		return nil, err
	}
	if _, err := s.apply(ctx, e, file, fmt.Sprintf("%d created", len(policies))); err != nil {
		return nil, err
	}
	again, err := s.applyRequests(ctx, policies)
	if err != nil {
		return nil, err
	}
	var took, floor samples
	for range e.rounds() * applyTimes {
		d, err := s.apply(ctx, e, file, fmt.Sprintf("%d unchanged", len(policies)))
		if err != nil {
			return nil, err
		}
		took = append(took, float64(d.Microseconds())/1e3)
		began := time.Now()
		if err := again(ctx); err != nil {
			return nil, fmt.Errorf("floor: %w", err)
		}
		floor = append(floor, float64(time.Since(began).Microseconds())/1e3)
	}
	l := figure(fmt.Sprintf("%d policies, unchanged", len(policies)), "ms", took).beside("the same requests, their bodies ready, over open connections", floor).atMost(150)
	l.note("the whole command, from its start to its end; a file of %.0f kB, strict durability", float64(text.Len())/1e3)
	return []line{*l}, nil
}

// apply runs the command, which must say what it did.
func (s *served) apply(ctx context.Context, e *env, file, says string) (time.Duration, error) {
	cmd := exec.CommandContext(ctx, e.binary, "policy", "apply", "-f", file, "--server", s.url(""))
	cmd.Env = plainEnvironment()
	began := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(began)
	if err == nil && !strings.Contains(string(out), says) {
		err = fmt.Errorf("it does not say %q", says)
	}
	if err != nil {
		return 0, fmt.Errorf("edict policy apply: %w: %.500s", err, out)
	}
	return took, nil
}

// applyRequests returns what sends the requests of an apply, made before.
func (s *served) applyRequests(ctx context.Context, policies []gen.Policy) (send func(context.Context) error, err error) {
	paths, err := s.policyPaths(ctx)
	if err != nil {
		return nil, err
	}
	bodies := map[string][]byte{} // by path
	for _, p := range policies {
		var body map[string]json.RawMessage
		if err := json.Unmarshal(p.JSON(), &body); err != nil {
			return nil, err
		}
		delete(body, "slug")
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		bodies[paths[p.Slug]] = text
	}
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: applyAtOnce}}
	return func(ctx context.Context) error {
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(applyAtOnce)
		for path, body := range bodies {
			g.Go(func() error { return patch(ctx, c, s.url(path), body) })
		}
		return g.Wait()
	}, nil
}

// policyPaths are the paths of all policies, by slug.
func (s *served) policyPaths(ctx context.Context) (map[string]string, error) {
	c, err := client.New(s.url(""), client.Options{})
	if err != nil {
		return nil, err
	}
	paths := map[string]string{}
	for p, err := range c.Policies.All(ctx, project) {
		if err != nil {
			return nil, err
		}
		paths[p.Slug] = fmt.Sprintf("/v1/projects/%s/policies/%s", project, p.ID)
	}
	return paths, nil
}

func patch(ctx context.Context, c *http.Client, url string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPatch, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("PATCH %s: %s", url, resp.Status)
	}
	return nil
}
