// Command embed shows how a Go program runs a plane of its own: it starts one on a
// directory, registers a node, applies a policy, follows the node until the policy
// arrives there, prints the rules, and ends.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/node"
	"github.com/edictdev/edict/plane"
)

func main() {
	data := flag.String("data", "", "directory of the plane (default a temporary one)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *data, os.Stdout); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "embed:", err)
		os.Exit(1)
	}
}

// run runs a plane on dir for as long as its use takes.
func run(ctx context.Context, dir string, out io.Writer) (err error) {
	if dir == "" {
		if dir, err = os.MkdirTemp("", "embed-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	p, err := plane.Open(ctx, plane.Config{Data: dir, HTTP: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	defer p.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error { return p.Run(ctx) })
	parts.Go(func() error {
		defer stop() // which ends the plane
		select {
		case <-p.Ready():
			return use(ctx, p.URL(), out)
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return parts.Wait()
}

// use registers a node and prints the rules of the first policy that reaches it.
func use(ctx context.Context, url string, out io.Writer) error {
	c, err := client.New(url, client.Options{Principal: "embed"})
	if err != nil {
		return err
	}
	project := uuid.MustParse("5b8f3c9e-0d2a-4f61-9c3d-1e7a4b6d8f02") // a project exists by being used
	facts := resource.Facts{Labels: map[string]string{"role": "web"}, Addresses: []string{"10.0.0.1"}}
	if _, _, err := c.Nodes.Put(ctx, project, "web-1", facts); err != nil {
		return err
	}
	parts, ctx := errgroup.WithContext(ctx)
	following, connected := context.WithCancel(ctx)
	waiting, received := context.WithCancel(ctx)
	parts.Go(func() error {
		defer connected()
		f := node.NewFollower(url, "web-1", node.Options{Connected: connected})
		return f.Run(waiting, func(e node.Event) error {
			if e.Policy != nil {
				fmt.Fprintf(out, "%s received policy %s: %s\n", e.Policy.NodeID, e.Policy.PolicyID, e.Policy.Rules)
				received()
			}
			return nil
		})
	})
	parts.Go(func() error {
		<-following.Done() // the policy comes as an event then, and not with the state before
		_, err := c.Policies.Create(ctx, project, resource.Draft{
			Slug:     fmt.Sprintf("https-%d", time.Now().UnixNano()),
			Selector: resource.Selector{Source: "role=web", Destination: "role=web"},
			Rules:    []resource.Rule{{Action: "allow", Protocol: "tcp", SourceCIDR: "10.0.0.0/8", DestinationCIDR: "10.0.0.1/32", Ports: &resource.Ports{From: 443, To: 443}}},
		})
		return err
	})
	return parts.Wait()
}
