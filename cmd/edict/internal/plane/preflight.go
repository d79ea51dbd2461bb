package plane

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/edictdev/edict/disk"
	"github.com/edictdev/edict/projector"
	"github.com/edictdev/edict/streams"
)

// UnusableError is a file or directory that was given and cannot be used.
type UnusableError struct {
	What string // as the command line calls it
	Err  error
}

// Error says which, and why.
func (e *UnusableError) Error() string { return e.What + ": " + e.Err.Error() }

// Unwrap is the reason.
func (e *UnusableError) Unwrap() error { return e.Err }

// preflight finds what stands against a start, before anything is changed.
// Faults of the command line come first, then the lock on the data, then
// ports: who starts a second plane on one directory should hear that.
func (p *Plane) preflight(ctx context.Context) error {
	entrance := func() error { return p.openEntrance(ctx) }
	for _, check := range []func() error{p.checkAddresses, entrance, p.checkData, p.checkLocks, p.checkKey, p.checkPorts, p.checkStore, p.checkPlace, p.checkBlocks, p.checkDisk} {
		if err := check(); err != nil {
			return err
		}
	}
	if p.opt.Checked != nil {
		return p.opt.Checked()
	}
	return nil
}

func (p *Plane) checkData() error {
	info, err := os.Stat(p.opt.Data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // it is made
	case err != nil:
		return &UnusableError{"--data", err}
	case !info.IsDir():
		return &UnusableError{"--data", fmt.Errorf("%s is not a directory; name one, it is made when absent", p.opt.Data)}
	}
	return writable(p.opt.Data)
}

// writable says why nothing can be written to a directory.
func writable(dir string) error {
	f, err := os.CreateTemp(dir, ".edict-*")
	if err == nil {
		err = errors.Join(f.Close(), os.Remove(f.Name()))
	}
	switch {
	case errors.Is(err, syscall.EROFS):
		return &UnusableError{"--data", fmt.Errorf("%s is on a file system that is mounted read-only; mount it for writing, and see the system's log why it is not: %w", dir, err)}
	case errors.Is(err, fs.ErrPermission):
		return &UnusableError{"--data", fmt.Errorf("this user may not write to %s; give it the directory, or name another: %w", dir, err)}
	}
	return nil // a full disk is told by its measure
}

func (p *Plane) checkLocks() error {
	if p.opt.NATS != "" {
		return nil // the store's own lock tells
	}
	err := inUse(streams.CheckDir(p.natsDir()), "--data", p.opt.Data)
	var used *InUseError
	if err != nil && !errors.As(err, &used) {
		return &UnusableError{"--data", err}
	}
	return err
}

func (p *Plane) checkKey() error {
	files := p.keyFiles()
	if err := files.CheckSigning(); err != nil {
		return &UnusableError{"--signing-key", err}
	}
	if err := files.CheckNext(); err != nil {
		return &UnusableError{"--next-signing-key", err}
	}
	return nil
}

func (p *Plane) checkPorts() error {
	if !p.opt.NoAPI {
		if err := probe(p.opt.HTTP); err != nil {
			return inUse(err, "--http", p.opt.HTTP)
		}
		if at := p.opt.Access.Admin; at != "" {
			if err := probe(at); err != nil {
				return inUse(err, "--admin", at)
			}
		}
	}
	if p.opt.NATS != "" || p.opt.NATSListen == "" || p.opt.NATSListen == "none" {
		return nil
	}
	return inUse(probe(p.opt.NATSListen), "--nats-listen", p.opt.NATSListen)
}

func probe(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return l.Close()
}

// checkStore refuses a store that a newer binary wrote, or that was folded
// from another log than the one beside it.
func (p *Plane) checkStore() error {
	id, found, err := projector.Inspect(p.storeDir())
	if errors.As(err, &p.corrupt) {
		return p.checkCorrupt()
	}
	if err != nil || !found {
		return err
	}
	if id.Schema > projector.SchemaVersion {
		return &projector.SchemaError{Dir: p.storeDir(), Have: id.Schema, Know: projector.SchemaVersion}
	}
	p.found = &id
	if p.opt.NATS != "" {
		return nil // asked once connected
	}
	created, there, err := streams.StoredLog(p.natsDir())
	if err != nil {
		return &UnusableError{"--data", err}
	}
	return p.checkLog(created, there)
}

// checkLog holds the log at hand against the one the store was folded from.
func (p *Plane) checkLog(created time.Time, there bool) error {
	if p.found == nil || there && created.Equal(p.found.Created) {
		return nil
	}
	detail := "there is no log here"
	if there {
		detail = fmt.Sprintf("this one was created %s", created.Format(time.RFC3339Nano))
	}
	return &projector.OtherLogError{Dir: p.storeDir(), Detail: fmt.Sprintf("that was created %s, %s", p.found.Created.Format(time.RFC3339Nano), detail)}
}

func (p *Plane) checkDisk() error {
	dir := p.opt.Data
	for {
		if _, err := os.Stat(dir); err == nil || filepath.Dir(dir) == dir {
			break
		}
		dir = filepath.Dir(dir)
	}
	return disk.NewGuard(p.diskOptions(dir)).CheckStart()
}

// InUseError means that another process has what this one needs.
type InUseError struct{ Detail string }

// Error says what is in use and what to do.
func (e *InUseError) Error() string { return e.Detail }

// inUse makes the system's word for a taken address or directory one that says
// what to do.
func inUse(err error, flag, what string) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return &InUseError{fmt.Sprintf("%s is in use by another process; stop it, or choose another with %s (port 0 takes a free one)", what, flag)}
	case errors.Is(err, syscall.EWOULDBLOCK):
		return &InUseError{fmt.Sprintf("data directory %s is in use by another process; stop it, or choose another with --data", what)}
	}
	return err
}
