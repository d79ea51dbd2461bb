package admission_test

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/admission"
)

func TestATestCaseOfAnotherShapeIsToldInTheWordsOfJSON(t *testing.T) {
	for text, want := range map[string]string{
		`7`: "test case 0: it is a number, not an object",
		`{"name": 7, "expect": {"status": "approved"}}`: "test case 0: name is a number, not a string",
		`{"request": []}`:                                                    "test case 0: request is an array, not an object",
		`{"request": {"request_payload": [1]}}`:                              "test case 0: request.request_payload is an array, not an object",
		`{"request": {"request_payload": true}}`:                             "test case 0: request.request_payload is a boolean, not an object",
		`{"expect": {"status": {}}}`:                                         "test case 0: expect.status is an object, not a string",
		`{"expect": {"status": "approved", "request_payload": "an object"}}`: "test case 0: expect.request_payload is a string, not an object",
	} {
		_, err := admission.ParseTests([]jsontext.Value{jsontext.Value(text)})
		require.ErrorContains(t, err, want, text)
	}
}
