package sqltxn

import "etl/internal/broken"

// The negative controls: a transaction without a marker, a recovery that does not look for
// it, and a fenced process that goes on.
func markerOmitted() bool  { return broken.Is(broken.MarkerOmitted) }
func markerNotRead() bool  { return broken.Is(broken.MarkerNotRead) }
func fenceUnchecked() bool { return broken.Is(broken.FenceUnchecked) }
