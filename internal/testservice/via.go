package testservice

import (
	"context"
	"fmt"
	"os"
)

// Via is the way a server comes to run.
type Via string

// The ways. ViaAuto takes the first of the others that works here.
const (
	ViaAuto      Via = ""
	ViaForeign   Via = "foreign"   // somebody else runs it; its address is in the environment
	ViaContainer Via = "container" // testcontainers-go, on the Docker engine that answers
	ViaProcess   Via = "process"   // a child of this program
)

// Choices says what a kind of server has on this machine.
type Choices struct {
	Foreign string       // address from the environment, or ""
	Process func() error // nil when the programs for a plain process are installed
}

// Choose resolves ViaAuto: the environment's server, else a container, else a
// process. ETL_TEST_VIA=container|process narrows it, so that a test run can ask
// for each tier by name. The error says everything that is missing.
func Choose(ctx context.Context, want Via, c Choices) (Via, error) {
	if want == ViaAuto {
		want = Via(os.Getenv("ETL_TEST_VIA"))
	}
	switch want {
	case ViaAuto:
	case ViaForeign:
		if c.Foreign == "" {
			return "", fmt.Errorf("no server is named in the environment")
		}
		return want, nil
	case ViaContainer:
		return want, engineErr(ctx)
	case ViaProcess:
		return want, c.Process()
	default:
		return "", fmt.Errorf("ETL_TEST_VIA=%q: want container or process", want)
	}
	if c.Foreign != "" {
		return ViaForeign, nil
	}
	noEngine := engineErr(ctx)
	if noEngine == nil {
		return ViaContainer, nil
	}
	if err := c.Process(); err != nil {
		return "", fmt.Errorf("%w; %w; scripts/setup-test-services.sh installs both", noEngine, err)
	}
	return ViaProcess, nil
}
