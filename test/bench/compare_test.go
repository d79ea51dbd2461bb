package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// run is a table of one measure of three lines: one with a floor, one without, and one
// of which less is better.
func runOf(rate, floor, bare, latency samples) table {
	return table{Machine: machine{Cores: 2, Go: "go1.26", OS: "linux/amd64"}, Measures: []result{{Name: "fold", Lines: []line{
		*figure("", "events/s", rate).beside("reading alone", floor).ratioAtLeast(0.4),
		*figure("in bulk", "events/s", bare),
		*figure("one event", "us", latency).atMost(20),
	}}}}
}

func verdicts(c *comparison) (out []string) {
	for _, r := range c.rows {
		out = append(out, strings.TrimSpace(r.name+" "+r.verdict))
	}
	return out
}

func TestARunIsHeldAgainstAnEarlierOne(t *testing.T) {
	before := runOf(samples{99, 100, 101}, samples{200}, samples{50}, samples{10})
	// A machine that is half as fast: the ratio stays, and is what counts.
	now := runOf(samples{49, 50, 51}, samples{100}, samples{25}, samples{20})
	require.Equal(t, []string{"fold same", "fold: in bulk WORSE", "fold: one event WORSE"}, verdicts(compare(&before, &now)))
	require.Equal(t, []string{"fold same", "fold: in bulk better", "fold: one event better"}, verdicts(compare(&now, &before)))

	other := now
	other.Machine.Model = "another"
	require.Equal(t, []string{"fold same", "fold: in bulk other machine", "fold: one event other machine"}, verdicts(compare(&before, &other)))
}

func TestAChangeWithinWhatSamplesDifferByIsNone(t *testing.T) {
	before := runOf(samples{90, 100, 110}, samples{200}, samples{100}, samples{10})
	now := runOf(samples{72, 82, 92}, samples{200}, samples{104}, samples{11})
	require.Equal(t, []string{"fold same", "fold: in bulk same", "fold: one event same"}, verdicts(compare(&before, &now)), "of one sample nobody knows")
	now = runOf(samples{81, 82, 83}, samples{199, 200, 201}, samples{103, 104, 105}, samples{10.5, 10.6, 10.7})
	before = runOf(samples{99, 100, 101}, samples{199, 200, 201}, samples{99, 100, 101}, samples{9.9, 10, 10.1})
	require.Equal(t, []string{"fold WORSE", "fold: in bulk same", "fold: one event WORSE"}, verdicts(compare(&before, &now)))
}

func TestWhatOthersDisturbedIsNotJudged(t *testing.T) {
	before, now := runOf(samples{100}, samples{200}, samples{50}, samples{10}), runOf(samples{90}, samples{100}, samples{5}, samples{30})
	now.Measures[0].Load.Others = 0.7
	require.Equal(t, []string{"fold disturbed", "fold: in bulk disturbed", "fold: one event disturbed"}, verdicts(compare(&before, &now)))

	now.Measures[0].judge()
	lines := now.Measures[0].Lines
	require.Equal(t, verdict{Target: ">= 0.4 x floor", Disturbed: true}, lines[0].Targets[0], "it would be held")
	require.Equal(t, verdict{Target: "<= 20 us"}, lines[2].Targets[0], "it would not")
	require.Equal(t, "disturbed", lines[0].Targets[0].word())
	require.NoError(t, now.verdict(false))
	require.EqualError(t, now.verdict(true), "missed: fold: one event <= 20 us\nnot known, as other work disturbed: fold >= 0.4 x floor")
}

func TestWhatOneRunHasAlone(t *testing.T) {
	before, now := runOf(samples{100}, samples{200}, samples{50}, samples{10}), runOf(samples{100}, samples{200}, samples{50}, samples{10})
	now.Measures[0].Lines[1].What = "in parts"
	now.Measures = append(now.Measures, result{Name: "storm", Error: "12 events were lost"})
	before.Measures = append(before.Measures, result{Name: "sse"}) // which this run was not asked for
	c := compare(&before, &now)
	require.Equal(t, []string{"fold same", "fold: in parts new", "fold: one event same", "fold: in bulk gone", "storm WORSE"}, verdicts(c))
	var b strings.Builder
	require.NoError(t, c.text(&b, now.Machine))
	require.Equal(t, `
beside the earlier run, on 2 cores, go1.26, linux/amd64: what has a floor is compared by its ratio

measure          before                     now                        change  verdict
fold             100 events/s, 0.5 x floor  100 events/s, 0.5 x floor  +0 %    same
fold: in parts                              50 events/s                        new
fold: one event  10 us                      10 us                      +0 %    same
fold: in bulk    50 events/s                                                   gone
storm                                       FAILED                             WORSE
`, b.String())
	require.NoError(t, c.verdict(false))
	require.EqualError(t, c.verdict(true), "worse than before: storm")
}

func TestAnEarlierRunIsRead(t *testing.T) {
	whole := sampleTable()
	b, err := json.Marshal(&whole)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "bench.json")
	require.NoError(t, os.WriteFile(path, b, 0o600))
	got, err := readTable(path)
	require.NoError(t, err)
	require.Equal(t, whole.Measures, got.Measures)

	whole.Quick = true
	b, err = json.Marshal(&whole)
	require.NoError(t, err)
	for text, says := range map[string]string{
		string(b): "quick run", "{}": "no measures", "x": "not what -json writes", `{"measures":3}`: "not what -json writes",
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err = readTable(path)
		require.ErrorContains(t, err, says)
	}
	_, err = readTable(path + ".none")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestWhatOthersTakeIsCounted(t *testing.T) {
	//                       user nice sys idle iowait irq softirq steal
	require.InDelta(t, 1.5, takenSeconds([]byte("cpu  100 20 20 900 50 70 80 10 0 0\ncpu0 1\n")), 1e-9)
	require.Zero(t, takenSeconds(nil))
}
