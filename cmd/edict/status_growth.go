package main

import (
	"fmt"
	"time"

	"github.com/edictdev/edict/api/resource"
)

// growthText says how the log grows and when it is full, as far as that is known.
func growthText(l resource.LogStatus) string {
	text := "not known before the log is an hour old"
	if l.BytesPerDay != nil {
		text = sizeText(*l.BytesPerDay) + " a day"
	}
	if l.BytesPerEvent != nil {
		text += fmt.Sprintf(", %.0f bytes an event", *l.BytesPerEvent)
	}
	if l.RoomBytes != nil {
		text += ", room for " + sizeText(*l.RoomBytes)
	}
	if l.FullInSeconds != nil {
		text += ": full in " + daysText(*l.FullInSeconds)
	}
	return text
}

// daysText is a number of seconds in the unit in which one plans.
func daysText(seconds float64) string {
	const hour = 3600
	switch days := seconds / (24 * hour); {
	case days > 3650:
		return "more than ten years"
	case days >= 2:
		return fmt.Sprintf("%.0f days", days)
	default:
		return (time.Duration(seconds/60) * time.Minute).String()
	}
}
