package integration

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"etl/internal/kafkatest"
)

// secured is copying, as a user who has to log in.
const secured = `version: 1
name: "${JOB}"
restart: { initial: 100ms, max: 1s }
http: 127.0.0.1:0
telemetry: { log: { format: json } }
connections:
  main:
    type: kafka
    seed_brokers: ["${KAFKA_BROKERS}"]
    tls: { ca_file: "${CA}" }
    sasl: { mechanism: SCRAM-SHA-512, username: alice, password: "${PASSWORD}" }
` + often + `
sources:
  in: { type: kafka, connection: main, topics: ["${IN}"], decode: raw, consumer_group: "${JOB}" }
sinks:
  out: { type: kafka, connection: main, inputs: [in], topic: "${OUT}" }
`

// securedJob is a job of alice, who has no rights yet.
func securedJob(t testing.TB, b *kafkatest.Broker) (j *job, in, out string) {
	t.Helper()
	in, out = b.Topic(t, 1), b.Topic(t, 1)
	j = newJob(t, b, secured, "IN="+in, "OUT="+out, "PASSWORD="+kafkatest.Password, "KAFKA_BROKERS="+b.Security().SASLTLSAddr)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, b.Security().CAPEM, 0o600); err != nil {
		t.Fatal(err)
	}
	j.set("CA=" + ca)
	return j, in, out
}

// right is what a principal may do, in the words of an error that misses it.
type right string

// rights are all that a job needs, no more.
func rights(j *job, in, out string) []right {
	return []right{
		right("READ on topic " + in),
		right("WRITE on topic " + out),
		right("READ on topic " + out), // for the marker
		right("WRITE on transactional id etl." + j.name + "."),
		right("READ on group etl.commit." + j.name + "."),
		right("READ on group " + j.name), // for lag tools
	}
}

// grant gives alice rights.
func grant(t testing.TB, b *kafkatest.Broker, rs ...right) {
	t.Helper()
	admin(t, b, "grant", func(adm *kadm.Client) error {
		for _, r := range rs {
			word, rest, _ := strings.Cut(string(r), " on ")
			i := strings.LastIndexByte(rest, ' ')
			kind, name := rest[:i], rest[i+1:]
			a := kadm.NewACLs().Allow("User:" + kafkatest.User).AllowHosts("*").ResourcePatternType(kadm.ACLPatternLiteral)
			if strings.HasSuffix(name, ".") {
				a = a.ResourcePatternType(kadm.ACLPatternPrefixed)
			}
			switch kind {
			case "topic":
				a = a.Topics(name)
			case "group":
				a = a.Groups(name)
			case "transactional id":
				a = a.TransactionalIDs(name)
			}
			a = a.Operations(map[string]kadm.ACLOperation{"READ": kadm.OpRead, "WRITE": kadm.OpWrite, "DESCRIBE": kadm.OpDescribe}[word])
			res, err := adm.CreateACLs(t.Context(), a)
			for _, x := range res {
				err = errors.Join(err, x.Err)
			}
			if err != nil {
				return err
			}
			eventually(t, "the broker has taken up "+string(r), func() bool {
				res, err := adm.DescribeACLs(t.Context(), a)
				return err == nil && len(res) == 1 && len(res[0].Described) == 1
			})
		}
		return nil
	})
}

// TLS and SCRAM from the pipeline file, and exactly the rights that are documented:
// the job writes, dies, recovers, fences and stops with them.
func TestSecured(t *testing.T) {
	t.Parallel()
	b := strict(t)
	j, in, out := securedJob(t, b)
	grant(t, b, rights(j, in, out)...)
	produce(t, b, in, values(0, "a", "b")...)
	j.faulty("checkpoint.published:1:kill").killed()
	r := j.start().running()
	produce(t, b, in, values(0, "c")...)
	j.caughtUp()
	j.must("stop")
	r.ends(0)
	j.finished()
	exactly(t, b, out, "a", "b", "c")
	if at := groupOffsets(t, b, j.name, in); at[0] != 3 {
		t.Errorf("the group is reported to be at %v", at)
	}
}

// Who cannot log in, or trusts somebody else, is told so: exit 3, with what to look
// at. The password is nowhere.
func TestWrongPassword(t *testing.T) {
	t.Parallel()
	b := strict(t)
	j, in, out := securedJob(t, b)
	grant(t, b, rights(j, in, out)...)
	secret := "canary-password-9135"
	j.set("PASSWORD=" + secret)
	for _, words := range []string{"run", "verify"} {
		a := j.etl(words)
		if a.Code != 3 || !strings.Contains(a.All, "kafka.sasl") || !strings.Contains(a.All, "password") {
			t.Errorf("%s: exit %d\n%s", words, a.Code, a.All)
		}
		if strings.Contains(a.All, secret) {
			t.Errorf("%s shows the password:\n%s", words, a.All)
		}
	}
	j.set("PASSWORD="+kafkatest.Password, "KAFKA_BROKERS="+b.Security().SASLAddr)
	if a := j.etl("run"); a.Code != 3 || !strings.Contains(a.All, "kafka.tls") {
		t.Errorf("TLS to a listener without: exit %d\n%s", a.Code, a.All)
	}
}

// lint --probe names each missing right to a topic before anything runs, with
// the place in the file, and changes nothing.
func TestProbe(t *testing.T) {
	t.Parallel()
	b := strict(t)
	for i := range 3 {
		j, in, out := securedJob(t, b)
		all := rights(j, in, out)
		_, on, _ := strings.Cut(string(all[i]), " on ")
		grant(t, b, append(all[:i:i], append(all[i+1:], right("DESCRIBE on "+on))...)...)
		j.must("lint") // which asks nobody
		a := j.etl("lint", "--probe")
		if a.Code != 3 || !strings.Contains(a.All, "kafka.acl") || !strings.Contains(a.All, string(all[i])) || !strings.Contains(a.All, "pipeline.yaml:") {
			t.Errorf("without %s: exit %d\n%s", all[i], a.Code, a.All)
		}
	}
	j, in, out := securedJob(t, b)
	grant(t, b, rights(j, in, out)...)
	if a := j.must("lint", "--probe"); strings.Contains(a.All, "kafka.acl") {
		t.Errorf("nothing is missing: %s", a.All)
	}
}

// Each right that is missing is named, and the job does not go round in circles over
// it. Only reporting to a group is no reason to stop.
func TestMissingRight(t *testing.T) {
	t.Parallel()
	b := strict(t)
	for i := range 5 {
		j, in, out := securedJob(t, b)
		all := rights(j, in, out)
		_, on, _ := strings.Cut(string(all[i]), " on ")
		missing := strings.TrimSuffix(string(all[i]), ".")
		// To describe is part of every right; without it, that would be what is missing.
		grant(t, b, append(all[:i:i], append(all[i+1:], right("DESCRIBE on "+on))...)...)
		produce(t, b, in, values(0, "a", "b")...)
		a := j.etl("run")
		if a.Code != 3 || !strings.Contains(a.All, "kafka.acl") || !strings.Contains(a.All, missing) {
			t.Errorf("without %s: exit %d\n%s", missing, a.Code, a.All)
		}
		exactly(t, b, out)
	}
	j, in, out := securedJob(t, b)
	all := rights(j, in, out)
	grant(t, b, all[:5]...)
	produce(t, b, in, values(0, "a", "b")...)
	r := j.start().running()
	r.find("a warning about the group", 1, func(l line) bool { return l.str("level") == "WARN" && strings.Contains(l.text, string(all[5])) })
	j.caughtUp()
	j.must("stop")
	r.ends(0)
	exactly(t, b, out, "a", "b")
}
