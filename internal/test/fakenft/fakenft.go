//go:build linux

package fakenft

import (
	"context"
	"sync"

	"sigs.k8s.io/knftables"

	"github.com/edictdev/edict/internal/enforce"
)

// Kernel is an enforce.Kernel. The fields may be set while nobody uses it.
type Kernel struct {
	*knftables.Fake

	mu     sync.Mutex
	refuse error
	runs   int
}

// New is a kernel without the table in force.
func New() *Kernel { return &Kernel{Fake: knftables.NewFake(enforce.Family, enforce.TableName)} }

// NewAudit is a kernel without the table of what would be denied.
func NewAudit() *Kernel {
	return &Kernel{Fake: knftables.NewFake(enforce.Family, enforce.AuditTableName)}
}

// Refuse has every transaction fail; nil: none any more.
func (k *Kernel) Refuse(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refuse = err
}

// Runs counts the transactions that were taken.
func (k *Kernel) Runs() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.runs
}

// Run implements enforce.Kernel.
func (k *Kernel) Run(ctx context.Context, tx *knftables.Transaction) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.refuse != nil {
		return k.refuse
	}
	k.runs++
	return k.Fake.Run(ctx, tx)
}

// List implements enforce.Kernel.
func (k *Kernel) List(context.Context) (*enforce.Listing, error) {
	k.RLock()
	defer k.RUnlock()
	if k.Table == nil {
		return nil, nil
	}
	l := enforce.NewListing()
	for _, c := range k.Table.Chains {
		var rules []string
		for _, r := range c.Rules {
			rules = append(rules, r.Rule)
		}
		l.AddChain(&c.Chain, rules)
	}
	for _, m := range k.Table.Maps {
		l.AddMap(&m.Map)
		for _, e := range m.Elements {
			l.AddElement(e)
		}
	}
	for name, c := range k.Table.Counters {
		l.Counters[name] = 0
		if c.Packets != nil {
			l.Counters[name] = *c.Packets
		}
	}
	return l, nil
}

// Forget empties the kernel, as somebody may who has the right to.
func (k *Kernel) Forget() {
	k.Lock()
	defer k.Unlock()
	k.Table, k.Tables = nil, nil
}
