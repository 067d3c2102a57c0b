package memstore_test

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/goleak"

	"etl/checkpoint"
	"etl/checkpoint/memstore"
	"etl/checkpoint/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStorage(t *testing.T) {
	storagetest.Run(t, storagetest.Suite{New: func(t *testing.T) storagetest.Opener {
		st := memstore.New(t.Name())
		return func(*testing.T) checkpoint.Storage { return st }
	}})
}

func TestOpenSharesByName(t *testing.T) {
	if first := memstore.Open("a"); memstore.Open("a") != first || memstore.Open("b") == first {
		t.Error("a name does not stand for one store")
	}
}

func TestVerdicts(t *testing.T) {
	st, down := memstore.New("x"), errors.New("connection reset")
	late := make(chan struct{})
	st.Inject(func(c memstore.Call) memstore.Verdict {
		switch c.Name {
		case "lost":
			return memstore.Verdict{Err: down, Lost: true}
		case "applied":
			return memstore.Verdict{Err: down}
		case "late":
			return memstore.Verdict{Err: down, Late: late}
		}
		return memstore.Verdict{}
	})
	put := func(name string) error { return st.PutIfAbsent(context.Background(), name, []byte(name)) }
	for _, name := range []string{"lost", "applied", "late"} {
		if err := put(name); !errors.Is(err, down) {
			t.Errorf("%s: %v", name, err)
		}
	}
	st.Inject(nil)
	if err := put("applied"); !errors.Is(err, checkpoint.ErrExists) {
		t.Errorf("applied: %v", err)
	}
	if _, err := st.Get(context.Background(), "lost"); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("lost: %v", err)
	}
	if err := put("late"); err != nil {
		t.Errorf("late, before it arrived: %v", err)
	}
	close(late)
	st.Settle()
}
