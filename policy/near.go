package policy

import "strings"

// fields are those that an object may have: of names, the ones whose bit is set.
type fields struct {
	names []string
	bits  uint
}

func allOf(names []string) fields { return fields{names, ^uint(0)} }

// maxNear bounds the names that are compared, which are of anybody's making.
const maxNear = 32

// near is the name that another was likely meant to be, from which it differs in few
// letters; "": none is close.
func near(known []fields, name []byte) string {
	if len(name) < 2 || len(name) > maxNear {
		return ""
	}
	word := strings.ToLower(string(name))
	best, least := "", min(3, len(word)/2)+1
	for _, f := range known {
		for i, n := range f.names {
			if d := distance(word, n); f.bits&(1<<i) != 0 && d < least {
				best, least = n, d
			}
		}
	}
	return best
}

// distance is how many letters must be added, taken away, replaced or swapped with the
// next for one word to be the other.
func distance(x, y string) int {
	rows := make([][]int, len(x)+1)
	for i := range rows {
		rows[i] = make([]int, len(y)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(x); i++ {
		for j := 1; j <= len(y); j++ {
			replaced := rows[i-1][j-1]
			if x[i-1] != y[j-1] {
				replaced++
			}
			least := min(replaced, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				least = min(least, rows[i-2][j-2]+1)
			}
			rows[i][j] = least
		}
	}
	return rows[len(x)][len(y)]
}
