//go:build linux

package enforce

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/knftables"
)

// Patient is a kernel that is waited for that long, and no longer.
func Patient(k Kernel, most time.Duration) Kernel { return patientKernel{k, most} }

type patientKernel struct {
	Kernel
	most time.Duration
}

// Run implements Kernel.
func (p patientKernel) Run(ctx context.Context, tx *knftables.Transaction) error {
	return p.within(ctx, func(ctx context.Context) error { return p.Kernel.Run(ctx, tx) })
}

// List implements Kernel.
func (p patientKernel) List(ctx context.Context) (l *Listing, err error) {
	err = p.within(ctx, func(ctx context.Context) (err error) {
		l, err = p.Kernel.List(ctx)
		return err
	})
	return l, err
}

func (p patientKernel) within(ctx context.Context, do func(context.Context) error) error {
	within, cancel := context.WithTimeout(ctx, p.most)
	defer cancel()
	err := do(within)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("nft did not end within %s, and was killed; see what keeps it, such as another program that loads rules. It is run again", p.most)
	}
	return err
}
