package projector

import (
	"cmp"
	"slices"
)

// changed is an id that changed, at a sequence. In a list of them, which
// ascends, only the last of an id counts.
type changed[ID comparable] struct {
	seq uint64
	id  ID
}

// dated is what changed, and knows when it last did.
type dated interface{ changedAt() uint64 }

// noteChange appends a change. Once most of the list is out of date it is cut
// to what counts.
func noteChange[ID comparable, T dated](list []changed[ID], byID map[ID]T, seq uint64, id ID) []changed[ID] {
	list = append(list, changed[ID]{seq, id})
	if len(list) > 2*len(byID)+64 {
		list = slices.DeleteFunc(list, func(c changed[ID]) bool { return byID[c.id].changedAt() != c.seq })
	}
	return list
}

// changedSince is what changed after seq, each once, oldest first.
func changedSince[ID comparable, T dated](list []changed[ID], byID map[ID]T, seq uint64) []T {
	from, _ := slices.BinarySearchFunc(list, seq+1, func(c changed[ID], s uint64) int { return cmp.Compare(c.seq, s) })
	var out []T
	for _, c := range list[from:] {
		if x := byID[c.id]; x.changedAt() == c.seq {
			out = append(out, x)
		}
	}
	return out
}

// lastChange is the sequence of the last change; 0: there is none.
func lastChange[ID comparable](list []changed[ID]) uint64 {
	if len(list) == 0 {
		return 0
	}
	return list[len(list)-1].seq
}

// sortChanges puts what was read in any order by sequence.
func sortChanges[ID comparable](list []changed[ID]) {
	slices.SortFunc(list, func(x, y changed[ID]) int { return cmp.Compare(x.seq, y.seq) })
}
