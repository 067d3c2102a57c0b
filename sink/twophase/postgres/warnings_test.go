package postgres

import (
	"slices"
	"testing"
	"time"

	"etl/internal/pgconn"
	"etl/stream"
)

// TestWarnings: each warning about a server has a code and a fix of its own.
func TestWarnings(t *testing.T) {
	for _, tc := range []struct {
		server pgconn.Server
		want   []string
	}{
		{pgconn.Server{}, nil},
		{pgconn.Server{Version: 170000, Durable: true, Clock: -tolerableSkew}, nil},
		{pgconn.Server{Version: 170000, Durable: true, Clock: tolerableSkew + time.Second}, []string{"postgres.clock"}},
		{pgconn.Server{Version: 170000, Clock: -time.Minute}, []string{"postgres.not_durable", "postgres.clock"}},
	} {
		f := Findings{Server: tc.server}
		var codes, fixes []string
		for _, err := range f.warnings() {
			e := err.(*stream.Error)
			codes, fixes = append(codes, e.Code), append(fixes, e.Fix)
		}
		if !slices.Equal(codes, tc.want) || slices.Contains(fixes, "") || len(slices.Compact(fixes)) != len(tc.want) {
			t.Errorf("%+v: %v, %v", tc.server, codes, fixes)
		}
	}
}
