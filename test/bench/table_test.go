package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func sampleTable() table {
	fold := figure("", "events/s", samples{90_000, 100_000, 120_000}).beside("reading alone", samples{200_000}).ratioAtLeast(0.4).note("a remark")
	strict := figure("", "msg/s", samples{15_000}).beside("plain", samples{3_000}).ratioAtLeast(6).atLeast(20_000)
	alone := figure("memory", "MiB", samples{451}).atMost(450)
	return table{
		Machine: machine{Cores: 2, Go: "go1.26", OS: "linux/amd64"},
		Seconds: 61.4,
		Measures: []result{
			{Name: "fold", What: "a log folded", Seconds: 40, Load: load{Average: 0.2, Busy: 0.1}, Lines: []line{*fold}},
			{Name: "strict", What: "fsynced", Load: load{Average: 3, Busy: 1.5}, Lines: []line{*strict}},
			{Name: "sse", Lines: []line{*alone}},
			{Name: "storm", What: "all at once", Error: "12 events were lost"},
		},
	}
}

func TestTheTableReadsAsPeopleReadIt(t *testing.T) {
	tab := sampleTable()
	var b strings.Builder
	require.NoError(t, tab.text(&b))
	require.Equal(t, `2 cores, go1.26, linux/amd64

measure      figure            floor             ratio  target           holds
fold         100,000 events/s  200,000 events/s  0.5    >= 0.4 x floor   yes
strict       15,000 msg/s      3,000 msg/s       5      >= 6 x floor     NO
             15,000 msg/s      3,000 msg/s       5      >= 20,000 msg/s  NO
sse: memory  451 MiB                                    <= 450 MiB       NO
storm        FAILED                                                      no

fold: 40 s, load average 0.20
  a log folded: floor is reading alone (1 sample); measured (90,000, 100,000, 120,000)
  a remark
strict: 0 s, load average 3.00, DISTURBED: 1.5 cores were busy before it
  fsynced: floor is plain (1 sample); measured (1 sample)
sse: 0 s, load average 0.00
storm: 0 s, load average 0.00
  FAILED: 12 events were lost

61 s in all
`, b.String())
}

func TestWhatAProgramReads(t *testing.T) {
	tab := sampleTable()
	b, err := json.Marshal(&tab)
	require.NoError(t, err)
	var back struct {
		Machine  struct{ Cores int }
		Measures []struct {
			Name, Error string
			Load        struct{ Average, Busy float64 }
			Lines       []struct {
				Value, Ratio float64
				Unit         string
				Samples      []float64
				Floor        struct {
					What  string
					Value float64
				}
				Targets []struct {
					Target string
					Holds  bool
				}
			}
		}
	}
	require.NoError(t, json.Unmarshal(b, &back))
	require.Equal(t, 2, back.Machine.Cores)
	fold := back.Measures[0]
	require.Equal(t, "fold", fold.Name)
	require.Equal(t, 0.5, fold.Lines[0].Ratio)
	require.Equal(t, 100_000.0, fold.Lines[0].Value)
	require.Equal(t, []float64{90_000, 100_000, 120_000}, fold.Lines[0].Samples, "in the order taken")
	require.Equal(t, 200_000.0, fold.Lines[0].Floor.Value)
	require.True(t, fold.Lines[0].Targets[0].Holds)
	require.Equal(t, "12 events were lost", back.Measures[3].Error)
}

func TestAMissedTargetCountsOnlyWhenItIsAskedFor(t *testing.T) {
	tab := sampleTable()
	require.EqualError(t, tab.verdict(false), "failed: storm")
	require.EqualError(t, tab.verdict(true), "failed: storm\nmissed: strict >= 6 x floor; strict >= 20,000 msg/s; sse: memory <= 450 MiB")
	tab.Measures = tab.Measures[:3]
	require.NoError(t, tab.verdict(false))
	tab.Measures = tab.Measures[:1]
	require.NoError(t, tab.verdict(true))
}

func TestNumbersAreShort(t *testing.T) {
	for want, v := range map[string]float64{
		"0": 0, "0.035": 0.0351, "0.4": 0.4, "1.25": 1.25, "12.5": 12.49, "450": 450, "1,000": 1000, "-1,234,568": -1_234_567.6, "999": 999.4,
	} {
		require.Equal(t, want, short(v))
	}
}

func TestMeasuresAreChosenByName(t *testing.T) {
	most, err := choose("", false)
	require.NoError(t, err)
	require.Len(t, most, len(measures)-len(long), "all but those that take long, each of which there is")
	all, err := choose("", true)
	require.NoError(t, err)
	require.Len(t, all, len(measures))
	one, err := choose("soak", false)
	require.NoError(t, err)
	require.Len(t, one, 1)
	some, err := choose("storm,fold", false)
	require.NoError(t, err)
	require.Equal(t, []string{"storm", "fold"}, []string{some[0].name, some[1].name})
	_, err = choose("speed", false)
	require.ErrorContains(t, err, `"speed"`)
}
