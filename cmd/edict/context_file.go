package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/edictdev/edict/cmd/internal/cli"
	"github.com/edictdev/edict/internal/access"
)

// planeContext is a plane that a person names, and who they are there. It holds no
// secret: a token stays in its own file.
type planeContext struct {
	Name      string `json:"name"`
	Server    string `json:"server"`
	Admin     string `json:"admin_server,omitempty"`
	CA        string `json:"ca,omitempty"`
	TokenFile string `json:"token_file,omitempty"`
	Project   string `json:"project,omitempty"`
	NATS      string `json:"nats_context,omitempty"` // of the nats command line
}

// contextFile is what a person's contexts are kept in.
type contextFile struct {
	Current  string         `json:"current,omitempty"`
	Contexts []planeContext `json:"contexts"` // by name
}

// contextPath is where the contexts of whoever runs this are.
func contextPath() (string, error) {
	dir := os.Getenv("XDG_CONFIG_HOME")
	if dir == "" {
		var err error
		if dir, err = os.UserConfigDir(); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, "edict", "contexts.json"), nil
}

// readContexts reads them; none where there is no file.
func readContexts() (f contextFile, err error) {
	path, err := contextPath()
	if err != nil {
		return f, nil //nolint:nilerr // nobody's, such as a service's
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return f, cli.Failed(cli.Unreadable, "contexts: %v", err)
	}
	const others = 0o022
	if info.Mode().Perm()&others != 0 {
		return f, cli.Failed(cli.Unreadable, "contexts: others may write %s, and so send your token where they like: chmod 600 it", path)
	}
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &f)
	}
	if err != nil {
		return f, cli.Failed(cli.Unreadable, "contexts: %s: %v", path, err)
	}
	return f, nil
}

// changeContexts has the file as change leaves it, or as it was when that fails. Commands that
// do so at once wait for each other.
func changeContexts(ctx context.Context, change func(*contextFile) error) error {
	path, err := contextPath()
	if err != nil {
		return cli.Failed(cli.Unreadable, "contexts: %v", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	release, err := access.Alone(ctx, path)
	if err != nil {
		return fmt.Errorf("contexts: %w", err)
	}
	defer release()
	f, err := readContexts()
	if err != nil {
		return err
	}
	if err := change(&f); err != nil {
		return err
	}
	return f.write(path)
}

// write replaces the file as a whole.
func (f contextFile) write(path string) error {
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	made, err := os.CreateTemp(filepath.Dir(path), "contexts-*") // of mode 0600
	if err != nil {
		return err
	}
	_, err = made.Write(append(text, '\n'))
	if err = errors.Join(err, made.Close()); err == nil {
		err = os.Rename(made.Name(), path)
	}
	if err != nil {
		os.Remove(made.Name())
		return fmt.Errorf("contexts: %w", err)
	}
	return nil
}

// find is the place of a context.
func (f contextFile) find(name string) (at int, err error) {
	at = slices.IndexFunc(f.Contexts, func(c planeContext) bool { return c.Name == name })
	if at < 0 {
		return at, cli.Failed(cli.NotFound, "no context %.80q; 'edict context list' lists them", name)
	}
	return at, nil
}
