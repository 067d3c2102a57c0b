package torture

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// aim is how the next worker is to die.
type aim struct {
	point string // "" for a random time
	nth   int
	after time.Duration // of a random time
	turns int           // how many more turns the point has when it is missed
}

// fault is the aim as ETL_FAULT has it.
func (a aim) fault() string {
	if a.point == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d:kill", a.point, a.nth)
}

// schedule deals out deaths: all points in turn, so that none is left to luck, and
// between them random times; after every third death of those the next comes while the
// job recovers. A point that was missed has its turn once more.
type schedule struct {
	r      *rand.Rand
	points []Point
	up     []Point // those before the first record is read
	turn   int
	soon   []aim // what comes before anything is drawn
	passes int   // a death comes at one of the first so many passes
	dealt  int   // deaths that were dealt out, those during a recovery left out
	again  bool  // the next one comes during the recovery
	first  bool
}

func newSchedule(r *rand.Rand, points []Point, from, passes int) *schedule {
	s := &schedule{r: r, points: points, turn: from, passes: passes, first: true}
	for _, p := range points {
		if p.Recovers() {
			s.up = append(s.up, p)
		}
	}
	if len(s.up) == 0 {
		s.up = onTheWay(Restart)
	}
	return s
}

// next draws a death. Every third job dies first with nothing but its beginnings
// published: that comes once in a life.
func (s *schedule) next() aim {
	if s.first {
		s.first = false
		if s.turn%3 == 0 {
			return s.at(onTheWay(Fresh)[0])
		}
	}
	if len(s.soon) > 0 {
		a := s.soon[0]
		s.soon = s.soon[1:]
		return a
	}
	if s.again {
		s.again = false
		if s.r.IntN(3) == 0 {
			return aim{after: time.Duration(s.r.IntN(100)) * time.Millisecond}
		}
		return s.at(s.up[s.r.IntN(len(s.up))])
	}
	s.dealt++
	s.again = s.dealt%3 == 0
	if s.r.IntN(4) == 0 {
		return aim{after: time.Duration(20+s.r.IntN(700)) * time.Millisecond}
	}
	p := s.points[s.turn%len(s.points)]
	s.turn++
	a := s.at(p)
	a.turns = moreTurns
	if p.Doubt {
		s.soon = append(s.soon, a)
		return p.before()
	}
	return a
}

// inDoubt is where a death leaves a checkpoint that is published and not committed.
const inDoubt = "checkpoint.published"

// before is the death without which a point of doubt is not passed.
func (p *Point) before() aim { return aim{point: cmp.Or(p.After, inDoubt), nth: 2} }

// moreTurns is how often a point that was missed comes again: some are not on the way of
// every start, and none may be left out in the end.
const moreTurns = 3

// miss gives the point of an aim another turn, at its first pass.
func (s *schedule) miss(a aim) {
	if a.turns == 0 {
		return
	}
	a.turns, a.nth = a.turns-1, 1
	if i := slices.IndexFunc(s.points, func(p Point) bool { return p.Name == a.point && p.Doubt }); i >= 0 {
		s.soon = append(s.soon, s.points[i].before())
	}
	s.soon = append(s.soon, a)
}

// at aims at one of the first passes of a point.
func (s *schedule) at(p Point) aim {
	a := aim{point: p.Name, nth: 1}
	switch {
	case p.Many && p.Recovers():
		a.nth += s.r.IntN(2)
	case p.Many:
		a.nth += s.r.IntN(s.passes)
	}
	return a
}
