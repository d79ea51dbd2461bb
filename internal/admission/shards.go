package admission

import (
	"hash/maphash"
	"maps"
)

// shards is a map in pieces: a copy shares the pieces, and whoever changes a
// copy copies the piece first.
type shards[K comparable, V any] struct {
	of    [256]map[K]V
	owned [256]bool // the pieces that no other copy has
}

var shardSeed = maphash.MakeSeed()

func (m *shards[K, V]) shard(k K) int {
	return int(maphash.Comparable(shardSeed, k) % uint64(len(m.of)))
}

func (m *shards[K, V]) disown() { m.owned = [256]bool{} }

func (m *shards[K, V]) get(k K) (V, bool) {
	v, ok := m.of[m.shard(k)][k]
	return v, ok
}

func (m *shards[K, V]) own(k K) map[K]V {
	i := m.shard(k)
	switch {
	case m.owned[i]:
	case m.of[i] == nil:
		m.of[i] = map[K]V{}
	default:
		m.of[i] = maps.Clone(m.of[i])
	}
	m.owned[i] = true
	return m.of[i]
}

func (m *shards[K, V]) set(k K, v V) { m.own(k)[k] = v }
func (m *shards[K, V]) drop(k K)     { delete(m.own(k), k) }
