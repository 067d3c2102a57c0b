package checkpoint

// Reason is why a checkpoint was declined or aborted. The list is closed: metrics
// and history use the words.
type Reason string

const (
	// TimedOut: not every task acknowledged within Policy.Timeout.
	TimedOut Reason = "timeout"
	// UploadFailed: a snapshot could not be made durable; nothing was lost.
	UploadFailed Reason = "upload"
	// SinkDeclined: a sink could not prepare, and still has all its rows.
	SinkDeclined Reason = "sink"
	// NotReady: a task was asked before it was running, or while it was closing.
	NotReady Reason = "not_ready"
	// Superseded: the job began its final checkpoint first.
	Superseded Reason = "superseded"
)
