package file_test

import (
	"testing"

	"etl/config"
	"etl/config/configtest"
	"etl/config/file"
	"etl/config/kafka"
)

// TestFiles runs the stories in testdata: what the loader says of the keys of a file
// sink, and the plans of what it accepts.
func TestFiles(t *testing.T) {
	r := config.NewRegistry()
	kafka.Register(r, kafka.Options{})
	file.Register(r, file.Options{})
	s := configtest.Stories{Loader: &config.Loader{Registry: r, DataDir: "/data", Outside: config.Outside{Device: configtest.Device}}}
	s.Run(t, "testdata/load")
}
