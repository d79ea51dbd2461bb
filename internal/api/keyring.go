package api

import (
	"context"
	"errors"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/keyring"
)

// SignWith has the API sign with a worker's keys, show them and rotate them.
// others are the workers that must hold the next key before.
func (d *Deps) SignWith(keys *keyring.Manager, others func() ([]keyring.Worker, error)) {
	d.Keys = func() []resource.Key { return shownKeys(keys.Trusted()) }
	d.Signer = func() (current, previous Signer) {
		now, _ := keys.Ring().Now()
		if now.Previous != nil { // not a nil signer in an interface
			previous = now.Previous
		}
		return now.Current, previous
	}
	d.RotateKey = func(ctx context.Context, ask Rotation) ([]resource.Key, error) {
		now, err := keys.Rotate(ctx, keyring.Rotation{
			Transition: ask.Transition, Principal: ask.Principal, CorrelationID: ask.CorrelationID, Others: others,
		})
		var refused *keyring.RefusedError
		if errors.As(err, &refused) {
			return nil, &RotationError{Code: rotationCodes[refused.Why], Detail: refused.Detail}
		}
		return shownKeys(now), err
	}
}

// rotationCodes are the codes of what a rotation is refused for.
var rotationCodes = map[error]string{
	keyring.ErrTransition: CodeInvalidTransition, keyring.ErrInTransition: CodeKeyInTransition, keyring.ErrNextKey: CodeNextKeyMissing,
}

func shownKeys(keys []keyring.Key) []resource.Key {
	out := make([]resource.Key, len(keys))
	for i, k := range keys {
		out[i] = resource.Key(k)
	}
	return out
}
