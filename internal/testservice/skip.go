package testservice

import (
	"fmt"
	"os"
	"testing"
)

// Required says that this run promised real servers: then a missing one is a
// failure. "make test" and CI set it.
func Required() bool { return os.Getenv("ETL_REQUIRE_REAL") == "1" }

// Skip is the only place where a test may give up for want of a server. It says
// so on a line of its own, which internal/testrun counts. tier is a name such as
// "real-kafka".
func Skip(t testing.TB, tier, format string, args ...any) {
	t.Helper()
	reason := fmt.Sprintf(format, args...)
	if Required() {
		t.Fatalf("%s is required here (ETL_REQUIRE_REAL=1): %s", tier, reason)
	}
	fmt.Fprintf(os.Stdout, "TIER SKIPPED %s: %s\n", tier, reason)
	t.Skipf("TIER SKIPPED %s: %s", tier, reason)
}
