package access

import "time"

// Until is how long the answer of Authenticate holds unless something is folded
// before; the zero time: for ever. Not sure: the credentials are nobody's, a
// certificate's, which ends by itself, or an issuer's, who may change its keys at
// any time.
func (r *Registry) Until(c Credentials) (until time.Time, sure bool) {
	if c.Bearer == "" {
		return until, false
	}
	p, k := r.known(c)
	if p == nil {
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
