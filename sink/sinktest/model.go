package sinktest

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"etl/checkpoint"
	"etl/sink"
	"etl/stream"
)

// runModel plays random histories. The choices are drawn before the history begins, for
// a history lives in another goroutine, perhaps in virtual time. Failures shrink towards
// the choice 0, which is to do nothing.
func (s *Suite) runModel(t *testing.T) {
	runs, broken := 0, false
	total := tally{}
	rapid.Check(t, func(rt *rapid.T) {
		choices := rapid.SliceOfN(rapid.Uint16(), 3*s.Steps, 3*s.Steps).Draw(rt, "choices")
		if runs++; runs > s.Runs && !broken {
			return
		}
		var err error
		s.inside(t, func(t testing.TB) { err = s.history(t, choices, total) })
		if err != nil {
			broken = true
			rt.Fatal(err)
		}
	})
	t.Logf("%d histories: %v", min(runs, s.Runs), total)
}

// tally counts what the histories were made of.
type tally map[string]int

// history plays one history.
func (s *Suite) history(t testing.TB, choices []uint16, total tally) error {
	r := newRig(t, s)
	defer r.close()
	r.spawn(func() {
		m := &model{r: r, j: r.job(), choices: choices, total: total}
		m.j.spoiled = m.pick(2) == 0
		m.run()
	})
	return r.failure()
}

// model is a job in a random history: attempts that die, are taken over and live on as
// zombies, restart with any parallelism, lose messages, and abort checkpoints.
type model struct {
	r       *rig
	j       *job
	p       *process
	zombie  *process
	choices []uint16
	total   tally
	aborts  int // in a row
}

// pick returns a choice below n; when the choices are used up, 0.
func (m *model) pick(n int) int {
	if len(m.choices) == 0 {
		return 0
	}
	c := int(m.choices[0])
	m.choices = m.choices[1:]
	return c * spread % (1 << 16) * n >> 16
}

// spread makes small numbers, which rapid prefers, as good as others; 0 stays 0.
const spread = 40503

func (m *model) did(what string) { m.total[what]++ }

func (m *model) run() {
	m.restart()
	for len(m.choices) > 0 {
		if !m.r.try(m.step) {
			m.did("died")
			m.p.kill()
			m.restart()
		}
	}
	m.p.n.disarm()
	if !m.r.try(func() { m.must(m.p.trySettle()) }) {
		m.restart()
	}
	m.p.finishJob()
	m.j.want(m.p.at)
	m.j.wantRejects(m.p.at)
}

// must ends the attempt over an error, if a message was lost before, and the test if
// none was.
func (m *model) must(err error) {
	if err != nil && m.p.n.isHurt() && !m.p.n.isDead() {
		m.r.passing(err)
		m.r.note("the attempt ends: %v", err)
		m.did("ended by an error")
		m.p.kill()
	}
	m.p.must(err)
}

// step does one thing.
func (m *model) step() {
	switch m.pick(20) {
	case 0:
	case 1, 2, 3, 4:
		m.did("write")
		m.must(m.p.tryWrite(1 + m.pick(12)))
	case 5, 6, 7, 8, 9:
		m.checkpoint()
	case 10:
		m.did("commit")
		m.must(m.p.tryCommit(m.pick(m.p.par)))
	case 11:
		m.must(m.p.trySettle())
	case 12, 13:
		m.did("look")
		m.look()
	case 14:
		m.did("kill")
		m.p.kill()
		m.p.must(nil)
	case 15:
		m.p.n.arm(kill, m.pick(40))
	case 16:
		if m.r.commits() {
			m.p.n.arm([]mishap{loseRequest, loseReply}[m.pick(2)], m.pick(30))
		}
	case 17:
		m.overtake()
	case 18:
		m.haunt()
	case 19:
		m.did("close")
		m.p.n.disarm()
		m.p.must(m.p.tryClose())
		m.restart()
	}
}

// look compares everything that can be seen with what it should be.
func (m *model) look() {
	m.p.n.disarm()
	m.j.look()
	if !m.r.commits() {
		return
	}
	m.p.wantInspected("in a history")
	all := m.p.listed(m.p.published)
	open := m.p.unresolved()
	for _, c := range all {
		want := sink.Committed
		if slices.ContainsFunc(open, func(o checkpoint.Committable) bool { return sink.Name(&o) == sink.Name(&c) }) {
			want = sink.Open
		}
		m.p.wantStatus([]checkpoint.Committable{c}, want)
	}
	if !m.r.f.Marker {
		return
	}
	for sub := range m.p.par {
		if got, want := m.p.marker(sub), m.j.committed[m.p.lane(sub)]; got != want {
			m.r.failf("the marker of subtask %d is %s, the newest commit %s", sub, got, want)
		}
	}
}

// checkpoint takes one, which may end in many ways.
func (m *model) checkpoint() {
	if m.p.pressed() {
		m.must(m.p.trySettle())
	}
	rd := m.prepare()
	if m.pick(3) == 0 {
		m.must(m.p.tryWrite(1 + m.pick(6)))
	}
	m.must(m.p.tryFinish(rd))
	if m.aborts < m.r.s.Policy.TolerableFailures && m.pick(3) == 0 {
		m.aborts++
		m.did("abort")
		m.must(m.p.tryAbort(rd))
		return
	}
	m.aborts = 0
	m.did("publish")
	m.p.publish(rd)
	if m.pick(2) == 0 {
		m.must(m.p.trySettle())
	}
}

// pressed reports whether a lane holds as many epochs as the engine ever lets pile up.
func (p *process) pressed() bool {
	for sub := range p.par {
		if len(p.lanes.unresolved(p.lane(sub), p.next())) > p.j.r.s.Policy.TolerableFailures {
			return true
		}
	}
	return false
}

// prepare seals an epoch; an attempt may end over it.
func (m *model) prepare() *round {
	rd, err := m.p.tryPrepare()
	m.must(err)
	return rd
}

// restart makes the next attempt, which may die on its way or lose messages.
func (m *model) restart() {
	for tries := 0; ; tries++ {
		m.aborts = 0
		m.p = m.j.process(1 + m.pick(3))
		if what := []mishap{none, none, kill, loseReply, loseRequest}[m.pick(5)]; what != none && tries < 3 {
			m.p.n.arm(what, m.pick(60))
			m.did("mishap in a restart")
		}
		whole := m.r.try(func() { m.must(m.p.tryStart(stream.NoCheckpoint)) })
		m.p.n.disarm()
		if !whole {
			m.p.kill()
			continue
		}
		m.did("start")
		m.j.look()
		if m.r.commits() && (m.zombie == nil || m.zombie.gone) {
			if left := m.p.doubt(); len(left) > 0 {
				m.r.failf("after the start of attempt %d there are still %q", m.p.attempt.Number(), left)
			}
		}
		return
	}
}

// overtake starts the next attempt while this one lives on.
func (m *model) overtake() {
	m.did("take over")
	m.p.n.disarm()
	if m.zombie != nil {
		m.zombie.kill()
	}
	m.zombie = m.p
	m.restart()
}

// haunt lets the zombie go on.
func (m *model) haunt() {
	z, what := m.zombie, m.pick(3)
	if z == nil || z.gone || what == 0 && m.r.zombiesOverwrite() {
		return
	}
	m.did("zombie")
	m.r.try(func() {
		switch what {
		case 0:
			z.goesOn()
		case 1:
			z.commitsPublished()
		case 2:
			if owners := z.owners(); z.committer != nil && len(owners) > 0 {
				_ = z.tryFence(nil, owners...)
			}
		}
	})
}

// zombiesOverwrite says that nothing keeps a zombie from putting an older row of a key in
// the place of a newer one: the sink promises no more than that each row is written.
func (r *rig) zombiesOverwrite() bool {
	return r.f.Upsert && !r.f.Transactional && !r.f.Guarded
}

// commitsPublished does what a zombie's lanes do.
func (p *process) commitsPublished() {
	if p.committer == nil || p.published == stream.NoCheckpoint {
		return
	}
	cs, _ := p.lanes.ledger.List(p.published)
	for _, c := range cs {
		res, err := p.direct(p.permit, c)
		p.j.r.note("a zombie's commit of %s: %s, %v", c.Checkpoint, res.Outcome, err)
	}
}
