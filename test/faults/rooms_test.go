//go:build faults

package faults

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/fault"
	"github.com/edictdev/edict/internal/test/gen"
)

// caughtAt names, of mutants that no recorded history shows, the test of a room
// that does.
var caughtAt = []struct {
	mutant     fault.Mutant
	room, test string
}{
	{fault.Unacknowledged, "internal/api", "TestAWriteThatTheLogDidNotAcknowledgeIsNoSuccess"},
	{fault.StaleRead, "internal/api", "TestAWorkerBehindTheLogNeverAnswers404"},
	{fault.SharedKey, "internal/api", "TestKeysOfTwoPrincipalsAndOfTwoWritesDoNotMeet"},
	{fault.TakenID, "internal/plane", "TestNobodyTakesTheIDOfAnothersWrite"},
	{fault.AnyBody, "internal/api", "TestAKeyWithAnotherBodyIsRefused"},
	{fault.OpenDoor, "internal/access", "TestRelationsOnlyAdd"},
	{fault.CredulousWitness, "internal/projector", "TestAMutationIsCaughtAtTheNextLink"},
	{fault.AnyLog, "internal/projector", "TestLateLinksOfAFarPastAreComparedAtThousands"},
	{fault.Unverified, "node", "TestWhatDoesNotVerifyIsNeverPassed"},
	{fault.Rollback, "cmd/edict/internal/agent", "TestAnAgentRefusesWhatItShouldAndSaysWhy"},
	{fault.UnresolvedBlock, "internal/snapshot", "TestOnePolicyHasOneMeaning"},
	{fault.SwappedRules, "internal/snapshot", "TestOnePolicyHasOneMeaning"},
	{fault.ForgottenDefault, "internal/snapshot", "TestOnePolicyHasOneMeaning"},
	{fault.UncountedRules, "internal/snapshot", "TestOnePolicyHasOneMeaning"},
	{fault.EarlyReport, "cmd/edict/internal/agent", "TestNothingIsReportedThatTheKernelRefused"},
	{fault.BoldWave, "internal/plane", "TestACanaryThatIsRefusedStopsItsRollout"},
}

// ownTest are mutants that a test turns on by itself, in a binary that it runs.
var ownTest = map[fault.Mutant]string{
	fault.LazySync: "TestAPowerCutTakesNothingThatWasAcknowledged",
	fault.OneSide:  "TestTheOracleNoticesAProductThatMatchesOneSide",
}

var mutantRooms = flag.Bool("mutant.rooms", false, "build the tests of each room that catches a mutant, and see them catch it")

// TestARoomCatchesItsMutants runs tests of other rooms twice: with the mistake they
// must fail, and without it they must not.
func TestARoomCatchesItsMutants(t *testing.T) {
	if !*mutantRooms {
		return
	}
	root, err := gen.ModuleRoot()
	require.NoError(t, err)
	built := map[string]string{}
	for _, m := range caughtAt {
		bin := built[m.room]
		if bin == "" {
			bin = filepath.Join(t.TempDir(), "room.test")
			cmd := exec.Command("go", "test", "-c", "-vet=off", "-tags", "faults", "-o", bin, "./"+m.room)
			cmd.Dir = root
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			built[m.room] = bin
		}
		run := func(env ...string) string {
			cmd := exec.Command(bin, "-test.run", "^"+m.test+"$", "-test.v")
			cmd.Dir, cmd.Env = filepath.Join(root, m.room), append(os.Environ(), env...)
			out, _ := cmd.CombinedOutput() // what it prints says how it ended
			return string(out)
		}
		sound := run()
		require.Contains(t, sound, "--- PASS: "+m.test+" ", "%s", sound)
		if out := run("EDICT_MUTANT=" + string(m.mutant) + ":1"); !strings.Contains(out, "--- FAIL: "+m.test+" ") {
			t.Errorf("%s is not caught by %s of %s:\n%s", m.mutant, m.test, m.room, out)
		}
	}
}
