package datapath

// bitset is a set of small numbers.
type bitset []uint64

func newBitset(n int) bitset { return make(bitset, (n+63)/64) }

func (b bitset) has(i int32) bool { return b[i>>6]&(1<<(uint(i)&63)) != 0 }
func (b bitset) add(i int32)      { b[i>>6] |= 1 << (uint(i) & 63) }

// meets reports whether the sets share a number.
func (b bitset) meets(o bitset) bool {
	for i := range b {
		if b[i]&o[i] != 0 {
			return true
		}
	}
	return false
}

// appendKey appends a text equal exactly for equal sets of one size.
func (b bitset) appendKey(k []byte) []byte {
	for _, w := range b {
		for i := range 8 {
			k = append(k, byte(w>>(8*i)))
		}
	}
	return k
}
