package plane

import (
	"context"
	"errors"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/keyring"
	"github.com/edictdev/edict/internal/streams"
)

// keyFiles are where this worker's keys lie.
func (p *Plane) keyFiles() keyring.Files {
	if p.opt.SigningKey != "" {
		return keyring.Files{Signing: p.opt.SigningKey, Next: p.opt.NextSigningKey}
	}
	return keyring.Files{Signing: p.dir.SigningKey(), Next: p.opt.NextSigningKey, Made: p.dir.Keys()}
}

// openKeys loads this worker's keys and goes by the plane's record.
func (p *Plane) openKeys(ctx context.Context) (err error) {
	p.keys, err = keyring.Load(keyring.Options{
		Files: p.keyFiles(), Log: p.stream, Stopped: p.alarm.Raised, LeastTransition: p.opt.leastTransition, Logger: p.log,
		Open: func(ctx context.Context) (keyring.Bucket, error) {
			b, err := streams.OpenMeta(ctx, p.conn)
			if err != nil {
				return nil, err // not a nil bucket in an interface
			}
			return b, nil
		},
	})
	if err != nil {
		return err
	}
	return p.keys.Open(ctx)
}

// keysNow are the plane's public keys, as nodes may trust them now.
func (p *Plane) keysNow() []resource.Key { return shownKeys(p.keys.Trusted()) }

func shownKeys(keys []keyring.Key) []resource.Key {
	out := make([]resource.Key, len(keys))
	for i, k := range keys {
		out[i] = resource.Key(k)
	}
	return out
}

// rotateKey replaces the plane's key, for api.Deps.
func (p *Plane) rotateKey(ctx context.Context, ask api.Rotation) ([]resource.Key, error) {
	keys, err := p.keys.Rotate(ctx, keyring.Rotation{
		Transition: ask.Transition, Principal: ask.Principal, CorrelationID: ask.CorrelationID, Others: p.otherWorkers,
	})
	var refused *keyring.RefusedError
	if errors.As(err, &refused) {
		code := map[error]string{
			keyring.ErrTransition: api.CodeInvalidTransition, keyring.ErrInTransition: api.CodeKeyInTransition, keyring.ErrNextKey: api.CodeNextKeyMissing,
		}[refused.Why]
		return nil, &api.RotationError{Code: code, Detail: refused.Detail}
	}
	return shownKeys(keys), err
}

// otherWorkers are those that are alive beside this one, and their keys.
func (p *Plane) otherWorkers() (others []keyring.Worker, err error) {
	err = errors.New("the other workers are not known yet")
	for _, w := range p.workers.Live() {
		if w.Owner == p.owner {
			err = nil
			continue
		}
		others = append(others, keyring.Worker{Name: w.Name, Keys: w.Keys})
	}
	return others, err
}
