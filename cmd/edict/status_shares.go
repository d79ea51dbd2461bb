package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/edictdev/edict/api/resource"
)

// sharesText says who took more of the log than is theirs, else who took most.
func sharesText(s resource.Shares) string {
	limit := "their share of the log is not limited"
	if s.Limit > 0 {
		limit = fmt.Sprintf("each may take %s of the log in %d hours", sizeText(s.Limit), s.Hours)
	}
	limit += shutOutText(s.Projects)
	if s.Over == 0 {
		if len(s.Projects) == 0 {
			return "none took anything of the log lately; " + limit
		}
		return "most took " + shareText(s.Projects[0]) + "; " + limit
	}
	over := make([]string, min(s.Over, len(s.Projects)))
	for i := range over {
		over[i] = shareText(s.Projects[i])
	}
	return "OVER THEIR SHARE: " + strings.Join(over, ", ") + "; " + limit
}

// shutOutText names those whose producers are shut out for a while.
func shutOutText(all []resource.Share) string {
	var out []string
	for _, s := range all {
		if s.ShutOut != nil {
			out = append(out, s.Project+" until "+s.ShutOut.UTC().Format(time.RFC3339))
		}
	}
	if len(out) == 0 {
		return ""
	}
	return "; SHUT OUT OVER NATS: " + strings.Join(out, ", ")
}

func shareText(s resource.Share) string { return s.Project + " with " + sizeText(s.Bytes) }

// sizeText is a number of bytes for people.
func sizeText(n uint64) string {
	const kib = 1 << 10
	if n < kib {
		return fmt.Sprintf("%d B", n)
	}
	size, unit := float64(n)/kib, 0
	for ; size >= kib && unit < 2; unit++ {
		size /= kib
	}
	return fmt.Sprintf("%.1f %s", size, []string{"KiB", "MiB", "GiB"}[unit])
}
