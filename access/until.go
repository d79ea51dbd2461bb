package access

import (
	"context"
	"strings"
	"time"
)

// Until is how long the answer of Authenticate holds unless something is folded
// before; the zero time: for ever. Not sure: the credentials are nobody's, or an
// issuer's, who may change its keys at any time.
func (r *Registry) Until(ctx context.Context, c Credentials) (until time.Time, sure bool) {
	if strings.Count(c.Bearer, ".") == 2 {
		return until, false
	}
	_, k, err := r.identify(ctx, c)
	if err != nil {
		return until, false
	}
	first, ok := r.Snapshot().credentials[k[0]][k]
	if !ok {
		return until, false
	}
	held := first.holder()
	if held == nil {
		return until, false
	}
	if held.expires != 0 {
		until = time.Unix(0, held.expires)
	}
	return until, true
}
