package kafkaconn

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// operations are the bits of the operations that a broker says a principal is allowed
// (KIP-430).
var operations = map[string]uint{"READ": 3, "WRITE": 4, "CREATE": 5, "DELETE": 6, "ALTER": 7, "DESCRIBE": 8, "CLUSTER_ACTION": 9, "DESCRIBE_CONFIGS": 10, "ALTER_CONFIGS": 11}

// notTold is the answer of brokers that do not say what is allowed.
const notTold = -2147483648

// Missing asks the brokers which of the needs on topics this principal has, and returns
// an explained error for each that it lacks, and for each topic that is missing. It
// changes nothing. Of transactional ids, and of groups that do not exist yet, brokers do
// not tell: such needs are left out, as is what an old broker does not tell.
func Missing(ctx context.Context, cl *kgo.Client, needs ...Access) (lacking []error, err error) {
	var topics []string
	for _, a := range needs {
		if a.Kind == Topic && !slices.Contains(topics, a.Name) {
			topics = append(topics, a.Name)
		}
	}
	allowed, failed := map[Access]int32{}, map[Access]error{}
	if err := topicRights(ctx, cl, topics, allowed, failed); err != nil {
		return nil, err
	}
	for _, a := range needs {
		at := Access{Kind: a.Kind, Name: a.Name}
		bits, told := allowed[at]
		switch cause := failed[at]; {
		case cause != nil:
			lacking = append(lacking, Explain(cause, "probe", a))
			delete(failed, at) // once for each thing
			allowed[at] = notTold
		case told && bits != notTold && bits&(1<<operations[a.Operation]) == 0:
			lacking = append(lacking, Explain(kerr.TopicAuthorizationFailed, "probe", a))
		}
	}
	return lacking, nil
}

func topicRights(ctx context.Context, cl *kgo.Client, names []string, allowed map[Access]int32, failed map[Access]error) error {
	if len(names) == 0 {
		return nil // none would ask for all there are
	}
	req := kmsg.NewPtrMetadataRequest()
	req.IncludeTopicAuthorizedOperations = true
	for _, n := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &n
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return Explain(err, "probe topics", Access{Kind: Topic, Name: names[0], Operation: "DESCRIBE"})
	}
	for _, t := range resp.Topics {
		if t.Topic == nil {
			continue
		}
		at := Access{Kind: Topic, Name: *t.Topic}
		allowed[at] = t.AuthorizedOperations
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			failed[at] = err
		}
	}
	return nil
}
