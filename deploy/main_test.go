package deploy

import (
	"os"
	"testing"

	"github.com/edictdev/edict/internal/test/binary"
)

func TestMain(m *testing.M) { os.Exit(binary.Main(m)) }
