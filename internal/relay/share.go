package relay

import (
	"strconv"
	"strings"
)

// Share says which partitions this process is to publish. Two processes that
// both have one for a while say the same twice, and nothing else happens.
type Share interface {
	// Mine are the partitions to publish now, ascending, and a channel that is
	// closed when they change; nil: they never do.
	Mine() (ids []int, changed <-chan struct{})
}

// Partitions is the share of a process that was told its partitions, ascending.
type Partitions []int

// Mine are the partitions told.
func (p Partitions) Mine() ([]int, <-chan struct{}) { return p, nil }

// Ranges writes ascending numbers as 0-31,40.
func Ranges(ids []int) string {
	var parts []string
	for i := 0; i < len(ids); {
		j := i
		for j+1 < len(ids) && ids[j+1] == ids[j]+1 {
			j++
		}
		text := strconv.Itoa(ids[i])
		if j > i {
			text += "-" + strconv.Itoa(ids[j])
		}
		parts = append(parts, text)
		i = j + 1
	}
	return strings.Join(parts, ",")
}
