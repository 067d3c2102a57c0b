package kafka

import (
	"testing"

	"go.uber.org/goleak"

	"etl/internal/kafkatest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(kafkatest.Runner(m)) }
