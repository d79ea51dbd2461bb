package snapshot

import (
	"cmp"
	"hash/maphash"
	"iter"
	"net/netip"
	"slices"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// roster is the nodes of a project at a moment. It never changes: the next one
// shares all pages with it in which no node changed, so that what became of few
// of very many nodes is found without a look at the others.
type roster struct {
	seq   uint64 // of the last event that it knows of
	nodes int
	// pages divide the nodes by a hash; each is in the order of ids.
	pages [][]*projector.Placed
}

// How many nodes a page holds when the pages are laid out, and how many pages
// there are at most. Nodes are laid out again when pages hold twice as many.
const (
	perPage  = 128
	maxPages = 1024
)

func pagesFor(nodes int) int {
	n := 1
	for n < maxPages && nodes > perPage*n {
		n *= 2
	}
	return n
}

var pageSeed = maphash.MakeSeed()

// pageOf is the page of a node, of so many, which are a power of two.
func pageOf(id policy.NodeID, pages int) int {
	return int(maphash.String(pageSeed, string(id)) & uint64(pages-1))
}

// newRoster reads nodes, by id, as they are at a sequence. proceed is asked now
// and then whether to go on.
func newRoster(nodes iter.Seq2[projector.Placed, error], seq uint64, proceed func() error) (*roster, error) {
	var all []*projector.Placed
	for x, err := range nodes {
		if err != nil {
			return nil, err
		}
		if all = append(all, &x); len(all)%1024 == 0 {
			if err := proceed(); err != nil {
				return nil, err
			}
		}
	}
	return laid(all, seq), nil
}

// laid lays out nodes, by id.
func laid(all []*projector.Placed, seq uint64) *roster {
	r := &roster{seq: seq, nodes: len(all), pages: make([][]*projector.Placed, pagesFor(len(all)))}
	for _, x := range all {
		at := pageOf(x.ID, len(r.pages))
		r.pages[at] = append(r.pages[at], x)
	}
	return r
}

func findPlaced(page []*projector.Placed, id policy.NodeID) (int, bool) {
	return slices.BinarySearchFunc(page, id, func(x *projector.Placed, id policy.NodeID) int { return cmp.Compare(x.ID, id) })
}

// get is a node, nil where there is none.
func (r *roster) get(id policy.NodeID) *projector.Placed {
	page := r.pages[pageOf(id, len(r.pages))]
	if i, ok := findPlaced(page, id); ok {
		return page[i]
	}
	return nil
}

// owner is the first node by id that has an address, nil where none has. Those that
// are named go before others.
func (r *roster) owner(a netip.Addr, named func(*projector.Placed) bool) *projector.Placed {
	var first, other *projector.Placed
	for x := range r.all() {
		if !slices.Contains(x.Addresses, a) {
			continue
		}
		at := &other
		if named(x) {
			at = &first
		}
		if *at == nil || x.ID < (*at).ID {
			*at = x
		}
	}
	return cmp.Or(first, other)
}

// all are the nodes, in no order.
func (r *roster) all() iter.Seq[*projector.Placed] {
	return func(yield func(*projector.Placed) bool) {
		for _, page := range r.pages {
			for _, x := range page {
				if !yield(x) {
					return
				}
			}
		}
	}
}

// at is the roster without the nodes whose facts changed since seq.
func (r *roster) at(seq uint64) *roster {
	if seq == present {
		return r
	}
	then := &roster{seq: seq, pages: make([][]*projector.Placed, len(r.pages))}
	for i, page := range r.pages {
		for _, x := range page {
			if x.Seq <= seq {
				then.pages[i] = append(then.pages[i], x)
				then.nodes++
			}
		}
	}
	return then
}

// follow is the roster after some events, and what each did to a node.
func (r *roster) follow(list []projector.Change) (next *roster, moves []move) {
	next = r
	var own map[int]bool
	for _, t := range list {
		if t.Node.ID == "" || t.Seq <= r.seq {
			continue
		}
		if next == r {
			next, own = &roster{seq: r.seq, nodes: r.nodes, pages: slices.Clone(r.pages)}, map[int]bool{}
		}
		at := pageOf(t.Node.ID, len(next.pages))
		if !own[at] {
			next.pages[at], own[at] = slices.Clone(next.pages[at]), true
		}
		moves = append(moves, next.move(at, t))
	}
	if n := len(next.pages); n < maxPages && next.nodes > 2*perPage*n {
		next = laid(slices.SortedFunc(next.all(), func(a, b *projector.Placed) int { return cmp.Compare(a.ID, b.ID) }), next.seq)
	}
	return next, moves
}

// move lets an event change a page.
func (r *roster) move(at int, t projector.Change) move {
	m := move{seq: t.Seq, after: t.Node, is: !t.Gone}
	i, ok := findPlaced(r.pages[at], t.Node.ID)
	if ok {
		m.before, m.was = r.pages[at][i].Node, true
	}
	switch x := (&projector.Placed{Node: t.Node, Seq: t.Seq}); {
	case t.Gone && ok:
		r.pages[at] = slices.Delete(r.pages[at], i, i+1)
		r.nodes--
	case t.Gone:
	case ok:
		r.pages[at][i] = x
	default:
		r.pages[at] = slices.Insert(r.pages[at], i, x)
		r.nodes++
	}
	r.seq = t.Seq
	return m
}

// moved is what became of a node between two rosters; nil: it was not there, or
// is not.
type moved struct{ before, after *projector.Placed }

// since is what became of nodes since an older roster, ok where it is of at most
// so many.
func (r *roster) since(old *roster, most int) (list []moved, ok bool) {
	if len(r.pages) != len(old.pages) {
		return nil, false
	}
	for i := range r.pages {
		was, is := old.pages[i], r.pages[i]
		if len(was) == len(is) && (len(was) == 0 || &was[0] == &is[0]) {
			continue
		}
		for len(was) > 0 || len(is) > 0 {
			switch {
			case len(is) == 0 || len(was) > 0 && was[0].ID < is[0].ID:
				list, was = append(list, moved{before: was[0]}), was[1:]
			case len(was) == 0 || is[0].ID < was[0].ID:
				list, is = append(list, moved{after: is[0]}), is[1:]
			default:
				if was[0] != is[0] && !sameFacts(was[0], is[0]) {
					list = append(list, moved{was[0], is[0]})
				}
				was, is = was[1:], is[1:]
			}
			if len(list) > most {
				return nil, false
			}
		}
	}
	return list, true
}

func sameFacts(a, b *projector.Placed) bool {
	return slices.Equal(a.Labels, b.Labels) && slices.Equal(a.Addresses, b.Addresses)
}
