package datapath

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// byText are some prefixes in the order of their texts, each once.
func byText(prefixes map[netip.Prefix]int32) []netip.Prefix {
	if len(prefixes) == 0 {
		return nil
	}
	ranks, long := make([]uint64, 0, len(prefixes)), map[netip.Prefix]string{}
	for p := range prefixes {
		if p.Addr().Is4() {
			ranks = append(ranks, rankOf(p))
		} else {
			long[p] = p.String()
		}
	}
	slices.Sort(ranks)
	all, rest := make([]netip.Prefix, 0, len(prefixes)), make([]netip.Prefix, 0, len(long))
	for p := range long {
		rest = append(rest, p)
	}
	slices.SortFunc(rest, func(a, b netip.Prefix) int { return strings.Compare(long[a], long[b]) })
	for _, r := range ranks {
		p := ranked(r)
		for len(rest) > 0 && long[rest[0]] < p.String() {
			all, rest = append(all, rest[0]), rest[1:]
		}
		all = append(all, p)
	}
	return append(all, rest...)
}

// The place of a number among those up to 255 in the order of their texts, and the
// number at each place. What follows a number in the text of a prefix, a dot, a slash
// or nothing, is less than any digit.
var textPlaces, textNumbers = func() (places, numbers [256]byte) {
	texts := make([]string, 256)
	for i := range texts {
		texts[i], numbers[i] = strconv.Itoa(i), byte(i)
	}
	slices.SortFunc(numbers[:], func(a, b byte) int { return strings.Compare(texts[a], texts[b]) })
	for at, n := range numbers {
		places[n] = byte(at)
	}
	return places, numbers
}()

// rankOf is a number of an IPv4 prefix that is in the order of texts.
func rankOf(p netip.Prefix) (rank uint64) {
	for _, n := range p.Addr().As4() {
		rank = rank<<8 | uint64(textPlaces[n])
	}
	return rank<<8 | uint64(textPlaces[p.Bits()])
}

func ranked(rank uint64) netip.Prefix {
	bits := int(textNumbers[byte(rank)])
	var a [4]byte
	for i := 3; i >= 0; i-- {
		rank >>= 8
		a[i] = textNumbers[byte(rank)]
	}
	return netip.PrefixFrom(netip.AddrFrom4(a), bits)
}
