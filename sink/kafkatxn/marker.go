package kafkatxn

import (
	"context"
	"errors"
	"time"
	"unicode/utf16"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"etl/internal/broken"
	"etl/internal/kafkaconn"
	"etl/stream"
)

// Marker is what a marker group shows: the newest committed checkpoint of its lane.
type Marker struct {
	Checkpoint stream.CheckpointID // NoCheckpoint for none
	Note       string
}

// ReadMarker reads the marker of a group on partition 0 of topic. The read is plain:
// RequireStable would wait as long as any transaction of the lane is open, and here
// somebody waits for the answer in order to end one.
func (c *Client) ReadMarker(ctx context.Context, group, topic string) (m Marker, err error) {
	if broken.Is(broken.MarkerNotRead) {
		return Marker{}, nil
	}
	info, err := c.topic(ctx, topic)
	if err != nil {
		return m, err
	}
	cl, err := c.client(2)
	if err != nil {
		return m, err
	}
	needs := []kafkaconn.Access{
		{Kind: kafkaconn.Group, Name: group, Operation: "DESCRIBE"}, {Kind: kafkaconn.Topic, Name: topic, Operation: "DESCRIBE"}}
	err = c.ask(ctx, "read marker", needs, func(ctx context.Context) error {
		resp, err := markerRequest(group, info).RequestWith(ctx, cl)
		if err != nil {
			return err
		}
		if m, err = markerIn(resp, group, info); errors.Is(err, kerr.UnknownTopicID) {
			return c.askedAnew(ctx, &info, err) // the topic is another one than this client knows
		}
		return err
	})
	return m, err
}

// askedAnew reads once more what a topic is, for the next try of a question that failed.
func (c *Client) askedAnew(ctx context.Context, info *kafkaconn.TopicInfo, cause error) error {
	now, err := c.readTopic(ctx, info.Name)
	if err != nil {
		return err
	}
	*info = now
	return cause
}

func markerRequest(group string, topic kafkaconn.TopicInfo) *kmsg.OffsetFetchRequest {
	t := kmsg.NewOffsetFetchRequestGroupTopic()
	t.Topic, t.TopicID, t.Partitions = topic.Name, topic.ID, []int32{0} // version 10 goes by id
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, g.Topics = group, append(g.Topics, t)
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Groups = append(req.Groups, g)
	return req
}

// markerIn finds the one partition that was asked for. An answer without it is no
// answer: taken for "no marker" it would turn committed rows into lost ones.
func markerIn(resp *kmsg.OffsetFetchResponse, group string, topic kafkaconn.TopicInfo) (Marker, error) {
	for _, g := range resp.Groups {
		if g.Group != group {
			continue
		}
		switch err := kerr.ErrorForCode(g.ErrorCode); {
		case errors.Is(err, kerr.GroupIDNotFound):
			return Marker{}, nil // the coordinator's own word for "nothing was ever committed" (KIP-1043)
		case err != nil:
			return Marker{}, err
		}
		for _, t := range g.Topics {
			if t.Topic != topic.Name && t.TopicID != topic.ID {
				continue
			}
			for _, p := range t.Partitions {
				if p.Partition == 0 {
					return toMarker(p)
				}
			}
		}
	}
	return Marker{}, errLeftOut
}

func toMarker(p kmsg.OffsetFetchResponseGroupTopicPartition) (m Marker, err error) {
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		return m, err
	}
	if p.Offset >= 0 {
		m.Checkpoint = stream.CheckpointID(p.Offset)
	}
	if p.Metadata != nil {
		m.Note = *p.Metadata
	}
	return m, nil
}

// NewestMarker reads the newest marker of a group, whichever of the sink's topics carried
// it when it was written: the first topic of a sink may have changed since.
func (c *Client) NewestMarker(ctx context.Context, group string) (Marker, error) {
	newest, err := c.ReadMarker(ctx, group, c.markerTopic())
	if err != nil || broken.Is(broken.MarkerNotRead) {
		return newest, err
	}
	cl, err := c.client(2)
	if err != nil {
		return newest, err
	}
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group // no topics: all that were ever committed
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Groups = append(req.Groups, g)
	needs := []kafkaconn.Access{{Kind: kafkaconn.Group, Name: group, Operation: "DESCRIBE"}}
	err = c.ask(ctx, "read markers", needs, func(ctx context.Context) error {
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			return err
		}
		newest, err = newestIn(resp, newest)
		return err
	})
	return newest, err
}

func newestIn(resp *kmsg.OffsetFetchResponse, newest Marker) (Marker, error) {
	for _, g := range resp.Groups {
		if err := kerr.ErrorForCode(g.ErrorCode); err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
			return newest, err
		}
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				m, err := toMarker(p)
				if err != nil {
					return newest, err
				}
				if m.Checkpoint > newest.Checkpoint {
					newest = m
				}
			}
		}
	}
	return newest, nil
}

// Foreign returns an error (RestoreRefused) when another lineage of the same job and
// sink has committed to one of its topics: its rows are there already (I12). What an
// earlier life wrote elsewhere is nobody's duplicate.
func (c *Client) Foreign(ctx context.Context) error {
	if c.o.AcceptForeign {
		return nil
	}
	groups, err := c.listGroups(ctx)
	if err != nil {
		return err
	}
	for _, group := range groups {
		lineage8, subtask, ok := c.o.Names.ParseGroup(group)
		if !ok || lineage8 == c.o.Names.Lineage.Short() {
			continue
		}
		for _, topic := range c.o.Topics {
			m, err := c.ReadMarker(ctx, group, topic)
			if err != nil {
				return err
			}
			if m.Checkpoint != stream.NoCheckpoint {
				return c.foreign(lineage8, subtask, topic, m)
			}
		}
	}
	return nil
}

func (c *Client) foreign(lineage8 string, subtask int, topic string, m Marker) error {
	return stream.Errorf(stream.RestoreRefused, "kafka.foreign_lineage", "start", "sink "+string(c.o.Names.Sink),
		"an earlier life of job %s (lineage %s, subtask %d) committed checkpoint %s to topic %s; this start has no stored checkpoint and would write those rows again",
		c.o.Names.Job, lineage8, subtask, m.Checkpoint, topic).
		WithFix("restore the job's data directory, rename the job, or accept the duplicates with --accept-foreign-lineage")
}

func (c *Client) listGroups(ctx context.Context) (names []string, err error) {
	adm, err := c.admin()
	if err != nil {
		return nil, err
	}
	err = c.ask(ctx, "list groups", nil, func(ctx context.Context) error {
		gs, err := adm.ListGroups(ctx)
		if err != nil {
			return err
		}
		names = gs.Groups()
		return nil
	})
	return names, err
}

// markerSpot returns the partition that holds the offsets of a group; ok is false
// when that topic cannot be seen.
func (c *Client) markerSpot(ctx context.Context, group string) (s spot, ok bool, err error) {
	spots, err := c.spotsOf(ctx, offsetsTopic)
	return spot{offsetsTopic, groupPartition(group, len(spots))}, len(spots) > 0, err
}

// groupPartition is the group coordinator's own rule: the absolute value of Java's
// String.hashCode, 0 where there is none, modulo the number of partitions.
func groupPartition(group string, partitions int) int32 {
	var h int32
	for _, u := range utf16.Encode([]rune(group)) {
		h = 31*h + int32(u)
	}
	return max(h, -h, 0) % int32(max(partitions, 1))
}

// unknownRetention is assumed where the brokers do not tell: Kafka's default before
// 2.0, a seventh of today's.
const unknownRetention = 24 * time.Hour

// mayHaveExpired reports whether a marker that is not there may have been there: the
// group coordinator forgets offsets that are older than the retention. A marker is
// written after its transaction began, so that is where the count begins; a part of
// the retention is given away for clocks that disagree.
func (c *Client) mayHaveExpired(p *Payload) bool {
	keep := c.Limits.OffsetsRetention
	if !c.Limits.Known {
		keep = unknownRetention
	}
	safe := keep - min(keep/10, 10*time.Minute)
	return c.o.World.Clock.Now().After(p.Start().Add(safe))
}
