package tracing

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// The numbers that OpenTelemetry reads for batches and limits, and what it can go on with.
// The units are its own: spans, milliseconds, pieces; below 0 a limit is none.
var numbers = []struct {
	name        string
	least, most int
}{
	{"OTEL_BSP_MAX_QUEUE_SIZE", 1, 1 << 20},
	{"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 1, 1 << 20},
	{"OTEL_BSP_SCHEDULE_DELAY", 1, 1 << 30}, // without a pause its timer never rests
	{"OTEL_BSP_EXPORT_TIMEOUT", 0, 1 << 30},
	{"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", -1, 1 << 30},
	{"OTEL_ATTRIBUTE_COUNT_LIMIT", -1, 1 << 30},
	{"OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", -1, 1 << 30},
	{"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", -1, 1 << 30},
	{"OTEL_SPAN_EVENT_COUNT_LIMIT", -1, 1 << 30},
	{"OTEL_SPAN_LINK_COUNT_LIMIT", -1, 1 << 30},
	{"OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT", -1, 1 << 30},
	{"OTEL_LINK_ATTRIBUTE_COUNT_LIMIT", -1, 1 << 30},
}

// checkRecorder looks at what OpenTelemetry's recorder reads by itself: of some of it that
// it cannot use it takes something else without a word, which may be to record everything,
// of some it panics.
func checkRecorder() error {
	for _, n := range numbers {
		text := os.Getenv(n.name)
		if text == "" {
			continue
		}
		if v, err := strconv.Atoi(text); err != nil || v < n.least || v > n.most {
			return fmt.Errorf("%s: %q: want a whole number from %d to %d", n.name, text, n.least, n.most)
		}
	}
	const sampler, share = "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"
	switch s := strings.TrimSpace(os.Getenv(sampler)); strings.ToLower(s) {
	case "", "always_on", "always_off", "parentbased_always_on", "parentbased_always_off":
	case "traceidratio", "parentbased_traceidratio":
		text := strings.TrimSpace(os.Getenv(share))
		if v, err := strconv.ParseFloat(text, 64); text != "" && (err != nil || !(v >= 0 && v <= 1)) {
			return fmt.Errorf("%s: %q: want a number from 0 to 1, such as 0.01 for one trace in a hundred", share, text)
		}
	default:
		return fmt.Errorf("%s: %q is not known here; want always_on, always_off, traceidratio, or one of these with parentbased_ in front", sampler, s)
	}
	return nil
}
