package datapath

import "slices"

// fewPairs is up to how many pairs comparing them is quicker.
const fewPairs = 256

// sortByKey sorts pairs whose lower halves ascend already where the upper ones are
// equal. spare is memory of the sort's, which it gives back.
func sortByKey(pairs, spare []uint64) (sorted, left []uint64) {
	if len(pairs) <= fewPairs {
		slices.Sort(pairs)
		return pairs, spare
	}
	var counts [4][256]int
	for _, p := range pairs {
		k := uint32(p >> 32)
		counts[0][byte(k)]++
		counts[1][byte(k>>8)]++
		counts[2][byte(k>>16)]++
		counts[3][byte(k>>24)]++
	}
	spare = slices.Grow(spare[:0], len(pairs))[:len(pairs)]
	for digit := range counts {
		at, shift := &counts[digit], 32+8*digit
		if at[byte(pairs[0]>>shift)] == len(pairs) {
			continue // all have the same
		}
		next := 0
		for i, n := range at {
			at[i] = next
			next += n
		}
		for _, p := range pairs {
			b := byte(p >> shift)
			spare[at[b]] = p
			at[b]++
		}
		pairs, spare = spare, pairs
	}
	return pairs, spare
}
