package access

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/edictdev/edict/internal/backoff"
	"github.com/edictdev/edict/policy"
)

// How often an issuer that is away is asked again: soon, and then less often.
const (
	leastIssuerPause = time.Second
	mostIssuerPause  = 30 * time.Second
)

// LateIssuer is an issuer that could not be asked at the start. It believes nobody until it
// answers.
type LateIssuer struct {
	// Ask finds the issuer, as NewIssuer does.
	Ask func(ctx context.Context) (*OIDC, error)
	// Found is called with the issuer, once, before it is believed.
	Found func(*OIDC)
	Log   *slog.Logger

	now atomic.Pointer[OIDC]
}

var errNotAsked = &AwayError{errors.New("the issuer could not be asked yet for its keys")}

// Verify implements Issuer.
func (l *LateIssuer) Verify(ctx context.Context, token string) (who policy.OIDCIdentity, until time.Time, err error) {
	o := l.now.Load()
	if o == nil {
		return who, until, errNotAsked
	}
	return o.Verify(ctx, token)
}

// Run asks until the issuer answers, or ctx ends.
func (l *LateIssuer) Run(ctx context.Context) error {
	pace := backoff.Backoff{Least: leastIssuerPause, Most: mostIssuerPause}
	for said := ""; pace.Pause(ctx) == nil; {
		o, err := l.Ask(ctx)
		if err == nil {
			l.Found(o)
			l.now.Store(o)
			l.Log.Info("the issuer of identity tokens answers; its tokens are believed from now on")
			return nil
		}
		if why := err.Error(); why != said && ctx.Err() == nil {
			said = why
			l.Log.Warn("the issuer of identity tokens cannot be asked for its keys, so nobody's are believed; trying again", "error", err)
		}
	}
	return nil
}
