package relay

// Share says which partitions this process is to announce. It decides who
// tries; the fence decides who wins.
type Share interface {
	// Mine are the partitions to announce now, ascending, and a channel that is
	// closed when they change; nil: they never do.
	Mine() (ids []int, changed <-chan struct{})
	// Holds reports whether a partition may be announced at this very moment.
	Holds(partition int) bool
}

// fixed is the share of a process that was told its partitions.
type fixed []int

func (f fixed) Mine() ([]int, <-chan struct{}) { return f, nil }
func (fixed) Holds(int) bool                   { return true }
