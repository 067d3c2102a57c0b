package torture

import "time"

// The aims at a broker, in turn: half of them and more are at EndTxn or its answer.
// "sent" is the request on the wire, so that the broker is at its work when it dies;
// "after" the answer, when the markers have to be written yet.
var brokerAims = []serverAim{
	{point: "kafka.endtxn.sent", late: 10 * time.Millisecond, hurts: true},
	{},
	{point: "kafka.endtxn.after", late: 3 * time.Millisecond, hurts: true},
	{point: "kafka.endtxn.before", hurts: true},
	{point: "kafka.flush.before", late: 3 * time.Millisecond},
	{point: "kafka.endtxn.sent", late: 4 * time.Millisecond, hurts: true},
}

// mortal is the broker as one that is killed.
func (b *Broker) mortal() *mortal {
	return &mortal{name: "broker", kill: b.real.Kill, restart: b.real.Restart, kills: brokerKills, aimed: brokerAimed}
}
