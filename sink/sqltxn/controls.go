package sqltxn

import "etl/internal/broken"

// The negative controls about markers: a transaction without one, and a recovery that does
// not look.
func markerOmitted() bool { return broken.Is(broken.MarkerOmitted) }
func markerNotRead() bool { return broken.Is(broken.MarkerNotRead) }
