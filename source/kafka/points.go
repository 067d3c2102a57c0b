package kafka

// Points are the fault points of this package, with the places of the protocol
// they stand for. K04, the barrier emitted and not acknowledged, is the task's.
var Points = map[string]string{
	"source.positions_taken": "K03: positions are captured, the barrier is not emitted",
	"source.report":          "K45: offsets are about to be reported to the group",
	"source.first_poll":      "K55: positions are set, nothing was read yet",
}
