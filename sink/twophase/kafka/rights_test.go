package kafka

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"etl/internal/kafkaconn"
	"etl/stream"
)

// rights are what the sink needs, by what a refusal must name. Nothing here is about the
// cluster: those come into play only when a coordinator crashed.
func rights(topic string) map[string]kfake.ACL {
	acl := func(r kmsg.ACLResourceType, name string, p kmsg.ACLResourcePatternType, op kmsg.ACLOperation) kfake.ACL {
		return kfake.ACL{Resource: r, Name: name, Pattern: p, Operation: op, Allow: true}
	}
	lit, pre := kmsg.ACLResourcePatternTypeLiteral, kmsg.ACLResourcePatternTypePrefixed
	return map[string]kfake.ACL{
		"WRITE on topic":               acl(kmsg.ACLResourceTypeTopic, topic, lit, kmsg.ACLOperationWrite),
		"READ on topic":                acl(kmsg.ACLResourceTypeTopic, topic, lit, kmsg.ACLOperationRead),
		"WRITE on transactional id":    acl(kmsg.ACLResourceTypeTransactionalId, "etl.job.", pre, kmsg.ACLOperationWrite),
		"DESCRIBE on transactional id": acl(kmsg.ACLResourceTypeTransactionalId, "etl.job.", pre, kmsg.ACLOperationDescribe),
		"READ on group":                acl(kmsg.ACLResourceTypeGroup, "etl.commit.job.", pre, kmsg.ACLOperationRead),
	}
}

func limited(t *testing.T, acls map[string]kfake.ACL) *job {
	var list []kfake.ACL
	for _, a := range acls {
		list = append(list, a)
	}
	j := fakeJobAs(t, &kafkaconn.SASL{Mechanism: kafkaconn.Plain, Username: "u", Password: "p"},
		kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "root", "root"), kfake.User("PLAIN", "u", "p", list...))
	j.tasks = 1
	return j
}

// With exactly these rights a job writes, dies, recovers and fences.
func TestLeastPrivilege(t *testing.T) {
	j := limited(t, rights("out"))
	j.start()
	j.write(10)
	j.checkpoint()
	j.publishes(10)
	j.write(10)
	j.crash()
	j.start()
	j.write(10)
	j.checkpoint()
	j.wantExactly(30)
}

// Each missing right stops the job before its first row, or at it, and is named.
func TestMissingRightIsNamed(t *testing.T) {
	for missing := range rights("out") {
		t.Run(missing, func(t *testing.T) {
			acls := rights("out")
			delete(acls, missing)
			if missing == "DESCRIBE on transactional id" {
				delete(acls, "WRITE on transactional id") // which would imply it
			}
			j := limited(t, acls)
			err := j.tryStart()
			if err == nil {
				err = j.untilItFails()
			}
			words := strings.SplitN(missing, " on ", 2)
			if err == nil || !slices.Contains([]stream.Class{stream.Environment, stream.Restart}, stream.ClassOf(err)) ||
				!strings.Contains(err.Error(), strings.ToUpper(strings.ReplaceAll(words[1], " ", "_"))+"_AUTHORIZATION_FAILED") {
				t.Fatalf("%v (%v)", err, stream.ClassOf(err))
			}
			if stream.ClassOf(err) == stream.Environment && !strings.Contains(err.Error(), words[1]) {
				t.Errorf("%v does not name the %s", err, words[1])
			}
		})
	}
}
