//go:build linux

package enforce

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"sigs.k8s.io/knftables"
)

// The tables that are ours are of this family. Nothing outside them is read or
// written.
const (
	Family    = knftables.InetFamily
	TableName = "edict" // of what is in force
)

// RemoveCommand takes everything that we deny out of the kernel.
const RemoveCommand = "nft delete table inet edict"

// Kernel is where a ruleset goes.
type Kernel interface {
	NewTransaction() *knftables.Transaction
	// Run does all of a transaction, or nothing.
	Run(ctx context.Context, tx *knftables.Transaction) error
	// List is what the table holds; nil when there is no table.
	List(ctx context.Context) (*Listing, error)
}

// Nft is the kernel's nftables in the network namespace of the caller's thread, by
// way of the nft command.
type Nft struct {
	knftables.Interface
	table string
}

// OpenNft finds the nft command, and tries whether it may be used. table is one of
// TableName and AuditTableName.
func OpenNft(table string) (*Nft, error) {
	tables, err := knftables.New(Family, table)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, fmt.Errorf("the nft command is not installed; install nftables 1.0.1 or newer: %w", err)
	case err != nil:
		return nil, fmt.Errorf("nftables cannot be used; run as root or with CAP_NET_ADMIN, on a kernel with nf_tables: %w", err)
	}
	return &Nft{tables, table}, nil
}

// List implements Kernel.
func (n *Nft) List(ctx context.Context) (*Listing, error) {
	// Every object in one go: a list of each map would be a command for each.
	cmd := exec.CommandContext(ctx, "nft", "-j", "list", "table", string(Family), n.table)
	var said bytes.Buffer
	cmd.Stderr = &said
	text, err := cmd.Output()
	if err != nil {
		if bytes.Contains(said.Bytes(), []byte("No such file or directory")) {
			return nil, nil
		}
		return nil, fmt.Errorf("list the table: %w: %s", err, bytes.TrimSpace(said.Bytes()))
	}
	return parseListing(text)
}

// Nftables keeps a kernel at a ruleset. One goroutine uses it.
type Nftables struct {
	kernel Kernel
	held   *Ruleset // what the kernel was last seen to hold; nil: not known
	listed *Listing // and how it listed it
}

// NewNftables begins without knowing what the kernel holds.
func NewNftables(kernel Kernel) *Nftables { return &Nftables{kernel: kernel} }

// MismatchError: the kernel took a transaction, and holds something else.
type MismatchError struct{ Differences []string }

// Error names the first differences.
func (e *MismatchError) Error() string {
	const few = 3
	said := e.Differences
	if len(said) > few {
		said = append(slices.Clone(said[:few]), fmt.Sprintf("and %d more", len(e.Differences)-few))
	}
	return "the kernel holds another ruleset than it was given: " + strings.Join(said, "; ")
}

// Apply has the kernel hold r, and reads it back. It is one transaction: where it
// fails the kernel holds what it held before. A change of what the kernel is known
// to hold is tried first; where that fails, or meets what somebody else made of the
// table, or takes too long, the table is replaced as a whole.
func (n *Nftables) Apply(ctx context.Context, r *Ruleset) error {
	if n.held != nil && !r.slowFrom(n.held) {
		tx := n.kernel.NewTransaction()
		r.change(n.held, tx)
		if tx.NumOperations() > 0 && n.kernel.Run(ctx, tx) != nil {
			n.held = nil
		}
		if n.held != nil && n.readBack(ctx, r) == nil {
			return nil
		}
	}
	n.held = nil
	tx := n.kernel.NewTransaction()
	r.replace(tx)
	if err := n.kernel.Run(ctx, tx); err != nil {
		return fmt.Errorf("nft refused the transaction, which changed nothing: %w", err)
	}
	return n.readBack(ctx, r)
}

// readBack compares what the kernel holds with r, and remembers it. The rules of
// chains that r left alone must be as they were.
func (n *Nftables) readBack(ctx context.Context, r *Ruleset) error {
	l, err := n.kernel.List(ctx)
	if err != nil {
		return err
	}
	if l == nil {
		return &MismatchError{[]string{"there is no table"}}
	}
	diff := r.differences(l)
	if n.held != nil {
		was := n.held.chainsByName()
		for _, c := range r.chains {
			if old := was[c.name]; old != nil && slices.Equal(old.rules, c.rules) && l.Rules[c.name] != n.listed.Rules[c.name] {
				diff = append(diff, "the rules of chain "+c.name+" are others")
			}
		}
	}
	if len(diff) > 0 {
		return &MismatchError{diff}
	}
	n.held, n.listed = r, l
	return nil
}

// Intact reports whether the kernel still holds what was applied last.
func (n *Nftables) Intact(ctx context.Context) (bool, error) {
	drift, known, err := n.Drift(ctx)
	return known && drift == nil && err == nil, err
}

// Holds reports whether the kernel holds r, whoever had it do so: nil, or a *MismatchError,
// or why the kernel does not say.
func (n *Nftables) Holds(ctx context.Context, r *Ruleset) error {
	n.held = nil
	return n.readBack(ctx, r)
}

// Drift says how the kernel differs from what was applied last; nil: it does not.
// known is false when nothing was applied, or the last transaction failed: then
// nobody can say whose doing it is that the kernel holds what it holds.
func (n *Nftables) Drift(ctx context.Context) (drift *MismatchError, known bool, err error) {
	if n.held == nil {
		return nil, false, nil
	}
	if err = n.readBack(ctx, n.held); errors.As(err, &drift) {
		err = nil
	}
	return drift, true, err
}

// Remove takes the table out of the kernel. One that is not there is no error.
func (n *Nftables) Remove(ctx context.Context) error {
	tx := n.kernel.NewTransaction()
	tx.Add(&knftables.Table{})
	tx.Delete(&knftables.Table{})
	n.held = nil
	return n.kernel.Run(ctx, tx)
}
