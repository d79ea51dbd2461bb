//go:build linux

package agent

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/internal/enforce"
)

// tableFile keeps the last table that was applied, verbatim, so that it is in
// force again after a boot before the plane was asked.
const tableFile = "table.json"

// begin says that nothing is in force yet. What the last life said may not be so any more, such
// as after a boot, and nft or the plane may take minutes until this one knows better. It returns
// the file that said it.
func (e *Enforcer) begin() (was []byte) {
	was, _ = e.opt.FS.ReadFile(e.root.path(statusFile)) // nothing is decided by one that cannot be read
	e.status.Error = "the agent has just begun, and has put nothing in force yet"
	if err := e.keepStatus(); err != nil {
		e.opt.Log.Warn("the status cannot be written", "node", e.opt.Node, "error", err)
	}
	e.status.Error = ""
	return was
}

// again applies the kept table. Why it cannot be applied, or read, is in the status: the plane
// may give one all the same, so it is no reason to end. The error is fs.ErrNotExist where none
// is kept. was is the status file of the last life.
func (e *Enforcer) again(ctx context.Context, was []byte) error {
	text, err := e.opt.FS.ReadFile(e.root.path(tableFile))
	if errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		err = e.take(ctx, text)
	}
	switch {
	case err == nil:
		// What could not be kept was another table, which the plane confirmed.
		if was, err := parseStatus(was); err == nil && was.Node == e.opt.Node && was.Fingerprint == e.status.Fingerprint {
			e.status.ConfirmedAt = was.ConfirmedAt
		}
	case ctx.Err() == nil:
		e.kept, e.spoilt = text, err
		e.opt.Log.Error("the kept table cannot be applied; the plane is asked for one", "node", e.opt.Node, "error", err)
		e.status.fail(fmt.Errorf("the kept table cannot be applied: %w", err))
		e.logged = e.status // that is said
	}
	return err
}

// since adds to why there is no table what else is to be known until one was applied: that the
// kept one cannot be, and that the kernel holds one of an earlier life.
func (e *Enforcer) since(ctx context.Context, err error) error {
	if err == nil || e.ruleset != nil {
		return err
	}
	// A kernel that took the plane's table, and made another of it, holds that.
	took := errors.As(err, new(*enforce.MismatchError))
	if l, unlisted := e.opt.Kernel.List(ctx); !took && unlisted == nil && l != nil {
		err = fmt.Errorf("the kernel still holds the table from before the agent was started: %w", err)
	}
	if e.spoilt != nil {
		err = fmt.Errorf("the kept table cannot be applied (%s); %w", brief(e.spoilt), err)
	}
	return err
}

// ask is what the plane is asked for: what is new beside the kept table. Where somebody took that
// away, or changed it, a boot would put nothing in force, or another: the plane sends it whole.
func (e *Enforcer) ask() client.TableQuery {
	if e.etag == "" {
		return client.TableQuery{Held: e.held()}
	}
	text, err := e.opt.FS.ReadFile(e.root.path(tableFile))
	if err != nil || sha256.Sum256(text) != e.written {
		return client.TableQuery{}
	}
	return client.TableQuery{StateQuery: client.StateQuery{ETag: e.etag}, Held: e.held()}
}

// held is the kept table, of which the plane may send the changes; nil: there is none.
func (e *Enforcer) held() *client.HeldTable {
	var held client.HeldTable
	sum, err := base64.StdEncoding.DecodeString(e.status.Fingerprint)
	if err != nil || e.status.unkept || copy(held.Fingerprint[:], sum) != len(held.Fingerprint) {
		return nil
	}
	held.Read = func() ([]byte, error) {
		text, err := e.opt.FS.ReadFile(e.root.path(tableFile))
		if err != nil {
			return nil, err
		}
		return enforce.Contents(text)
	}
	return &held
}
