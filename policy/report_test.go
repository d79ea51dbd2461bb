package policy

import (
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const emptyPrint = "T1PNoYwrqgwDVLtfmj7L5e0Sq02OEbqHPC8RFhICuUU="

func TestAReportIsReadStrictly(t *testing.T) {
	r, err := DecodeReport([]byte(`{"version":18446744073709551615,"fingerprint":"` + emptyPrint + `"}`))
	require.NoError(t, err)
	require.Equal(t, Report{Version: 1<<64 - 1, Fingerprint: sha256.Sum256([]byte("[]"))}, r)
	r, err = DecodeReport([]byte(`{"event_id":"18446744073709551615","fingerprint":"` + emptyPrint + `"}`))
	require.NoError(t, err)
	require.Equal(t, Report{Event: 1<<64 - 1, Fingerprint: sha256.Sum256([]byte("[]"))}, r)
	r, err = DecodeReport([]byte(`{"version":3,"event_id":"7","fingerprint":"` + emptyPrint + `"}`))
	require.NoError(t, err)
	require.Equal(t, Report{Version: 3, Event: 7, Fingerprint: sha256.Sum256([]byte("[]"))}, r)
	for body, codes := range map[string]string{
		``:                                "malformed_json",
		`{}`:                              "required required",
		`[]`:                              "wrong_type",
		`{"version":1}`:                   "required",
		`{"version":"1","fingerprint":1}`: "wrong_type wrong_type",
		`{"version":-1,"fingerprint":"` + emptyPrint + `"}`:                              "invalid_version",
		`{"version":1e3,"fingerprint":"` + emptyPrint + `"}`:                             "invalid_version",
		`{"version":18446744073709551616,"fingerprint":"` + emptyPrint + `"}`:            "invalid_version",
		`{"version":1,"fingerprint":""}`:                                                 "invalid_fingerprint",
		`{"version":1,"fingerprint":"` + emptyPrint[:43] + `"}`:                          "invalid_fingerprint",
		`{"version":1,"fingerprint":"` + emptyPrint[:42] + `V="}`:                        "invalid_fingerprint",
		`{"version":1,"fingerprint":"` + emptyPrint[:20] + `\n` + emptyPrint[20:] + `"}`: "invalid_fingerprint",
		`{"version":1,"fingerprint":"` + emptyPrint + `","since":1}`:                     "unknown_field",
		`{"event_id":7,"fingerprint":"` + emptyPrint + `"}`:                              "wrong_type",
		`{"event_id":"","fingerprint":"` + emptyPrint + `"}`:                             "invalid_version",
		`{"event_id":"-7","fingerprint":"` + emptyPrint + `"}`:                           "invalid_version",
		`{"event_id":"7"}`: "required",
		`{"version":1,"node_seq":1,"fingerprint":"` + emptyPrint + `"}`: "unknown_field",
		`{"version":1,"version":1}`:                                     "duplicate_key",
	} {
		_, err := DecodeReport([]byte(body))
		var faults Violations
		require.ErrorAs(t, err, &faults, body)
		var got []string
		for _, f := range faults {
			got = append(got, f.Code)
		}
		require.Equal(t, codes, strings.Join(got, " "), body)
	}
}

// How far a report says that a node is: its event id counts, and one of another
// log says nothing.
func TestAReportNamesALogSequence(t *testing.T) {
	const base = 1000
	require.EqualValues(t, 5, Report{Version: 5}.Seq(base))
	require.EqualValues(t, 7, Report{Version: 5, Event: NewEventID(base, 7, 3)}.Seq(base))
	require.EqualValues(t, 7, Report{Event: EndOf(base, 7)}.Seq(base))
	require.Zero(t, Report{Version: 5, Event: NewEventID(base-8, 7, 3)}.Seq(base))
}

func FuzzDecodeReport(f *testing.F) {
	f.Add([]byte(`{"version":7,"fingerprint":"` + emptyPrint + `"}`))
	f.Add([]byte(`{"event_id":"7","version":0,"fingerprint":"` + emptyPrint + `"}`))
	f.Add([]byte(`{"version":7.5,"fingerprint":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := DecodeReport(body)
		if err != nil {
			return
		}
		again, err := DecodeReport(AppendReport(nil, r))
		require.NoError(t, err)
		require.Equal(t, r, again)
	})
}
