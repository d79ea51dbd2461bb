package plane

import (
	"context"
	"fmt"
	"slices"

	"github.com/edictdev/edict/internal/datadir"
	"github.com/edictdev/edict/internal/disk"
	"github.com/edictdev/edict/internal/integrity"
	"github.com/edictdev/edict/internal/listener"
	"github.com/edictdev/edict/internal/relay"
)

// preflight finds what stands against a start, before anything is changed.
// Faults of the command line come first, then the lock on the data, then
// ports: who starts a second plane on one directory should hear that.
func preflight(ctx context.Context, opt Options, onClose func(func())) (auth *listener.Auth, found *datadir.Found, err error) {
	addresses := opt.addresses()
	check := addresses.CheckLoopback
	if opt.Access.Exposable() {
		check = addresses.CheckForm
	}
	if err := check(); err != nil {
		return nil, nil, err
	}
	if auth, err = listener.Load(ctx, opt.Access, opt.Log); err != nil {
		return nil, nil, err
	}
	onClose(auth.Close)
	if opt.NoAPI {
		addresses.Admin = "" // with the API alone
	}
	for _, check := range []func() error{opt.dir().Check, opt.checkLock, opt.checkKey, addresses.CheckFree} {
		if err := check(); err != nil {
			return nil, nil, err
		}
	}
	found, err = datadir.Find(datadir.Options{Dir: opt.dir(), External: opt.external(), Existing: opt.Existing, Relaxed: opt.Relaxed, Log: opt.Log})
	if err != nil {
		return nil, nil, err
	}
	if err := integrity.Advise(found.CheckBlocks()); err != nil {
		return nil, nil, err
	}
	if err := disk.NewGuard(opt.diskOptions(datadir.Dir(opt.dir().Existing()))).CheckStart(); err != nil {
		return nil, nil, err
	}
	if opt.Checked != nil {
		err = opt.Checked()
	}
	return auth, found, err
}

func (o Options) checkLock() error {
	if o.external() {
		return nil // the store has a lock of its own
	}
	return o.dir().CheckLock()
}

func (o Options) checkKey() error {
	files := o.keyFiles()
	if err := files.CheckSigning(); err != nil {
		return &datadir.UnusableError{What: "--signing-key", Err: err}
	}
	if err := files.CheckNext(); err != nil {
		return &datadir.UnusableError{What: "--next-signing-key", Err: err}
	}
	return nil
}

// checkAnnounced refuses partitions that a plane does not have: nobody would publish
// those that were meant.
func (o Options) checkAnnounced(partitions int) error {
	none := slices.DeleteFunc(slices.Clone(o.Announce), func(id int) bool { return 0 <= id && id < partitions })
	if len(none) == 0 {
		return nil
	}
	slices.Sort(none)
	return &datadir.UnusableError{What: "--partitions", Err: fmt.Errorf("%s are none of the plane's %d partitions, which are 0-%d: name those",
		relay.Ranges(none), partitions, partitions-1)}
}
