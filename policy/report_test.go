package policy

import (
	"crypto/sha256"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
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
	r, err = DecodeReport([]byte(`{"version":3,"fingerprint":"` + emptyPrint + `","outcome":"applied"}`))
	require.NoError(t, err)
	require.Equal(t, Report{Version: 3, Fingerprint: sha256.Sum256([]byte("[]"))}, r, "as without")
	r, err = DecodeReport([]byte(`{"version":3,"fingerprint":"` + emptyPrint + `","outcome":"refused","reason":"nft: \"no room\""}`))
	require.NoError(t, err)
	require.Equal(t, Report{Version: 3, Fingerprint: sha256.Sum256([]byte("[]")), Outcome: OutcomeRefused, Reason: `nft: "no room"`}, r)
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
		`{"version":1,"node_seq":1,"fingerprint":"` + emptyPrint + `"}`:                                                            "unknown_field",
		`{"version":1,"fingerprint":"` + emptyPrint + `","audited":[` + strings.Repeat(`{},`, 17) + `{}]}`:                         "too_many_counts",
		`{"version":1,"fingerprint":"` + emptyPrint + `","audited":[{"policy_id":"x","egress":-1,"dropped":1},{"ingress":1e3},7]}`: "invalid_uuid invalid_count unknown_field wrong_type wrong_type",
		`{"version":1,"version":1}`: "duplicate_key",
		`{"version":1,"fingerprint":"` + emptyPrint + `","outcome":"failed"}`:                                        "unknown_outcome",
		`{"version":1,"fingerprint":"` + emptyPrint + `","outcome":""}`:                                              "unknown_outcome",
		`{"version":1,"fingerprint":"` + emptyPrint + `","outcome":1,"reason":null}`:                                 "wrong_type wrong_type",
		`{"version":1,"fingerprint":"` + emptyPrint + `","outcome":"drift","reason":"a\nb"}`:                         "control_character",
		`{"version":1,"fingerprint":"` + emptyPrint + `","outcome":"drift","reason":"a\u2028b"}`:                     "control_character",
		`{"version":1,"fingerprint":"` + emptyPrint + `","outcome":"x","reason":"` + strings.Repeat("é", 257) + `"}`: "unknown_outcome text_too_long",
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

// An agent's error may be any text; what it reports of it is one that is read.
func TestALineOfAnyTextIsAReason(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "",
		"no room":                      "no room",
		"a\nb\r\x00c\u2028d":           "a b  c d",
		"\xff":                         "\ufffd",
		strings.Repeat("x", 600):       strings.Repeat("x", MaxReason),
		strings.Repeat("é", 300):       strings.Repeat("é", MaxReason/2),
		"x" + strings.Repeat("é", 300): "x" + strings.Repeat("é", MaxReason/2-1), // no half of a character
	} {
		require.Equal(t, want, ReasonOf(text))
		r := Report{Outcome: OutcomeStale, Reason: ReasonOf(text), Audited: slices.Repeat([]AuditCount{{uuid.New(), math.MaxUint64, math.MaxUint64}}, MaxAudited)}
		body := AppendReport(nil, r)
		require.LessOrEqual(t, len(body), MaxReport)
		again, err := DecodeReport(body)
		require.NoError(t, err)
		require.Equal(t, r, again)
	}
}

func FuzzDecodeReport(f *testing.F) {
	f.Add([]byte(`{"version":7,"fingerprint":"` + emptyPrint + `"}`))
	f.Add([]byte(`{"event_id":"7","version":0,"fingerprint":"` + emptyPrint + `"}`))
	f.Add([]byte(`{"version":7.5,"fingerprint":null}`))
	f.Add([]byte(`{"version":7,"fingerprint":"` + emptyPrint + `","outcome":"stale","reason":"<\u00e9>"}`))
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

func TestAReportWithoutAnEventIDIsToldSo(t *testing.T) {
	_, err := DecodeReport([]byte(`{"fingerprint":"` + emptyPrint + `"}`))
	require.EqualError(t, err, "/event_id: event_id is required (required)")
}
