package cli

import (
	"strconv"
	"strings"
	"unicode"
)

// Escaped is a text with what a terminal would obey or hide written out, but for the
// runes to keep: whoever may append to a log, or name a file, could rewrite what
// stands around the name.
func Escaped(s, keep string) string {
	hidden := func(r rune) bool { return !unicode.IsPrint(r) && !strings.ContainsRune(keep, r) }
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if hidden(r) {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}
