package integration

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"etl/internal/kafkatest"
)

// admin calls f with an admin client, which must not fail.
func admin(t testing.TB, b *kafkatest.Broker, what string, f func(*kadm.Client) error) {
	t.Helper()
	cl, err := b.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := f(kadm.NewClient(cl)); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// grow gives a topic more partitions and waits until they can be used.
func grow(t testing.TB, b *kafkatest.Broker, topic string, partitions int) {
	t.Helper()
	admin(t, b, "add partitions", func(adm *kadm.Client) error {
		r, err := adm.UpdatePartitions(t.Context(), partitions, topic)
		return errors.Join(err, r.Error())
	})
	eventually(t, "the partitions have leaders", func() bool {
		ok := false
		admin(t, b, "list", func(adm *kadm.Client) error {
			ends, err := adm.ListEndOffsets(t.Context(), topic)
			ok = err == nil && ends.Error() == nil && len(ends[topic]) == partitions
			return nil
		})
		return ok
	})
}

// drop deletes a topic and waits until it is gone.
func drop(t testing.TB, b *kafkatest.Broker, topic string) {
	t.Helper()
	admin(t, b, "delete the topic", func(adm *kadm.Client) error {
		r, err := adm.DeleteTopics(t.Context(), topic)
		return errors.Join(err, r.Error())
	})
	eventually(t, "the topic is gone", func() bool {
		gone := false
		admin(t, b, "list", func(adm *kadm.Client) error {
			l, err := adm.ListTopics(t.Context(), topic)
			gone = err == nil && errors.Is(l[topic].Err, kerr.UnknownTopicOrPartition)
			return nil
		})
		return gone
	})
}

// deleteBefore deletes the records of partition 0 before an offset.
func deleteBefore(t testing.TB, b *kafkatest.Broker, topic string, offset int64) {
	t.Helper()
	admin(t, b, "delete records", func(adm *kadm.Client) error {
		r, err := adm.DeleteRecords(t.Context(), kadm.Offsets{topic: {0: {Topic: topic, At: offset}}})
		return errors.Join(err, r.Error())
	})
}

// commitOffsets sets the offsets of a group, on all partitions, to something.
func commitOffsets(t testing.TB, b *kafkatest.Broker, group, topic string, offset int64) {
	t.Helper()
	_, end := bounds(t, b, topic)
	admin(t, b, "commit offsets", func(adm *kadm.Client) error {
		os := kadm.Offsets{}
		for p := range end {
			os.AddOffset(topic, p, offset, -1)
		}
		r, err := adm.CommitOffsets(t.Context(), group, os)
		return errors.Join(err, r.Error())
	})
}

// groupOffsets are the offsets of a group by partition.
func groupOffsets(t testing.TB, b *kafkatest.Broker, group, topic string) (at []int64) {
	t.Helper()
	_, end := bounds(t, b, topic)
	admin(t, b, "fetch offsets", func(adm *kadm.Client) error {
		os, err := adm.FetchOffsets(t.Context(), group)
		for p := range int32(len(end)) {
			o, _ := os.Lookup(topic, p)
			at = append(at, o.At)
		}
		return err
	})
	return at
}
