package redistest_test

import (
	"testing"

	"etl/internal/redistest"
	"etl/internal/testservice"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// The fact that checkpoints into Redis stand on: what was acknowledged survives a kill.
func TestAcknowledgedWritesSurviveKill(t *testing.T) {
	s := redistest.Start(t, redistest.Config{})
	if err := s.Client(t).Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	s.Kill(t)
	if err := s.Ready(t.Context()); err == nil {
		t.Fatal("a killed server answers")
	}
	s.Restart(t)
	if got, err := s.Client(t).Get(t.Context(), "k").Result(); got != "v" {
		t.Fatalf("after a kill: %q, %v", got, err)
	}
}

// And the control: without a log they do not.
func TestWithoutALogNothingSurvives(t *testing.T) {
	s := redistest.Start(t, redistest.Config{Settings: map[string]string{"appendonly": "no"}})
	if err := s.Client(t).Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	s.Kill(t)
	s.Restart(t)
	if n, err := s.Client(t).Exists(t.Context(), "k").Result(); n != 0 || err != nil {
		t.Fatalf("after a kill without a log: %d keys, %v", n, err)
	}
}

func TestForeignServerIsLeftAlone(t *testing.T) {
	s := redistest.Shared(t)
	if one, two := s.Prefix(), s.Prefix(); one == two {
		t.Error("one prefix twice")
	}
	t.Setenv("ETL_TEST_REDIS", s.URL())
	t.Setenv("ETL_TEST_VIA", "")
	f, err := redistest.Run(t.Context(), redistest.Config{})
	if err != nil || f.Via() != testservice.ViaForeign {
		t.Fatalf("got %v, %v; want the server of the environment", f, err)
	}
	if err := f.Stop(); err != nil {
		t.Error(err)
	}
	if err := s.Ready(t.Context()); err != nil {
		t.Errorf("the foreign server after Stop: %v", err)
	}
}
