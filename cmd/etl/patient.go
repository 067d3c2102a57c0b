package main

import (
	"context"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"etl/internal/peer"
)

// patient returns the context of a command that asks servers and has nothing to drain: it
// ends at the first SIGINT or SIGTERM. While a server keeps the command waiting, standard
// error says so.
func (a *app) patient(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	ctx, cancel := interrupted(cmd)
	stop := a.watch(ctx, a.sayWait)
	return ctx, func() { cancel(); stop() }
}

// watch has tell called, now and then, while a server is being waited for. The function
// it returns ends that.
func (a *app) watch(ctx context.Context, tell func(peer.Wait)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	w := peer.NewWatch(a.world.Clock, tell)
	a.world.Dial = w.Dialer(a.world.Dial)
	var ended sync.WaitGroup
	ended.Go(func() { w.Run(ctx) })
	return func() { cancel(); ended.Wait() }
}

// sayWait is the line of a command.
func (a *app) sayWait(w peer.Wait) { a.say("%s (%v)\n", w, w.For.Round(time.Second)) }

// logWait is the line of a service.
func (a *app) logWait(w peer.Wait) {
	a.world.Log.Warn(w.String(), "for", w.For.Round(time.Second).String())
}
