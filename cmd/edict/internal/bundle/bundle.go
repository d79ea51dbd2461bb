// Package bundle collects what somebody needs who helps with a plane that he cannot reach: what
// it says of itself, in one archive, without secrets and without what policies or nodes say.
package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/edictdev/edict/api/client"
)

// Part is one file of a bundle.
type Part struct {
	Name string // of the file
	What string // it holds, for who opens the bundle
	Read func(ctx context.Context) ([]byte, error)
}

// JSON is a part that asks for something, and holds the answer indented.
func JSON[T any](name, what string, ask func(ctx context.Context) (T, error)) Part {
	return Part{name, what, func(ctx context.Context) ([]byte, error) {
		got, err := ask(ctx)
		if err != nil {
			return nil, err
		}
		text, err := json.MarshalIndent(got, "", "  ")
		return append(text, '\n'), err
	}}
}

// OfPlane are the parts that a plane is asked for.
func OfPlane(c *client.Client) []Part {
	profile := func(name string) func(context.Context) ([]byte, error) {
		return func(ctx context.Context) ([]byte, error) { return c.Profile(ctx, name) }
	}
	const rejections = 200
	return []Part{
		JSON("status.json", "workers, the log and its growth, partitions, how many nodes hold what they must", func(ctx context.Context) (any, error) { return c.Status(ctx, false) }),
		JSON("rejected.json", "the newest events that the fold refused, and the codes that say why", func(ctx context.Context) (any, error) { return newestRefused(ctx, c, rejections) }),
		JSON("fleet.json", "how many nodes held what they must, in the last hour", func(ctx context.Context) (any, error) { return c.FleetHistory(ctx) }),
		{"metrics.txt", "the metrics of the worker that answered", c.Metrics},
		{"goroutine.pprof", "what its goroutines do", profile("goroutine")},
		{"heap.pprof", "what holds its memory", profile("heap")},
	}
}

// patience bounds one part.
const patience = 10 * time.Second

// Write writes a bundle: the parts below a folder, each without its secrets, and README.txt, which
// says what they are and why one is missing. It returns how many are missing.
func Write(ctx context.Context, out io.Writer, folder string, at time.Time, parts []Part, hide Redactor) (missing int, err error) {
	squeezed := gzip.NewWriter(out)
	files := tar.NewWriter(squeezed)
	add := func(name string, text []byte) error {
		head := &tar.Header{Name: path.Join(folder, name), Mode: 0o600, Size: int64(len(text)), ModTime: at}
		if err := files.WriteHeader(head); err != nil {
			return err
		}
		_, err := files.Write(text)
		return err
	}
	var index strings.Builder
	fmt.Fprintf(&index, "What an edict plane said of itself at %s.\nTokens, passwords and private keys are replaced by %s.\n\n", at.UTC().Format(time.RFC3339), hidden)
	for _, p := range parts {
		text, failed := read(ctx, p)
		if ctx.Err() != nil {
			return missing, ctx.Err()
		}
		if failed != nil {
			missing++
			fmt.Fprintf(&index, "%-16s missing: %s\n", p.Name, hide.Text(failed.Error()))
			continue
		}
		fmt.Fprintf(&index, "%-16s %s\n", p.Name, p.What)
		if !strings.HasSuffix(p.Name, ".pprof") { // numbers and names of functions alone, compressed
			text = hide.Bytes(text)
		}
		if err := add(p.Name, text); err != nil {
			return missing, err
		}
	}
	if err := add("README.txt", []byte(index.String())); err != nil {
		return missing, err
	}
	if err := files.Close(); err != nil {
		return missing, err
	}
	return missing, squeezed.Close()
}

func read(ctx context.Context, p Part) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	text, err := p.Read(ctx)
	return bytes.Clone(text), err
}
