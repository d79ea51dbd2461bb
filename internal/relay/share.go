package relay

import (
	"strconv"
	"strings"
)

// Share is which partitions this process is to publish. If two processes both have a
// partition for a while, they publish the same messages twice, and nothing else
// happens.
type Share interface {
	// Mine returns the partitions to publish now, ascending, and a channel that is
	// closed when they change; nil if they do not change.
	Mine() (ids []int, changed <-chan struct{})
}

// Partitions is the share of a process whose partitions are configured, ascending.
type Partitions []int

// Mine returns the configured partitions.
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
