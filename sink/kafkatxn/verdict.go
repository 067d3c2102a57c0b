package kafkatxn

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"etl/internal/kafkaconn"
)

// Verdict is what a caller may conclude from one answer of a broker.
type Verdict uint8

const (
	// Again: nothing is known; the identical request may be sent again, and is the
	// right thing to send.
	Again Verdict = iota
	// Done: it is so, now or already before.
	Done
	// Final: this producer id and epoch can no longer do it. For EndTxn that says
	// nothing about committed or aborted: ask the marker.
	Final
	// Refused: a right is missing; nothing changed.
	Refused
)

// String returns the verdict's name in tests and messages.
func (v Verdict) String() string { return [...]string{"again", "done", "final", "refused"}[v] }

// fencedFamily is one class: not finishable by this producer id and epoch. The codes
// move between broker versions (KAFKA-19367, KAFKA-20785), so nothing branches on
// which of them came.
var fencedFamily = []*kerr.Error{
	kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.InvalidTxnState, kerr.InvalidProducerIDMapping,
	kerr.TransactionAbortable, // KIP-1050: it can only be aborted any more
}

// EndTxnVerdict classifies the answer of an EndTxn. What is not known to be final
// proves nothing, whatever it says: the request is sent again.
func EndTxnVerdict(code int16) Verdict { return verdict(code, fencedFamily) }

// InitVerdict classifies the answer of an InitProducerID without a producer id.
// CONCURRENT_TRANSACTIONS means that the end of the last transaction is on its way.
func InitVerdict(code int16) Verdict {
	return verdict(code, append([]*kerr.Error{kerr.InvalidTransactionTimeout, kerr.InvalidRequest, kerr.UnsupportedVersion}, fencedFamily...))
}

// MarkVerdict classifies the answers of AddOffsetsToTxn and TxnOffsetCommit. Final
// means that this transaction will never carry its marker: the attempt ends.
func MarkVerdict(code int16) Verdict {
	return verdict(code, append([]*kerr.Error{
		kerr.IllegalGeneration, kerr.UnknownMemberID, kerr.FencedInstanceID, kerr.StaleMemberEpoch, kerr.FencedMemberEpoch,
		kerr.GroupIDNotFound, kerr.InvalidGroupID, kerr.OffsetMetadataTooLarge, kerr.InvalidCommitOffsetSize,
		kerr.UnknownTopicID, // the marker's topic was made anew
		kerr.InvalidRequest, kerr.UnsupportedVersion,
	}, fencedFamily...))
}

func verdict(code int16, final []*kerr.Error) Verdict {
	err := kerr.ErrorForCode(code)
	switch {
	case err == nil:
		return Done
	case kafkaconn.Refused(err):
		return Refused
	}
	for _, f := range final {
		if errors.Is(err, f) {
			return Final
		}
	}
	return Again
}
