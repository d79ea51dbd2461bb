package admission

import (
	"context"
	"time"
)

// drafting bounds how many policies are compiled at once for those who write them: the
// compiler cannot be interrupted, and code that is made for it keeps a core for seconds.
// Policies of the log wait for nobody.
type drafting struct {
	places  chan struct{}
	authors owners
	patient time.Duration // so long an author waits for a place
}

func newDrafting() *drafting {
	n := spareCores()
	return &drafting{places: make(chan struct{}, n), authors: owners{share: share(n)}, patient: compileTimeout}
}

// begin waits for the author's turn. The turn ends with done. The error is ErrBusy, or
// ctx's own.
func (d *drafting) begin(ctx context.Context, author string) (done func(), err error) {
	timer := time.NewTimer(d.patient)
	defer timer.Stop()
	own := d.authors.lane(author)
	taken := []chan struct{}{}
	leave := func() {
		for _, lane := range taken {
			<-lane
		}
		d.authors.forget(author)
	}
	for _, lane := range []chan struct{}{own, d.places} {
		select {
		case lane <- struct{}{}:
			taken = append(taken, lane)
		case <-timer.C:
			leave()
			return nil, ErrBusy
		case <-ctx.Done():
			leave()
			return nil, ctx.Err()
		}
	}
	return leave, nil
}

// Draft compiles a policy for the author who writes it, or finds it compiled. Errors
// are those of [Compile], and ErrBusy: too many are compiled at once.
func (r *Registry) Draft(ctx context.Context, author string, p Policy) (*Compiled, error) {
	return r.compile(ctx, p, func() (func(), error) { return r.drafting.begin(ctx, author) })
}
