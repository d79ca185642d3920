package main

import (
	"context"
	"errors"
	"log"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
)

// load is how many objects are created, and how fast.
type load struct {
	objects int
	// perSecond spreads the objects evenly; 0 creates all at once.
	perSecond int
}

// creators is how many requests are under way at the same time when all objects
// are created at once.
const creators = 64

// submit creates the i-th object of a load, under this name.
type submit func(ctx context.Context, name string, i int) error

// load submits all objects of a load, and waits for the answers.
func (a *answers) load(ctx context.Context, l load, submit submit) loadResult {
	var failures atomic.Int64
	a.began = time.Now()
	l.each(ctx, func(i int) {
		name := a.name(i)
		a.expect(name)
		if err := persist(ctx, func(ctx context.Context) error { return submit(ctx, name, i) }); err != nil {
			if failures.Add(1) <= shownErrors {
				log.Printf("round %s: %v", a.round, err)
			}
			a.forget(name)
		}
	})
	a.await(ctx)
	result := a.result(l.objects)
	result.Errors = int(failures.Load())
	return result
}

// each calls do for each object of the load, in several goroutines, and returns
// when all have.
func (l load) each(ctx context.Context, do func(i int)) {
	if l.perSecond == 0 {
		inParallel(ctx, creators, l.objects, do)
		return
	}
	var running sync.WaitGroup
	pace := time.NewTicker(time.Second / time.Duration(l.perSecond))
	defer pace.Stop()
	for i := 0; i < l.objects && ctx.Err() == nil; i++ {
		<-pace.C
		running.Go(func() { do(i) })
	}
	running.Wait()
}

// comeBack is the back-off with which clients try again when the server is
// away: for longer than it takes to start.
var comeBack = wait.Backoff{Duration: 50 * time.Millisecond, Factor: 1.5, Jitter: 0.5, Steps: 20, Cap: 2 * time.Second}

// persist creates an object, and tries again after failures. If an answer was
// lost, the object already exists.
func persist(ctx context.Context, create func(context.Context) error) error {
	var last error
	err := wait.ExponentialBackoffWithContext(ctx, comeBack, func(ctx context.Context) (bool, error) {
		last = create(ctx)
		if last == nil || apierrors.IsAlreadyExists(last) {
			return true, nil
		}
		if apierrors.IsInvalid(last) || apierrors.IsForbidden(last) {
			return false, last
		}
		return false, nil
	})
	if wait.Interrupted(err) {
		return errors.Join(err, last)
	}
	return err
}
